"""An autotune decorator with the given configurations, and the guards that go with it."""

from __future__ import annotations

from typing import Any

import pytest

from xesmith.ghost.launch import Program
from xesmith.stages.rewrites import Configuration, Refusal, Rewrite, autotuning

CONFIGURATIONS = (
    Configuration({"BM": 256, "BN": 128, "BK": 32}, 16, 2, "256"),
    Configuration({"BM": 128, "BN": 128, "BK": 32}, 16, 3, "128"),
)


def tuned(source: str, facts: Any, **options: Any) -> Rewrite:
    result = autotuning(source, facts, CONFIGURATIONS, **options)
    assert isinstance(result, Rewrite), result
    return result


def test_the_decorator(kernels: Any) -> None:
    result = tuned(kernels.source("gemm_masked"), kernels.facts(kernels.gemm_masked(64, 64, 64)))
    assert result.kernel_source.startswith(
        """\
@triton.autotune(
    configs=[
        triton.Config(
            {"BM": 256, "BN": 128, "BK": 32, "grf_mode": "256"},
            num_warps=16, num_stages=2,
        ),
        triton.Config(
            {"BM": 128, "BN": 128, "BK": 32, "grf_mode": "128"},
            num_warps=16, num_stages=3,
        ),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def gemm_masked(
"""
    )


def test_guards_hold_for_every_configuration(kernels: Any) -> None:
    facts = kernels.facts(kernels.gemm_masked(64, 64, 64))
    guards = ["M % BM == 0", "K % BK == 0", "aligned(A, 64)", "BM % 16 == 0"]
    result = tuned(kernels.source("gemm_masked"), facts, guards=guards)
    assert result.guard == ("M % 256 == 0", "K % 32 == 0", "aligned(A, 64)", "M % 128 == 0")


def test_tuned_constexprs_have_no_default(kernels: Any) -> None:
    source = kernels.source("gemm_masked").replace("BK: tl.constexpr", "BK: tl.constexpr = 64")
    result = tuned(source, kernels.facts(kernels.gemm_masked(64, 64, 64)))
    assert "= 64" not in result.kernel_source


@pytest.mark.intel
def test_every_configuration_launches(kernels: Any, lowerer: Any) -> None:
    launch = kernels.gemm_masked(256, 256, 64)
    result = tuned(kernels.source("gemm_masked"), kernels.facts(launch))
    text = kernels.script(result.kernel_source, launch)
    for name in ("BM", "BN", "BK", "num_warps"):
        text = text.replace(f", {name}={ {**launch.constexprs, **launch.options}[name] }", "")
    run = lowerer.run(Program(text, "gemm.py", entry="script"))
    assert run.failure is None
    seen = [(x.launch.constexprs["BM"], x.launch.options["num_warps"]) for x in run.lowerings]
    assert seen == [(256, 16), (128, 16)]
    assert all(lowering.failure is None for lowering in run.lowerings)


IN_PLACE = """\
@triton.jit
def kernel(x_ptr, sum_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N)
    tl.store(x_ptr + offs, x * 2, mask=offs < N)
    tl.store(y_ptr + offs, x, mask=offs < N)
    tl.atomic_add(sum_ptr, tl.sum(x))
"""


def test_what_is_updated_in_place_is_restored(kernels: Any) -> None:
    """Tuning runs the kernel many times on one buffer."""
    values = {"x_ptr": kernels.tensor(256), "sum_ptr": kernels.tensor(1),
              "y_ptr": kernels.tensor(256), "N": 256}  # fmt: skip
    launch = kernels.launch("kernel", values, {"BLOCK": 64}, 4)
    configurations = [Configuration({"BLOCK": 128}, 4, 2, "128")]
    result = autotuning(IN_PLACE, kernels.facts(launch), configurations)
    assert isinstance(result, Rewrite)
    assert 'restore_value=["x_ptr", "sum_ptr"]' in result.kernel_source


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: f"@triton.autotune(configs=[], key=[])\n{s}", "autotune decorator already"),
        (lambda s: s.replace("BK", "BLOCK_K"), "BK is no constexpr"),
    ],
)
def test_refusals(kernels: Any, change: Any, reason: str) -> None:
    source = change(kernels.source("gemm_masked"))
    launch = kernels.gemm_masked(64, 64, 64)
    result = autotuning(source, kernels.facts(launch), CONFIGURATIONS)
    assert isinstance(result, Refusal)
    assert reason in result.reason


def test_nothing_to_tune_over(kernels: Any) -> None:
    facts = kernels.facts(kernels.gemm_masked(64, 64, 64))
    assert isinstance(autotuning(kernels.source("gemm_masked"), facts, ()), Refusal)
