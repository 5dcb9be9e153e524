"""Synthetic times whose true ratio is known: what the interval and the verdict make of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from xesmith.timing.statistics import (
    Ratio,
    StopRule,
    call,
    entropy,
    geometric_mean,
    median,
    ratio_of,
    relative_deviation,
    relative_error,
)

ROUNDS = 15
NOISE = 0.008  # what a single call on a GPU scatters by


def rounds_of(seconds, generator, *, noise=NOISE, rounds=ROUNDS):
    return seconds * np.exp(noise * generator.standard_normal((rounds, 2)))


def test_a_ratio_without_noise_is_exact():
    ratio = ratio_of([[2.0, 2.0]] * 5, [[1.6, 1.6]] * 5)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert ratio.rounds == 5


def test_a_linear_drift_cancels_in_every_round():
    """A B B A at times that grow by 1 % a call: the two middle calls are B's."""
    base, candidate = [], []
    for number in range(10):
        steps = [math.exp(0.01 * (4 * number + k)) for k in range(4)]
        base.append([steps[0], steps[3]])
        candidate.append([steps[1], steps[2]])
    ratio = ratio_of(base, candidate)
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1, 1, 1))


def test_the_interval_holds_the_true_ratio_as_often_as_it_says():
    generator = np.random.default_rng(1)
    held = 0
    for seed in range(200):
        base = rounds_of(1.03, generator)
        ratio = ratio_of(base.tolist(), rounds_of(1.0, generator).tolist(), seed=seed)
        held += ratio.low <= 1.03 <= ratio.high
    assert 0.90 * 200 <= held <= 200


def test_the_interval_holds_where_some_calls_take_much_longer():
    generator = np.random.default_rng(2)
    held = 0
    for seed in range(100):
        base, candidate = rounds_of(1.0, generator), rounds_of(1.0, generator)
        for times in (base, candidate):
            times[generator.random(times.shape) < 0.1] *= 1.5
        ratio = ratio_of(base.tolist(), candidate.tolist(), seed=seed)
        held += ratio.low <= 1 <= ratio.high
    assert held >= 90


def test_the_same_program_twice_is_called_same():
    generator = np.random.default_rng(3)
    calls = [
        call(ratio_of(rounds_of(1, generator).tolist(), rounds_of(1, generator).tolist()))
        for _ in range(100)
    ]
    assert calls.count("SAME") >= 95


@pytest.mark.parametrize(("change", "called"), [(1.03, "SLOWER"), (1 / 1.03, "FASTER")])
def test_three_percent_are_seen(change, called):
    generator = np.random.default_rng(4)
    calls = [
        call(ratio_of(rounds_of(1, generator).tolist(), rounds_of(change, generator).tolist()))
        for _ in range(100)
    ]
    assert calls.count(called) >= 95


def test_noise_makes_it_unclear_and_never_the_other_way_round():
    generator = np.random.default_rng(5)
    calls = [
        call(
            ratio_of(
                rounds_of(1, generator, noise=0.2).tolist(),
                rounds_of(1.03, generator, noise=0.2).tolist(),
            )
        )
        for _ in range(50)
    ]
    assert calls.count("UNCLEAR") >= 40
    assert calls.count("FASTER") <= 3


@pytest.mark.parametrize(
    ("low", "high", "called"),
    [
        (0.99, 1.01, "SAME"),
        (1.001, 1.019, "SAME"),  # above 1, and too little to matter
        (1.001, 1.05, "FASTER"),
        (1.03, 1.05, "FASTER"),
        (0.95, 0.97, "SLOWER"),
        (0.95, 0.999, "SLOWER"),
        (0.99, 1.05, "UNCLEAR"),
        (0.9, 1.1, "UNCLEAR"),
    ],
)
def test_the_verdict_of_an_interval(low, high, called):
    assert call(Ratio(math.sqrt(low * high), low, high, 15)) == called


def test_a_noisy_machine_widens_what_counts_as_same():
    ratio = Ratio(1.04, 1.03, 1.05, 15)
    assert call(ratio) == "FASTER"
    assert call(ratio, noise_floor=0.06) == "SAME"
    assert call(ratio, smallest_effect=0.055) == "SAME"
    assert Ratio(1.0, 0.98, 1.01, 15).noise == pytest.approx(-math.log(0.98))


def test_equal_data_and_seed_give_equal_intervals():
    generator = np.random.default_rng(6)
    base, other = rounds_of(1, generator).tolist(), rounds_of(1, generator).tolist()
    assert ratio_of(base, other, seed=7) == ratio_of(base, other, seed=7)


@pytest.mark.parametrize("bad", [[[1.0, 0.0]], [[1.0, -1.0]], [[1.0, math.nan]]])
def test_a_time_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        ratio_of(bad * 6, [[1.0, 1.0]] * 6)
    with pytest.raises(ValueError, match="4 rounds"):
        ratio_of([[1.0, 1.0]] * 4, [[1.0, 1.0]] * 4)


def test_spread_and_means_have_right_values():
    generator = np.random.default_rng(8)
    times = (1 + 0.01 * generator.standard_normal(20_000)).tolist()
    assert relative_deviation(times) == pytest.approx(0.01, rel=0.03)
    assert relative_error(times) == pytest.approx(0.01 * 1.2533 / math.sqrt(20_000), rel=0.03)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)
    assert median([3.0, 1.0, 2.0]) == 2
    assert entropy([1.0] * 8) == 0
    assert entropy([1.0, 2.0, 3.0, 4.0]) == pytest.approx(2)
    for function in (geometric_mean, median):
        with pytest.raises(ValueError, match=r"no|positive"):
            function([])


def test_rounds_end_at_the_goal_or_at_a_limit():
    quiet = [[[1.0, 1.001]] * 12]
    rule = StopRule(goal=0.005)
    assert rule.reason(quiet, 1.0) == "goal"
    assert rule.reason([[[1.0, 1.001]] * 11], 1.0) is None
    noisy = [[[1.0, 2.0]] * 12]
    assert rule.reason(noisy, 1.0) is None
    assert rule.reason(noisy, 20.0) == "most_seconds"
    assert rule.reason([[[1.0, 2.0]] * 60], 1.0) == "most_rounds"
    assert rule.reason([[[1.0, 2.0]] * 2], 99.0) is None  # too few to say anything
    assert StopRule(least_seconds=2.0, goal=0.005).reason(quiet, 1.0) is None
    by_entropy = StopRule(by="entropy")
    assert by_entropy.reason([[[1.0, 1.0]] * 12], 1.0) == "goal"
    growing = [[[1.0 + 0.1 * k, 1.05 + 0.1 * k] for k in range(12)]]
    assert by_entropy.reason(growing, 1.0) is None
