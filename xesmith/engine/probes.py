"""Launches at sizes of our choosing, so that a grid can be told from its values.

A spec has often one shape, with sizes that are equal: nothing there says whether a grid of 32
is M / 128 or N / 128. So a program is captured at the first shape with one dim doubled: the
baseline, whose wrappers say the grids, or a draft whose launch plan says others.
"""

from __future__ import annotations

from collections.abc import Sequence

from xesmith.engine.problem import Problem
from xesmith.engine.session import Session
from xesmith.ghost.launch import Launch, Program

#: sizes up to this are feature switches or counts of heads more often than sizes of a problem
_SMALLEST_DOUBLED = 16


class Probes:
    """Captures programs' launches at changed sizes, each program once, when first asked."""

    def __init__(self, session: Session, problem: Problem) -> None:
        self._session = session
        self._problem = problem
        self._captured: dict[str, list[Launch]] = {}

    def launches(self, kernel: str, text: str | None = None) -> Sequence[Launch]:
        """Launches of `kernel` over all probes; a probe that fails counts for nothing.

        `text`: of the program; None is the baseline.
        """
        source = self._problem.source if text is None else text
        if source not in self._captured:
            self._captured[source] = self._capture(source)
        return [launch for launch in self._captured[source] if launch.kernel == kernel]

    def _capture(self, source: str) -> list[Launch]:
        runs = self._session.lowerer.run_many(self._programs(source), native=False)
        return [
            lowering.launch
            for run in runs
            if run.failure is None
            for lowering in run.lowerings
            if lowering.failure is None
        ]

    def _programs(self, source: str) -> list[Program]:
        spec, problem = self._problem.spec, self._problem
        if spec is None:
            return []
        shape = problem.shapes[0]
        doubled = [
            spec.resized(shape, {name: 2 * value})
            for name, value in shape.dims.items()
            if isinstance(value, int) and not isinstance(value, bool) and value > _SMALLEST_DOUBLED
        ]
        return [probe.program(source, problem.path) for probe in doubled]
