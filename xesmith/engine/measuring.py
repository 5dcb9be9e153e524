"""The noun Measurer: times a problem's candidates on the device at hand, where it is the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from xesmith.cascade.correctness import Case, Reference
from xesmith.cascade.device_check import PRELOAD, DeviceCase, DeviceResult, check_on_device
from xesmith.cascade.performance import judge_measured
from xesmith.cascade.record import LevelResult
from xesmith.device import Device
from xesmith.engine.entries import entry_of
from xesmith.engine.problem import AS_WRITTEN, Problem
from xesmith.errors import InputKernelError, ToolchainError
from xesmith.scratch import ScratchFolder
from xesmith.timing.contest import Entry, Options, hold, race
from xesmith.timing.run_bundle import device_at_hand, open_timer
from xesmith.timing.timer import Timer, TimingError
from xesmith.worker.client import WorkerPool

#: what the drivers of each kind put into /dev
_NODES = {"cuda": ("nvidia[0-9]*",), "xpu": ("dri/renderD*", "dxg")}


class Measurer:
    """A context manager; `find` makes it."""

    def __init__(self, timer: Timer, device: Device, checks: WorkerPool) -> None:
        self._timer = timer
        self._device = device
        self._checks = checks
        self._scratch = ScratchFolder("on-device")
        self._checked = 0
        self._originals: dict[str, DeviceResult] = {}

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
        return cls(timer, device, WorkerPool(python, "check", preload=PRELOAD, parallel=2))

    def check(
        self,
        problem: Problem,
        reference: Reference,
        text: str,
        cases: Sequence[Case],
        say: Callable[[str], None],
    ) -> LevelResult:
        """The level "correctness" of `text` on the device: at every shape of the problem, and in
        further cases. What the problem's own kernel gets wrong with odd values is no fault.

        Raises:
            InputKernelError: the problem's own kernel is wrong there with others, or the
                reference fails.
        """
        original = problem.source
        if original not in self._originals:
            say(f"checking the kernel as given on {self._device.title}")
            found = self._run(problem, reference, original, cases, None)
            if found.faults_as_used:
                raise InputKernelError(
                    f"the kernel is wrong on {self._device.title} before anything is changed: "
                    f"{found.faults_as_used[0].text}",
                    where=str(problem.path),
                    remedy="mend the kernel; only one that is right there can be measured against",
                )
            self._originals[original] = found
        say(f"checking the results on {self._device.title}")
        result = self._run(problem, reference, text, cases, self._originals[original])
        facts = {
            "device": {
                "name": self._device.name,
                "calls": len(result.runs),
                "cases": [case.name for case in _device_cases(problem, reference, text, cases)],
                "confinement": [str(measure) for measure in result.measures],
                "hashes": result.hashes,
            }
        }
        messages = tuple(f"on {self._device.title}: {fault.text}" for fault in result.faults)
        return LevelResult("correctness", "refused" if messages else "passed", messages, facts)

    def _run(
        self,
        problem: Problem,
        reference: Reference,
        text: str,
        cases: Sequence[Case],
        baseline: DeviceResult | None,
    ) -> DeviceResult:
        self._checked += 1
        folder = self._scratch.path / str(self._checked)
        folder.mkdir()
        try:
            return check_on_device(
                self._checks,
                self._timer.kind,
                _device_cases(problem, reference, text, cases),
                folder,
                baseline=baseline,
            )
        except RuntimeError as error:  # of the reference
            raise InputKernelError(
                f"the reference cannot be computed on {self._device.title}: {error}",
                where=str(problem.path),
                remedy="a reference that runs there, or --target another device",
            ) from error

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
        self._checks.close()
        self._scratch.close()


def _entry(problem: Problem, reference: Reference, text: str, before: str) -> Entry:
    source = reference.program.source if reference.kind == "pytorch" else None
    return entry_of(problem, kernel=text, baseline=before, reference=source)


def _device_cases(
    problem: Problem, reference: Reference, text: str, cases: Sequence[Case]
) -> list[DeviceCase]:
    """Every shape of the problem as it is, then `cases`."""
    real = [Case.of(shape) for shape in problem.shapes] or [Case(AS_WRITTEN)]
    program = problem.program(text)
    return [
        DeviceCase(
            case.name,
            case.applied(program),
            case.applied(reference.program),
            rtol=case.rtol,
            atol=case.atol,
            float64=reference.kind == "pytorch",
        )
        for case in dict.fromkeys([*real, *cases])
    ]
