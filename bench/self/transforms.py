"""What the transforms change in native code.

    python bench/self/transforms.py [--out bench/results/NAME] [--only gemm,softmax]

Each launch of each problem at its first shape, as it is and after each transform with the launch's
own values, and after all of them: 64-bit operations, masks, instructions, spills and predicted time
of the native code for bmg-g31. A transform that finds nothing to do has no row. Nothing is
measured: counts are static (a loop that was unrolled has more instructions and may run faster),
times are predicted. NAME.json and NAME.md are written after each problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from xesmith import __version__
from xesmith.bench import load_problem, problem_names
from xesmith.cost import derive
from xesmith.device import Device, load_device
from xesmith.engine.problem import load_problem as load_kernel
from xesmith.errors import UsageError
from xesmith.evidence.read import read
from xesmith.evidence.record import Evidence
from xesmith.lowering import Lowerer
from xesmith.lowering.native import add_native
from xesmith.lowering.record import LEVEL_FILES, Lowering
from xesmith.passes.dump import with_launch
from xesmith.passes.pipeline import PassResult, run_pipeline
from xesmith.toolchain import Toolchain, find_toolchain
from xesmith.worker.client import WorkerPool

HERE = Path(__file__).resolve().parent
DEVICE = "bmg-g31"
EXACT = (
    "xesmith-specialize-args{launch}",
    "xesmith-hoist-invariant",
    "xesmith-narrow-offsets{launch}",
    "xesmith-drop-true-masks{launch}",
)
ROUNDING = ("xesmith-exp2", "xesmith-demote-float64")
#: launch options that the compiler takes
OPTIONS = ("num_warps", "num_stages", "grf_mode")
COLUMNS = {
    "predicted_us": "predicted us",
    "instructions": "instructions",
    "int64": "64-bit integer",
    "float64": "float64",
    "masks": "masks and checks",
    "spill": "spill B/thread",
    "dpas": "dpas in loop",
}


class Compiler:
    """From TTIR to evidence, with the compiler's own steps from there on."""

    def __init__(self, toolchain: Toolchain, device: Device, scratch: Path) -> None:
        self.toolchain, self.device, self.scratch = toolchain, device, scratch
        self.done = 0
        self.workers = WorkerPool(
            toolchain.python,
            "lower",
            preload=["torch", "triton", "ir_task"],
            import_path=[HERE],
            parallel=1,
            env={"TRITON_XPU_GEN_NATIVE_CODE": ""},
        )

    def compile(self, lowering: Lowering, text: str, source: str) -> Evidence | str:
        """Evidence of a launch with this TTIR; where it does not compile, why."""
        self.done += 1
        work = self.scratch / str(self.done)
        options = lowering.launch.options
        result = self.workers.run(
            "ir_task:compile_ttir",
            {
                "text": text,
                "arch": self.device.target_properties(),
                "options": {k: options[k] for k in OPTIONS if k in options},
            },
            folder=work / "task",
            env={"TRITON_CACHE_DIR": str(work / "cache")},
        )
        said = "" if result.error is None else result.error["message"]
        if result.status == "raised" and "PassManager::run failed" in said:
            return "does not compile: a pass of Triton fails"
        if result.status != "ok":
            raise RuntimeError(f"the compiler did not answer: {result}")
        levels: dict[str, str] = {}
        for name, content in (
            ("ttir_generic", text.encode()),
            ("ttgir_generic", result.value["ttgir"].encode()),
            ("spirv", bytes.fromhex(result.value["spirv"])),
        ):
            path = work / LEVEL_FILES[name]
            path.write_bytes(content)
            levels[name] = str(path)
        assert self.toolchain.native is not None
        assert self.device.ocloc_name is not None
        native = add_native(
            replace(
                lowering,
                levels=levels,
                metadata=result.value["metadata"],
                failure=None,
                not_read={},
            ),
            self.toolchain.native,
            ocloc_device=self.device.ocloc_name,
            triton_version=lowering.compiler.rpartition(" ")[2],
            source=source,
        )
        if native.failure is not None:
            return native.failure.message
        return derive(read(native), self.device)


