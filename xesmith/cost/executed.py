"""What the busiest Xe core executes: static counts times the trip counts of their loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpleeval  # pyright: ignore[reportMissingTypeStubs]

from xesmith.cost.dealing import busiest_share
from xesmith.cost.loops import match_loops, work
from xesmith.evidence.record import (
    Evidence,
    Loop,
    Native,
    NativeLoop,
    ProgramGroup,
    Ttgir,
    Ttir,
)

_COUNTS = (
    "instructions",
    "dpas",
    "loads_2d",
    "stores_2d",
    "prefetches_2d",
    "global_loads",
    "global_stores",
    "slm_messages",
    "scratch_messages",
    "f64_instructions",
)


class UnknownTripsError(Exception):
    """A loop whose trip count the evidence does not give; the text names it."""


@dataclass(frozen=True)
class Executed:
    """What one hardware thread executes, on average over the busiest Xe core's work-groups."""

    work_groups: int  # of the busiest Xe core, one after another
    bytes_moved: float  # that these load and store
    counts: dict[str, float]
    bytes_2d: float  # through 2D block loads, stores and prefetches
    pipes: dict[str, float]  # ALU instructions per pipe; empty where not known
    barriers: float
    #: rounds of waiting for loads: (rounds, whether a prefetch ran ahead of them)
    load_rounds: tuple[tuple[float, bool], ...] = field(default=())


def executed(evidence: Evidence, xe_cores: int) -> Executed:
    """Counts of one hardware thread of the busiest Xe core.

    Programs that run their loops differently often are dealt to the Xe cores by the
    instructions that they execute (see dealing.busiest_share).

    Raises:
        UnknownTripsError: a loop's trip count is not known.
    """
    ttir, ttgir, native = evidence.ttir, evidence.ttgir, evidence.native
    assert ttir is not None
    assert ttgir is not None
    assert native is not None
    groups = _program_groups(evidence, ttir)
    group_times = [loop_times(ttir, ttgir, native, group.iterations) for group in groups]
    sizes = [
        (group.programs, _instructions(native, times))
        for group, times in zip(groups, group_times, strict=True)
    ]
    share = busiest_share(sizes, xe_cores)
    work_groups = sum(share)
    times = [
        sum(n * t for n, t in zip(share, of_loop, strict=True)) / work_groups
        for of_loop in zip(*group_times, strict=True)
    ]
    counts = {name: float(getattr(native, name)) for name in _COUNTS}
    pipes = {name: float(count) for name, count in native.pipes.items()}
    barriers = 0.0
    rounds: list[tuple[float, bool]] = []
    for loop in native.loops:
        # Counts include those of inner loops: each loop adds what its repetition brings.
        outer = 1.0 if loop.parent is None else times[loop.parent]
        extra = times[loop.index] - outer
        for name in _COUNTS:
            counts[name] += getattr(loop, name) * extra
        for name, count in loop.pipes.items():
            pipes[name] = pipes.get(name, 0.0) + count * extra
        inner = sum(child.barriers for child in native.loops if child.parent == loop.index)
        barriers += (loop.barriers - inner) * times[loop.index]
        if _own_loads(loop, native):
            rounds.append((times[loop.index], loop.prefetches_2d > 0))
    in_loops = sum(_own_loads(loop, native) for loop in native.loops)
    if native.loads_2d + native.global_loads > in_loops:
        rounds.append((1.0, False))
    bytes_2d = 0.0
    for send in native.sends_2d:
        repeated = 1.0 if send.loop is None else times[send.loop]
        bytes_2d += repeated * _block_bytes(send.width, send.height, send.blocks, send.element_bits)
    bytes_moved = sum(n * group.bytes_moved for n, group in zip(share, groups, strict=True))
    return Executed(work_groups, bytes_moved, counts, bytes_2d, pipes, barriers, tuple(rounds))


@dataclass(frozen=True)
class _Programs:
    """As evidence.record.ProgramGroup; iterations are None where they are not known."""

    programs: int
    iterations: Sequence[float | None]
    bytes_moved: float


def _program_groups(evidence: Evidence, ttir: Ttir) -> Sequence[ProgramGroup | _Programs]:
    """The grid's programs by what they run; all as the mean one where that is not known."""
    if ttir.program_groups:
        return ttir.program_groups
    moved = (ttir.bytes_loaded_per_program or 0.0) + (ttir.bytes_stored_per_program or 0.0)
    programs = max(1, math.prod(evidence.launch["grid"]))
    return (_Programs(programs, mean_iterations(ttir, argument_values(evidence)), moved),)


