"""Elements of an input that are not there before the window opens."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from xesmith.timing.late_inputs import hold_back  # noqa: E402


def differing(a, b):
    """Elements whose bits differ."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return int((a.contiguous().view(bits) != b.contiguous().view(bits)).sum())


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "complex64"]
)
def test_a_float_is_not_a_number_until_it_is_released(dtype):
    x = torch.randn(64, 256).to(getattr(torch, dtype))
    whole = x.clone()
    release = hold_back([x, 3, None])
    # 64 of 16384, one or two of which may have been drawn twice
    assert 55 <= int(x.to(torch.complex128).isnan().sum()) == differing(x, whole) <= 64
    release()
    assert differing(x, whole) == 0


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_an_integer_stays_one_of_the_inputs_own(dtype):
    values = torch.tensor([0, 1]) if dtype == "bool" else torch.tensor([3, 7, 11])
    x = values[torch.arange(40_000) % len(values)].to(getattr(torch, dtype))
    whole = x.clone()
    release = hold_back([x])
    assert 40 < differing(x, whole) < 156  # 156 places, each of which may get its own value back
    assert set(x.tolist()) <= set(values.to(x.dtype).tolist())
    release()
    assert differing(x, whole) == 0


def test_what_lies_between_strides_is_no_matter():
    room = torch.randn(100, 64)
    x = room.t()[:, ::2]  # 64 x 50, strides (1, 128)
    whole = x.clone()
    release = hold_back([x])
    assert differing(x, whole) > 0
    release()
    assert differing(x, whole) == 0


def test_few_lines_of_a_large_input_are_touched():
    x = torch.zeros(1 << 22)
    hold_back([x])
    assert 8000 < int(x.isnan().sum()) <= 8192


def test_an_input_with_one_element_and_one_with_none():
    one, none = torch.ones(()), torch.ones((0, 3))
    release = hold_back([one, none])
    assert one.isnan()
    release()
    assert one == 1
