"""What runs at a real shape, and whether a checked case has run it too.

A small shape may cover a real one (see `coverage`) and yet leave most of a kernel alone: with few
tiles each program of a persistent kernel takes one, so what goes wrong from one tile to the next
does not show, and a branch for large sizes is never entered. So each line that reads, writes or
multiplies at the real shape must have run, and each loop that goes round more than once there
must have gone round more than once, in a case that covers the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xesmith.cascade.examine import Examination
from xesmith.evidence.record import Evidence, Loop, Ttir


@dataclass(frozen=True, order=True)
class Need:
    """A line of a launched kernel (or of a function that it calls) that must have run.

    `rounds`: of the loop at that line, in one run of it; 0 where there is no loop.
    """

    kernel: str
    line: int
    rounds: int = 0

    def __str__(self) -> str:
        what = "the loop" if self.rounds else "the access"
        much = " more than once" if self.rounds > 1 else ""
        return f"line {self.line}: {what} of {self.kernel} runs{much}"


def needs(examination: Examination) -> frozenset[Need]:
    """What one program of the grid at least does with the captured arguments."""
    return frozenset(need for item in examination.evidence for need in _needs(item))


def _needs(evidence: Evidence) -> Iterator[Need]:
    ttir, file = evidence.ttir, evidence.launch["file"]
    if ttir is None:
        return
    for fact in (*ttir.accesses, *ttir.dots):
        if fact.reached and fact.site.line is not None and fact.site.file == file:
            yield Need(evidence.kernel, fact.site.line)
    for loop in ttir.loops:
        if loop.site.line is not None and loop.site.file == file and _repeats(loop, ttir):
            yield Need(evidence.kernel, loop.site.line, 2)


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
    ran: set[tuple[str, int]] = set()
    rounds: dict[tuple[str, int], int] = {}
    for trace in traces:
        ran |= {(k, line) for k, first, last in trace["ran"] for line in range(first, last + 1)}
        for kernel, first, last, most in trace["rounds"]:
            for line in range(first, last + 1):
                rounds[kernel, line] = max(most, rounds.get((kernel, line), 0))
    return tuple(
        need
        for need in sorted(wanted, key=lambda need: (need.line, need.kernel, need.rounds))
        if (need.kernel, need.line) not in ran
        or rounds.get((need.kernel, need.line), 0) < need.rounds
    )
