"""A candidate whose new path is guarded must be checked on that path."""

from __future__ import annotations

import pytest

from xesmith.cascade import coverage
from xesmith.cascade.correctness import Case, Reference
from xesmith.spec import load_spec

SPEC = """
inputs:
  x: {shape: [ROWS, COLS], dtype: float16}
inits: []
bench:
  - {params: [x], dtype: float16, dims: {ROWS: 8192, COLS: 4096}, flop: "ROWS*COLS"}
"""

#: a new kernel, launched only where COLS is a multiple of 4096
GUARDED = """
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        at = tl.program_id(0) * n + start + i
        x = tl.load(x_ptr + at, mask=start + i < n)
        tl.store(y_ptr + at, x * 2, mask=start + i < n)


@triton.jit
def fast_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        at = tl.program_id(0) * n + start + i
        tl.store(y_ptr + at, tl.load(x_ptr + at) * FACTOR)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, n = x.shape
        if CONDITION:
            fast_kernel[(rows,)](x, y, n, BLOCK=1024, num_warps=8)
        else:
            double_kernel[(rows,)](x, y, n, BLOCK=256)
        return y
"""


@pytest.fixture
def judge(checker, program, header, double_reference, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()

    def check(factor: str, condition: str = "n % 4096 == 0"):
        source = GUARDED.replace("FACTOR", factor).replace("CONDITION", condition)
        usual = Case("small", inputs=spec.scale(shape).inputs)
        return checker.check(
            program(header + source),
            Reference(program(double_reference), "pytorch"),
            [usual],
            spec=spec,
            shapes=[shape],
        )

    return check


def test_a_case_on_the_guarded_path_is_added(judge):
    result = judge("2")
    assert (result.status, result.messages) == ("passed", ())
    first, second = result.facts["cases"]
    assert first["launches"] == {"double_kernel": 1}
    assert second["launches"] == {"fast_kernel": 1}
    assert "COLS=4096" in second["case"]
    assert second["programs"] <= coverage.LARGEST_PROGRAM_COUNT


def test_a_fault_on_the_guarded_path_is_found(judge):
    result = judge("3")
    assert result.status == "refused"
    assert all("COLS=4096" in message for message in result.messages)


def test_a_path_of_the_real_shape_alone_is_not_read_and_never_passed(judge):
    result = judge("2", "rows == 8192")
    assert result.status == "not_read"
    assert "takes the path of bench[0] ROWS=8192 COLS=4096" in result.messages[0]


def test_nothing_is_added_where_the_usual_case_takes_the_path(judge):
    result = judge("2", "True")
    assert [c["launches"] for c in result.facts["cases"]] == [{"fast_kernel": 1}]


def launch(**changes):
    one = {
        "kernel": "k",
        "grid": [16, 16, 1],
        "constexprs": {"BLOCK_M": "128", "HEAD_DIM": "64"},
        "options": {"num_warps": "8"},
    }
    return {"failure": None, "launches": [one | changes], "alternatives": ["_xs_f_1"]}


@pytest.mark.parametrize(
    ("changes", "covered"),
    [
        ({"grid": [2, 2, 1]}, True),
        ({"grid": [2, 1, 1]}, False),  # one tile along an axis that has many
        ({"kernel": "other"}, False),
        ({"constexprs": {"BLOCK_M": "64", "HEAD_DIM": "64"}}, False),
        ({"constexprs": {"BLOCK_M": "128", "HEAD_DIM": "32"}}, True),  # a size, not a tile
        ({"options": {"num_warps": "4"}}, False),
    ],
)
def test_what_covers(changes, covered):
    assert coverage.covers(launch(**changes), launch()) is covered


def test_another_alternative_of_the_launch_plan_covers_nothing():
    assert not coverage.covers(launch() | {"alternatives": ["_xs_f_2"]}, launch())


def test_another_number_of_launches_or_a_failure_covers_nothing():
    twice = launch()
    twice["launches"] = twice["launches"] * 2
    assert not coverage.covers(twice, launch())
    assert not coverage.covers(launch() | {"failure": "ValueError"}, launch())


def test_programs_of_the_same_kernels_are_counted_whatever_their_tiles(
    checker, program, header, tmp_path
):
    source = header + GUARDED.replace("FACTOR", "2").replace("CONDITION", "n % 4096 == 0")
    (tmp_path / "spec.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    sizes = [{"ROWS": 40}, {"ROWS": 40, "COLS": 512}, {"ROWS": 1}]
    smaller = [spec.resized(shape, changes) for changes in sizes]
    # A row a program; the other kernel, and one program where there are many, do not compare.
    assert checker.programs(program(source), shape, smaller) == [40, None, None]
    tiled = source.replace("BLOCK=1024", "BLOCK=rows")
    assert checker.programs(program(tiled), shape, smaller)[0] == 40


SQUARE = """\
inputs:
  A: {shape: [M, K], dtype: float16}
  B: {shape: [K, N], dtype: float16}
ci: [{params: [A, B], dims: {M: 1024, N: 1024, K: 1024}, flop: "2*M*N*K"}]
"""


def test_unseen_shapes_go_beyond_each_size_and_have_no_two_alike(tmp_path):
    (tmp_path / "spec.yaml").write_text(SQUARE)
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    sizes = [
        [tuple(unseen.dims[name] for name in "MNK") for unseen in choice]
        for choice in coverage.unseen_shapes(spec, shape)
    ]
    # Where the first of a row is too much to interpret, the second serves.
    assert sizes == [
        [(1280, 256, 512), (1280, 192, 256)],
        [(256, 1280, 512), (192, 1280, 256)],
        [(256, 512, 1280), (192, 256, 1280)],
    ]


def sizes_of(shapes):
    return [tuple(shape.dims[name] for name in "MNK") for shape in shapes]


def test_wide_shapes_keep_all_sizes_but_one_the_cheapest_first(tmp_path):
    (tmp_path / "spec.yaml").write_text(SQUARE.replace("1024", "4096"))
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    shapes = coverage.wide_shapes(spec, shape)
    assert sizes_of(shapes) == [(4096, 4096, 128), (128, 4096, 4096), (4096, 128, 4096)]
    assert all(other.flop <= coverage.WIDE.flop for other in shapes)


def test_a_shape_that_can_be_interpreted_comes_before_its_wide_ones(tmp_path):
    (tmp_path / "spec.yaml").write_text(SQUARE)
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    assert sizes_of(coverage.wide_shapes(spec, shape))[:2] == [(1024,) * 3, (1024, 1024, 512)]


def test_there_are_no_wide_shapes_of_what_is_too_large(tmp_path):
    (tmp_path / "spec.yaml").write_text(SQUARE.replace("1024", "65536"))
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    assert coverage.wide_shapes(spec, shape) == ()


@pytest.mark.parametrize(
    ("changes", "run"),
    [
        ({"grid": [16, 1, 1]}, True),  # one tile is all that there is along a small size
        ({"kernel": "other"}, False),
        ({"grid": [4096, 2, 1]}, False),
    ],
)
def test_wide_cases_are_of_the_real_launches_and_few_programs(changes, run):
    assert coverage.wide([launch(**changes)], launch()) == ([0] if run else [])


def test_wide_cases_are_two_at_most_and_take_the_real_alternative():
    other = launch() | {"alternatives": ["_xs_f_2"]}
    assert coverage.wide([launch(), other, launch(), launch()], launch()) == [0, 2]


def test_a_guard_on_one_large_size_is_covered(checker, program, header, tmp_path):
    source = header + PRODUCT
    (tmp_path / "spec.yaml").write_text(SQUARE.replace("1024", "4096"))
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    reference = Reference(program(header + PRODUCT_REFERENCE), "pytorch")
    small = Case("small", inputs=spec.scale(shape).inputs)

    def check(text):
        return checker.check(program(text), reference, [small], (0,), spec=spec, shapes=[shape])

    right = check(source)
    assert (right.status, right.messages) == ("passed", ())
    assert "N=4096" in right.facts["cases"][1]["case"]
    wrong = check(source.replace("x = 1", "x = 2"))
    assert wrong.status == "refused"
    assert all("N=4096" in message for message in wrong.messages)


#: the rows of A @ B's size, filled with ones: cheap, with a guard on N alone
PRODUCT = """
@triton.jit
def fill_kernel(c_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = 1
    for start in range(0, n, BLOCK):
        tl.store(c_ptr + tl.program_id(0) * n + start + i, x + 0 * i.to(tl.float32))


@triton.jit
def usual_kernel(c_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        tl.store(c_ptr + tl.program_id(0) * n + start + i, 1 + 0 * i.to(tl.float32))


class Model(nn.Module):
    def forward(self, a, b):
        c = torch.empty((a.shape[0], b.shape[1]), device="xpu", dtype=a.dtype)
        kernel = fill_kernel if b.shape[1] >= 4096 else usual_kernel
        kernel[(c.shape[0],)](c, c.shape[1], BLOCK=64)
        return c
"""

PRODUCT_REFERENCE = """
class Model(nn.Module):
    def forward(self, a, b):
        return torch.ones((a.shape[0], b.shape[1]), dtype=a.dtype)
"""


def test_unseen_shapes_that_are_too_large_are_left_out(tmp_path):
    (tmp_path / "spec.yaml").write_text(SQUARE.replace("1024", "65536"))
    spec = load_spec(tmp_path / "spec.yaml")
    (shape,) = spec.shapes()
    assert coverage.unseen_shapes(spec, shape) == ()
