"""float64 -> float32 where no argument asks for float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from xesmith.evidence import read
from xesmith.ghost.launch import Program
from xesmith.stages.rewrites import Refusal, Rewrite, dtype_fix
from xesmith.stages.rewrites.result import guards_hold


@pytest.mark.intel
def test_float64_goes_and_the_result_stays(kernels: Any, interpreter: Any, lowerer: Any) -> None:
    """Rounding differs: fp16 outputs agree within one part in 2^10."""
    launch = kernels.layer_norm(4, 250)
    original = kernels.source("layer_norm")
    result = dtype_fix(original, kernels.facts(launch, first_line=10))
    assert isinstance(result, Rewrite)
    assert "float64" not in result.kernel_source
    assert result.notes == ("line 15: float64 -> float32", "line 18: float64 -> float32")
    assert guards_hold(result.guard, launch)
    (difference,) = interpreter.differences(launch, original, result.kernel_source)
    assert isinstance(difference, float)
    assert difference <= 2**-10

    counts = []
    for text in (original, result.kernel_source):
        program = Program(kernels.script(text, launch), "layer_norm.py", entry="script")
        (lowering,) = lowerer.run(program).lowerings
        ttir = read(lowering).ttir
        assert ttir is not None
        counts.append(ttir.counts.f64_operations)
    assert counts[0] > 0
    assert counts[1] == 0


def test_float64_arguments_are_meant(kernels: Any) -> None:
    facts = kernels.facts(kernels.layer_norm(4, 250, dtype="float64"))
    result = dtype_fix(kernels.source("layer_norm"), facts)
    assert isinstance(result, Refusal)
    assert "x_ptr of the launch is float64" in result.reason


def test_another_type_takes_the_original_path(kernels: Any) -> None:
    launch = kernels.layer_norm(4, 250)
    result = dtype_fix(kernels.source("layer_norm"), kernels.facts(launch))
    assert isinstance(result, Rewrite)
    wide = kernels.layer_norm(4, 250, dtype="float64")
    assert not guards_hold(result.guard, wide)


def test_a_constant_beyond_float32_is_refused(kernels: Any) -> None:
    source = kernels.source("layer_norm").replace("other=0.0", "other=1e300")
    result = dtype_fix(source, kernels.facts(kernels.layer_norm(4, 250)))
    assert isinstance(result, Refusal)
    assert "1e+300 does not fit" in result.reason


def test_nothing_to_do(kernels: Any) -> None:
    result = dtype_fix(kernels.source("softmax"), kernels.facts(kernels.softmax(8, 64)))
    assert isinstance(result, Refusal)
    assert "no float64" in result.reason


def test_no_launch_is_refused(kernels: Any) -> None:
    assert isinstance(dtype_fix(kernels.source("layer_norm"), kernels.facts()), Refusal)


def test_a_float64_scalar_is_refused(kernels: Any) -> None:
    launch = kernels.layer_norm(4, 250)
    launch = replace(launch, signature={**launch.signature, "eps": "fp64"})
    result = dtype_fix(kernels.source("layer_norm"), kernels.facts(launch))
    assert isinstance(result, Refusal)
    assert "scalar eps" in result.reason
