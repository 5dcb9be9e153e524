"""Outcomes as rows of a CSV file, a row for each program at each shape."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xesmith.timing.contest import AGAIN, Outcome

#: AI-bench's own, in its order (libxsmm/AI-bench, harness/runner/kernel_bench_runner.py, 2026)
AI_BENCH_COLUMNS = (
    "kernel_name",
    "kernel_type",
    "problem_level",
    "flops",
    "flops_val",
    "flops_unit",
    "bytes",
    "mem_bw_val",
    "mem_bw_unit",
    "time_us",
    "input_values",
    "note",
)
_MORE_COLUMNS = (
    "program",
    "device",
    "measured",
    "variant",
    "fraction_of_roof",
    "kernel_over_program",
    "kernel_over_program_low",
    "kernel_over_program_high",
    "verdict",
    "error",
)
#: AI-bench's names for what a program is
_KERNEL_TYPES = {"eager": "pytorch", "compile": "pytorch-compile"}
#: of the environment, which AI-bench appends as columns: the system and the card, mostly
_PREFIX = "AIBENCH_"


def rows(outcome: Outcome, device: Mapping[str, Any], note: str = "") -> list[dict[str, Any]]:
    """The rows of one shape. `kernel_over_program`: how many times as fast the kernel is.

    Args:
        device: what the timer says of it.
    """
    shape, found = outcome.shape, list[dict[str, Any]]()
    common = {
        "kernel_name": outcome.problem,
        "problem_level": "",
        "input_values": json.dumps(dict(shape.dims)),
        "note": note,
        "device": device["name"],
        "measured": device["kind"] != "cpu",
        "variant": shape.name,
    }
    if outcome.measurement is None:
        return [{**common, "error": "; ".join(outcome.errors)}]
    for name, timed in outcome.measurement.programs.items():
        if name == AGAIN:
            continue
        judgement = outcome.judgements.get(name)
        ratio = None if judgement is None else judgement.ratio
        seconds = timed.seconds if timed.rounds else None
        flops = _per(shape.flop, seconds, 1e12)
        bandwidth = _per(shape.mem_bytes, seconds, 1e9)
        found.append(
            {
                **common,
                "kernel_type": _KERNEL_TYPES.get(name, "triton"),
                "flops": shape.flop,
                "flops_val": flops,
                "flops_unit": None if flops is None else "TFLOPS",
                "bytes": shape.mem_bytes,
                "mem_bw_val": bandwidth,
                "mem_bw_unit": None if bandwidth is None else "GB/s",
                "time_us": None if seconds is None else seconds * 1e6,
                "program": name,
                "fraction_of_roof": outcome.fractions.get(name),
                "kernel_over_program": None if ratio is None else ratio.value,
                "kernel_over_program_low": None if ratio is None else ratio.low,
                "kernel_over_program_high": None if ratio is None else ratio.high,
                "verdict": None if judgement is None else judgement.verdict,
                "error": timed.failure,
            }
        )
    return found


def _per(amount: float | None, seconds: float | None, unit: float) -> float | None:
    return None if amount is None or seconds is None else amount / seconds / unit


def write_csv(
    path: Path, outcomes: Sequence[Outcome], device: Mapping[str, Any], note: str = ""
) -> None:
    """Writes all rows, with a header: AI-bench's columns, then more."""
    given = {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_PREFIX)}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, (*AI_BENCH_COLUMNS, *given, *_MORE_COLUMNS))
        writer.writeheader()
        for outcome in outcomes:
            writer.writerows({**row, **given} for row in rows(outcome, device, note))
