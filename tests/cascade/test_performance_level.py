"""The level "performance": a lower prediction, else better code, and never called measured."""

import pytest

from xesmith.cascade.examine import Examination
from xesmith.cascade.performance import judge_measured, judge_performance, predicted_seconds
from xesmith.evidence.record import Derived, Prediction
from xesmith.timing.contest import EntryShape, Outcome
from xesmith.timing.statistics import Ratio
from xesmith.timing.timer import Judgement


@pytest.fixture
def program(evidence_maker):
    def make(seconds: float | None, spill: float = 0.0, why_not: str | None = None) -> Examination:
        prediction = Prediction(seconds=seconds, bound_by=None, why_not=why_not)
        derived = Derived(occupancy=None, prediction=prediction, lowered_hash="")
        native = evidence_maker.native(spill_bytes_per_lane=spill)
        return Examination((evidence_maker.make(native=native, derived=derived),), (), None)

    return make


def judge(before, after, **options):
    return judge_performance({"a": before}, {"a": after}, **options)


def test_a_lower_prediction_passes_and_is_not_called_measured(program):
    result = judge(program(200e-6), program(100e-6))
    assert result.status == "passed"
    assert result.messages == ("a: predicted 200.0 us before, 100.0 us after: better",)
    assert result.facts["measured"] is False
    assert "speedup" not in str(result.to_json())


def test_a_higher_prediction_is_refused(program):
    assert judge(program(100e-6), program(102e-6)).status == "refused"


def test_a_difference_below_the_models_resolution_is_none(program):
    result = judge(program(100e-6, spill=16), program(99.7e-6, spill=0))
    assert result.status == "refused"
    assert "equal within the model: the same" in result.messages[0]


def test_the_same_passes_only_where_no_improvement_is_asked(program):
    assert judge(program(100e-6), program(100e-6)).status == "refused"
    assert judge(program(100e-6), program(100e-6), must_improve=False).status == "passed"
    assert judge(program(100e-6), program(150e-6), must_improve=False).status == "refused"


def test_one_worse_shape_refuses_the_whole(program):
    before = {"a": program(100e-6), "b": program(100e-6)}
    after = {"a": program(10e-6), "b": program(110e-6)}
    assert judge_performance(before, after).status == "refused"


def test_without_a_prediction_the_order_of_the_code_decides_and_the_reason_is_kept(program):
    why = "the device file states no clock"
    result = judge(program(None, spill=16, why_not=why), program(None, spill=0, why_not=why))
    assert result.status == "passed"
    assert result.facts["not_predicted"] == {"a": why}
    assert "not predicted" in result.messages[0]


def test_without_native_code_nothing_is_called_the_same(evidence_maker):
    """A target whose registers and spills are decided after what is read."""
    program = Examination((evidence_maker.make(native=None),), (), None)
    result = judge(program, program)
    assert result.status == "refused"
    assert result.messages == ("a: not predicted, and no native code is read that would order",)


def test_the_time_of_all_shapes_is_their_sum_and_unknown_if_one_is(program):
    assert predicted_seconds({"a": program(1.0), "b": program(2.0)}) == pytest.approx(3.0)
    assert predicted_seconds({"a": program(1.0), "b": program(None)}) is None
    assert predicted_seconds({}) is None


def outcome(verdict, ratio=(1.0, 1.0, 1.0), errors=()):
    shape = EntryShape("bench-gpu[0]", "bench-gpu[0] N=1", None, (), None)
    judgement = Judgement(verdict, Ratio(*ratio, rounds=12))
    return Outcome(
        *("p", "digest", shape, None, {"baseline": judgement}, None, None, None, {}, None, errors)
    )


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["FASTER"], "passed"),
        (["FASTER", "SAME"], "passed"),
        (["SAME"], "refused"),
        (["FASTER", "SLOWER"], "refused"),
        (["FASTER", "UNCLEAR"], "refused"),
        (["FASTER", "FAILED"], "refused"),
    ],
)
def test_measured_only_faster_passes(verdicts, status):
    result = judge_measured([outcome(verdict) for verdict in verdicts])
    assert (result.level, result.status) == ("performance", status)
    assert result.facts["measured"] is True


def test_a_stage_that_need_not_improve_may_measure_the_same():
    assert judge_measured([outcome("SAME")], must_improve=False).status == "passed"
    assert judge_measured([outcome("SLOWER")], must_improve=False).status == "refused"


def test_a_time_that_is_impossible_is_no_improvement():
    result = judge_measured([outcome("FASTER", errors=("below the floor",))])
    assert result.status == "refused"
    assert result.messages == ("bench-gpu[0]: measured below the floor",)


def test_a_measured_message_has_its_interval():
    result = judge_measured([outcome("FASTER", (1.2, 1.18, 1.22))])
    assert result.messages == ("bench-gpu[0]: measured FASTER 1.200x [1.180, 1.220]",)
