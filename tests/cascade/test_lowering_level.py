"""The level "lowering": promises at every shape, illegal code refused, nothing changed refused."""

from dataclasses import replace

import pytest

from xesmith.cascade.examine import Examination
from xesmith.cascade.lowering import judge_lowering
from xesmith.evidence.record import Derived, IrCounts
from xesmith.findings.record import Finding
from xesmith.lowering.record import Failure

PROMISE = "after.native.loads_2d > before.native.loads_2d"


@pytest.fixture
def examination(evidence_maker):
    def make(loads_2d=0, code="h", failure=None, findings=(), **changes) -> Examination:
        derived = Derived(occupancy=None, prediction=None, lowered_hash=code)
        native = evidence_maker.native(loads_2d=loads_2d)
        evidence = evidence_maker.make(**{"native": native, "derived": derived, **changes})
        return Examination((evidence,), findings, failure)

    return make


def finding(**changes) -> Finding:
    fields = {
        "kind": "load-not-2d-block",
        "severity": "warning",
        "level": "native",
        "kernel": "gemm",
        "line": 46,
        "message": "load of 256x32xf16 stays a tensor of pointers",
        "reason": "stride of the last dimension is the argument `sak`, not known to be 1",
    }
    return Finding(**(fields | changes))


def test_a_promise_that_holds_passes(examination):
    result = judge_lowering({"a": examination(0, "1")}, {"a": examination(3, "2")}, [PROMISE])
    assert result.status == "passed"
    assert result.facts["promises"]["a"][0]["status"] == "holds"


def test_a_broken_promise_is_refused_with_its_values(examination):
    result = judge_lowering({"a": examination(3, "1")}, {"a": examination(3, "2")}, [PROMISE])
    assert result.status == "refused"
    assert "3 > 3 is false" in result.messages[0]


def test_a_refusal_says_what_the_compiler_did(examination):
    after = {"a": examination(0, "2", findings=(finding(),))}
    result = judge_lowering({"a": examination(0, "1")}, after, [PROMISE])
    assert result.messages[1].startswith(
        "line 46: load of 256x32xf16 stays a tensor of pointers: stride of the last dimension"
    )


def test_the_same_code_is_no_candidate(examination):
    same = {"a": examination(0, "1")}
    result = judge_lowering(same, {"a": examination(0, "1")}, [])
    assert result.status == "refused"
    assert "nothing changed" in result.messages[0]


def test_the_same_code_on_another_grid_is_a_change(examination, evidence_maker):
    after = {"a": examination(0, "1", launch=evidence_maker.launch(grid=(64, 1, 1)))}
    assert judge_lowering({"a": examination(0, "1")}, after, []).status == "passed"


def test_a_shape_that_takes_the_original_path_owes_no_promise(examination):
    before = {"a": examination(0, "1"), "odd": examination(0, "1")}
    after = {"a": examination(3, "2"), "odd": examination(0, "1")}
    result = judge_lowering(before, after, [PROMISE])
    assert result.status == "passed"
    assert result.facts["unchanged"] == ["odd"]


def test_every_changed_shape_owes_the_promise(examination):
    before = {"a": examination(0, "1"), "b": examination(0, "1")}
    after = {"a": examination(3, "2"), "b": examination(0, "3")}
    result = judge_lowering(before, after, [PROMISE])
    assert result.status == "refused"
    assert result.messages[0].startswith("b: ")


def test_a_level_that_was_not_read_never_passes(examination):
    unread = examination(code="2", native=None, not_read={"native": "no ocloc on this machine"})
    result = judge_lowering({"a": examination(0, "1")}, {"a": unread}, [PROMISE])
    assert result.status == "not_read"
    assert "no ocloc on this machine" in " ".join(result.messages)


def test_an_illegal_2d_operation_is_refused_whatever_was_promised(examination):
    illegal = finding(
        kind="2d-op-illegal",
        severity="error",
        line=50,
        message="2D block store at a pitch of 8190 B, not a multiple of 16 B",
    )
    after = {"a": examination(3, "2", findings=(illegal,))}
    result = judge_lowering({"a": examination(0, "1")}, after, [PROMISE])
    assert result.status == "refused"
    assert result.messages == (
        "a: line 50: 2D block store at a pitch of 8190 B, not a multiple of 16 B",
    )


def test_a_program_that_fails_is_refused_with_its_line(examination):
    failure = Failure("python", "model", "ValueError: no", line=7)
    result = judge_lowering(
        {"a": examination(0, "1")}, {"a": examination(3, "2", failure=failure)}, []
    )
    assert (result.status, result.messages) == ("refused", ("a: line 7: ValueError: no",))


def test_a_launch_that_the_device_refuses_is_refused(examination):
    failure = {"kind": "out_of_resources", "line": None, "message": "135168 B of SLM"}
    broken = examination(3, "2").evidence[0].model_copy(update={"failure": failure})
    result = judge_lowering({"a": examination(0, "1")}, {"a": Examination((broken,), (), None)}, [])
    assert result.status == "refused"
    assert "135168 B of SLM" in result.messages[0]


def test_a_program_without_a_launch_is_refused(examination):
    result = judge_lowering({"a": examination(0, "1")}, {"a": Examination((), (), None)}, [])
    assert (result.status, result.messages) == ("refused", ("a: no kernel is launched",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"acc_type": "f16"}, "adds up in f16, coarser than the baseline's products"),
        ({"a_type": "f8E5M2"}, "keeps 3 bits of its factors, the baseline's 11"),
        ({"a_type": "bf16", "b_type": "bf16"}, "keeps 8 bits of its factors, the baseline's 11"),
        ({"a_type": "f32", "b_type": "f32"}, None),
    ],
)
def test_products_of_fewer_bits_are_refused(examination, evidence_maker, changes, said):
    """float16 has 11 bits of significand, bfloat16 8, e5m2 3."""
    usual = evidence_maker.ttir(dots=(evidence_maker.dot(),))
    other = evidence_maker.ttir(dots=(evidence_maker.dot(**changes),))
    before, after = {"a": examination(0, "1", ttir=usual)}, {"a": examination(3, "2", ttir=other)}
    result = judge_lowering(before, after, [PROMISE])
    assert result.status == ("passed" if said is None else "refused")
    assert all(said in message for message in result.messages)


