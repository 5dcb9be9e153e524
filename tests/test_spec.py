"""Specs: AI-bench's format, its errors, and the rule by which shapes are scaled."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xesmith.assets import asset_folder
from xesmith.errors import UsageError
from xesmith.spec import Budget, Shape, Spec, evaluate_formula, load_spec, parse_spec

LINEAR = """
inputs: {X: {shape: [BATCH, INPUT_SIZE], dtype: float32}}
inits: [{dim: INPUT_SIZE}, {dim: HIDDEN_SIZE}, {dim: SCALING_FACTOR}]
ci:
  - {params: [X], dtype: float16, flop: "2*BATCH*HIDDEN_SIZE*INPUT_SIZE",
     dims: {BATCH: 4, INPUT_SIZE: 1024, HIDDEN_SIZE: 2048, SCALING_FACTOR: 1.5}}
bench-gpu:
  - {params: [X], dtype: float16, flop: "2*BATCH*HIDDEN_SIZE*INPUT_SIZE",
     dims: {BATCH: 1024, INPUT_SIZE: 8192, HIDDEN_SIZE: 8192, SCALING_FACTOR: 1.5}}
"""

GEMM = """
inputs:
  A: {shape: [M, K], dtype: float16}
  B: {shape: [K, N], dtype: float16}
ci:
  - {params: [A, B], dtype: float16, dims: {M: %d, N: %d, K: %d}, flop: "2*M*N*K"}
"""


def test_the_example_of_the_format() -> None:
    spec = parse_spec(LINEAR)
    assert list(spec.variants) == ["ci", "bench-gpu"]
    assert spec.default_variant == "ci"
    (shape,) = spec.shapes("bench-gpu")
    assert shape.inits == (8192, 8192, 1.5)
    assert shape.inputs[0].shape == (1024, 8192)
    assert shape.inputs[0].dtype == "float16"  # the variant's counts over another float
    assert shape.dtype == "float16"
    assert shape.flop == 2 * 1024 * 8192 * 8192
    assert shape.mem_bytes is None
    assert (shape.rtol, shape.atol) == (None, None)
    program = spec.program("bench-gpu", 0, "source", "k.py", seed=3)
    assert (program.inits, program.seed, program.path) == ((8192, 8192, 1.5), 3, "k.py")


def test_whole_names_are_substituted() -> None:
    spec = parse_spec(
        "inputs: {X: {shape: [IN, N]}}\n"
        "ci: [{params: [X], dtype: float32, dims: {N: 2, IN: 30, INN: 700}, flop: 'IN*N + INN'}]"
    )
    assert spec.shapes("ci")[0].flop == 30 * 2 + 700


def test_kinds_of_dims() -> None:
    spec = parse_spec(
        """
inputs:
  X: {shape: [BATCH, SCALE_SHAPE, 3], dtype: inherit}
  IDX: {shape: BATCH, dtype: int64, range: [0, CLASSES]}
  MASK: {shape: [2*BATCH], dtype: bool, inits: [abs, softmax]}
inits: [{dim: SCALE_SHAPE}, {dim: EPS}, {param: EPS}, {param: 0.5}, {param: same}, {param: true}]
ci:
  - params: [X, IDX, MASK]
    dtype: bfloat16
    dims: {BATCH: 4, SCALE_SHAPE: [8, 16], EPS: 1e-5, CLASSES: 10, BIAS: true, MODE: same}
    flop: 1000
    mem_bytes: "BATCH * adjacent_prod_sum(2, SCALE_SHAPE, 3) + SCALE_SHAPE[1]"
    rtol: 1.0e-2
    atol: 0.5
    memory_format: channels_last
"""
    )
    (shape,) = spec.shapes()
    x, idx, mask = shape.inputs
    assert (x.shape, x.dtype, x.memory_format) == ((4, 8, 16, 3), "bfloat16", "channels_last")
    assert (idx.shape, idx.dtype, idx.value_range) == ((4,), "int64", (0.0, 10.0))
    assert (mask.shape, mask.dtype, mask.transforms) == ((8,), "bool", ("abs", "softmax"))
    # YAML reads 1e-5 as text
    assert shape.inits == ((8, 16), 1e-5, 1e-5, 0.5, "same", True)
    assert shape.flop == 1000
    assert shape.mem_bytes == 4 * (2 * 8 + 8 * 16 + 16 * 3) + 16
    assert (shape.rtol, shape.atol) == (0.01, 0.5)


def test_dims_lists_are_expanded_and_dtypes_can_differ() -> None:
    spec = parse_spec(
        """
