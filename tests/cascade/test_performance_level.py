"""The level "performance": a lower prediction, else better code, and never called measured."""

import pytest

from xesmith.cascade.examine import Examination
from xesmith.cascade.performance import judge_performance, predicted_seconds
from xesmith.evidence.record import Derived, Prediction


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


def test_the_time_of_all_shapes_is_their_sum_and_unknown_if_one_is(program):
    assert predicted_seconds({"a": program(1.0), "b": program(2.0)}) == pytest.approx(3.0)
    assert predicted_seconds({"a": program(1.0), "b": program(None)}) is None
    assert predicted_seconds({}) is None
