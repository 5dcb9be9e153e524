"""Problems that a candidate could win by computing nothing are refused, and the reason is named."""

from __future__ import annotations

import json

import pytest

from xesmith.cli.app import run
from xesmith.errors import InputKernelError
from xesmith.ghost.launch import TensorSpec
from xesmith.timing.contest import EntryShape
from xesmith.timing.problem_checks import check_problem, checking_pool

MODEL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.zeros(features))
    def forward(self, X, Y):
        return {}
"""


@pytest.fixture(scope="module")
def pool(toolchain):
    with checking_pool(toolchain.python) as pool:
        yield pool


def checked(pool, forward, *, dtype="float32", atol=None):
    shape = EntryShape(
        name="ci[0]",
        label="ci[0] N=32",
        inputs=(TensorSpec("X", (16, 32), dtype), TensorSpec("Y", (16, 32), dtype)),
        inits=(32, 1.5),
        dtype=None,
        atol=atol,
    )
    text = MODEL.format(forward)
    return check_problem(pool, text, "/p/reference.py", [shape], ["N", "SCALE"])


def test_a_sound_problem_passes_and_says_what_it_was_asked(pool):
    found = checked(pool, "self.scale * X * self.weight + Y + self.bias")
    assert found.faults == ()
    assert found.asked == (
        *("input X", "input Y", "weight weight", "weight bias"),
        *("init N", "init SCALE"),
    )


@pytest.mark.parametrize(
    ("forward", "fault"),
    [
        ("X * 0 + Y * 0 + 3", "output 0 is constant: all its elements are equal"),
        ("X * 1e-9 * (Y * 0)", "output 0 is near zero: 0 at most, so zeros would pass for it"),
        ("X * self.scale * self.weight + self.bias", "the output does not depend on input Y"),
        ("X * self.scale + Y + self.bias", "the output does not depend on the weight weight"),
        ("X * self.weight + Y + self.bias", "the output does not depend on the init SCALE"),
        # A mean of what was centred before is zero but for rounding (KernelBench, level 2, 80).
        (
            "(X / 3 - (X / 3).mean(1, keepdim=True)).mean(1)",
            "output 0 is near zero",
        ),
        ("X * float('nan')", "output 0 has no finite element"),
    ],
)
def test_an_unsound_problem_is_refused_with_its_reason(pool, forward, fault):
    assert any(text.startswith(f"ci[0] N=32: {fault}") for text in checked(pool, forward).faults)


def test_what_the_tolerance_or_the_type_swallows_is_near_zero(pool):
    whole = "self.scale * X * self.weight + Y + self.bias"
    found = checked(pool, whole, atol=100.0)
    assert "near zero" in found.faults[0]
    found = checked(pool, f"1e-7 * ({whole})", dtype="float16")
    assert "near zero" in found.faults[0]
    assert checked(pool, f"1e-7 * ({whole})", dtype="float32").faults == ()


def test_a_reference_that_fails_is_told(pool):
    with pytest.raises(InputKernelError, match=r"ZeroDivisionError: .* \(line 10\)"):
        checked(pool, "X / (1 // 0)")


def test_a_problem_of_the_project_passes_by_its_name(capsys):
    assert run(["bench", "check-problem", "gemm_bias_gelu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gemm_bias_gelu"]["passed"] is True
    assert "weight bias" in found["gemm_bias_gelu"]["asked"]


def test_an_unknown_problem_names_the_known(capsys):
    assert run(["bench", "check-problem", "gem"]) == 2
    assert "gemm_bias_gelu" in capsys.readouterr().err
