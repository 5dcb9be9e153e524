"""The device that programs are timed on, behind one face: cuda, xpu, or this machine's CPU.

torch.accelerator and torch.Event serve both kinds of GPU with the same lines. Every function of a
clock or an event is taken when the Accelerator is made, which is before a program is imported, so
a program that patches torch patches what nobody asks. On a CPU, which serves tests and machines
without a GPU, a clock stands in for events; a result names its device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch

from xesmith.timing.kinds import Kind


class Mark(Protocol):
    """A point in the device's queue."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this mark to `end`."""
        ...


class _ClockMark:
    """The CPU's stand-in for an event."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = 0.0

    def record(self) -> None:
        self._at = self._clock()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: _ClockMark) -> float:
        return 1e3 * (end._at - self._at)


@dataclass(frozen=True)
class Accelerator:
    """One device, with the functions that time it."""

    kind: Kind
    device: torch.device
    synchronize: Callable[[], None]  # waits for every queue of the device
    mark: Callable[[], Mark]
    clock: Callable[[], float]  # of the host, in seconds

    @property
    def has_queue(self) -> bool:
        """Whether calls return before the device has done their work."""
        return self.kind != "cpu"

    def flush_buffer(self, size_bytes: int) -> torch.Tensor:
        return torch.zeros(max(1, size_bytes // 4), dtype=torch.int32, device=self.device)


def kind_at_hand() -> Kind:
    """The kind of this machine's GPU, "cpu" where torch sees none.

    Does not open the device: a process that has done so can no longer fork.
    """
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return cast("Kind", found.type) if found and found.type in ("cuda", "xpu") else "cpu"


def open_accelerator(kind: Kind) -> Accelerator:
    """Opens the device of that kind in this process."""
    clock = time.perf_counter
    if kind == "cpu":
        return Accelerator(
            "cpu", torch.device("cpu"), lambda: None, lambda: _ClockMark(clock), clock
        )
    event = cast(Any, torch.Event)
    wait = cast("Callable[[], None]", torch.accelerator.synchronize)
    return Accelerator(
        kind,
        torch.device(kind, 0),
        wait,
        lambda: cast(Mark, event(device=kind, enable_timing=True)),
        clock,
    )
