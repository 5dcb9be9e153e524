"""The protocol on a CPU: what is timed, and what is refused while it is timed."""

from __future__ import annotations

import pytest

from xesmith.ghost.launch import Program, TensorSpec
from xesmith.timing.contest import Entry, EntryShape, race
from xesmith.timing.programs import placed
from xesmith.timing.statistics import StopRule
from xesmith.timing.timer import (
    Contestant,
    Measurement,
    ReferenceProgram,
    Timed,
    Timer,
    TimingError,
    judge,
)

HEAD = """
import time
import torch, torch.nn as nn
kept = {}
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
    def forward(self, X):
"""
REFERENCE = "return X * self.weight"
PROGRAMS = {
    "right": REFERENCE,
    # A thousand times the work of the others: no noise of a shared machine reaches it.
    "slow": "end = time.perf_counter() + 0.02\n        while time.perf_counter() < end: pass\n"
    "        return X * self.weight",
    "wrong": "return X * self.weight * 1.01",
    "replays": "return kept.setdefault(tuple(X.shape), X * self.weight)",
    "changes its input": "X += 1\n        return (X - 1) * self.weight",
    "crashes": "import os; os._exit(3)",
    "lazy": "return type('T', (torch.Tensor,), {})(X * self.weight)",
}
INPUTS = (TensorSpec("X", (64, 32), "float32"),)


def program(forward):
    return Program(HEAD + f"        {forward}\n", "/p/kernel.py", inits=(32,), inputs=INPUTS)


@pytest.fixture(scope="module")
def timer(toolchain):
    with Timer(toolchain.python, kind="cpu", flush_bytes=1 << 20) as timer:
        yield timer


@pytest.fixture(scope="module")
def measured(timer) -> Measurement:
    contestants = [Contestant(name, program(text)) for name, text in PROGRAMS.items()]
    rule = StopRule(least_rounds=5, most_rounds=5)
    return timer.measure(contestants, ReferenceProgram(program(REFERENCE)), rule=rule, seed=1)


def test_every_call_of_a_right_program_is_checked(measured):
    right = measured.programs["right"]
    assert right.failure is None
    assert [len(one) for one in right.rounds] == [2] * 5
    assert right.checked == 2 * (2 + 5) + 5  # cold to begin with, cold and warm
    assert len(right.warm) == 5
    assert len(right.repeat) == 5
    assert right.error_over_allowed is not None
    assert right.error_over_allowed <= 1
    assert right.weights == "the same state_dict"
    assert right.starved == 0
    assert measured.stopped == "most_rounds"
    assert measured.reference["weight_bytes"] == 32 * 4
    assert measured.reference["input_bytes"] == 64 * 32 * 4
    assert measured.reference["precision"] == "float64"


def test_a_much_slower_program_is_called_slower_and_the_other_way_round_faster(measured):
    assert measured.programs["slow"].seconds > 0.02
    assert judge(measured, "right", "slow", smallest_effect=0.02).verdict == "SLOWER"
    assert judge(measured, "slow", "right", smallest_effect=0.02).verdict == "FASTER"


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("wrong", "wrong in a timed call: "),
        ("replays", "wrong in a timed call: "),
        ("changes its input", "input 0 was changed"),
        ("crashes", "it ended by exit code 3"),
        ("lazy", "TypeError: an output of type T, no plain tensor"),
    ],
)
def test_what_is_no_honest_program_has_no_time(measured, name, failure):
    timed = measured.programs[name]
    assert timed.failure is not None
    assert timed.failure.startswith(failure)
    judged = judge(measured, "right", name, smallest_effect=0.02)
    assert (judged.verdict, judged.ratio) == ("FAILED", None)
    assert failure in str(judged)


def test_a_measurement_outlives_json(measured):
    data = measured.to_json()
    again = Measurement.from_json(data)
    assert again.to_json() == data
    assert again.ratio("right", "slow") == measured.ratio("right", "slow")


def test_a_reference_that_fails_is_no_contestants_fault(timer):
    with pytest.raises(TimingError, match=r"ZeroDivisionError: .*\(line 10\)"):
        timer.measure([Contestant("a", program(REFERENCE))], ReferenceProgram(program("1 / 0")))


