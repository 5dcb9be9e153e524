"""What timed rounds say: the ratio of two programs with its interval, and the verdict.

A *round* times each program twice, in an order and then in its reverse (A B B A), so a drift that
is linear within the round cancels in the round's log ratio. The estimate is the median of the
rounds' log ratios; its interval comes from resampling whole rounds. All times are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Call = Literal["FASTER", "SLOWER", "SAME", "UNCLEAR"]
Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 4000
#: relative change below which two times count as one
SMALLEST_EFFECT = 0.02
#: fewer rounds than this say nothing of their spread
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Ratio:
    """How many times as fast a candidate is as its base: base time / candidate time.

    `low` and `high` bound it with `confidence`; 1.25 is a quarter faster.
    """

    value: float
    low: float
    high: float
    rounds: int
    confidence: float = CONFIDENCE

    @property
    def noise(self) -> float:
        """The larger distance of an end of the interval from 1, as a relative change."""
        return max(abs(math.log(self.low)), abs(math.log(self.high)))

    def to_json(self) -> dict[str, Any]:
        return {
            "ratio": self.value,
            "low": self.low,
            "high": self.high,
            "rounds": self.rounds,
            "confidence": self.confidence,
        }


def ratio_of(
    base: Sequence[Sequence[float]],
    candidate: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """The ratio of two programs' times, round by round.

    Args:
        base, candidate: per round its times, of the same rounds.
        seed: of the resampling; equal data and seed give equal intervals.

    Raises:
        ValueError: unequal or too few rounds, or a time that is no positive number.
    """
    logs = _round_logs(base) - _round_logs(candidate)
    draws = np.random.default_rng(seed).integers(0, len(logs), (RESAMPLES, len(logs)))
    medians = np.median(logs[draws], axis=1)
    tail = 50 * (1 - confidence)
    low, high = _percentiles(medians, tail, 100 - tail)
    return Ratio(
        value=math.exp(float(np.median(logs))),
        low=math.exp(low),
        high=math.exp(high),
        rounds=len(logs),
        confidence=confidence,
    )


def _percentiles(values: Floats, *wanted: float) -> list[float]:
    return [float(np.percentile(values, one)) for one in wanted]


def _round_logs(rounds: Sequence[Sequence[float]]) -> Floats:
    if len(rounds) < LEAST_ROUNDS:
        raise ValueError(f"{len(rounds)} rounds; {LEAST_ROUNDS} are the least")
    times = np.asarray(rounds, dtype=np.float64)
    if times.ndim != 2 or not (np.isfinite(times).all() and (times > 0).all()):
        raise ValueError("a round holds positive times, as many as any other")
    return np.log(times).mean(axis=1)


def call(
    ratio: Ratio, *, smallest_effect: float = SMALLEST_EFFECT, noise_floor: float = 0.0
) -> Call:
    """The verdict on a ratio.

    SAME where the whole interval lies within the smallest effect that matters, or within what two
    runs of one program differ by on this machine (`noise_floor`, an A/A run's). Else FASTER or
    SLOWER where the whole interval lies on one side of 1. Else UNCLEAR.
    """
    band = math.log1p(max(smallest_effect, noise_floor))
    low, high = math.log(ratio.low), math.log(ratio.high)
    if -band <= low and high <= band:
        return "SAME"
    if low > 0:
        return "FASTER"
    if high < 0:
        return "SLOWER"
    return "UNCLEAR"


def geometric_mean(values: Sequence[float]) -> float:
    """Raises ValueError where there is no value, or one that is not positive."""
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean is of positive values")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def median(values: Sequence[float]) -> float:
    """Raises ValueError where there is no value."""
    if not values:
        raise ValueError("no value has no median")
    return float(np.median(np.asarray(values, dtype=np.float64)))


def relative_deviation(times: Sequence[float]) -> float:
    """Relative standard deviation of one time, from quartiles: outliers count little."""
    low, middle, high = _percentiles(np.asarray(times, dtype=np.float64), 25, 50, 75)
    return (high - low) / 1.349 / middle


def relative_error(times: Sequence[float]) -> float:
    """Relative standard error of the median of `times`."""
    return 1.2533 * relative_deviation(times) / math.sqrt(len(times))


def entropy(times: Sequence[float], resolution: float = 0.005) -> float:
    """Shannon entropy in bits of `times`, in bins of `resolution` of their median."""
    values = np.asarray(times, dtype=np.float64)
    bins = np.round(values / (float(np.median(values)) * resolution)).astype(np.int64)
    _, counts = np.unique(bins, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


@dataclass(frozen=True)
class StopRule:
    """When enough rounds have been timed. Seconds are wall-clock seconds of the timed rounds.

    "error": the relative standard error of each program's median is at most `goal`. "entropy": the
    entropy of each program's times changed by less than 2 % over the last third of the rounds, so
    more of them would show nothing new. Neither looks at the ratio, so a stop favours no verdict.
    """

    by: Literal["error", "entropy"] = "error"
    goal: float = 0.0025
    least_rounds: int = 12
    most_rounds: int = 60
    least_seconds: float = 0.0
    most_seconds: float = 20.0

    def reason(self, rounds: Sequence[Sequence[Sequence[float]]], seconds: float) -> str | None:
        """Why to stop, None to go on. `rounds`: for each program its rounds of times."""
        done = min(map(len, rounds), default=0)
        if seconds >= self.most_seconds and done >= LEAST_ROUNDS:
            return "most_seconds"
        if done >= self.most_rounds:
            return "most_rounds"
        if done < self.least_rounds or seconds < self.least_seconds:
            return None
        times = [[t for one in program for t in one] for program in rounds]
        if self.by == "error":
            return "goal" if max(map(relative_error, times)) <= self.goal else None
        return "goal" if all(map(_settled, times)) else None


def _settled(times: Sequence[float]) -> bool:
    before, now = entropy(times[: 2 * len(times) // 3]), entropy(times)
    return abs(now - before) <= 0.02 * max(now, before, 1.0)
