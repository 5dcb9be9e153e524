"""Exponentials to the base 2 with log2(e) in the scale of the scores."""

from __future__ import annotations

from typing import Any

import pytest

from xesmith.stages.rewrites import Refusal, Rewrite, exp2


@pytest.mark.intel
def test_attention_stays_equal_up_to_rounding(kernels: Any, interpreter: Any) -> None:
    """fp16 outputs agree within two units of the last place, 2^-10 of the largest."""
    launch = kernels.attention(1, 2, 80, 32)
    original = kernels.source("attention")
    result = exp2(original, kernels.facts(launch))
    assert isinstance(result, Rewrite), result
    assert "tl.exp(" not in result.kernel_source
    assert "qk = tl.dot(q, k) * (sm_scale * 1.4426950408889634)" in result.kernel_source
    assert result.kernel_source.count("1.4426950408889634") == 1
    (difference,) = interpreter.differences(launch, original, result.kernel_source)
    assert isinstance(difference, float)
    assert difference <= 2**-9


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        # the log-sum-exp leaves the kernel in the natural base
        (
            "    acc = acc / l_i",
            "    tl.store(O, tl.max(m_i, 0))\n    acc = acc / l_i",
            "`m_i` is used",
        ),
        ("        p = tl.exp", "        qk = qk + 1.0\n        p = tl.exp", "does not scale"),
        ("        p = tl.exp", "        qk += 1.0\n        p = tl.exp", "is not followed"),
        ("* sm_scale", "", "does not scale"),
        ("tl.exp(m_i - m_new)", "tl.exp(l_i)", "`l_i"),
        ('float("-inf"))\n        m_new', "-1.0e4)\n        m_new", "does not scale"),
    ],
)
def test_what_would_change_the_result(kernels: Any, old: str, new: str, reason: str) -> None:
    source = kernels.source("attention")
    changed = source.replace(old, new)
    if "1.0e4" in new:
        changed = source.replace('qk, float("-inf"))', "qk, -1.0e4)")
    assert changed != source
    result = exp2(changed, kernels.facts(kernels.attention(1, 2, 80, 32)))
    assert isinstance(result, Refusal), result.kernel_source
    assert reason in result.reason


def test_a_softmax_has_no_scale_to_use(kernels: Any) -> None:
    result = exp2(kernels.source("softmax"), kernels.facts(kernels.softmax(8, 64)))
    assert isinstance(result, Refusal)


def test_no_exponential(kernels: Any) -> None:
    result = exp2(kernels.source("gemm"), kernels.facts(kernels.gemm(64, 64, 64)))
    assert isinstance(result, Refusal)
    assert "no tl.exp" in result.reason
