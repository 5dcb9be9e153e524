"""Launches at sizes of our choosing, so that the wrapper's grid can be told from its values.

A spec has often one shape, with sizes that are equal: nothing there says whether a grid of 32
is M / 128 or N / 128. So the baseline is captured at each shape with one dim doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from xesmith.engine.problem import Problem
from xesmith.engine.session import Session
from xesmith.ghost.launch import Launch, Program

#: sizes up to this are feature switches or counts of heads more often than sizes of a problem
_SMALLEST_DOUBLED = 16


class Probes:
    """Captures the baseline's launches at changed sizes, once, when first asked."""

    def __init__(self, session: Session, problem: Problem) -> None:
        self._session = session
        self._problem = problem

    def launches(self, kernel: str) -> Sequence[Launch]:
        """Launches of `kernel` over all probes; a probe that fails counts for nothing."""
        return [launch for launch in self._all if launch.kernel == kernel]

    @cached_property
    def _all(self) -> list[Launch]:
        runs = self._session.lowerer.run_many(self._programs(), native=False)
        return [
            lowering.launch
            for run in runs
            if run.failure is None
            for lowering in run.lowerings
            if lowering.failure is None
        ]

    def _programs(self) -> list[Program]:
        spec, problem = self._problem.spec, self._problem
        if spec is None:
            return []
        shape = problem.shapes[0]
        doubled = [
            spec.resized(shape, {name: 2 * value})
            for name, value in shape.dims.items()
            if isinstance(value, int) and not isinstance(value, bool) and value > _SMALLEST_DOUBLED
        ]
        return [probe.program(problem.source, problem.path) for probe in doubled]
