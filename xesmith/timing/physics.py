"""What a device can do at most: the time below which no program can be, and the roof above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from xesmith.device import Device


@dataclass(frozen=True)
class Work:
    """What a shape asks for. `flop` and `mem_bytes` are the spec's; None where it tells nothing.

    `input_bytes` counts inputs and weights. `dtype` is that of the spec's inputs.
    """

    flop: float | None
    mem_bytes: float | None
    input_bytes: int
    output_bytes: int
    dtype: str | None

    @property
    def bytes_moved(self) -> float:
        """The spec's count, else every input, weight and output once."""
        given = self.mem_bytes
        return float(self.input_bytes + self.output_bytes) if given is None else float(given)


@dataclass(frozen=True)
class Limit:
    """The least seconds a device needs, and what of it binds. Which fact is missing, if any."""

    seconds: float | None
    bound: Literal["memory", "compute"] | None
    why_not: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "bound": self.bound, "why_not": self.why_not}


def peak_flop_per_second(device: Device, dtype: str | None, clock_hz: float) -> float | None:
    """Dense peak for inputs of `dtype` at that clock; None where the device file does not tell.

    A product of float32 matrices may use TF32, at half the rate of float16; 8 bits run at twice it.
    """
    per_xve = device.fp16_dpas_flop_per_clock_per_xve
    if not device.xves or not per_xve:
        return None
    scale = {"float32": 0.5, "float64": 0.5}.get(dtype or "", 1.0)
    if dtype is not None and ("float8" in dtype or dtype in ("int8", "uint8")):
        scale = 2.0
    return device.xves * per_xve * scale * clock_hz


def floor(work: Work, device: Device) -> Limit:
    """Below this no time is possible, so one that is measured is a fault of the measurement.

    At the highest clock. Inputs come from memory, since caches are flushed; outputs may stay in
    the last-level cache until after the window, so only what exceeds it counts. `work.flop` must
    be what the program has to do: an algorithm that saves some may be below the spec's count.
    """
    stay = min(work.output_bytes, device.l2_bytes or work.output_bytes)
    moved = work.input_bytes + work.output_bytes - stay
    clock = device.boost_clock_hz or device.clock_hz
    return _limit(moved, work.flop, work.dtype, device, clock)


def roof(work: Work, device: Device, clock_hz: float | None) -> Limit:
    """The time at the roof of the clock that was measured, else of the device file's own.

    A roof of float32 arithmetic outside of matrix engines is lower; a fraction says so by itself.
    """
    clock = clock_hz or device.clock_hz
    return _limit(work.bytes_moved, work.flop, work.dtype, device, clock)


def _limit(
    moved_bytes: float,
    flop: float | None,
    dtype: str | None,
    device: Device,
    clock_hz: float | None,
) -> Limit:
    bandwidth = device.memory_bytes_per_second
    peak = None if clock_hz is None else peak_flop_per_second(device, dtype, clock_hz)
    if bandwidth is None or peak is None:
        lacking = "its memory bandwidth" if bandwidth is None else "its clock or matrix rate"
        return Limit(None, None, f"{lacking} is not known")
    by_memory, by_compute = moved_bytes / bandwidth, (flop or 0.0) / peak
    if by_compute > by_memory:
        return Limit(by_compute, "compute")
    return Limit(by_memory, "memory")
