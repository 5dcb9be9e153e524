"""Copies of whole tiles against the element-by-element way: the same, or left to that."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from xesmith.cascade.guarded_memory import GuardedMemory
from xesmith.cascade.strided_access import strided

SIZE = 4


def addresses(first, shape, steps):
    grids = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    return (first + sum(g * s for g, s in zip(grids, steps, strict=True))).astype(np.uint64)


def guarded(elements):
    memory = GuardedMemory()
    tensor = memory.adopt(torch.arange(elements, dtype=torch.int32))
    buffer = memory.buffer_of(tensor.data_ptr(), tensor.data_ptr() + elements * SIZE)
    assert buffer is not None
    return memory, tensor, buffer


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(-20, 20)), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_what_is_seen_at_once_is_what_lies_at_each_address(axes, unaligned):
    shape, steps = [n for n, _ in axes], [step * SIZE for _, step in axes]
    _, tensor, buffer = guarded(4096)
    found = addresses(tensor.data_ptr() + 2048 * SIZE + unaligned, shape, steps)
    places = strided(found)
    if found.size < 64:
        assert places is None
        return
    assert places is not None
    assert (places.low, places.high) == (int(found.min()), int(found.max()))
    seen = places.array(buffer, np.dtype(np.int32))
    assert seen is not None
    raw = tensor.numpy().tobytes()
    each = [
        int.from_bytes(raw[at : at + SIZE], "little", signed=True)
        for at in (found.ravel() - np.uint64(tensor.data_ptr())).tolist()
    ]
    assert seen.ravel().tolist() == each
    taken = {int(at) + byte for at in found.ravel() for byte in range(SIZE)}
    if len(taken) < found.size * SIZE:
        assert places.overlaps(SIZE)


def test_uneven_addresses_are_left_to_the_interpreter():
    _, tensor, _ = guarded(4096)
    found = addresses(tensor.data_ptr(), [8, 16], [64 * SIZE, SIZE])
    assert strided(found) is not None
    for at in ((7, 15), (3, 4), (0, 1), (1, 0)):
        moved = found.copy()
        moved[at] += np.uint64(SIZE)
        assert strided(moved) is None


@pytest.mark.parametrize("elements", [-(1 << 20), 1 << 20])
def test_what_reaches_beyond_the_bands_is_no_array(elements):
    _, tensor, buffer = guarded(4096)
    places = strided(addresses(tensor.data_ptr(), [64], [elements * SIZE]))
    assert places is not None
    assert places.array(buffer, np.dtype(np.int32)) is None


@pytest.mark.parametrize(
    ("shape", "steps", "overlapping"),
    [
        ([64], [4], False),
        ([64], [2], True),
        ([64], [0], True),
        ([8, 16], [64, 4], False),
        ([8, 16], [60, 4], True),
        ([8, 16], [4, 32], False),
        ([8, 16], [-64, 4], False),
        ([1, 64], [0, 4], False),
    ],
)
def test_stores_whose_order_counts_are_told(shape, steps, overlapping):
    places = strided(addresses(1 << 20, shape, steps))
    assert places is not None
    assert places.overlaps(4) is overlapping
