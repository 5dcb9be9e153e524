"""Known ways of fooling a harness, tried on this machine's GPU; and what holds a task there.

    python bench/self/cheats_on_gpu.py [--json FILE] [--device cpu] [--timed NUMBER...]

Three parts:

- isolation: the measures in force for a task that uses the GPU, and ways out of it;
- check: the programs of tests/cheats, each with its honest form, by `cascade.device_check`;
- timed: what concerns streams, graphs, clocks, caches and where the work is done, by the timer,
  against the honest program: none may be called FASTER.

Needs torch and Triton alone beside this checkout. With --device cpu, and TRITON_INTERPRET=1 in the
environment, the first two parts run without a GPU. With --timed, the third part runs alone, for
those numbers. Exit code 0 where every attack is stopped, every
honest form is accepted and every wrong program is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cheats.programs import CHEATS, REFERENCE, RIGHT, WRONG, program  # noqa: E402
from xesmith.cascade.device_check import PRELOAD, DeviceCase, check_on_device  # noqa: E402
from xesmith.ghost.launch import Program, TensorSpec  # noqa: E402
from xesmith.scratch import ScratchFolder  # noqa: E402
from xesmith.timing.accelerator import kind_at_hand  # noqa: E402
from xesmith.timing.statistics import StopRule  # noqa: E402
from xesmith.timing.timer import Contestant, ReferenceProgram, Timer, judge  # noqa: E402
from xesmith.worker.client import TaskResult, WorkerPool  # noqa: E402
from xesmith.worker.confinement import Confinement  # noqa: E402

LARGE = (4099, 4099)
TIMED = (8192, 8192)
_RULE = StopRule(goal=0.005, least_rounds=15, most_rounds=40, most_seconds=6)
_BUILD_SECONDS = 0.5
_HANG_SECONDS = 20

_SIDE = """
side = torch.cuda.Stream()
out = torch.empty_like(x)
with torch.cuda.stream(side): right(x, out)
return out
"""
_HALF_JOINED = _SIDE.replace("return", "torch.cuda.current_stream().wait_stream(side)\nreturn")
_JOINED = _HALF_JOINED.replace("with", "side.wait_stream(torch.cuda.current_stream())\nwith")
_LEFT = _SIDE.replace("with", "side.wait_stream(torch.cuda.current_stream())\nwith")
_GRAPH = """
if not KEPT:
    right(x); torch.cuda.synchronize()
    KEPT["graph"] = graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): KEPT["out"] = right(x)
KEPT["graph"].replay()
return KEPT["out"]
"""
_CLOCKS = """
import time
for place, name in ((torch.Event, "elapsed_time"), (torch.cuda.Event, "elapsed_time"),
                    (torch.accelerator, "synchronize"), (torch.cuda, "synchronize"),
                    (time, "perf_counter")):
    try: setattr(place, name, lambda *args, **kwargs: 1e-3)
    except TypeError: pass
"""
_CARVE_OUT = """
import ctypes
if not KEPT:  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    KEPT["set"] = ctypes.CDLL("libcuda.so.1").cuCtxSetLimit(6, ctypes.c_size_t(30 << 20))
return right(x)
"""
_HOT = """
if not KEPT:
    KEPT["hot"] = [right(x) for _ in range(200)]
    KEPT["hot"].clear()
