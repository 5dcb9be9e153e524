"""A run against the roof of its device, as an SVG: FLOP per byte across, FLOP per second up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from xesmith.device import Device
from xesmith.timing.physics import peak_flop_per_second

_WIDTH, _HEIGHT = 960, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 260, 50, 60
_COLOURS = {
    "kernel": "#0068b5",
    "baseline": "#8a8a8a",
    "eager": "#d9730d",
    "compile": "#2e8540",
}
_ABOVE = "#c00000"


@dataclass(frozen=True)
class Point:
    """One program at one shape. `above` the roof is an error of the measurement."""

    label: str
    program: str
    flop_per_byte: float
    flop_per_second: float
    above: bool


def points(result: Mapping[str, Any]) -> list[Point]:
    """The points of a record of `xesmith bench`; a shape without a FLOP count has none."""
    found: list[Point] = []
    for outcome in result["outcomes"]:
        shape, measurement = outcome["shape"], outcome["measurement"]
        if measurement is None or not shape["flop"]:
            continue
        about = measurement["reference"]
        moved = shape["mem_bytes"] or (
            about["input_bytes"] + about["weight_bytes"] + about["output_bytes"]
        )
        for name, timed in measurement["programs"].items():
            seconds = timed["median_seconds"]
            if seconds is None or timed["failure"] or name not in _COLOURS:
                continue
            share = outcome["fraction_of_roof"].get(name, 0.0)
            found.append(
                Point(
                    f"{outcome['problem']} {shape['name']}",
                    name,
                    shape["flop"] / moved,
                    shape["flop"] / seconds,
                    share > 1,
                )
            )
    return found


def measured_clock_hz(result: Mapping[str, Any]) -> float | None:
    """The highest clock that was seen while programs ran; None where none was read."""
    found = [
        clock
        for outcome in result["outcomes"]
        if outcome["measurement"] is not None
        and (clock := outcome["measurement"]["clocks"].get("core_clock_hz"))
    ]
    return max(found, default=None)


def svg(result: Mapping[str, Any], device: Device) -> str:
    """The plot.

    Raises:
        ValueError: no point, or the device file lacks what makes a roof.
    """
    shown = points(result)
    clock = measured_clock_hz(result) or device.clock_hz
    peak = None if clock is None else peak_flop_per_second(device, "float16", clock)
    bandwidth = device.memory_bytes_per_second
    if not shown or peak is None or bandwidth is None:
        raise ValueError("nothing to plot: no point with a FLOP count, or no known roof")
    scale = _Scale.of(shown, peak, bandwidth)
    ridge = peak / bandwidth
    roof = [
        (scale.low_x, scale.low_x * bandwidth),
        (ridge, peak),
        (max(scale.high_x, ridge), peak),
    ]
    line = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in roof)
    seen = "measured clock" if measured_clock_hz(result) else "clock of the device file"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(device.title)}: '
        f"{peak / 1e12:.1f} TFLOP/s fp16 at {(clock or 0) / 1e9:.2f} GHz ({seen}), "
        f"{bandwidth / 1e9:.0f} GB/s</text>",
        *scale.axes(),
        f'<polyline points="{line}" fill="none" stroke="black" stroke-width="1.5"/>',
    ]
    for point in shown:
        colour = _ABOVE if point.above else _COLOURS[point.program]
        x, y = scale.x(point.flop_per_byte), scale.y(point.flop_per_second)
        text = f"{point.label}, {point.program}: {point.flop_per_second / 1e12:.2f} TFLOP/s"
        text += ", above the roof: an error" if point.above else ""
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
            f"<title>{escape(text)}</title></circle>"
        )
        if point.program == "kernel":
            parts.append(f'<text x="{x + 7:.1f}" y="{y + 4:.1f}">{escape(point.label)}</text>')
    for row, (name, colour) in enumerate(_COLOURS.items()):
        y = _TOP + 16 * row
        parts.append(f'<circle cx="{_WIDTH - 110}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_WIDTH - 100}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class _Scale:
    """Logarithmic axes that hold all points and the ridge."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    @classmethod
    def of(cls, shown: Sequence[Point], peak: float, bandwidth: float) -> _Scale:
        xs = [point.flop_per_byte for point in shown] + [peak / bandwidth]
        ys = [point.flop_per_second for point in shown] + [peak]
        return cls(
            *(10 ** math.floor(math.log10(min(xs))), 10 ** math.ceil(math.log10(max(xs) * 1.01))),
            *(10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys) * 1.01))),
        )

    def x(self, value: float) -> float:
        share = math.log10(value / self.low_x) / math.log10(self.high_x / self.low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = math.log10(value / self.low_y) / math.log10(self.high_y / self.low_y)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self) -> list[str]:
        found: list[str] = []
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for x in _decades(self.low_x, self.high_x):
            at = self.x(x)
            found.append(f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="#ddd"/>')
            found.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>')
        for y in _decades(self.low_y, self.high_y):
            at = self.y(y)
            found.append(f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="#ddd"/>')
            found.append(
                f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y / 1e12:g}</text>'
            )
        middle = (_LEFT + right) / 2
        found.append(
            f'<text x="{middle}" y="{_HEIGHT - 16}" text-anchor="middle">FLOP per byte</text>'
        )
        found.append(f'<text x="{_LEFT}" y="{_TOP - 8}" text-anchor="end">TFLOP/s</text>')
        return found


def _decades(low: float, high: float) -> list[float]:
    return [10.0**k for k in range(round(math.log10(low)), round(math.log10(high)) + 1)]
