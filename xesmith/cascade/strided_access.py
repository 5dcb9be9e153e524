"""Loads and stores of evenly spaced addresses as copies of whole arrays.

Triton's interpreter goes to memory element by element, some 10 ns for each that is loaded and 60 ns
for each that is stored: most of the time of a kernel that moves large tiles. The addresses of a
tile are evenly spaced along each axis, so numpy can see that memory as an array, where it lies in
one buffer. Whatever is not of this kind gets None and goes the interpreter's way.

Runs in worker processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from xesmith.cascade.guarded_memory import Buffer

#: below this the interpreter's own way takes no longer
_FEWEST_ELEMENTS = 64

_numpy = cast(Any, np)


@dataclass(frozen=True)
class Strided:
    """Addresses that are `first` plus a multiple of a step along each axis."""

    first: int
    steps: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def low(self) -> int:
        """The lowest address."""
        return self.first + sum(min(0, far) for far in self._farthest)

    @property
    def high(self) -> int:
        """The highest address."""
        return self.first + sum(max(0, far) for far in self._farthest)

    @property
    def _farthest(self) -> list[int]:
        return [step * (n - 1) for step, n in zip(self.steps, self.shape, strict=True)]

    def array(self, buffer: Buffer, dtype: Any) -> Any | None:
        """The memory at these addresses; None where it is not all in the buffer and its bands."""
        if self.low < buffer.band_start or self.high + dtype.itemsize > buffer.band_end:
            return None
        return _numpy.ndarray(
            self.shape,
            dtype,
            buffer=cast(Any, buffer.whole).numpy(),
            offset=self.first - buffer.band_start,
            strides=self.steps,
        )

    def overlaps(self, size: int) -> bool:
        """Whether elements of `size` bytes may share memory: then their order counts."""
        taken = size
        for step, n in sorted(zip(map(abs, self.steps), self.shape, strict=True)):
            if n > 1:
                if step < taken:
                    return True
                taken = step * (n - 1) + taken
        return False


def strided(addresses: Any) -> Strided | None:
    """How addresses (uint64) are spaced; None where they are not even, or too few to matter."""
    if addresses.size < _FEWEST_ELEMENTS:
        return None
    signed = addresses.view(_numpy.int64)
    first = int(signed.flat[0])
    steps: list[int] = []
    even: Any = first
    for axis, n in enumerate(signed.shape):
        step = 0
        if n > 1:
            step = int(signed[tuple(int(at == axis) for at in range(signed.ndim))]) - first
        if step:
            along = [1] * signed.ndim
            along[axis] = n
            even = even + step * _numpy.arange(n, dtype=_numpy.int64).reshape(along)
        steps.append(step)
    if not (signed == even).all():
        return None
    return Strided(first, tuple(steps), tuple(signed.shape))
