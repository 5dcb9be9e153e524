"""What the transforms change in native code: python bench/self/transforms.py [--json] [PROBLEM...]

Each problem's first launch at its first shape, as it is and after each transform with the launch's
own values: instructions, sends and spill of the native code for bmg-g31. Static counts, nothing is
measured: a loop that was unrolled has more instructions and may run faster.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from xesmith.device import load_device
from xesmith.engine.problem import load_problem
from xesmith.lowering import Lowerer
from xesmith.passes.dump import with_launch
from xesmith.passes.pipeline import run_pipeline
from xesmith.toolchain import find_toolchain
from xesmith.worker.client import WorkerPool

HERE = Path(__file__).resolve().parent
PROBLEMS = ("gemm", "softmax", "layer_norm", "flash_attention")
TRANSFORMS = (
    "xesmith-specialize-args{launch}",
    "xesmith-narrow-offsets{launch}",
    "xesmith-drop-true-masks{launch}",
    "xesmith-hoist-invariant",
    "xesmith-exp2",
)
_INSTRUCTION = re.compile(r"\s+(?:\(.*?\)\s+)?[a-z]+[\w.]*\s*[|(]")


def native(spirv: bytes, ocloc: tuple[str, ...], device: str, folder: Path) -> dict[str, int]:
    folder.mkdir(parents=True)
    (folder / "kernel.spv").write_bytes(spirv)
    command = [*ocloc, "compile", "-file", str(folder / "kernel.spv"), "-spirv_input"]
    command += ["-device", device, "-out_dir", str(folder), "-output", "kernel"]
    subprocess.run(command, check=True, capture_output=True)
    (binary,) = folder.glob("*.bin")
    dump = folder / "dump"
    command = [*ocloc, "disasm", "-file", str(binary), "-dump", str(dump), "-device", device]
    subprocess.run(command, check=True, capture_output=True)
    (assembly,) = dump.glob(".text.*.asm")
    (ze_info,) = dump.glob("*ze_info*")
    lines = [line for line in assembly.read_text().splitlines() if _INSTRUCTION.match(line)]
    spill = re.search(r"spill_size:\s*(\d+)", ze_info.read_text())
    return {
        "instructions": len(lines),
        "sends": sum("send" in line for line in lines),
        "spill_bytes_per_thread": int(spill.group(1)) if spill else 0,
    }


def measure(problems: list[str]) -> list[dict[str, Any]]:
    device, toolchain = load_device("bmg-g31"), find_toolchain(None, "xpu")
    assert toolchain.native is not None
    assert device.ocloc_name is not None
    rows: list[dict[str, Any]] = []
    with (
        Lowerer(toolchain, device, parallel=1) as lowerer,
        tempfile.TemporaryDirectory() as scratch,
        WorkerPool(
            toolchain.python,
            "lower",
            preload=["torch", "triton", "ir_task"],
            import_path=[HERE],
            parallel=1,
            env={"TRITON_XPU_GEN_NATIVE_CODE": ""},
        ) as workers,
    ):
        for name in problems:
            problem = load_problem(HERE.parent / "problems" / name / "kernel.py")
            program = next(iter(problem.programs().values()))
            lowering = lowerer.run(program, native=False).lowerings[0]
            launch = lowering.launch
            text = Path(lowering.levels["ttir_generic"]).read_text()
            options = {
                key: value
                for key, value in launch.options.items()
                if key in ("num_warps", "num_stages")
            }
            for number, transform in enumerate(("", *TRANSFORMS, ",".join(TRANSFORMS))):
                result = None
                if transform:
                    result = run_pipeline(text, with_launch(transform, launch))
                    if not result.remarks:
                        continue  # it found nothing to do
                work = Path(scratch) / name / str(number)
                compiled = workers.run(
                    "ir_task:compile_ttir",
                    {
                        "text": text if result is None else result.text,
                        "arch": device.target_properties(),
                        "options": options,
                    },
                    folder=work,
                    env={"TRITON_CACHE_DIR": str(work / "cache")},
                )
                if compiled.status != "ok":
                    raise RuntimeError(f"{name} after '{transform}': {compiled}")
                spirv = bytes.fromhex(compiled.value["spirv"])
                shown = "as it is" if not transform else "all" if "," in transform else transform
                rows.append(
                    {
                        "problem": name,
                        "transform": shown.partition("{")[0],
                        **native(spirv, toolchain.native.ocloc, device.ocloc_name, work / "native"),
                        "shared_bytes": compiled.value["shared_bytes"],
                    }
                )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    given = parser.parse_args()
    rows = measure(list(given.problems))
    if given.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(" | ".join(str(value) for value in row.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