def facts(evidence: Evidence) -> dict[str, Any]:
    native, derived = evidence.native, evidence.derived
    assert native is not None, evidence.not_read
    assert derived is not None
    seconds = derived.prediction.seconds
    return {
        "predicted_us": None if seconds is None else round(seconds * 1e6, 1),
        "instructions": native.instructions,
        "int64": native.int64_instructions,
        "float64": native.f64_instructions,
        "spill": native.spill_bytes_per_thread,
        "dpas": "" if native.main is None else f"{native.main.dpas}/{native.main.instructions}",
        "slm_bytes": native.slm_bytes,
        "grf": native.grf_count,
    }


def masks(text: str) -> int:
    """Accesses of TTIR with a mask or a boundary check."""
    (report,) = run_pipeline(text, "xesmith-report", keep_text=False).report[:1]
    return report["masked_accesses"] + report["boundary_checks"]


def transformed(text: str, pipeline: str, lowering: Lowering) -> PassResult | None:
    """None where the pipeline has nothing to do."""
    result = run_pipeline(text, with_launch(pipeline, lowering.launch))
    return result if result.remarks else None


def measure(name: str, lowerer: Lowerer, compiler: Compiler) -> list[dict[str, Any]]:
    problem = load_kernel(load_problem(name).kernel)
    program = next(iter(problem.programs().values()))
    rows: list[dict[str, Any]] = []
    for lowering in lowerer.run(program, native=False).lowerings:
        before = Path(lowering.levels["ttir_generic"]).read_text()
        pipelines = {p.partition("{")[0]: p for p in (*EXACT, *ROUNDING)}
        pipelines["all that keep bits"] = ",".join(EXACT)
        pipelines["all"] = ",".join((*EXACT, *ROUNDING))
        cases = {"as it is": before}
        said: dict[str, list[str]] = {}
        for shown, pipeline in pipelines.items():
            result = transformed(before, pipeline, lowering)
            if result is not None and result.text not in cases.values():
                cases[shown] = result.text
                said[shown] = [remark.message for remark in result.remarks]
        for shown, text in cases.items():
            evidence = compiler.compile(lowering, text, program.source)
            outcome = {"failure": evidence} if isinstance(evidence, str) else facts(evidence)
            rows.append(
                {
                    "problem": name,
                    "kernel": lowering.launch.kernel,
                    "transform": shown,
                    "changed": said.get(shown, []),
                    "masks": masks(text),
                    **outcome,
                }
            )
            print(" | ".join(str(value) for value in rows[-1].values()), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"| problem, kernel | transform | {' | '.join(COLUMNS.values())} |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for row in rows:
        cells = [str(row.get(column, "")) for column in COLUMNS]
        if row.get("predicted_us") is None:
            cells[0] = row.get("failure", "not predicted: it cannot launch")
        shown = row["transform"].removeprefix("xesmith-")
        lines.append(f"| {row['problem']}, {row['kernel']} | {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(out: Path, rows: list[dict[str, Any]], toolchain: Toolchain, compiler: str) -> None:
    assert toolchain.native is not None
    provenance = {
        "xesmith": __version__,
        "compiler": compiler,
        "native_compiler": f"ocloc {toolchain.native.versions.get('ocloc', 'of unknown version')}",
        "device": DEVICE,
        "date": time.strftime("%Y-%m-%d"),
        "measured": False,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(
        json.dumps({"provenance": provenance, "rows": rows}, indent=1) + "\n"
    )
    out.with_suffix(".md").write_text(
        f"# What the transforms change in native code\n\nxesmith {__version__}, {compiler}, "
        f"{provenance['native_compiler']}, for {DEVICE}, {provenance['date']}. Counts are static, "
        "times are predicted: no GPU took part.\n"
        f"Made by `python bench/self/transforms.py --out bench/results/{out.name}`. A transform "
        f"that finds nothing to do has no row.\n\n{table(rows)}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write NAME.json and NAME.md")
    parser.add_argument("--only", help="comma-separated problems")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else problem_names()
    unknown = set(names) - set(problem_names())
    if unknown:
        raise UsageError(f"no such problem: {', '.join(sorted(unknown))}")
    device, toolchain = load_device(DEVICE), find_toolchain(None, "xpu")
    compiler_name = f"{toolchain.triton_distribution} {toolchain.triton_version}"
    rows: list[dict[str, Any]] = []
    with (
        Lowerer(toolchain, device, parallel=1) as lowerer,
        tempfile.TemporaryDirectory() as scratch,
    ):
        compiler = Compiler(toolchain, device, Path(scratch))
        with compiler.workers:
            for name in names:
                rows += measure(name, lowerer, compiler)
                if given.out:
                    write(given.out, rows, toolchain, compiler_name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
