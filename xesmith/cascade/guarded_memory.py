"""Memory in which a kernel's faults show: poisoned, and between two guard bands.

What `torch.empty` gives is filled with a pattern (NaN in every float type), so an element that
no kernel writes is seen. Before and behind each buffer lies a band of the same pattern: a read
there brings NaN, a write there is found by `broken_guards`, and neither ends the process.
Runs in worker processes.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from xesmith.cascade.tensor_files import span

#: all bits set: NaN in float16, bfloat16, float32, float64 and both float8 types
POISON = 0xFF
SMALLEST_BAND_BYTES = 256 << 10
LARGEST_BAND_BYTES = 8 << 20
_ALIGNMENT_BYTES = 4096

#: operators that give fresh memory which the program then fills; decides what is guarded
_UNFILLED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)
_FILLED = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"}
    | {"full", "full_like", "new_full", "clone"}
)
#: operators that only make, view, fill or copy memory: no arithmetic of a model
_MOVES = (
    _UNFILLED
    | _FILLED
    | frozenset(
        {"view", "_unsafe_view", "reshape", "as_strided", "t", "transpose", "permute", "detach"}
        | {"expand", "squeeze", "unsqueeze", "select", "slice", "alias", "unbind", "split"}
        | {"chunk", "copy_", "fill_", "zero_", "_to_copy", "lift_fresh", "unfold", "narrow"}
        | {"set_", "resize_", "contiguous", "view_as", "_reshape_alias", "arange", "is_same_size"}
    )
)


class NoMemoryError(Exception):
    """An access where the process has no memory at all, at `elements` of its addresses."""

    def __init__(self, elements: int) -> None:
        super().__init__(elements)
        self.elements = elements


@dataclass(frozen=True)
class Buffer:
    """One allocation. `start` and `end` are addresses of what the program may touch."""

    whole: torch.Tensor  # uint8, with both bands
    start: int
    end: int

    @property
    def band_start(self) -> int:
        return self.whole.data_ptr()

    @property
    def band_end(self) -> int:
        return self.whole.data_ptr() + self.whole.numel()


class GuardedMemory:
    """The buffers of one run.

    Args:
        integer_poison: a byte; integers have no NaN, so runs use different ones.
        band: the byte of guard bands. A NaN that is loaded from one band and stored to another
            leaves it as it was, so where addresses are not watched another run uses another.
    """

    def __init__(self, integer_poison: int = 0xA5, band: int = POISON) -> None:
        self._integer_poison = integer_poison
        self._band = band
        self._buffers: dict[int, Buffer] = {}  # by address of the first usable byte
        self._starts: list[int] = []
        self._mapped: tuple[Any, Any] = (np.zeros(1), np.zeros(1))

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Poisoned memory of the shape, strides and type of `like`."""
        elements = span(like)
        if elements == 0:
            return like
        size = elements * like.element_size()
        band = min(max(size, SMALLEST_BAND_BYTES), LARGEST_BAND_BYTES)
        band = -(-band // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        whole = torch.full(
            (size + 2 * band + _ALIGNMENT_BYTES,), self._band, dtype=torch.uint8, device=like.device
        )
        first = band + -(whole.data_ptr() + band) % _ALIGNMENT_BYTES
        inside = whole[first : first + size]
        if like.is_floating_point() or like.is_complex():
            if self._band != POISON:
                inside.fill_(POISON)
        else:
            inside.fill_(
                self._integer_poison & 1 if like.dtype is torch.bool else self._integer_poison
            )
        buffer = Buffer(whole, inside.data_ptr(), inside.data_ptr() + size)
        self._buffers[buffer.start] = buffer
        bisect.insort(self._starts, buffer.start)
        typed = inside.view(like.dtype)
        return typed.as_strided(like.shape, like.stride(), typed.storage_offset())

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of `tensor`, strides and all, in guarded memory."""
        if tensor.numel() == 0:
            return tensor
        moved = self.empty(tensor)
        # Element by element of storage, so that overlapping strides (expand) survive.
        flat = (span(tensor),)
        moved.as_strided(flat, (1,), moved.storage_offset()).copy_(
            tensor.as_strided(flat, (1,), tensor.storage_offset())
        )
        return moved

    def buffer_of(self, low: int, high: int) -> Buffer | None:
        """The buffer whose own memory, without bands, holds the addresses from low until high."""
        index = bisect.bisect_right(self._starts, low) - 1
        if index < 0 or high > (buffer := self._buffers[self._starts[index]]).end:
            return None
        return buffer

    def outside(self, addresses: Any, size: int) -> tuple[int, int]:
        """What of an access lies in a guard band.

        Args:
            addresses: numpy array of uint64.
            size: bytes at each.

        Returns:
            (number of addresses, the most bytes beyond a tensor's end or before its start).
            Memory near no buffer is unknown (PyTorch may have made it) and counts as right.

        Raises:
            NoMemoryError: the process has no memory at some address, so the access would end it.
        """
        if addresses.size == 0 or not self._buffers:
            return 0, 0
        if self.buffer_of(int(addresses.min()), int(addresses.max()) + size) is not None:
            return 0, 0
        buffers = [self._buffers[start] for start in self._starts]
        numpy = cast(Any, np)
        bands = numpy.array([b.band_start for b in buffers], dtype=numpy.uint64)
        places: Any = numpy.searchsorted(bands, addresses, side="right").astype(numpy.int64) - 1
        first, last = addresses.astype(numpy.int64), addresses.astype(numpy.int64) + size
        starts, ends, band_ends = (
            numpy.array(column, dtype=numpy.int64)[places]
            for column in (
                [b.start for b in buffers],
                [b.end for b in buffers],
                [b.band_end for b in buffers],
            )
        )
        unknown: Any = addresses[(places < 0) | (first >= band_ends)].astype(numpy.int64)
        if unknown.size and (missing := self._missing(unknown, size)):
            raise NoMemoryError(missing)
        beyond: Any = numpy.maximum(starts - first, last - ends)
        wrong: Any = (places >= 0) & (first < band_ends) & (beyond > 0)
        return int(wrong.sum()), int(beyond[wrong].max(initial=0))

    def _missing(self, addresses: Any, size: int) -> int:
        """At how many addresses (int64) the process has no memory. What it had once counts."""
        numpy = cast(Any, np)
        missing = 0
        for mapped in (lambda: self._mapped, _mapped_memory):
            self._mapped = starts, ends = mapped()
            places: Any = numpy.searchsorted(starts, addresses, side="right") - 1
            there: Any = (places >= 0) & (addresses + size <= ends[places])
            missing = int((~there).sum())
            if not missing:
                break
        return missing

    def broken_guards(self) -> list[tuple[int, int]]:
        """(bytes changed before, bytes changed behind) of each buffer that was overrun."""
        broken: list[tuple[int, int]] = []
        for buffer in self._buffers.values():
            first = buffer.start - buffer.band_start
            last = buffer.end - buffer.band_start
            before = int((buffer.whole[:first] != self._band).count_nonzero())
            behind = int((buffer.whole[last:] != self._band).count_nonzero())
            if before or behind:
                broken.append((before, behind))
        return broken


def _mapped_memory() -> tuple[Any, Any]:
    """Where the process has memory that it may read: first addresses, and those behind the last."""
    starts: list[int] = []
    ends: list[int] = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            span_text, access = line.split(maxsplit=2)[:2]
            start, end = (int(text, 16) for text in span_text.split("-"))
            if access.startswith("r") and end < 1 << 63:
                starts.append(start)
                ends.append(end)
    numpy = cast(Any, np)
    return numpy.array(starts, dtype=numpy.int64), numpy.array(ends, dtype=numpy.int64)


class WatchedTorch(TorchDispatchMode):
    """Puts the program's own allocations into guarded memory and counts its arithmetic.

    `operators` counts the operators that compute; what a kernel is for should not be there.
    Memory on devices other than `device` is left alone.
    """

    def __init__(self, memory: GuardedMemory, device: str = "cpu") -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._memory = memory
        self._device = device
        self.operators: dict[str, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports torch._dynamo: 2 s

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name: str = func.overloadpacket.__name__
        if name not in _MOVES:
            self.operators[name] = self.operators.get(name, 0) + 1
        if not isinstance(result, torch.Tensor) or result.device.type != self._device:
            return result
        if name in _UNFILLED:
            return self._memory.empty(result)
        if name in _FILLED:
            return self._memory.adopt(result)
        return result
