"""Inputs that are whole only from the moment that a window opens.

Work that a program puts on a queue of its own is not bound to the window: it may be done while the
device is still busy with what comes before, and then seems to take no time. Scattered elements of
every input get their values as the last thing before the window, in the order of the queue that
is timed: what does not wait for that queue computes with others, and its results are wrong.

Runs in the processes of the timer: standard library and torch only. What of torch it uses is bound
before a program is imported, so a program that patches torch patches what nobody asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: of the elements of an input, and at most: their lines are in the caches when the window opens
_SHARE, _MOST = 1 / 256, 8192
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_full, _randint = torch.full, torch.randint
_as_strided = torch.Tensor.as_strided
_index_copy, _index_select = torch.Tensor.index_copy_, torch.Tensor.index_select
_view: Any = torch.Tensor.view


def hold_back(inputs: Sequence[Any]) -> Callable[[], None]:
    """Takes elements of each tensor away; what is returned gives them back, on the current queue.

    In their place a floating-point input has NaN, another one values of its other elements.
    """
    held = [part for x in inputs if isinstance(x, torch.Tensor) for part in _held(x)]

    def release() -> None:
        for flat, places, values in held:
            _index_copy(flat, 0, places, values)
        held.clear()  # nothing is left that tells which they were

    return release


def _held(tensor: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(all stored elements, places, their values), of a tensor with elements of up to 8 bytes."""
    bits = _BITS.get(tensor.element_size())
    if bits is None or tensor.numel() == 0:
        return []
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = _as_strided(_view(tensor, bits), (span,), (1,), tensor.storage_offset())
    generator = torch.Generator(tensor.device).manual_seed(int.from_bytes(os.urandom(7), "little"))
    count = (min(_MOST, max(1, int(span * _SHARE))),)
    places = _randint(span, count, generator=generator, device=tensor.device)
    values = _index_select(flat, 0, places)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        nan = _full((1,), float("nan"), dtype=tensor.dtype, device=tensor.device)
        others = _view(nan, bits).expand(count)
    else:
        elsewhere = _randint(span, count, generator=generator, device=tensor.device)
        others = _index_select(flat, 0, elsewhere)
    _index_copy(flat, 0, places, others)
    return [(flat, places, values)]
