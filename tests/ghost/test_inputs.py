"""What a spec says of an input's values and layout holds for the tensor that is made of it."""

from __future__ import annotations

import math

import pytest
import torch

from xesmith.ghost.inputs import empty_input, random_input
from xesmith.ghost.launch import TensorSpec


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def matrix(*transforms: str, dtype: str = "float32", shape: tuple[int, ...] = (32, 32)):
    return random_input(TensorSpec("x", shape, dtype, transforms=transforms))


def test_transforms_of_values_as_ai_bench_defines_them() -> None:
    assert torch.allclose(matrix("softmax").sum(-1), torch.ones(32))
    assert torch.allclose(matrix("normalize").norm(dim=-1), torch.ones(32))
    symmetric = matrix("symmetric")
    assert torch.equal(symmetric, symmetric.mT)
    assert matrix("abs").min() >= 0
    assert matrix("triu").tril(-1).count_nonzero() == 0
    assert matrix("triu").count_nonzero() == 32 * 33 // 2
    assert matrix("tril").triu(1).count_nonzero() == 0
    assert matrix("rademacher").unique().tolist() == [-1.0, 1.0]
    uniform = matrix("uniform", shape=(10_000,))
    assert (uniform.min() >= -1, uniform.max() <= 1, uniform.min() < -0.9) == (True,) * 3
    torch.manual_seed(5)
    plain = matrix()
    torch.manual_seed(5)
    scale = matrix("scale") / plain
    assert math.isclose(scale.min().item(), scale.max().item(), rel_tol=1e-5)
    assert 0 < scale.mean() < 1


def test_transforms_are_applied_in_order_before_the_cast() -> None:
    made = matrix("abs", "tril", "transpose", dtype="float16", shape=(8, 16))
    assert (made.dtype, made.shape, made.stride()) == (torch.float16, (16, 8), (1, 16))
    assert made.min() >= 0
    assert made.tril(-1).count_nonzero() == 0  # the lower triangle, transposed


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("x", (2, 3, 4, 5), "float16", memory_format="channels_last"),
        TensorSpec("x", (2, 3, 4, 5, 6), "float16", memory_format="channels_last_3d"),
        TensorSpec("x", (7, 5), "float32", memory_format="channels_last"),
        TensorSpec("x", (7, 5), "float32", memory_format="preserve_format"),
        TensorSpec("x", (7, 5), "float32", transforms=("transpose",)),
        TensorSpec(
            "x", (7, 5), "bfloat16", transforms=("transpose",), memory_format="contiguous_format"
        ),
        TensorSpec("x", (7, 7), "int32", transforms=("triu", "transpose")),
        TensorSpec("x", (4,), "bool"),
        TensorSpec("x", (0, 5), "float32"),
    ],
)
def test_a_ghost_input_has_the_layout_of_the_real_one(spec: TensorSpec) -> None:
    ghost, real = empty_input(spec), random_input(spec)
    assert (ghost.shape, ghost.stride(), ghost.dtype) == (real.shape, real.stride(), real.dtype)


def test_channels_last_is_that() -> None:
    made = empty_input(TensorSpec("x", (2, 3, 4, 5), "float16", memory_format="channels_last"))
    assert made.stride() == (60, 1, 15, 3)


def test_indices_stay_below_the_upper_bound() -> None:
    spec = TensorSpec("idx", (1000,), "int64", value_range=(0.0, 10.0))
    for made in (empty_input(spec), random_input(spec)):
        assert (int(made.min()), int(made.max())) == (0, 9)
    one = TensorSpec("idx", (3,), "int32", value_range=(5.0, 5.0))
    assert random_input(one).tolist() == [5, 5, 5]
    assert set(random_input(TensorSpec("i", (100,), "int8")).tolist()) == {0, 1}


def test_every_third_seed_has_values_whose_sums_do_not_cancel() -> None:
    spec = TensorSpec("x", (1000,), "float16")
    assert [bool(random_input(spec, index).min() >= 0) for index in range(3)] == [
        False,
        True,
        False,
    ]
