"""What the timing of this project says on this machine's GPU, in one call.

    python bench/self/measure_on_gpu.py BUNDLE --out DIR [--seconds 520] [--device cpu]
    python bench/self/measure_on_gpu.py --render DIR

BUNDLE comes from `xesmith bench export-bundle` and holds the problems. Three parts, each kept as
soon as it is there (DIR/again.json, slowed.json, table.json):

- again: kernels timed against themselves, 20 runs each; SAME is right.
- slowed: kernels with a pause of 3 % of their time; SLOWER is right.
- table: every problem against eager, torch.compile and the library's call.

`--render` lays what stands in DIR out as DIR/README.md.
Exit code 0 where all of it ran and the first two parts are right.
"""

from __future__ import annotations

import argparse
import json
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
    parser.add_argument("bundle", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--render", type=Path, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--device", choices=("cuda", "xpu", "cpu"))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--against", default="eager,compile,library")
    parser.add_argument("--off", help="measures of confinement to leave out, by name")
    given = parser.parse_args()
    if given.render is not None:
        (given.render / "README.md").write_text(rendered(given.render))
        return 0
    if given.bundle is None or given.out is None:
        parser.error("BUNDLE and --out, or --render")
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


def rendered(folder: Path) -> str:
    """The three parts as Markdown."""
    again, slowed, table = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("again", "slowed", "table")
    )
    machine = table["machine"]
    lines = [
        f"# Times on {machine['name']}",
        "",
        f"Measured {table['date'][:10]} by `bench/self/measure_on_gpu.py`: Triton "
        f"{machine['triton']}, torch {machine['torch']}, Python {machine['python']}; measures of "
        f"confinement left out: {', '.join(table['confinement_off']) or 'none'}. What each number "
        "is: [docs/11-bench.md](../../../docs/11-bench.md).",
        "",
        "| kernel | against itself: SAME | with a pause of 3 % |",
        "|---|---|---|",
    ]
    for name, found in again["problems"].items():
        other = slowed["problems"].get(name)
        verdict = "not run" if other is None else told(other)
        lines.append(
            f"| {name} {sizes(found)} | {found['same']} of {len(found['runs'])} | {verdict} |"
        )
    lines += [
        "",
        "The kernels as they are in bench/problems, written for an Arc Pro B70, and how many times "
        "as fast they are as PyTorch (above 1: faster), with the 95 % interval. `*`: the vendor's "
        "library, in one call.",
        "",
        "| kernel | us | of roof | against eager | against torch.compile |",
        "|---|---|---|---|---|",
    ]
    notes: list[str] = []
    for outcome in table["outcomes"]:
        programs = outcome["measurement"]["programs"]
        median = programs["kernel"]["median_seconds"]
        share = outcome["fraction_of_roof"].get("kernel")
        cells = [
            f"{outcome['problem']} {sizes(outcome['shape'])}",
            "failed" if median is None else f"{median * 1e6:.1f}",
            "" if share is None else f"{share:.0%}",
            told(outcome["judgements"]["eager"]) + (" `*`" if outcome["library"] else ""),
            told(outcome["judgements"]["compile"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
        notes += [f"- {outcome['problem']}: {text}" for text in outcome["errors"]]
        if failure := programs["kernel"]["failure"]:
            notes.append(f"- {outcome['problem']}: {failure}")
    lines.append("")
    lines += [
        f"Against {name}: geometric mean {found['geometric_mean']:.3f} over {found['shapes']} "
        f"shapes, median {found['median']:.3f}, worst {found['worst']:.3f} "
        f"({found['worst_at'].partition(' ')[0]}).  "
        for name, found in table["summary"].items()
    ]
    return "\n".join((*lines, "", *notes)) + "\n"


def sizes(shape: dict[str, Any]) -> str:
    return str(shape.get("label") or shape["shape"]).partition(" ")[2]


def told(judgement: dict[str, Any]) -> str:
    ratio = judgement["ratio"]
    if ratio is None:
        return judgement["verdict"]
    return f"{judgement['verdict']} {ratio['ratio']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


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
