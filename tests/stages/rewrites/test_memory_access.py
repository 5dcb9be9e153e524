"""Masks, wraps and 64-bit offsets: dropped under guards, equal results there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from xesmith.stages.rewrites import Refusal, Rewrite, memory_access
from xesmith.stages.rewrites.result import guards_hold


def rewritten(source: str, facts: Any) -> Rewrite:
    result = memory_access(source, facts)
    assert isinstance(result, Rewrite), result
    return result


@pytest.mark.intel
@pytest.mark.parametrize(
    "case",
    [
        lambda k: k.gemm(96, 64, 96),
        lambda k: k.gemm_masked(64, 96, 64),
        lambda k: k.batched(2, 64, 64, 96),
        lambda k: k.gemm_bias_gelu(64, 96, 64),
        lambda k: k.attention(1, 2, 96, 32),
        lambda k: k.softmax(4, 256),
    ],
    ids=["tutorial", "masked", "batched", "bias", "attention", "softmax"],
)
def test_same_results(kernels: Any, interpreter: Any, case: Any) -> None:
    launch = case(kernels)
    original = kernels.source(launch.kernel)
    result = rewritten(original, kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    assert result.kernel_source != original
    assert interpreter.differences(launch, original, result.kernel_source) == [0.0]


def test_masks_go_with_their_arithmetic(kernels: Any) -> None:
    result = rewritten(kernels.source("gemm"), kernels.facts(kernels.gemm(96, 64, 96)))
    text = result.kernel_source
    assert "mask" not in text
    assert "% M" not in text
    assert set(result.guard) == {"K % BLOCK_K == 0", "M % BLOCK_M == 0", "N % BLOCK_N == 0"}


def test_a_tail_in_any_launch_keeps_the_mask(kernels: Any) -> None:
    """K = 104 is not divided by 32: the loads keep their masks, the store loses its own."""
    launch = kernels.gemm_masked(64, 64, 104)
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert result.guard == ("M % BM == 0", "N % BN == 0")
    assert result.kernel_source.count("mask=") == 2
    assert sum("the mask of the load stays" in note for note in result.notes) == 2


def test_programs_past_the_end_keep_the_mask(kernels: Any) -> None:
    """A grid with one row of tiles too many: M % BM == 0 alone would not make the mask needless."""
    launch = kernels.gemm_masked(64, 64, 64)
    launch = replace(launch, grid=(3, 2, 1))
    result = memory_access(kernels.source("gemm_masked"), kernels.facts(launch))
    text = result.kernel_source if isinstance(result, Rewrite) else ""
    assert "mask=(rm[:, None] < M) & (rk[None, :] + k < K)" in text
    assert "b = tl.load(B)" in text  # B's columns and rows stay inside


def test_a_grid_that_is_not_known_keeps_the_masks_of_what_it_places(kernels: Any) -> None:
    """Another launch may have programs past the end where the captured one had none."""
    launch = kernels.gemm_masked(64, 64, 64)
    source, facts = kernels.source("gemm_masked"), kernels.facts(launch)
    assert "mask=" not in rewritten(source, facts).kernel_source
    refused = memory_access(source, replace(facts, grid_is_known=False))
    assert isinstance(refused, Refusal)
    assert "`M` is not shown to bound each tile of `BM`" in refused.reason


def test_offsets_become_32_bits_below_2_31_elements(kernels: Any) -> None:
    launch = kernels.batched(2, 64, 64, 96)
    result = rewritten(kernels.source("batched"), kernels.facts(launch))
    assert "int64" not in result.kernel_source
    assert guards_hold(result.guard, launch)
    large = kernels.tensor(40000, 256, 256)  # 2.6e9 elements
    assert not guards_hold(result.guard, replace(launch, values={**launch.values, "a_ptr": large}))


def test_offsets_stay_wide_for_a_large_tensor(kernels: Any) -> None:
    launch = kernels.batched(2, 64, 64, 96)
    values = {**launch.values, "a_ptr": kernels.tensor(2, 40000, 40000)}
    facts = kernels.facts(replace(launch, values=values))
    result = rewritten(kernels.source("batched"), facts)
    assert "pid_b.to(tl.int64)" in result.kernel_source
    assert any("past 2^31 elements" in note for note in result.notes)


def test_padding_rows_of_softmax_keep_the_mask(kernels: Any) -> None:
    result = memory_access(kernels.source("softmax"), kernels.facts(kernels.softmax(8, 1000)))
    assert isinstance(result, Refusal)
    assert "`n_cols` is not shown to bound each tile of `BLOCK`" in result.reason


SELECTING = """\
@triton.jit
def kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), dtype=tl.float32)
    for n in range(0, N, BN):
        rn = n + tl.arange(0, BN)
        x = tl.load(x_ptr + rm[:, None] * N + rn[None, :])
        x = tl.where(rn[None, :] < N, x, {other})
        total += tl.max(x, 1)
    tl.store(y_ptr + rm, total)
"""


@pytest.mark.intel
def test_a_selection_that_always_holds_goes(kernels: Any, interpreter: Any) -> None:
    values = {"x_ptr": kernels.tensor(64, 96), "y_ptr": kernels.tensor(64), "M": 64, "N": 96}
    launch = kernels.launch("kernel", values, {"BM": 32, "BN": 32}, 2)
    source = SELECTING.format(other='-float("inf")')
    result = rewritten(source, kernels.facts(launch))
    assert "tl.where" not in result.kernel_source
    assert "x = x" not in result.kernel_source
    assert "N % BN == 0" in result.guard
    assert interpreter.differences(launch, source, result.kernel_source) == [0.0]

    tail = replace(launch, values={**values, "N": 80})
    assert isinstance(memory_access(source, kernels.facts(tail)), Refusal)
    widening = SELECTING.format(other="total[:, None]")
    assert isinstance(memory_access(widening, kernels.facts(launch)), Refusal)


SHIFTED = """\
@triton.jit
def kernel(x_ptr, y_ptr, n, first_tile, B: tl.constexpr):
    rn = (tl.program_id(0) + first_tile) * B + tl.arange(0, B)
    x = tl.load(x_ptr + rn, mask=rn < n, other=0.0)
    tl.store(y_ptr + rn, x * 2.0, mask=rn < n)
"""


def test_an_argument_that_moves_every_tile_is_held_to_its_captured_value(kernels: Any) -> None:
    """With first_tile = 1 the last tile lies past the end, whatever n is divided by."""
    values = {"x_ptr": kernels.tensor(96), "y_ptr": kernels.tensor(96), "n": 96, "first_tile": 0}
    launch = kernels.launch("kernel", values, {"B": 32}, 3)
    result = rewritten(SHIFTED, kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    assert not guards_hold(result.guard, replace(launch, values={**values, "first_tile": 1}))

    other = replace(launch, grid=(2, 1, 1), values={**values, "first_tile": 1})
    assert isinstance(memory_access(SHIFTED, kernels.facts(launch, other)), Refusal)