def _instructions(native: Native, times: Sequence[float]) -> float:
    """Instructions that a thread executes whose loops' bodies run so often."""
    total = float(native.instructions)
    for loop in native.loops:
        outer = 1.0 if loop.parent is None else times[loop.parent]
        total += loop.instructions * (times[loop.index] - outer)
    return total


def _own_loads(loop: NativeLoop, native: Native) -> int:
    """Loads of the loop's own body, without those of inner loops."""
    inner = [child for child in native.loops if child.parent == loop.index]
    return (
        loop.loads_2d
        + loop.global_loads
        - sum(child.loads_2d + child.global_loads for child in inner)
    )


def _block_bytes(width: int | None, height: int | None, blocks: int | None, bits: int) -> float:
    if width is None or height is None or blocks is None:
        return 1024.0  # of 16 rows by 64 bytes: the middle of what a message may hold
    return width * height * blocks * bits / 8


def flop_per_dpas(ttgir: Ttgir) -> int | None:
    """FLOP of one dpas instruction: 2 M N K, with K by the operand's width."""
    if not ttgir.dpas:
        return None
    d = ttgir.dpas[0]
    return 2 * d.repeat_count * d.execution_size * d.systolic_depth * d.ops_per_channel


def argument_values(evidence: Evidence) -> dict[str, int | float]:
    """The launch's scalar arguments and constants by name."""
    merged: dict[str, Any] = {**evidence.launch["values"], **evidence.launch["constexprs"]}
    return {
        name: value
        for name, value in merged.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def trip_count(loop: Loop, values: Mapping[str, int | float]) -> float | None:
    """Trips of an IR loop: the same in every program, else the mean over all programs, else its
    expression at the launch's values; 0 behind a condition that is never met."""
    if not loop.reached:
        return 0.0
    if loop.trip_count is not None:
        return float(loop.trip_count)
    if loop.trip_mean is not None:
        return loop.trip_mean
    if loop.trip_expression is None:
        return None
    trips = evaluate(loop.trip_expression, values)
    return None if trips is None else max(0.0, trips)


def evaluate(expression: str, names: Mapping[str, Any]) -> float | None:
    """An expression of the evidence with its names' values; None where one is missing."""
    functions: dict[str, Any] = {"cdiv": _cdiv, "ceildiv": _cdiv, "min": min, "max": max}
    evaluator: Any = simpleeval.SimpleEval(functions=functions, names=dict(names))
    try:
        return float(evaluator.eval(expression))
    except (simpleeval.InvalidExpression, SyntaxError, ZeroDivisionError, TypeError, ValueError):
        return None


def _cdiv(a: float, b: float) -> float:
    return -(-a // b)


def mean_iterations(ttir: Ttir, values: Mapping[str, int | float]) -> list[float | None]:
    """How often each IR loop's body runs in the mean program; None: not known."""
    times: list[float | None] = []
    for loop in ttir.loops:
        own = trip_count(loop, values)
        outer = 1.0 if loop.parent is None else times[loop.parent]
        times.append(None if own is None or outer is None else own * outer)
    return times


def loop_times(
    ttir: Ttir, ttgir: Ttgir, native: Native, iterations: Sequence[float | None]
) -> list[float]:
    """How often each native loop's body runs in one thread, by that of each IR loop.

    A native loop that matches none of the IR's (see loops.match_loops) is taken to run once per
    run of its parent.
    Where the compiler unrolled a loop with dots, its dpas count tells by how much.

    Raises:
        UnknownTripsError: an IR loop's trip count is needed and not known.
    """
    if not native.loops:
        return []
    matched = match_loops(ttir, native)
    times: list[float] = []
    for loop in native.loops:
        outer = 1.0 if loop.parent is None else times[loop.parent]
        ir_index = matched.get(loop.index)
        if ir_index is None:
            times.append(outer)
            continue
        ir_time = iterations[ir_index]
        if ir_time is None:
            line = ttir.loops[ir_index].site.line
            raise UnknownTripsError(f"the trip count of the loop at line {line}")
        times.append(ir_time / _unrolled(loop, ir_index, ttir, ttgir, native))
    return times


def _unrolled(loop: NativeLoop, ir_index: int, ttir: Ttir, ttgir: Ttgir, native: Native) -> float:
    """IR iterations per native iteration, from the dpas of both; at least 1."""
    per_dpas = flop_per_dpas(ttgir)
    inner = sum(child.dpas for child in native.loops if child.parent == loop.index)
    own = loop.dpas - inner
    if not per_dpas or own <= 0:
        return 1.0
    flop = sum(2.0 * work(d) for d in ttir.dots if d.loop == ir_index)
    per_iteration = flop / (ttgir.num_warps * per_dpas)
    return max(1.0, own / per_iteration) if per_iteration else 1.0
