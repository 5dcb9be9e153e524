"""IR of which only the compile is known: what hangs on a launch is left out, never guessed.

The grid of such a launch is ANY_GRID, so whatever the readers prove holds for every grid. What
they would compute with it as a number is taken away here.
"""

from __future__ import annotations

from typing import Any

from xesmith.evidence.record import Loop, Ttgir, Ttir
from xesmith.evidence.ttgir import read_ttgir
from xesmith.evidence.ttir import read_ttir
from xesmith.ghost.launch import ANY_GRID, Launch

#: under another name the readers know nothing of its result
_PROGRAMS, _NOT_KNOWN = '"tt.get_num_programs"', '"xesmith.not_known"'


def ttir(text: str, launch: Launch) -> Ttir:
    """`read_ttir`, without sums and means over the grid where that is not known."""
    if launch.grid != ANY_GRID:
        return read_ttir(text, launch)
    read = read_ttir(text.replace(_PROGRAMS, _NOT_KNOWN), launch)
    # Where every loop runs equally often in all programs, one program's sum is every one's.
    same = all(loop.trip_count is not None for loop in read.loops if loop.reached)
    unknown = dict.fromkeys(
        () if same else ("flop_per_program", "bytes_loaded_per_program", "bytes_stored_per_program")
    )
    changes = {**unknown, "loops": _loops(read.loops), "program_groups": ()}
    return read.model_copy(update=changes)


def ttgir(text: str, launch: Launch, metadata: dict[str, Any]) -> Ttgir:
    """`read_ttgir`, likewise."""
    if launch.grid != ANY_GRID:
        return read_ttgir(text, launch, metadata)
    read = read_ttgir(text.replace(_PROGRAMS, _NOT_KNOWN), launch, metadata)
    return read.model_copy(update={"loops": _loops(read.loops)})


def _loops(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Of a count that differs among programs only its expression is left."""
    return tuple(
        loop.model_copy(
            update={"trip_mean": None if loop.trip_count is None else float(loop.trip_count)}
        )
        for loop in loops
    )
