"""Outcomes as rows of a CSV file, a row for each program at each shape."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xesmith.timing.contest import AGAIN, Outcome

COLUMNS: tuple[str, ...] = (
    "kernel_name",
    "variant",
    "input_values",
    "backend",
    "time_us",
    "tflops",
    "mem_bw_gbs",
    "fraction_of_roof",
    "speedup",
    "speedup_low",
    "speedup_high",
    "verdict",
    "error",
)


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The rows of one shape. `speedup` of a row is the kernel's over that row's program."""
    if outcome.measurement is None:
        return [{"kernel_name": outcome.problem, "error": "; ".join(outcome.errors)}]
    shape, found = outcome.shape, list[dict[str, Any]]()
    for name, timed in outcome.measurement.programs.items():
        if name == AGAIN:
            continue
        judgement = outcome.judgements.get(name)
        ratio = None if judgement is None else judgement.ratio
        seconds = timed.seconds if timed.rounds else None
        found.append(
            {
                "kernel_name": outcome.problem,
                "variant": shape.name,
                "input_values": shape.label.partition(" ")[2],
                "backend": name,
                "time_us": None if seconds is None else seconds * 1e6,
                "tflops": _per(shape.flop, seconds, 1e12),
                "mem_bw_gbs": _per(shape.mem_bytes, seconds, 1e9),
                "fraction_of_roof": outcome.fractions.get(name),
                "speedup": None if ratio is None else ratio.value,
                "speedup_low": None if ratio is None else ratio.low,
                "speedup_high": None if ratio is None else ratio.high,
                "verdict": None if judgement is None else judgement.verdict,
                "error": timed.failure,
            }
        )
    return found


def _per(amount: float | None, seconds: float | None, unit: float) -> float | None:
    return None if amount is None or seconds is None else amount / seconds / unit


def write_csv(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Writes all rows, with a header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for outcome in outcomes:
            writer.writerows(rows(outcome))
