"""The noun Workbench: the session that all tools share, and the baselines judged in it."""

from __future__ import annotations

from collections.abc import Callable

from xesmith.cascade.correctness import Reference
from xesmith.device import load_device
from xesmith.engine.judge import Baseline, Judge
from xesmith.engine.problem import Problem
from xesmith.engine.session import Session

#: problems whose baselines are kept; one more forgets the oldest
KEPT_BASELINES = 8


class Workbench:
    """Opens a session when first asked for one; another target replaces it.

    Args:
        toolchain: name of the compiler; None takes the first that there is for a target.
        timeout_s: for a program at one shape and level.
    """

    def __init__(self, toolchain: str | None, timeout_s: float) -> None:
        self._toolchain = toolchain
        self._timeout_s = timeout_s
        self._session: Session | None = None
        self._baselines: list[tuple[Problem, Reference, Baseline]] = []

    def session(self, target: str) -> Session:
        """The session for a device.

        Raises what Session does.
        """
        name = load_device(target).name
        if self._session is None or self._session.device.name != name:
            self.close()
            self._session = Session(name, toolchain=self._toolchain, timeout_s=self._timeout_s)
        return self._session

    def judged(
        self, problem: Problem, reference: Reference, target: str, say: Callable[[str], None]
    ) -> tuple[Judge, Baseline]:
        """A judge for the problem, and its baseline, which is judged once.

        Raises:
            InputKernelError: the problem's own kernel fails.
        """
        judge = Judge(self.session(target), problem, reference, say)
        for known, by, baseline in self._baselines:
            if known == problem and by == reference:
                return judge, baseline
        baseline = judge.baseline()
        kept = self._baselines[1 - KEPT_BASELINES :]
        self._baselines = [*kept, (problem, reference, baseline)]
        return judge, baseline

    def close(self) -> None:
        """Ends the workers. The next call opens a session anew."""
        session, self._session = self._session, None
        self._baselines = []
        if session is not None:
            session.close()