def test_one_that_hangs_while_it_is_timed_fails_alone_and_the_next_is_measured(toolchain):
    hangs = "kept[len(kept)] = 0\n        if len(kept) > 6: time.sleep(1000)\n        " + REFERENCE
    rule = StopRule(least_rounds=5, most_rounds=5)
    with Timer(toolchain.python, kind="cpu", flush_bytes=1 << 20, timeout_s=6) as timer:
        for forward, failure in ((hangs, "it was ended at its limit of time"), (REFERENCE, None)):
            measured = timer.measure(
                [Contestant("right", program(REFERENCE)), Contestant("other", program(forward))],
                ReferenceProgram(program(REFERENCE)),
                rule=rule,
            )
            assert measured.programs["other"].failure == failure
            assert len(measured.programs["right"].rounds) == 5


def test_two_programs_of_one_name_are_refused(timer):
    twice = [Contestant("a", program(REFERENCE))] * 2
    with pytest.raises(ValueError, match="one name"):
        timer.open(twice, ReferenceProgram(program(REFERENCE)))


def synthetic(base_repeat, repeat):
    def timed(name, seconds, one):
        return Timed(name, rounds=[[seconds, seconds]] * 6, repeat=[one] * 5)

    programs = {"base": timed("base", 100e-6, base_repeat), "c": timed("c", 50e-6, repeat)}
    return Measurement(programs, "goal", 1.0, 0, 0, {}, {})


@pytest.mark.parametrize(
    ("base_repeat", "repeat", "verdict"),
    [
        (100e-6, 60e-6, "FASTER"),
        # The device was busy as long as before, whatever the events say: work on another stream.
        (100e-6, 100e-6, "UNCLEAR"),
        # The base spends its time on the host, so its calls say nothing of the device.
        (300e-6, 310e-6, "FASTER"),
    ],
)
def test_events_that_the_timers_clock_contradicts_are_not_believed(base_repeat, repeat, verdict):
    judged = judge(synthetic(base_repeat, repeat), "base", "c", smallest_effect=0.02)
    assert judged.verdict == verdict
    assert ("timer's clock" in (judged.reason or "")) == (verdict == "UNCLEAR")


@pytest.mark.parametrize(
    ("base_repeat", "repeat", "backlog", "verdict", "reason"),
    [
        (300e-6, 60e-6, 0.6, "FASTER", None),
        # 40 us of the device's time in each call are in no window.
        (300e-6, 90e-6, 0.6, "UNCLEAR", "its events say 50.0 us"),
        # The host is slow: the device waits for it, and is done when it is.
        (300e-6, 90e-6, 0.05, "FASTER", None),
        (100e-6, 130e-6, 0.05, "FASTER", "the host takes 130.0 us a call back to back"),
        (100e-6, 130e-6, 0.6, "UNCLEAR", "the timer's clock"),
    ],
)
def test_calls_that_follow_each_other_show_work_outside_the_window(
    base_repeat, repeat, backlog, verdict, reason
):
    measured = synthetic(base_repeat, repeat)
    measured.programs["c"].backlog = [backlog] * 5
    judged = judge(measured, "base", "c", smallest_effect=0.02)
    assert judged.verdict == verdict
    assert judged.reason is None if reason is None else reason in str(judged.reason)


@pytest.mark.parametrize(("after", "verdict"), [(20e-6, "FASTER"), (50e-6, "FAILED")])
def test_work_that_goes_on_after_the_window_has_no_time(after, verdict):
    measured = synthetic(100e-6, 60e-6)
    measured.programs["c"].after = [after] * 12
    judged = judge(measured, "base", "c", smallest_effect=0.02)
    assert judged.verdict == verdict
    assert ("goes on for 50.0 us" in (judged.reason or "")) == (verdict == "FAILED")


def test_a_program_is_placed_on_the_device_at_hand():
    text = 'x.to("xpu"); torch.empty(1, device="xpu:0"); torch.device(\'cuda\'); y.cuda()\n'
    text += 'if _xs_backend() in (None, "xpu"): pass  # the xpu'
    assert placed(text, "cpu") == (
        'x.to("cpu"); torch.empty(1, device="cpu"); torch.device(\'cpu\'); y.to("cpu")\n'
        'if _xs_backend() in (None, "xpu"): pass  # the xpu'
    )


def test_a_race_orders_programs_and_puts_failures_last(timer):
    shape = EntryShape("here", "here", INPUTS, (32,), "float32")
    texts = [program(PROGRAMS[name]).source for name in ("slow", "right", "wrong")]
    entry = Entry("scale", texts[1], texts[1], texts[1], None, (shape,))
    slow, right, wrong = race(timer, entry, texts)
    assert right < 0.02 < slow < 1
    assert wrong == float("inf")
