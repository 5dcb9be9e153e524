"""Guards and grids over a kernel's parameters, said in the words of the launch plan's caller."""

from __future__ import annotations

from typing import Any

import pytest

from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import Alternative, PlanError
from xesmith.stages.translation import Translation, guard_of, is_over_tiles, parts_of, substituted

FILE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def fused(x_ptr, w_ptr, out_ptr, M, N, stride_om, dim, BM: tl.constexpr, BN: tl.constexpr,
          EVEN: tl.constexpr = True, FACTOR: tl.constexpr = tl.constexpr(2)):
    pass


@triton.autotune([triton.Config({"BM": 64})], key=["M"])
@triton.jit
def tuned(M, BM: tl.constexpr, BN: tl.constexpr):
    pass
"""
KERNELS = KernelFile.parse(FILE, "k.py")
BUFFERS = [
    {"name": "out_ptr", "shape": ["x.shape[0]", "N", 8], "dtype": "float32", "like": "x"},
    {"name": "half", "shape": ["out_ptr.shape[0] // 2"], "dtype": "x.dtype"},
]


def translation(kernel: str = "fused", owner: str | None = None, **changes: Any) -> Translation:
    launch = {
        "kernel": kernel,
        "grid": ["cdiv(x.shape[0], BM)"],
        "args": {"x_ptr": "x", "w_ptr": "self.weight", "M": "x.shape[0]", "dim": "half.shape[0]",
                 "stride_om": "out_ptr.stride[0]"},
        "metas": {"BM": 128, "BN": "N"},
    }  # fmt: skip
    alternative = Alternative.model_validate({"launches": [launch | changes], "buffers": BUFFERS})
    caller = ["self", "x", "N"]
    (planned,) = alternative.launches
    return Translation.of(KERNELS.jit(kernel), planned, alternative, caller, owner)


@pytest.mark.parametrize(
    ("guard", "conditions"),
    [
        # values of args and metas, and the caller's argument of the same name
        ("M % BM == 0", ["x.shape[0] % 128 == 0"]),
        ("M * 2 - N > BN", ["x.shape[0] * 2 - N > N"]),
        ("cdiv(M, BM) * max(M, N) < 9", ["cdiv(x.shape[0], 128) * max(x.shape[0], N) < 9"]),
        ("x_ptr.stride[1] == 1 and aligned(x_ptr, 64)", ["x.stride[1] == 1", "aligned(x, 64)"]),
        ("x_ptr.dtype in ('float16', 'bfloat16')", ["x.dtype in ('float16', 'bfloat16')"]),
        # what holds of every call is not asked
        ("BM % 64 == 0", []),
        ("EVEN", []),
        ("N >= N", []),
        # buffers: fresh, of a stated shape
        ("aligned(out_ptr, 64)", []),
        ("aligned(out_ptr, 16)", []),
        ("out_ptr.is_contiguous", []),
        ("out_ptr.ndim == 3 and out_ptr.dtype == 'float32'", []),
        ("out_ptr is not None", []),
        ("out_ptr.shape[2] % 8 == 0 and out_ptr.stride[-1] == 1", []),
        ("out_ptr.shape[0] > 4", ["x.shape[0] > 4"]),
        ("out_ptr.shape[-2] > 4", ["N > 4"]),
        ("out_ptr.numel > 4", ["x.shape[0] * N * 8 > 4"]),
        ("stride_om % 8 == 0", ["N * 8 % 8 == 0"]),
        ("dim > 4", ["x.shape[0] // 2 > 4"]),
    ],
)
def test_a_guard_in_the_words_of_the_caller(guard: str, conditions: list[str]) -> None:
    assert translation().conditions(guard) == conditions


def test_a_dtype_of_a_buffer_may_be_another_tensors() -> None:
    half = translation(args={"x_ptr": "half", "M": 1})
    assert half.conditions("x_ptr.dtype == 'float16'") == ["x.dtype == 'float16'"]


def test_of_a_method_the_attributes_of_self_are_the_callers() -> None:
    method = translation(owner="self")
    assert method.conditions("w_ptr.shape[0] % BM == 0") == ["self.weight.shape[0] % 128 == 0"]
    assert method.conditions("aligned(w_ptr, 64)") == ["aligned(self.weight, 64)"]


@pytest.mark.parametrize(
    ("guard", "what"),
    [
        ("BM % 256 == 0", "'BM % 256 == 0' never holds where the launch plan launches the kernel"),
        ("aligned(out_ptr, 128)",
         "'aligned(out_ptr, 128)' asks of the buffer 'out_ptr' what is not known before it is "
         "allocated"),
        ("out_ptr.shape[3] == 1",
         "'out_ptr.shape[3] == 1' asks for a dimension that 'out_ptr' has not"),
        ("FACTOR == 2", "the launch plan does not say what 'FACTOR' is before it launches"),
        ("M.shape[0] == 1", None),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_there_is_an_error(guard: str, what: str | None) -> None:
    with pytest.raises(PlanError) as refused:
        translation().conditions(guard)
    if what is not None:
        assert refused.value.what == what


def test_what_tuning_decides_is_not_known_before_the_launch() -> None:
    tuned = translation("tuned", args={"M": "N"}, metas={"BN": 32})
    assert tuned.conditions("M % BN == 0") == ["N % 32 == 0"]
    with pytest.raises(PlanError, match="does not say what 'BM' is"):
        tuned.conditions("M % BM == 0")
    assert tuned.at({"BM": 64}).conditions("M % BM == 0") == ["N % 64 == 0"]
    with pytest.raises(PlanError, match="does not say what 'BN' is"):
        tuned.without(["BN"]).conditions("M % BN == 0")


def test_a_grid_keeps_the_names_of_meta_parameters() -> None:
    there = translation()
    assert there.size("cdiv(M, BM) * N", {"BM"}) == "cdiv(x.shape[0], BM) * N"
    assert there.size("cdiv(M, BM)", ()) == "cdiv(x.shape[0], 128)"
    assert there.size(4, ()) == "4"
    assert there.size("out_ptr.shape[0]", ()) == "out_ptr.shape[0]"  # it is allocated by then
    with pytest.raises(PlanError, match="'N' names an argument and a meta-parameter"):
        there.size("cdiv(M, BM) * BN", {"N"})


@pytest.mark.parametrize(
    ("own", "understood", "conditions"),
    [
        (["cdiv(x.shape[0], BM)"], ["cdiv(M, BM)"], []),
        (["cdiv(x.shape[0],128)", "1"], ["cdiv(M, BM)"], []),
        (["cdiv(x.shape[0], BM)"], ["cdiv(M, BM)", "N"], ["1 == N"]),
        (["x.shape[0] // 128"], ["cdiv(M, BM)"], ["x.shape[0] // 128 == cdiv(x.shape[0], 128)"]),
        ([32], ["cdiv(M, BM)"], ["32 == cdiv(x.shape[0], 128)"]),
    ],
)
def test_the_plans_grid_is_held_against_the_one_that_was_understood(
    own: list[Any], understood: list[Any], conditions: list[str]
) -> None:
    assert translation().grid_conditions(own, understood, ["BM", "BN"]) == conditions


def test_a_grid_of_tuned_names_is_the_same_or_unknown() -> None:
    tuned = translation("tuned", args={"M": "N"}, metas={"BN": 32})
    assert tuned.grid_conditions(["cdiv(N, BM)"], ["cdiv(M, BM)"], ["BN"]) == []
    with pytest.raises(PlanError, match="does not say what 'BM' is"):
        tuned.grid_conditions(["N // BM"], ["cdiv(M, BM)"], ["BN"])


def test_guards_are_split_and_joined() -> None:
    assert parts_of("a > 1 and (b > 2 and c) and (d or e)") == ["a > 1", "b > 2", "c", "d or e"]
    assert parts_of("True") == []
    assert guard_of(["a > 1", "b", "a > 1"]) == "(a > 1) and (b)"
    assert guard_of([]) == "True"
    assert substituted("min(N, min) % BM", {"BM": 64, "min": 3}) == "min(N, 3) % 64"


@pytest.mark.parametrize(
    ("guard", "over_tiles"),
    [
        ("x.ndim == 2 and x.stride[1] == 1 and x.dtype == 'float16'", False),
        ("aligned(x, 64)", False),
        ("M % 8 == 0", True),
        ("M // 128 * 128 == M", True),
        ("cdiv(M, K) * K == M", True),
        ("x.shape[0] == 4096", True),
    ],
)
def test_a_guard_over_tiles_is_told_from_one_over_layouts(guard: str, over_tiles: bool) -> None:
    assert is_over_tiles(guard) is over_tiles
