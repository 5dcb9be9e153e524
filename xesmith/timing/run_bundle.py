"""Times a bundle on this machine: `python -m xesmith.timing.run_bundle BUNDLE --out DIR`.

Needs torch, Triton, numpy and PyYAML. Writes DIR/result.json after each shape, so what is done is
kept when time runs out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from xesmith.device import Device, device_names, load_device
from xesmith.errors import UsageError, XesmithError
from xesmith.timing.bundle import FORMAT, Bundle, harness_digest, read_bundle
from xesmith.timing.contest import Entry, Options, Outcome, hold, summary
from xesmith.timing.timer import Timer

RESULT = "result.json"


def device_at_hand(description: dict[str, Any]) -> Device | None:
    """The device file that fits what torch says of the device; None without one."""
    name = str(description["name"]).lower()
    kind = description["kind"]
    for known in map(load_device, device_names()):
        if known.kind == kind and (known.title.lower() in name or name in known.title.lower()):
            return known
    return None


def check_harness(bundle: Bundle) -> None:
    """Raises UsageError where the harness here is not the one that the bundle was made with."""
    if bundle.harness_digest != harness_digest():
        raise UsageError(
            "the harness here is not the one that the bundle was made with",
            remedy="run the bundle's own: tar xf BUNDLE && python -m xesmith.timing.run_bundle",
        )


def time_entries(
    timer: Timer,
    device: Device | None,
    entries: Sequence[Entry],
    options: Options,
    *,
    say: Callable[[str], None],
    keep: Callable[[list[Outcome]], None],
    deadline: float | None = None,
) -> list[Outcome]:
    """Times every shape; `keep` gets all outcomes so far after each. `deadline`: monotonic."""
    outcomes: list[Outcome] = []
    for entry in entries:
        for shape in entry.shapes:
            if deadline is not None and time.monotonic() > deadline:
                say("out of time")
                return outcomes
            say(f"{entry.name} {shape.label}")
            outcome = hold(timer, device, entry, shape, options)
            outcomes.append(outcome)
            for text in lines(outcome):
                say(f"  {text}")
            keep(outcomes)
    return outcomes


def lines(outcome: Outcome) -> list[str]:
    """An outcome in a few lines, for a person."""
    found = [f"error: {text}" for text in outcome.errors]
    if outcome.measurement is None:
        return found
    for name, timed in outcome.measurement.programs.items():
        if timed.failure:
            found.append(f"{name}: failed: {timed.failure}")
        elif timed.rounds:
            share = outcome.fractions.get(name)
            of_roof = "" if share is None else f", {share:.0%} of the roof"
            found.append(f"{name}: {timed.seconds * 1e6:.1f} us{of_roof}")
    found += [f"against {name}: {item}" for name, item in outcome.judgements.items()]
    if outcome.again is not None:
        found.append(f"A/A: {outcome.again}")
    return found


def result(
    bundle_digest: str | None,
    timer: Timer,
    device: Device | None,
    options: Options,
    outcomes: Sequence[Outcome],
) -> dict[str, Any]:
    """One record: what was timed, with what, on what."""
    return {
        "format": FORMAT,
        "bundle_digest": bundle_digest,
        "harness_digest": harness_digest(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": timer.device,
        "device_file": None if device is None else device.name,
        "measured": timer.kind != "cpu",
        "protocol": {
            "flush_bytes": timer.flush_bytes,
            "smallest_effect": options.smallest_effect,
            "stop_rule": vars(options.rule),
        },
        "levels_not_read": ["syntax", "structure", "lowering"],
        "summary": summary(outcomes),
        "outcomes": [outcome.to_json() for outcome in outcomes],
    }


def write_json(path: Path, value: Any) -> None:
    """Writes the whole file or none of it."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


def open_timer(python: Path, kind: Any = None, off: Sequence[Any] = ()) -> Timer:
    """A timer that flushes what the device at hand has for caches."""
    timer = Timer(python, kind=kind, off=off)
    device = device_at_hand(timer.device)
    known = [timer.device.get("L2_cache_size"), device.l2_bytes if device else None]
    largest = max((size for size in known if size), default=0)
    timer.flush_bytes = max(timer.flush_bytes, 2 * largest)
    return timer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m xesmith.timing.run_bundle")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of result.json")
    parser.add_argument("--against", default="eager,compile,baseline,library")
    parser.add_argument("--device", choices=("cuda", "xpu", "cpu"), help="default: the GPU at hand")
    parser.add_argument("--seconds", type=float, help="start no further shape after so many")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        bundle = read_bundle(given.bundle)
        check_harness(bundle)
        options = Options(against=tuple(given.against.split(",")))
        given.out.mkdir(parents=True, exist_ok=True)
        with open_timer(Path(sys.executable), given.device) as timer:
            device = device_at_hand(timer.device)

            def keep(outcomes: list[Outcome]) -> None:
                record = result(bundle.digest, timer, device, options, outcomes)
                write_json(given.out / RESULT, record)

            keep([])
            deadline = None if given.seconds is None else started + given.seconds
            time_entries(
                timer, device, bundle.entries, options, say=_say, keep=keep, deadline=deadline
            )
    except XesmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
