"""What runs at the real shape must have run in a case of its path."""

import pytest

from xesmith.cascade.correctness import Reference
from xesmith.cascade.examine import Examination
from xesmith.cascade.exercise import Need, needs, unmet
from xesmith.spec import load_spec

SPEC = """
inputs:
  x: {shape: [ROWS, COLS], dtype: float16}
inits: []
bench:
  - {params: [x], dtype: float16, dims: {ROWS: 8192, COLS: 4096}, flop: "ROWS*COLS"}
"""

#: y = 2 x with 64 programs, each of which takes several rows
SHARED = """
@triton.jit
def double_row(x_ptr, y_ptr, at, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in tl.range(0, n, BLOCK):
        x = tl.load(x_ptr + at + start + i, mask=start + i < n)
        tl.store(y_ptr + at + start + i, x * 2, mask=start + i < n)


@triton.jit
def double_kernel(x_ptr, y_ptr, rows, n, NUM: tl.constexpr, BLOCK: tl.constexpr):
    factor = 1.0
    row = tl.program_id(0)
    while row < rows:
        double_row(x_ptr, y_ptr, row * n, n, BLOCK)
        row += NUM
    for again in tl.static_range(3):
        factor += again


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, n = x.shape
        double_kernel[(min(rows, 64),)](x, y, rows, n, NUM=64, BLOCK=1024)
        return y
"""


@pytest.fixture
def judge(checker, program, case, header, double_reference, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    text = header + SHARED

    def check(*needed: tuple[str, str, int]):
        """`needed`: (text of the line, "access" or "loop", times)."""
        wanted = [
            Need("double_kernel", 1 + text[: text.index(line)].count("\n"), what, times)
            for line, what, times in needed
        ]
        return checker.check(
            program(text),
            Reference(program(double_reference), "pytorch"),
            [case((48, 1024))],
            spec=spec,
            shapes=[shape],
            needed={shape.label: wanted},
        )

    return check


def loops(result):
    return [list(case["loops"].values()) for case in result.facts["cases"]]


def test_what_the_usual_case_has_run_costs_nothing_more(judge):
    needed = [("while row", "loop", 1), ("x = tl.load", "access", 1), ("for again", "loop", 2)]
    result = judge(*needed)
    assert result.status == "passed"
    # By line: one block of a helper's `tl.range`, one row, three rounds unrolled.
    assert loops(result) == [[1, 1, 3]]


def test_a_further_case_goes_round_a_loop_more_than_once(judge):
    result = judge(("while row", "loop", 2))
    assert result.status == "passed"
    usual, *_, further = loops(result)
    assert usual[1] == 1
    assert further[1] > 1


def test_a_statement_of_a_helper_counts_for_the_kernel_that_calls_it(judge):
    result = judge(("x = tl.load", "access", 2))
    assert result.status == "passed"
    assert len(result.facts["cases"]) > 1


def test_what_no_case_runs_is_not_read_with_its_line_and_the_shape(judge):
    result = judge(("factor += again", "access", 1))
    assert result.status == "not_read"
    (message,) = result.messages
    assert message.startswith("not checked: line ")
    assert "'double_kernel' runs at bench[0] ROWS=8192 COLS=4096" in message


def trace(accessed=(), rounds=()):
    return {"accessed": list(accessed), "rounds": list(rounds)}


def test_traces_count_together_and_a_statement_counts_for_all_its_lines():
    wanted = [
        Need("k", 3, "access", 1),
        Need("k", 5, "access", 2),
        Need("k", 8, "loop", 2),
        Need("other", 3, "access", 1),
    ]
    first = trace([["k", 2, 4, 1], ["k", 5, 5, 1]], [["k", 8, 8, 1]])
    second = trace([], [["k", 7, 8, 2]])
    assert unmet(wanted, [first, second]) == (wanted[3], wanted[1])
    assert unmet(wanted, []) == (wanted[0], wanted[3], wanted[1], wanted[2])


@pytest.fixture
def examined(evidence_maker):
    """The needs of one launch whose TTIR has these loops and accesses."""

    def make(loops=(), accesses=()):
        ttir = evidence_maker.ttir(loops=tuple(loops), accesses=tuple(accesses), dots=())
        evidence = evidence_maker.make(ttir=ttir)
        return {(n.line, n.what, n.times) for n in needs(Examination((evidence,), (), None))}

    return make


def test_loops_that_repeat_are_needed_twice_and_others_not_at_all(examined, evidence_maker):
    def loop(**changes):
        return evidence_maker.loop(**{"trip_count": None, **changes})

    assert examined([loop(trip_count=8)]) == {(9, "loop", 2)}
    assert examined([loop(trip_count=1)]) == set()
    assert examined([loop(trip_mean=1.5)]) == {(9, "loop", 2)}
    assert examined([loop(trip_count=8, reached=False)]) == set()


def test_a_loop_of_unknown_length_counts_where_it_moves_data(examined, evidence_maker):
    unknown = evidence_maker.loop(trip_count=None)
    inner = evidence_maker.loop(index=1, parent=0, trip_count=1, site=evidence_maker.site(10))
    inside = evidence_maker.access(loop=1, site=evidence_maker.site(11))
    assert examined([unknown]) == set()  # it waits for another program
    assert examined([unknown, inner], [inside]) == {(9, "loop", 2), (11, "access", 1)}


def test_accesses_are_needed_once_or_more_than_once(examined, evidence_maker):
    def access(**changes):
        return evidence_maker.access(**{"loop": None, **changes})

    assert examined([], [access()]) == {(10, "access", 1)}
    assert examined([], [access(reached=False)]) == set()
    assert examined([], [access(op="prefetch")]) == set()
    # Copies that an unrolled loop left; then the two versions of a loop, masked and not.
    assert examined([], [access(), access()]) == {(10, "access", 2)}
    assert examined([], [access(), access(masked=True)]) == {(10, "access", 1)}
    empty = evidence_maker.loop(trip_count=0)
    assert examined([empty], [access(loop=0)]) == set()