inputs: {A: {shape: [N]}, B: {shape: [N], dtype: float32}}
default_variant: bench
name: sum
bench:
  - {params: [A, B], dtype: [float16, int32], dims: [{N: 8}, {N: 16}]}
  - {params: [B, A], dtype: {A: float64}, dims: {N: 4}}
  - {params: [A, B], dtype: float16, dims: {N: 2}}
"""
    )
    shapes = spec.shapes()
    assert [shape.index for shape in shapes] == [0, 1, 2, 3]
    assert [shape.dims["N"] for shape in shapes] == [8, 16, 4, 2]
    assert [item.dtype for item in shapes[0].inputs] == ["float16", "int32"]
    assert [item.dtype for item in shapes[2].inputs] == ["float32", "float64"]
    # where some input says `inherit`, a stated dtype is meant
    assert [item.dtype for item in shapes[3].inputs] == ["float16", "float32"]


def test_every_problem_of_the_project_is_read() -> None:
    paths = sorted((asset_folder("bench") / "problems").glob("*/spec.yaml"))
    assert paths
    for path in paths:
        spec = load_spec(path)
        assert {"ci", "bench-gpu"} <= spec.variants.keys()
        for shape in spec.shapes("bench-gpu"):
            assert spec.scale(shape).within_budget


@pytest.mark.parametrize(
    ("old", "new", "where", "message", "remedy"),
    [
        ("inputs:", "input:", "<spec>", "unknown field 'input'", "inputs"),
        ("dims: {BATCH: 4", "dim: {BATCH: 4", "ci[0]", "unknown field 'dim'", "dims"),
        ("{BATCH: 4,", "{BATCHES: 4,", "inputs.X.shape[0]", "unknown dim 'BATCH'", "BATCHES"),
        ("[{dim: INPUT_SIZE}", "[{dim: INPUT_SIZ}", "inits[0]", "'INPUT_SIZ'", "INPUT_SIZE"),
        ("[{dim: INPUT_SIZE}", "[{dims: 3}", "inits[0]", "unknown field 'dims'", "dim"),
        ("[{dim: INPUT_SIZE}", "[{param: INPUT_SIZ}", "inits[0]", "'INPUT_SIZ'", "INPUT_SIZE"),
        ("params: [X]", "params: [Y]", "ci[0].params", "unknown input 'Y'", "known: X"),
        ("dtype: float16", "dtype: float61", "ci[0].dtype", "unknown dtype", "float16"),
        ("dtype: float32", "dtype: half", "inputs.X.dtype", "unknown dtype 'half'", "known:"),
        ('"2*BATCH*HIDDEN_SIZE', '"2*BATCH*HIDEN_SIZE', "ci[0].flop", "'HIDEN_SIZE'", "HIDDEN"),
        ('"2*BATCH*', '"2*BATCH**9**9**9*', "ci[0].flop", "cannot be evaluated", "use"),
        ('"2*BATCH*', '"(2*BATCH*', "ci[0].flop", "cannot be evaluated", "use"),
        ('"2*BATCH*', "\"__import__('os')*", "ci[0].flop", "cannot be evaluated", "use"),
        ("INPUT_SIZE: 1024", "INPUT_SIZE: -1", "inputs.X.shape[1]", "not a size", ""),
        ("INPUT_SIZE: 1024", "INPUT_SIZE: 1.5", "inputs.X.shape[1]", "not a size", ""),
        ("INPUT_SIZE: 1024", "INPUT_SIZE: {a: 1}", "ci[0].dims.INPUT_SIZE", "not a number", ""),
        ("ci:", "default_variant: cj\nci:", "default_variant", "no variant 'cj'", "ci"),
    ],
)
def test_mistakes_are_named(old: str, new: str, where: str, message: str, remedy: str) -> None:
    text = LINEAR.replace(old, new, 1)
    assert text != LINEAR
    with pytest.raises(UsageError) as caught:
        parse_spec(text)
    assert message in caught.value.what
    assert where in str(caught.value.where)
    assert remedy in str(caught.value.remedy)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "invalid YAML"),
        ("- 1", "a spec is a mapping"),
        ("", "a spec is a mapping"),
        ("ci: [{params: [], dims: {}}]", "no field 'inputs'"),
        ("inputs: {}", "no variant"),
        ("inputs: {}\nci: []", "no entry"),
        ("inputs: {X: {shape: [N]}}\nci: [{params: [X], dims: {N: 4}}]", "inherits its dtype"),
        ("inputs: [1]\nci: []", "a mapping is needed"),
        ("inputs: {}\nci: [3]", "a mapping is needed"),
    ],
)
def test_files_that_are_no_specs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_spec(path)
    assert str(path) in str(caught.value.where)
    with pytest.raises(UsageError, match="no such spec file"):
        load_spec(tmp_path / "none.yaml")


def test_unknown_variant_and_index() -> None:
    spec = parse_spec(LINEAR)
    with pytest.raises(UsageError, match="no variant 'bench'") as caught:
        spec.shapes("bench")
    assert "did you mean 'bench-gpu'?" in str(caught.value.remedy)
    with pytest.raises(UsageError, match="no shape 1"):
        spec.program("ci", 1, "", "k.py")


@pytest.mark.parametrize(
    "text",
    ["9**9**9", "N**100000", "10**40", "'a'*10**9", "1/0", "N.real", "(lambda: 1)()", "[1]*99",
     "N if N else 1" * 200, "min()", "True", "1e999", "'x'", "N[0]"],
)  # fmt: skip
def test_formulas_are_bounded(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError):
        evaluate_formula(text, {"N": 10}, "flop")
    assert time.monotonic() - began < 0.5


def _gemm(m: int, n: int, k: int) -> Spec:
    return parse_spec(GEMM % (m, n, k))


def test_a_large_gemm_is_scaled_to_two_tiles() -> None:
    spec = _gemm(4096, 4096, 4096)
    (shape,) = spec.shapes()
    small = spec.scale(shape, {"M": 256, "N": 256, "K": 32})
    assert small.dims == {"M": 512, "N": 512, "K": 512}  # equal dims stay equal
    assert small.inputs[0].shape == (512, 512)
    assert small.flop == 2 * 512**3
    assert small.kept == {"M": 256, "N": 256, "K": 256}
    assert small.kind == "scaled"


def test_a_tail_stays_the_same_tail() -> None:
    spec = _gemm(4096, 4095, 1000)
    small = spec.scale(spec.shapes()[0], {"M": 128, "N": 128, "K": 32})
    # 4095 % 256 = 255: least 255 + 256 k that is two tiles of 128; 1000 % 256 = 232
    assert small.dims == {"M": 256, "N": 511, "K": 232}


def test_small_shapes_stay() -> None:
    spec = _gemm(64, 48, 32)
    small = spec.scale(spec.shapes()[0])
    assert small.dims == {"M": 64, "N": 48, "K": 32}
    assert small.kept == {}


def test_outer_dims_go_first() -> None:
    spec = parse_spec(
        """
