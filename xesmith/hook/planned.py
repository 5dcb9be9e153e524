"""A plan of passes in a user's process: launches led to stand-ins, entries found for compiles.

What an entry takes for granted, values of arguments and the grid, only a launch knows; Triton
compiles for all values. So where an entry does so, launches that it is for get a jit function of
their own (`xesmith.lowering.planned`). An entry for all launches is applied to every compile of
its kernel, also where no launch goes through Triton's own (torch.compile's).

Runs in users' processes: standard library and Triton only.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from xesmith.ghost.foreign import foreign
from xesmith.hook.transform import Transform
from xesmith.lowering.planned import (
    apply_pipeline,
    arguments_of,
    entry_of,
    grid_of,
    stand_in,
    switched,
)
from xesmith.pass_plan import PassEntry, PassPlan
from xesmith.passes.apply import pass_command
from xesmith.passes.plugin import passes_key

#: the environment is the whole process's: no two compiles at a time where switches are set
_environment_lock = threading.RLock()


def renew_locks() -> None:
    """For a forked child: a lock may be held by a thread that it does not have."""
    global _environment_lock
    _environment_lock = threading.RLock()


class PlannedPasses:
    """What a plan means for the kernels of this process."""

    def __init__(self, plan: PassPlan) -> None:
        self._general = PassPlan(tuple(e for e in plan.entries if e.is_for_all_launches))
        self._plan = plan
        self._looked_at = {e.kernel for e in plan.entries if not e.is_for_all_launches}
        self._passes_key = passes_key()
        self._command = pass_command()  # now: the plugin's path may be relative
        self.has_switches = any(entry.switches for entry in plan.entries)

    @property
    def looks_at_launches(self) -> bool:
        return bool(self._looked_at)

    @property
    def key(self) -> str | None:
        """Part of every cache's key: what is done to compiles whatever their launch. None where
        nothing is."""
        if not self._general:
            return None
        text = "".join(entry.key for entry in self._general.entries) + self._passes_key
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def led(
        self, function: Any, args: Sequence[Any], keywords: Mapping[str, Any], grid: Any
    ) -> tuple[Any, Any]:
        """The jit function and the grid that a launch of `function` is to use."""
        if function.__name__ not in self._looked_at:
            return function, grid
        values = arguments_of(function, args, keywords)
        shape = grid_of(grid, values)
        if shape is None:
            return function, grid
        backend = foreign("triton.runtime.driver").driver.active.get_current_target().backend
        entry = self._plan.find(function.__name__, backend, values, shape, function.src)
        if entry is None or entry.is_for_all_launches:
            return function, shape
        return stand_in(function, entry, self._passes_key), shape

    def entry(self, src: Any, backend: str) -> PassEntry | None:
        """The entry for a compile."""
        function = getattr(src, "fn", None)
        found = entry_of(function)
        if found is not None or function is None:
            return found
        return self._general.find(function.__name__, backend, {}, (1, 1, 1), function.src)

    def transform(self, entry: PassEntry, signature: Mapping[str, str]) -> Transform:
        apply = partial(apply_pipeline, self._command, entry, signature)
        return Transform(apply, f"{entry.key}{self._passes_key}"[:64], entry.pipeline)

    def switching(self, entry: PassEntry | None) -> AbstractContextManager[None]:
        """The environment of a stage of a compile, which is no other compile's."""
        if not self.has_switches:
            return contextlib.nullcontext()
        return _alone_with({} if entry is None else entry.switches)


@contextlib.contextmanager
def _alone_with(switches: Mapping[str, str]) -> Generator[None]:
    with _environment_lock, switched(switches):
        yield
