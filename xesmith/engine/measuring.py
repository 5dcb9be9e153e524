"""The noun Measurer: times a problem's candidates on the device at hand, where it is the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from xesmith.cascade.correctness import Reference
from xesmith.cascade.performance import judge_measured
from xesmith.cascade.record import LevelResult
from xesmith.device import Device
from xesmith.engine.entries import entry_of
from xesmith.engine.problem import Problem
from xesmith.errors import ToolchainError
from xesmith.timing.contest import Entry, Options, hold, race
from xesmith.timing.run_bundle import device_at_hand, open_timer
from xesmith.timing.timer import Timer, TimingError

#: what the drivers of each kind put into /dev
_NODES = {"cuda": ("nvidia[0-9]*",), "xpu": ("dri/renderD*", "dxg")}


class Measurer:
    """A context manager; `find` makes it."""

    def __init__(self, timer: Timer, device: Device) -> None:
        self._timer = timer
        self._device = device

    @classmethod
    def find(
        cls, python: Path, device: Device, say: Callable[[str], None], root: Path = Path("/dev")
    ) -> Measurer | None:
        """None where this machine does not have that device: times are then predicted."""
        if not any(any(root.glob(pattern)) for pattern in _NODES[device.kind]):
            return None
        try:
            timer = open_timer(python)
        except (ToolchainError, TimingError) as error:
            say(f"the device at hand cannot be used, so times are predicted: {error}")
            return None
        found = device_at_hand(timer.device)
        if found is None or found.name != device.name:
            say(f"the device at hand is {timer.device['name']}, so times are predicted")
            timer.close()
            return None
        say(f"times are measured on {timer.device['name']}")
        return cls(timer, device)

    def judge(
        self,
        problem: Problem,
        reference: Reference,
        text: str,
        before: str,
        *,
        must_improve: bool,
        say: Callable[[str], None],
    ) -> LevelResult:
        """The level "performance" of `text` against `before`, at every shape of the problem."""
        entry = _entry(problem, reference, text, before)
        options = Options(against=("baseline",))
        outcomes = [
            hold(self._timer, self._device, entry, shape, options, say) for shape in entry.shapes
        ]
        return judge_measured(outcomes, must_improve=must_improve)

    def race(
        self,
        problem: Problem,
        reference: Reference,
        texts: Sequence[str],
        before: str,
        say: Callable[[str], None],
    ) -> list[float]:
        """Seconds of each text from a short race, which orders them and judges none."""
        return race(self._timer, _entry(problem, reference, before, before), texts, say)

    def close(self) -> None:
        self._timer.close()


def _entry(problem: Problem, reference: Reference, text: str, before: str) -> Entry:
    source = reference.program.source if reference.kind == "pytorch" else None
    return entry_of(problem, kernel=text, baseline=before, reference=source)