def test_factors_may_be_as_coarse_as_the_tensors_that_are_passed(examination, evidence_maker):
    """A baseline that widens bfloat16 to float32 before its product gains nothing by it."""
    launch = examination(0, "1").evidence[0].launch | {"signature": {"a": "*bf16"}}
    wide = evidence_maker.dot(a_type="f32", b_type="f32", input_precision="ieee")
    narrow = evidence_maker.dot(a_type="bf16", b_type="bf16")
    before = examination(0, "1", ttir=evidence_maker.ttir(dots=(wide,)), launch=launch)
    after = examination(3, "2", ttir=evidence_maker.ttir(dots=(narrow,)), launch=launch)
    assert judge_lowering({"a": before}, {"a": after}, [PROMISE]).status == "passed"


@pytest.mark.parametrize("level", ["ttir", "ttgir", "native"])
def test_a_missing_level_never_passes_whatever_was_promised(examination, level):
    unread = examination(3, "2", **{level: None}, not_read={level: "not here"})
    result = judge_lowering({"a": examination(0, "1")}, {"a": unread}, [])
    assert result.status == "not_read"
    assert result.messages == (f"a: not read: {level} of 'gemm': not here",)


def test_a_2d_operation_that_cannot_be_checked_never_passes_unless_it_was_there(examination):
    unchecked = finding(
        kind="2d-op-unchecked", severity="note", message="2D block load of 'A': pitch not known"
    )
    before = {"a": examination(0, "1")}
    after = {"a": examination(3, "2", findings=(unchecked,))}
    result = judge_lowering(before, after, [PROMISE])
    assert result.status == "not_read"
    assert result.messages == ("a: not read: 2D block load of 'A': pitch not known",)
    had_it = {"a": examination(0, "1", findings=(unchecked,))}
    assert judge_lowering(had_it, after, [PROMISE]).status == "passed"


#: what the launch of `evidence_maker` stores: 256 programs, 256x256 float16 each
STORED_BYTES = 256 * 256 * 256 * 2


@pytest.fixture
def storing(examination, evidence_maker):
    """An examination whose outputs were made so, and whose store is in a loop of so many rounds."""

    def make(made, code="2", atomics=0, **rounds):
        store = evidence_maker.access(op="store", shape=(256, 256), loop=0 if rounds else None)
        loop = evidence_maker.loop(**{"trip_count": None, **rounds})
        counts = IrCounts(atomics=atomics)
        ttir = evidence_maker.ttir(accesses=(store,), loops=(loop,), counts=counts)
        return replace(examination(0, code, ttir=ttir), made_bytes=made)

    return make


@pytest.mark.parametrize(
    ("made", "more", "status"),
    [
        ({"empty": STORED_BYTES}, {}, "passed"),
        ({"empty": STORED_BYTES + 2}, {}, "refused"),
        ({"filled": STORED_BYTES + 2}, {}, "not_read"),  # zeros may be right there
        ({}, {}, "passed"),  # PyTorch wrote them, or they are views
        ({"empty": 8 * STORED_BYTES}, {"trip_count": 8}, "passed"),
        ({"empty": 8 * STORED_BYTES + 2}, {"trip_count": 8}, "refused"),
        ({"empty": 8 * STORED_BYTES}, {"trip_mean": 4.0}, "passed"),  # maybe the middle of bounds
        ({"empty": 8 * STORED_BYTES + 2}, {"trip_mean": 4.0}, "refused"),
        ({"empty": STORED_BYTES + 2}, {"trip_expression": "n"}, "passed"),  # it is not known
        ({"empty": STORED_BYTES + 2}, {"atomics": 1}, "passed"),
    ],
)
def test_outputs_that_only_kernels_write_must_be_stored_whole(storing, made, more, status):
    before = {"a": storing({"empty": STORED_BYTES}, "1")}
    assert judge_lowering(before, {"a": storing(made, **more)}, []).status == status


def test_fewer_stores_than_outputs_are_the_baseline_s_right_too(storing):
    made = {"empty": STORED_BYTES + 2}
    assert judge_lowering({"a": storing(made, "1")}, {"a": storing(made)}, []).status == "passed"


@pytest.mark.parametrize(
    ("made_bytes", "status"), [(STORED_BYTES, "passed"), (2 * STORED_BYTES, "refused")]
)
def test_of_an_autotuned_launch_one_configuration_stores(storing, made_bytes, status):
    tuned = storing({"empty": made_bytes})
    (one,) = tuned.evidence
    configurations = tuple(
        one.model_copy(update={"launch": one.launch | {"config_index": index}})
        for index in range(2)
    )
    before = storing({"empty": STORED_BYTES}, "1")
    result = judge_lowering({"a": before}, {"a": replace(tuned, evidence=configurations)}, [])
    assert result.status == status


def test_an_offset_that_wraps_is_refused_where_none_did_before(examination):
    before, after = examination(0, "1"), examination(0, "2")
    wraps = replace(after, overflows=(7,))
    result = judge_lowering({"a": before}, {"a": wraps}, [])
    assert result.messages == ("a: line 7: an offset of more than 32 bits wraps around",)
    earlier = replace(before, overflows=(5,))
    assert judge_lowering({"a": earlier}, {"a": wraps}, []).status == "passed"