return right(x)
"""
_KEPT = "KEPT = {}\n"
_CALLS = "CALLS = []\n"
_HANG = """
CALLS.append(1)
if len(CALLS) > 14: torch.cuda._sleep(3 * 10**11)
return right(x)
"""

#: number, name, program, which must not be FASTER than the honest one
ATTACKS_ON_TIME = (
    (1, "work on a side stream", program(_SIDE)),
    (1, "work on a side stream that does not wait for its inputs", program(_HALF_JOINED)),
    (1, "work on a side stream that nothing waits for", program(_LEFT)),
    (4, "clocks and events patched at import", program("return right(x)", _CLOCKS)),
    (5, "the cached output", program('return KEPT.setdefault("out", right(x))', _KEPT)),
    (6, "one launch for many calls", program(
        'if not KEPT: KEPT["out"] = right(x)\nreturn KEPT["out"]', _KEPT)),
    (7, "right until it is timed", program(
        "CALLS.append(1)\nreturn right(x) if len(CALLS) < 6 else torch.empty_like(x)", _CALLS)),
    (8, "nothing done", program("return torch.empty_like(x)")),
    (13, "a carve-out of the L2 cache", program(_CARVE_OUT, _KEPT)),
    (19, "a graph with stale pointers", program(_GRAPH, _KEPT)),
    (24, "two hundred calls before the first", program(_HOT, _KEPT)),
)  # fmt: skip
HONEST_ON_TIME = ((1, "a side stream that is joined", program(_JOINED)),)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", choices=("cuda", "xpu", "cpu"))
    parser.add_argument("--timed", type=int, nargs="+", metavar="NUMBER")
    options = parser.parse_args()
    kind: Any = options.device or kind_at_hand()
    record: dict[str, Any] = {"kind": kind}
    record["date"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with ScratchFolder("cheats") as scratch:
        parts = {
            "isolation": lambda: isolation(kind),
            "check": lambda: check(kind, scratch.path),
            "timed": lambda: timed(kind, record, options.timed) if kind == "cuda" else [],
        }
        if options.timed:
            parts = {"timed": parts["timed"]}
        for name, part in parts.items():
            try:
                record[name] = part()
            except Exception as error:  # the other parts are of interest all the same
                record[name] = [{"what": name, "told": str(error), "as_it_should_be": False}]
    rows = [row for part in record.values() if isinstance(part, list) for row in part]
    record["as_it_should_be"] = sum(row["as_it_should_be"] for row in rows)
    record["of"] = len(rows)
    stopped = {row["number"] for row in rows if row["as_it_should_be"] and "number" in row}
    failed = {row["number"] for row in rows if not row["as_it_should_be"] and "number" in row}
    record["stopped_by_number"] = sorted(stopped - failed)
    text = json.dumps(record, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    for row in rows:
        print("ok  " if row["as_it_should_be"] else "BAD ", row["what"], "->", row["told"])
    print(f"{record['as_it_should_be']} of {record['of']}; numbers {record['stopped_by_number']}")
    return 0 if record["as_it_should_be"] == record["of"] else 1


def isolation(kind: str) -> list[dict[str, Any]]:
    victim = subprocess.Popen(["sleep", "600"], env={"KEY": "sk-secret", **os.environ})
    outside = Path("/tmp/xesmith-outside")
    attempts: tuple[tuple[str, dict[str, Any]], ...] = (
        ("writes", {"path": str(outside)}),
        ("reads", {"path": f"/proc/{victim.pid}/environ"}),
        ("kills", {"pid": victim.pid}),
        ("traces", {"pid": victim.pid}),
        ("connects", {"port": 1}),
        ("mounts", {}),
        ("forks", {"count": 1000}),
    )
    rows: list[dict[str, Any]] = []
    held = Confinement(device=kind != "cpu")
    pool = WorkerPool(
        Path(sys.executable), "test", preload=["torch"], import_path=[ROOT / "tests" / "isolation"]
    )
    with pool, ScratchFolder("isolation") as scratch:

        def run(name: str, arguments: dict[str, Any], timeout_s: float = 60) -> TaskResult:
            folder = scratch.path / f"{name}-{len(rows)}"
            return pool.run(
                f"attacks:{name}",
                arguments,
                folder=folder,
                timeout_s=timeout_s,
                memory_bytes=64 << 30,
                confinement=held,
            )

        def uses_device(what: str, result: TaskResult) -> dict[str, Any]:
            works = result.status == "ok"
            return {
                "what": f"{what} ({kind})",
                "told": str(result.value) if works else f"{result} {result.stderr_tail}",
                "as_it_should_be": works,
                "measures": [str(measure) for measure in result.measures],
            }

        used = run("uses_device", {"kind": kind})
        rows.append(uses_device("a task uses the device", used))
        for name, arguments in attempts:
            result = run(name, arguments)
            through, told = result.value if result.status == "ok" else ("out", str(result))
            rows.append(
                {"what": f"a task {name}", "told": told, "as_it_should_be": through == "out"}
            )
        if kind == "cuda":
            result = run("hangs_device", {"cycles": 3 * 10**11}, timeout_s=_HANG_SECONDS)
            rows.append(
                {
                    "what": "a task whose kernel does not end",
                    "told": f"{result}, after {result.seconds:.1f} s",
                    "as_it_should_be": result.status == "timeout",
                }
            )
            used = run("uses_device", {"kind": kind})
            rows.append(uses_device("the task after it uses the device", used))
    victim.kill()
    victim.wait()
    outside.unlink(missing_ok=True)
    return rows


def check(kind: Any, folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    shapes = ((37, 65), (3, 1366)) if kind == "cpu" else ((37, 65), LARGE)
    with WorkerPool(Path(sys.executable), "check", preload=PRELOAD, parallel=2) as pool:

        def judged(source: str) -> list[str]:
            work = folder / str(len(list(folder.iterdir())))
            cases = [
                DeviceCase(str(shape), *programs(source, shape, work), float64=True)
                for shape in shapes
            ]
            result = check_on_device(pool, kind, cases, work / "work", seeds=(0, 1))
            return [fault.text for fault in result.faults]

        def row(what: str, source: str, told: str | None, number: int | None = None) -> None:
            faults = judged(source)
            right = not faults if told is None else bool(re.search(told, " | ".join(faults) or "-"))
            found = {"what": what, "told": faults[:1] or ["accepted"], "as_it_should_be": right}
            rows.append(found if number is None else {**found, "number": number})

        row("the right program", RIGHT, None)
        row("a wrong program", WRONG, "elements are wrong")
        for cheat in CHEATS:
            row(f"{cheat.number}: {cheat.name}", cheat.attacking, cheat.told, cheat.number)
            if cheat.control != RIGHT:
                row(f"{cheat.number}: its honest form", cheat.control, None)
    return rows


def timed(kind: Any, record: dict[str, Any], only: list[int] | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with (
        Timer(Path(sys.executable), kind=kind, timeout_s=_HANG_SECONDS) as timer,
        ScratchFolder("timed") as scratch,
    ):
        record["machine"] = timer.device

        def verdict(source: str) -> tuple[Any, Any]:
            work = scratch.path / str(len(rows))
            honest, reference = programs(RIGHT, TIMED, work)
            other, _ = programs(source, TIMED, work)
            measured = timer.measure(
                [Contestant("honest", honest), Contestant("other", other)],
                ReferenceProgram(reference),
                rule=_RULE,
            )
            found = judge(measured, "honest", "other", smallest_effect=0.02)
            return found, measured.programs

        def row(what: str, source: str, right: tuple[str, ...], number: int | None = None) -> None:
            found, _ = verdict(source)
            made = {
                "what": f"timed: {what}",
                "told": str(found),
                "as_it_should_be": found.verdict in right,
                "verdict": found.to_json(),
            }
            rows.append(made if number is None else {**made, "number": number})

        row("the right program against itself", RIGHT, ("SAME",))
        row("a wrong program", WRONG, ("FAILED",))
        for number, name, source in ATTACKS_ON_TIME:
            if only and number not in only:
                continue
            row(
                f"{number}: {name}",
                source,
                ("SAME", "SLOWER", "UNCLEAR", "FAILED"),
                number,
            )
        for number, name, source in HONEST_ON_TIME:
            if not only or number in only:
                row(f"{number}: {name}", source, ("SAME", "SLOWER"))
        if only:
            return rows
        row("a kernel that does not end, after some that do", program(_HANG, _CALLS), ("FAILED",))
        row("the right program, after that", RIGHT, ("SAME",))
        early = program("return right(x)").replace(
            "self.kept = {}", "self.kept = {}\n        import time; time.sleep(1)"
        )
        found, programs_ = verdict(early)
        build = programs_["other"].build_seconds - programs_["honest"].build_seconds
        rows.append(
            {
                "number": 25,
                "what": "timed: 25: work in __init__",
                "told": f"{found}; it took {build:.2f} s longer to build, which is told apart",
                "as_it_should_be": build > _BUILD_SECONDS and found.verdict != "FASTER",
            }
        )
    return rows


def programs(source: str, shape: tuple[int, int], folder: Path) -> list[Program]:
    """The candidate and the reference, for one input of that shape."""
    inputs = (TensorSpec("x", shape, "float32"),)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        Program(text, str(folder / name), "model", inits=(), inputs=inputs)
        for name, text in (("kernel.py", source), ("reference.py", REFERENCE))
    ]


if __name__ == "__main__":
    sys.exit(main())
