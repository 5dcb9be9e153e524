"""What runs at a real shape, and whether a checked case has run it too.

A small shape may cover a real one (see `coverage`) and yet leave most of a kernel alone: with few
tiles each program of a persistent kernel takes one, so what goes wrong from one tile to the next
does not show, and a branch for large sizes is never entered. So each line that loads or stores at
the real shape must have done so, and more than once in a program where it does so there; each loop
that goes round more than once there must have gone round more than once; both in a case that covers
the shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from xesmith.cascade.examine import Examination
from xesmith.evidence.record import Evidence, Loop, Ttir


@dataclass(frozen=True, order=True)
class Need:
    """What a launched kernel (or a function that it calls) must have done.

    `times`: 1, or 2 for more than once. Of an access, in one program; of a loop, rounds in one
    run of it.
    """

    kernel: str
    line: int
    what: Literal["access", "loop"]
    times: int

    def __str__(self) -> str:
        much = " more than once" if self.times > 1 else ""
        return f"line {self.line}: the {self.what} of '{self.kernel}' runs{much}"


def needs(examination: Examination) -> frozenset[Need]:
    """What one program of the grid at least does with the captured arguments."""
    return frozenset(need for item in examination.evidence for need in _needs(item))


def _needs(evidence: Evidence) -> Iterator[Need]:
    ttir, file = evidence.ttir, evidence.launch["file"]
    if ttir is None:
        return
    # An unrolled loop leaves copies of what is in it. Where the compiler makes two versions of a
    # loop, of which one runs, they differ in their masks.
    copies: dict[tuple[int, int | None, bool, str], float] = defaultdict(float)
    for access in ttir.accesses:
        line = access.site.line
        if access.op == "prefetch" or not access.reached:
            continue
        if line is not None and access.site.file == file:
            key = (line, access.site.column, access.masked, access.op)
            copies[key] += _rounds(access.loop, ttir)
    for (line, *_), times in copies.items():
        if times:
            yield Need(evidence.kernel, line, "access", 2 if times > 1 else 1)
    for loop in ttir.loops:
        if loop.site.line is not None and loop.site.file == file and _repeats(loop, ttir):
            yield Need(evidence.kernel, loop.site.line, "loop", 2)


def _rounds(loop: int | None, ttir: Ttir) -> float:
    """How often a loop's body runs in a program, on the mean; an unknown count is 1."""
    times = 1.0
    while loop is not None:
        around = ttir.loops[loop]
        trips = around.trip_count if around.trip_count is not None else around.trip_mean
        times *= 1.0 if trips is None else trips
        loop = around.parent
    return times


def _repeats(loop: Loop, ttir: Ttir) -> bool:
    """Whether a loop goes round more than once in some program, as far as that is known.

    One of unknown length counts where it moves or multiplies data: a program that waits for
    another one goes round without.
    """
    if not loop.reached:
        return False
    trips = loop.trip_count if loop.trip_count is not None else loop.trip_mean
    if trips is not None:
        return trips > 1
    inside = {loop.index}
    for other in ttir.loops:  # a loop stands behind the one around it
        if other.parent in inside:
            inside.add(other.index)
    return any(fact.loop in inside for fact in (*ttir.accesses, *ttir.dots))


def unmet(wanted: Iterable[Need], traces: Iterable[Mapping[str, Any]]) -> tuple[Need, ...]:
    """Of `wanted`, what none of the traces (`Trace.to_json`) has, in the order of lines."""
    most: dict[tuple[str, str, int], int] = defaultdict(int)
    for trace in traces:
        for what, name in (("access", "accessed"), ("loop", "rounds")):
            for kernel, first, last, times in trace[name]:
                for line in range(first, last + 1):
                    key = (what, kernel, line)
                    most[key] = max(most[key], times)
    return tuple(
        need
        for need in sorted(wanted, key=lambda need: (need.line, need))
        if most[need.what, need.kernel, need.line] < need.times
    )
