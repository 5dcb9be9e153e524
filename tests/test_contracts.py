"""Promises over evidence: what holds, what is broken, and what could not be read."""

from __future__ import annotations

from types import ModuleType

import pytest

from xesmith.contract_names import NAMES, parse_promise
from xesmith.contracts import ProgramEvidence, check, group_configurations
from xesmith.errors import UsageError


def test_a_refusal_prints_the_values(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    program = ProgramEvidence.of([m.make(native=m.native(loads_2d=0))])
    outcome = check("after.native.loads_2d > before.native.loads_2d", program, program)
    assert outcome.status == "broken"
    assert not outcome
    assert outcome.text == "after.native.loads_2d > before.native.loads_2d: 0 > 0 is false"


def test_a_promise_that_holds(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    before = ProgramEvidence.of([m.make(native=m.native(loads_2d=0))])
    after = ProgramEvidence.of([m.make()])
    outcome = check("after.native.loads_2d > before.native.loads_2d", before, after)
    assert outcome
    assert outcome.values == {"after.native.loads_2d": 3, "before.native.loads_2d": 0}


def test_what_was_not_read_never_passes(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    after = ProgramEvidence.of([m.make(native=None, not_read={"native": "ocloc is missing"})])
    before = ProgramEvidence.of([m.make()])
    outcome = check("after.native.loads_2d >= 0", before, after)
    assert outcome.status == "not_read"
    assert not outcome
    assert "unread >= 0 cannot be decided" in outcome.text
    assert "native of 'gemm' was not read: ocloc is missing" in outcome.text


def test_and_or_are_three_valued(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    program = ProgramEvidence.of([m.make(native=None)])

    def status(expression: str) -> str:
        return check(expression, program, program).status

    unread, true, false = "after.native.dpas > 0", "after.ttir.dots > 0", "after.ttir.dots > 9"
    assert status(f"{unread} or {true}") == "holds"
    assert status(f"{unread} or {false}") == "not_read"
    assert status(f"{unread} and {false}") == "broken"
    assert status(f"{unread} and {true}") == "not_read"
    assert status(f"{true} and {true}") == "holds"
    assert status(f"{false} or {false}") == "broken"


def test_division_by_zero_is_not_passed(evidence_maker: ModuleType) -> None:
    program = ProgramEvidence.of([evidence_maker.make()])
    outcome = check("after.native.dpas / before.native.slm_bytes > 1", program, program)
    assert outcome.status == "not_read"
    assert "divides by zero" in outcome.text


def test_counts_are_summed_and_sizes_maximised_over_launches(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    first = m.make(native=m.native(loads_2d=3, spill_bytes_per_thread=64))
    second = m.make(
        kernel="gelu",
        native=m.native(loads_2d=0, spill_bytes_per_thread=128, loops=(), main_loop=None),
    )
    values = ProgramEvidence.of([first, second]).values
    assert values["program.launches"] == 2
    assert values["native.loads_2d"] == 3
    assert values["native.spill_bytes_per_thread"] == 128
    assert values["native.spill_bytes_per_lane"] == 8.0  # 128 bytes, 16 lanes
    assert values["native.main.dpas"] == 32  # the second kernel has no loop
    assert values["native.main.dpas_share"] == pytest.approx(32 / 61)
    # 2 kernels of 256 programs, each 2*256*256*4096 FLOP
    assert values["ttir.flop"] == 2 * 256 * 2 * 256 * 256 * 4096


def test_one_unread_launch_makes_the_sum_unread(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    values = ProgramEvidence.of([m.make(), m.make(kernel="x", native=None)]).values
    assert values["native.loads_2d"] is None
    assert values["ttir.dots"] == 2


def test_repeated_launches_count_each_time(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    once = ProgramEvidence.of([m.make()]).values
    thrice = ProgramEvidence.of([m.make(launch=m.launch(repeats=3))]).values
    assert thrice["program.launches"] == 3
    assert thrice["ttir.bytes"] == 3 * once["ttir.bytes"]
    assert thrice["native.instructions"] == once["native.instructions"]  # static code


def test_the_best_predicted_configuration_stands_for_an_autotuned_launch(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker

    def configuration(index: int, seconds: float, loads: int) -> object:
        return m.make(
            launch=m.launch(config_index=index),
            native=m.native(loads_2d=loads),
            derived=m.derived(seconds),
        )

    program = ProgramEvidence.of(
        [configuration(0, 3e-3, 1), configuration(1, 1e-3, 7), configuration(2, 2e-3, 2)]
    )
    assert program.values["native.loads_2d"] == 7
    assert program.values["program.launches"] == 1
    assert program.values["program.configurations"] == 3


def test_a_configuration_that_cannot_launch_does_not_stand_for_the_rest(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    failure = {"kind": "out_of_resources", "level": "launch", "message": "SLM"}
    bad = m.make(launch=m.launch(config_index=0), derived=m.derived(1e-6), failure=failure)
    good = m.make(launch=m.launch(config_index=1), derived=m.derived(1e-3))
    assert ProgramEvidence.of([bad, good]).launches == (good,)


def test_configurations_are_grouped_per_launch(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    numbers = [(0, "a"), (1, "a"), (0, "a"), (1, "a"), (0, "b"), (None, "b"), (None, "b")]
    items = [m.make(kernel=k, launch=m.launch(kernel=k, config_index=n)) for n, k in numbers]
    assert [len(group) for group in group_configurations(items)] == [2, 2, 1, 1, 1]


def test_the_empty_program_has_no_values_but_counts(evidence_maker: ModuleType) -> None:
    empty = ProgramEvidence.of([])
    assert empty.values["program.launches"] == 0
    assert empty.values["native.loads_2d"] is None
    assert check("after.native.dpas == 0", empty, empty).status == "not_read"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("after.native.load_2d > 0", "did you mean 'after.native.loads_2d'"),
        ("native.loads_2d > 0", "did you mean 'after.native.loads_2d'"),
        ("after.loads_2d > 0", "unknown name 'after.loads_2d'"),
        ("after.native > 0", "unknown name 'after.native'"),
        ("after.native.dpas", "is no condition"),
        ("after.native.dpas >", "is no expression"),
        ("after.native.dpas ** 99 > 0", "uses Pow"),
        ("open('x') > 0", "calls open"),
        ("(lambda: 1)() > 0", "calls"),
        ("after.native.dpas in [1]", "uses"),
        ("'a' * 10 > after.native.dpas", "uses a text"),
    ],
)
def test_a_faulty_expression_is_one_clear_error(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_promise(expression, where="STAGE.md")
    assert message in str(caught.value)
    assert caught.value.where == "STAGE.md"


def test_functions_and_arithmetic(evidence_maker: ModuleType) -> None:
    program = ProgramEvidence.of([evidence_maker.make()])
    assert check("max(after.native.dpas, 1) == 32", program, program)
    assert check("after.native.dpas * 2 - 4 <= 60", program, program)
    assert check("0 < after.native.loads_2d <= 3", program, program)


def test_every_name_can_be_read(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    values = ProgramEvidence.of([m.make(derived=m.derived(), ptx=m.ptx())]).values
    unread = {name for name, value in values.items() if value is None}
    assert unread == {"ttgir.min_bytes_per_load"}  # the maker gives no access width
    assert set(values) == set(NAMES)
