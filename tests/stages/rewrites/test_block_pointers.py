"""Block pointers: equal results under the guards, and what must be refused or guarded."""

from __future__ import annotations

from typing import Any

import pytest

from xesmith.stages.rewrites import Rewrite, block_pointers
from xesmith.stages.rewrites.result import guards_hold


def rewritten(source: str, facts: Any) -> Rewrite:
    result = block_pointers(source, facts)
    assert isinstance(result, Rewrite), result
    return result


CASES = {
    "tutorial gemm": lambda k: k.gemm(96, 64, 96),
    "masked gemm": lambda k: k.gemm_masked(64, 96, 64),
    "masked gemm, tails everywhere": lambda k: k.gemm_masked(72, 88, 104),
    "masked gemm, padded rows": lambda k: k.gemm_masked(64, 64, 64, padding=8),
    "masked gemm, B stored transposed": lambda k: k.gemm_masked(64, 72, 96, transposed=True),
    "B transposed, unmasked": lambda k: k.gemm_bt(64, 96, 96),
    "batched gemm": lambda k: k.batched(2, 64, 64, 96),
    "batched gemm, tails": lambda k: k.batched(3, 40, 72, 80),
    "gemm, bias, GELU": lambda k: k.gemm_bias_gelu(64, 96, 64),
    "attention": lambda k: k.attention(1, 2, 96, 32),
    "attention, tail": lambda k: k.attention(2, 1, 80, 32),
    "causal attention": lambda k: k.attention(1, 2, 96, 64, causal=True),
}


@pytest.mark.intel
@pytest.mark.parametrize("case", CASES)
def test_same_results(kernels: Any, interpreter: Any, case: str) -> None:
    launch = CASES[case](kernels)
    original = kernels.source(launch.kernel)
    result = rewritten(original, kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    assert "make_block_ptr" in result.kernel_source
    (difference,) = interpreter.differences(launch, original, result.kernel_source)
    assert difference == 0.0
