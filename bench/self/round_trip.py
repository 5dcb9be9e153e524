"""Whether Triton's modules come back from stock MLIR as they were, and what cannot go there.

    python bench/self/round_trip.py --out bench/results/round_trip [--python PYTHON ...]

Every problem, and small kernels that hold what the problems do not, TTIR and TTGIR: Triton's
module goes out in generic form, through stock MLIR with our plugin (parsed, reported on, printed),
and back through Triton's parser and verifier. Its text, locations included, must be the same.
--python names further Tritons, beside this environment's own, by their interpreters.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xesmith import __version__
from xesmith.bench import problem_names
from xesmith.device import Device, load_device
from xesmith.engine.problem import load_problem
from xesmith.errors import XesmithError
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.lowering.lowerer import target_json
from xesmith.passes.dump import read_dump
from xesmith.passes.pipeline import run_pipeline
from xesmith.toolchain import Toolchain, find_toolchain
from xesmith.worker.client import WorkerPool

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "exchange" / "kernels"
DEVICES = {"xpu": "bmg-g31", "cuda": "h200"}
LEVELS = ("ttir", "ttgir")


@dataclass(frozen=True)
class Row:
    """What became of one level of one kernel.

    result: "identical", "differs" (detail: the first line that does), "refused" (detail: why the
    form cannot carry it) or "not made" (detail: why this compiler makes no such level).
    """

    subject: str
    kernel: str
    level: str
    compiler: str
    result: str
    detail: str = ""


def kernel_names() -> list[str]:
    text = (KERNELS / "everything.py").read_text("utf-8")
    return re.findall(r'^    "(\w+)": \(', text, re.M)


def programs(names: Iterable[str]) -> Iterator[tuple[str, Program]]:
    """Of each problem or kernel the programs that launch it."""
    everything = KERNELS / "everything.py"
    source = everything.read_text("utf-8")
    problems = problem_names()
    for name in names:
        if name in problems:
            path = ROOT / "bench" / "problems" / name / "kernel.py"
            for program in load_problem(path).programs().values():
                yield name, program
        else:
            text = f"{source}\nlaunch({name!r})\n"
            yield name, Program(source=text, path=str(everything), entry="script")


class Carrier:
    """Takes modules out of one Triton and back."""

    def __init__(self, toolchain: Toolchain, device: Device) -> None:
        self.compiler = f"{toolchain.triton_distribution} {toolchain.triton_version}"
        self._device = device
        self._toolchain = toolchain
        self._lowerer = Lowerer(toolchain, device, parallel=1)
        self._workers = WorkerPool(
            toolchain.python,
            "lower",
            preload=["triton", "round_trip_task"],
            import_path=[Path(__file__).resolve().parent],
            parallel=1,
        )

    def __enter__(self) -> Carrier:
        self._lowerer.__enter__()
        self._workers.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._workers.__exit__(*raised)
        self._lowerer.__exit__(*raised)

    def rows(self, names: Iterable[str]) -> Iterator[Row]:
        for subject, program in programs(names):
            run = self._lowerer.run(program, native=False)
            if run.failure is not None and not run.lowerings:
                yield Row(subject, "", "", self.compiler, "not made", run.failure.message)
            for lowering in run.lowerings:
                for level in LEVELS:
                    row = (subject, lowering.launch.kernel, level, self.compiler)
                    if level not in lowering.levels:
                        reason = lowering.failure.message if lowering.failure else "not asked for"
                        yield Row(*row, "not made", reason)
                    elif (generic := lowering.levels.get(f"{level}_generic")) is None:
                        yield Row(*row, "refused", lowering.not_read[f"{level}_generic"])
                    else:
                        text = Path(lowering.levels[level]).read_text("utf-8")
                        yield Row(*row, *self.carried(Path(generic).read_text("utf-8"), text))

    def dump(self, path: Path) -> Row:
        """A dump that others made: TTIR that no kernel of ours leads to."""
        row = (path.name, path.stem, "ttir", self.compiler)
        try:
            generic = read_dump(path, self._device, str(self._toolchain.python))
        except XesmithError as error:
            return Row(*row, "refused", error.what)
        # It may be written by hand: what counts is how Triton prints it.
        return Row(*row, *self.carried(generic, self._read(generic)[0]))

    def carried(self, generic: str, text: str) -> tuple[str, str]:
        """A module's generic form through stock MLIR and back, held against its text."""
        try:
            (again,) = self._read(run_pipeline(generic, "xesmith-report").text)
        except (XesmithError, RuntimeError) as error:
            return "refused", str(error)
        if again == text:
            return "identical", ""
        for line, other in zip(text.splitlines(), again.splitlines(), strict=False):
            if line != other:
                return "differs", f"{line.strip()} -> {other.strip()}"
        return "differs", "in length"

    def _read(self, *texts: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            result = self._workers.run(
                "round_trip_task:read",
                {"texts": texts, "target": target_json(self._device)},
                folder=Path(folder),
            )
        if result.status != "ok":
            reason = result.error["message"] if result.error else result.status
            raise RuntimeError(f"{reason} {result.stderr_tail[-300:]}".strip())
        return result.value


def carrier(python: str | None) -> Carrier:
    """For this environment's own Triton, or that of another interpreter."""
    if python is None:
        return Carrier(find_toolchain(None, "xpu", native=False), load_device(DEVICES["xpu"]))
    toolchain = find_toolchain(python, "cuda", native=False)
    return Carrier(toolchain, load_device(DEVICES["cuda"]))


def table(rows: list[Row]) -> str:
    columns = [(compiler, level) for compiler in dict.fromkeys(r.compiler for r in rows)
               for level in LEVELS]  # fmt: skip
    cells: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    reasons: dict[str, int] = {}
    for row in rows:
        text = row.result
        if row.detail:
            number = reasons.setdefault(row.detail, len(reasons) + 1)
            text += f" ({number})"
        of_kernel = cells.setdefault((row.subject, row.kernel), {})
        for level in [row.level] if row.level else LEVELS:
            before = of_kernel.get((row.compiler, level))
            # Several launches or shapes of one kernel.
            of_kernel[row.compiler, level] = text if before in (None, text) else f"{before}; {text}"
    lines = [
        "| from | kernel | " + " | ".join(f"{c}, {level}" for c, level in columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for (subject, kernel), found in cells.items():
        lines.append(
            f"| {subject} | {kernel} | " + " | ".join(found.get(c, "") for c in columns) + " |"
        )
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items())]
    return "\n".join(lines)


def provenance(compilers: Iterable[str]) -> dict[str, Any]:
    return {
        "xesmith": __version__,
        "python": platform.python_version(),
        "mlir": importlib.metadata.version("xtc-mlir-python-bindings"),
        "compilers": list(compilers),
        "devices": DEVICES,
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", action="append", default=[], help="of a further Triton")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for python in [None, *arguments.python]:
        with carrier(python) as one:
            rows += one.rows([*problem_names(), *kernel_names()])
            rows += [one.dump(path) for path in sorted(KERNELS.glob("*.ttir"))]
    counts = {kind: sum(row.result == kind for row in rows) for kind in
              ("identical", "differs", "refused", "not made")}  # fmt: skip
    about = provenance(dict.fromkeys(row.compiler for row in rows))
    document = {"provenance": about, "counts": counts, "rows": [asdict(row) for row in rows]}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    arguments.out.with_suffix(".md").write_text(
        "# Triton's modules through stock MLIR and back\n\n"
        f"xesmith {__version__}, {', '.join(about['compilers'])}, MLIR {about['mlir']}, "
        f"{about['date']}. Of {len(rows)} modules "
        f"{', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}.\n"
        "Made by `python bench/self/round_trip.py`.\n\n"
        f"{table(rows)}\n",
        "utf-8",
    )
    print(counts)
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
