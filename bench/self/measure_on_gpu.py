"""What the timing of this project says on this machine's GPU, in one call.

    python bench/self/measure_on_gpu.py BUNDLE --out DIR [--seconds 520] [--device cpu]

BUNDLE comes from `xesmith bench export-bundle` and holds the problems. Three parts, each kept as
soon as it is there (DIR/again.json, slowed.json, table.json):

- again: kernels timed against themselves, 20 runs each; SAME is right.
- slowed: kernels with a pause of 3 % of their time; SLOWER is right.
- table: every problem against eager, torch.compile and the library's call.

Exit code 0 where all of it ran and the first two parts are right.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from xesmith.timing.bundle import read_bundle  # noqa: E402
from xesmith.timing.contest import Entry, Options, contestants, reference_program  # noqa: E402
from xesmith.timing.run_bundle import (  # noqa: E402
    check_harness,
    device_at_hand,
    open_timer,
    result,
    time_entries,
    write_json,
)
from xesmith.timing.statistics import StopRule  # noqa: E402
from xesmith.timing.timer import Contestant, Timer, judge  # noqa: E402

IN_PAIRS = ("gemm", "softmax", "flash_attention")
RUNS = 20
RUNS_A_RACE = 10  # then both programs get new processes
SLOWER_BY = 0.03
#: what a launch of the pause adds beside its length
_LAUNCH_SECONDS = 1e-6
OPTIONS = Options(rule=StopRule(goal=0.002, least_rounds=15, most_rounds=40, most_seconds=12))

_PAUSE = {
    "cuda": "torch.cuda._sleep(int({seconds} * {clock}))",
    "cpu": "_t = __import__('time').perf_counter; _e = _t() + {seconds}\n"
    "        while _t() < _e: pass",
}


def slowed(source: str, kind: str, seconds: float, clock_hz: float) -> str:
    """The program with a pause on the device after its work."""
    pause = _PAUSE[kind].format(seconds=seconds, clock=clock_hz)
    return source + (
        "\n\nclass _Slowed(Model):\n"
        "    def forward(self, *inputs):\n"
        "        out = super().forward(*inputs)\n"
        f"        {pause}\n"
        "        return out\n\n\nModel = _Slowed\n"
    )


def again(timer: Timer, entries: list[Entry], deadline: float, out: Path) -> dict[str, float]:
    """Each kernel against itself; its median time by name, for the next part."""
    record: dict[str, Any] = {"machine": timer.device, "runs_wanted": RUNS, "problems": {}}
    seconds: dict[str, float] = {}
    for entry in entries:
        shape = entry.shapes[0]
        options = replace(OPTIONS, against=())
        runs: list[dict[str, Any]] = []
        record["problems"][entry.name] = {"shape": shape.label, "runs": runs}
        while len(runs) < RUNS and time.monotonic() < deadline:
            with timer.open(
                contestants(entry, shape, options), reference_program(entry, shape)
            ) as race:
                for _ in range(min(RUNS_A_RACE, RUNS - len(runs))):
                    measured = race.run(options.rule, look=False)
                    verdict = judge(
                        measured, "kernel", "kernel again", smallest_effect=options.smallest_effect
                    )
                    one = measured.programs["kernel"]
                    if one.rounds:
                        seconds[entry.name] = one.seconds
                    runs.append(
                        {
                            **verdict.to_json(),
                            "median_seconds": one.seconds if one.rounds else None,
                            "stopped": measured.stopped,
                            "rounds": len(one.rounds),
                            "wall_seconds": measured.wall_seconds,
                            "starved": one.starved,
                            "checked": one.checked,
                        }
                    )
                    print(f"A/A {entry.name} {len(runs)}: {verdict}", flush=True)
        same = sum(run["verdict"] == "SAME" for run in runs)
        record["problems"][entry.name]["same"] = same
        record["problems"][entry.name]["passed"] = len(runs) == RUNS and same >= RUNS - 1
        write_json(out / "again.json", record)
    record["passed"] = all(found["passed"] for found in record["problems"].values())
    write_json(out / "again.json", record)
    return seconds


def slow(timer: Timer, entries: list[Entry], seconds: dict[str, float], out: Path) -> None:
    record: dict[str, Any] = {"machine": timer.device, "slower_by": SLOWER_BY, "problems": {}}
    device = device_at_hand(timer.device)
    clock = (device and device.boost_clock_hz) or 1e9
    for entry in entries:
        shape = entry.shapes[0]
        pause = max(0.0, SLOWER_BY * seconds[entry.name] - _LAUNCH_SECONDS)
        (base, *_) = contestants(entry, shape, replace(OPTIONS, against=(), again=False))
        text = slowed(entry.kernel, timer.kind, pause, clock)
        programs = [base, Contestant("slowed", replace(base.program, source=text))]
        measured = timer.measure(programs, reference_program(entry, shape), rule=OPTIONS.rule)
        verdict = judge(measured, "kernel", "slowed", smallest_effect=OPTIONS.smallest_effect)
        record["problems"][entry.name] = {
            **verdict.to_json(),
            "shape": shape.label,
            "pause_seconds": pause,
            "measurement": measured.to_json(),
        }
        print(f"slowed {entry.name}: {verdict}", flush=True)
        record["passed"] = all(p["verdict"] == "SLOWER" for p in record["problems"].values())
        write_json(out / "slowed.json", record)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--device", choices=("cuda", "xpu", "cpu"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--against", default="eager,compile,library")
    parser.add_argument("--off", help="measures of confinement to leave out, by name")
    given = parser.parse_args()
    globals()["RUNS"] = given.runs
    started = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    bundle = read_bundle(given.bundle)
    check_harness(bundle)
    in_pairs = [entry for entry in bundle.entries if entry.name in IN_PAIRS]
    failed = False
    timer, off = open_confined(given.device, given.off)
    with timer:
        print(f"{timer.device}; measures left out: {off or 'none'}", flush=True)
        device = device_at_hand(timer.device)

        def part(name: str, work: Any) -> Any:
            nonlocal failed
            try:
                return work()
            except Exception as error:  # the next part is still of interest
                failed = True
                traceback.print_exc()
                write_json(given.out / f"{name}-error.json", {"error": str(error)})
            finally:
                print(f"{name}: {time.monotonic() - started:.0f} s since the start", flush=True)

        # The table comes before the last of the A/A runs when time is short.
        until = started + 0.65 * given.seconds
        seconds = part("again", lambda: again(timer, in_pairs, until, given.out)) or {}
        known = [entry for entry in in_pairs if entry.name in seconds]
        part("slowed", lambda: slow(timer, known, seconds, given.out))
        options = replace(OPTIONS, against=tuple(given.against.split(",")))

        def keep(outcomes: Any) -> None:
            record = result(bundle.digest, timer, device, options, outcomes)
            record["confinement_off"] = list(off)
            write_json(given.out / "table.json", record)

        part(
            "table",
            lambda: time_entries(
                timer,
                device,
                bundle.entries,
                options,
                say=lambda text: print(text, flush=True),
                keep=keep,
                deadline=started + given.seconds - 40,
            ),
        )
    return 1 if failed else 0


def open_confined(kind: str | None, left_out: str | None) -> tuple[Timer, tuple[str, ...]]:
    """A timer under as much confinement as the driver runs under, and what had to be left out."""
    attempts: list[tuple[str, ...]] = [
        (),
        ("system calls",),
        ("files", "signals"),
        ("files", "signals", "system calls", "user"),
        ("files", "signals", "system calls", "user", "processes", "network", "limits"),
    ]
    if left_out is not None:
        attempts = [tuple(name for name in left_out.split(",") if name)]
    for number, off in enumerate(attempts):
        try:
            timer = open_timer(Path(sys.executable), kind, off)
        except Exception as error:
            print(f"with {off or 'nothing'} left out: {error}", flush=True)
            if number == len(attempts) - 1:
                raise
            continue
        if kind is None and timer.kind == "cpu" and number < len(attempts) - 1:
            print(f"with {off or 'nothing'} left out: no GPU is seen", flush=True)
            timer.close()
            continue
        return timer, off
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main())