inputs:
  Q: {shape: [BATCH, HEADS, SEQ, DIM], dtype: float16}
  K: {shape: [BATCH, HEADS, SEQ, DIM], dtype: float16}
ci:
  - {params: [Q, K], dims: {BATCH: 4, HEADS: 16, SEQ: 4096, DIM: 64},
     flop: "4*BATCH*HEADS*SEQ*SEQ*DIM"}
"""
    )
    small = spec.scale(spec.shapes()[0])
    assert small.dims == {"BATCH": 2, "HEADS": 2, "SEQ": 512, "DIM": 64}
    tiled = spec.scale(spec.shapes()[0], {"SEQ": 128}, Budget(flop=1e7))
    assert tiled.dims == {"BATCH": 2, "HEADS": 2, "SEQ": 256, "DIM": 16}
    assert tiled.kept["DIM"] == 8
    none = spec.scale(spec.shapes()[0], {"SEQ": 128}, Budget(flop=10))
    assert not none.within_budget


def test_fixed_dims_lists_and_unknown_names() -> None:
    spec = parse_spec(
        "inputs: {X: {shape: [N, H, W], dtype: float32}}\n"
        "inits: [{dim: NORM}]\n"
        "ci: [{params: [X], dims: {N: 8, H: 2048, W: 4096, NORM: [2048, 4096], P: 1.5}}]"
    )
    (shape,) = spec.shapes()
    small = spec.scale(shape)
    assert small.dims == {"N": 8, "H": 512, "W": 512, "NORM": (512, 512), "P": 1.5}
    assert small.inits == ((512, 512),)
    assert spec.scale(shape, fixed=("W",), budget=Budget(elements=2**26)).dims["W"] == 4096
    with pytest.raises(UsageError, match="no dim 'WW'"):
        spec.scale(shape, {"WW": 4})


def test_odd_shapes_are_divided_by_no_tile() -> None:
    spec = _gemm(4096, 2048, 64)
    shapes = spec.odd_shapes(spec.shapes()[0], {"M": 128, "N": 128, "K": 32})
    # next primes above the scaled sizes 64 (K), 256 (N), 256 (M), each size another prime
    assert shapes[0].dims == {"M": 263, "N": 257, "K": 67}
    assert shapes[1].dims == {"M": 263, "N": 257, "K": 64}
    assert shapes[2].dims == {"M": 263, "N": 256, "K": 64}
    assert len(shapes) == 3
    assert spec.odd_shape(spec.shapes()[0], {"M": 128, "N": 128, "K": 32}) == shapes[0]
    tiny = _gemm(16, 8, 4)
    assert tiny.odd_shape(tiny.shapes()[0]) is None


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 40000)] * 3),
    tile=st.sampled_from([16, 32, 64, 128, 256, 512]),
)
def test_the_rule_of_scaling(sizes: tuple[int, int, int], tile: int) -> None:
    spec = _gemm(*sizes)
    small = spec.scale(spec.shapes()[0], {"M": tile, "N": tile, "K": 32})
    for name, size in zip("MNK", sizes, strict=True):
        new = small.dims[name]
        assert isinstance(new, int)
        assert new <= size
        tile_of_dim = 32 if name == "K" else tile
        assert new >= min(size, 2 * tile_of_dim)
        kept = small.kept.get(name)
        if kept is not None:
            assert (size - new) % kept == 0
            assert kept >= tile_of_dim
            assert size % tile_of_dim == new % tile_of_dim  # the same tail
    assert small.flop is not None
    assert math.isfinite(small.flop)


@pytest.mark.parametrize(
    ("shape", "transform", "message"),
    [
        ("[N, N, N]", "triu", "'triu' needs two dimensions, and ci\\[0\\] N=4 M=8 has 3"),
        ("[N, M]", "symmetric", "'symmetric' needs a square, and ci\\[0\\] N=4 M=8 has 4x8"),
    ],
)
def test_a_transform_that_the_input_cannot_have(shape: str, transform: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_spec(
            f"inputs: {{X: {{shape: {shape}, dtype: float32, inits: [{transform}]}}}}\n"
            "ci: [{params: [X], dims: {N: 4, M: 8}}]"
        )


ROW_KERNEL = """
inputs: {X: {shape: [ROWS, COLS], dtype: float16}}
ci: [{params: [X], dims: {ROWS: %d, COLS: 4096}}]
"""


@pytest.mark.parametrize(
    ("rows", "scaled_rows", "kept"),
    # One program a row, 64 allowed: two times L = 32, plus the remainder of the rows by L.
    [(8192, 64, 32), (8191, 47, 16), (8200, 40, 16), (50, 50, None)],
)
def test_programs_of_the_grid_are_part_of_the_budget(
    rows: int, scaled_rows: int, kept: int | None
) -> None:
    spec = parse_spec(ROW_KERNEL % rows)
    (shape,) = spec.shapes()

    def one_a_row(shapes: Sequence[Shape]) -> list[int | None]:
        return [cast(int, other.dims["ROWS"]) for other in shapes]

    small = spec.scale(shape, programs=one_a_row)
    # Columns bring no program down, so they stay as elements and FLOP alone would have them.
    assert small.dims == {"ROWS": scaled_rows, "COLS": 512}
    assert small.kept.get("ROWS") == kept
    assert kept is None or (rows - scaled_rows) % kept == 0
    assert small.within_budget


def test_a_shape_of_another_path_is_no_way_to_fewer_programs() -> None:
    spec = parse_spec(ROW_KERNEL % 8192)
    (shape,) = spec.shapes()

    def from_128_rows(shapes: Sequence[Shape]) -> list[int | None]:
        rows = [cast(int, other.dims["ROWS"]) for other in shapes]
        return [None if n < 128 else n for n in rows]

    assert spec.scale(shape, programs=from_128_rows).dims["ROWS"] == 128
    assert spec.scale(shape, programs=lambda shapes: [None] * len(shapes)).dims["ROWS"] == 512
    tiled = spec.scale(shape, {"ROWS": 256}, programs=lambda shapes: [1000 for _ in shapes])
    assert tiled.dims["ROWS"] == 512  # two tiles, whatever they cost


def test_a_gemm_of_sixteen_programs_is_left_alone() -> None:
    spec = _gemm(4096, 4096, 4096)
    (shape,) = spec.shapes()

    def tiles_of_128(shapes: Sequence[Shape]) -> list[int | None]:
        return [cast(int, s.dims["M"]) // 128 * (cast(int, s.dims["N"]) // 128) for s in shapes]

    assert spec.scale(shape, programs=tiles_of_128).dims == {"M": 512, "N": 512, "K": 512}
