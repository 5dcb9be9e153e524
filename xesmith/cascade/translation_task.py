"""The task that compares what a kernel stores before and after passes, in a process of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

from xesmith.cascade.ttir_evaluator import Kernel, Stored, UnknownOperationError
from xesmith.errors import XesmithError
from xesmith.ghost.launch import Launch, TensorArg

#: dtypes are chosen at run time, so that its types say nothing
np: Any = numpy

#: of one launch, beside the first and the last
_OTHER_PROGRAMS = 6

_UNIT_ROUNDOFF = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}


def compare(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs programs of a launch's grid in both texts.

    Args:
        arguments: {"before", "after": files of TTIR in generic form, "launch": Launch as JSON,
            "exact": whether bits must be equal, "seconds": after which no further program
            begins; the first and the last always do}.
        folder: not used.

    Returns:
        {"programs": how many were compared, "of": in the grid, "elements": stored, "fault": what
        differs | None, "unknown": what the evaluator does not know | None, "worst": the largest
        error over what is allowed, where bits need not be equal}.
    """
    launch = Launch.from_json(arguments["launch"])
    result: dict[str, Any] = {"programs": 0, "elements": 0, "fault": None, "unknown": None}
    result |= {"worst": 0.0, "of": math.prod(launch.grid)}
    started = time.monotonic()
    try:
        before, after = (Kernel(Path(arguments[k]).read_text()) for k in ("before", "after"))
        given = _arguments(launch)
        comparison = _Comparison(launch, exact=arguments["exact"])
        for count, program in enumerate(programs(launch.grid)):
            if count >= 2 and time.monotonic() - started > arguments["seconds"]:
                break
            old, new = (kernel.run(given, program, launch.grid) for kernel in (before, after))
            comparison.add(old, new)
            result |= {"programs": count + 1, "elements": comparison.elements}
            result["worst"] = comparison.worst
            if comparison.fault is not None:
                result["fault"] = f"in program {program}: {comparison.fault}"
                break
    except UnknownOperationError as error:
        result["unknown"] = str(error)
    except XesmithError as error:
        result["unknown"] = error.what
    return result


def programs(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """The first and the last program of a grid, then others at random; of a small grid all."""
    total = math.prod(grid)
    chosen = dict.fromkeys([0, total - 1])
    others = range(1, total - 1)
    if len(others) > _OTHER_PROGRAMS:
        random = np.random.default_rng(total)
        others = [int(n) for n in random.choice(total - 2, _OTHER_PROGRAMS, replace=False) + 1]
    for number in (*chosen, *others):
        rest, x = divmod(number, grid[0])
        yield x, rest % grid[1], rest // grid[1]


def _arguments(launch: Launch) -> list[Any]:
    """What the launch passes; of what is a tensor, nothing but that it is one."""
    return [
        launch.values.get(name) for name, kind in launch.signature.items() if kind != "constexpr"
    ]


class _Comparison:
    """What programs stored, before and after."""

    def __init__(self, launch: Launch, *, exact: bool) -> None:
        self._names = [name for name, kind in launch.signature.items() if kind != "constexpr"]
        self._tensors = [launch.values.get(name) for name in self._names]
        self._exact = exact
        dims = [size for arg in self._tensors if isinstance(arg, TensorArg) for size in arg.shape]
        self._length = max(dims, default=1)
        self.elements = 0
        self.worst = 0.0
        self.fault: str | None = None

    def add(self, before: Stored, after: Stored) -> None:
        self.fault = self._difference(before, after)

    def _difference(self, before: Stored, after: Stored) -> str | None:
        if before.images.keys() != after.images.keys():
            return "other arguments are stored to"
        coarsest = max(
            (_UNIT_ROUNDOFF[t] for t in before.types.values() if t in _UNIT_ROUNDOFF), default=0.0
        )
        for argument, (offsets, values) in before.images.items():
            others, found = after.images[argument]
            name = self._names[argument]
            if not np.array_equal(offsets, others):
                return f"other elements of '{name}' are stored"
            self.elements += len(offsets)
            kind = before.types[argument]
            if (text := self._unequal(name, kind, values, found, coarsest)) is not None:
                return text
        if len(before.atomics) != len(after.atomics):
            return "another number of atomic operations is done"
        for (what, argument, offsets, values), (other, to, others, found) in zip(
            before.atomics, after.atomics, strict=True
        ):
            name = self._names[argument]
            if (what, argument) != (other, to) or not np.array_equal(offsets, others):
                return f"other atomic operations are done on '{name}'"
            self.elements += len(offsets)
            kind = before.types[argument]
            if (text := self._unequal(name, kind, values, found, coarsest)) is not None:
                return text
        return self._outside(before, after)

    def _unequal(
        self, name: str, kind: str, values: Any, found: Any, coarsest: float
    ) -> str | None:
        if values.dtype != found.dtype:
            return f"what is stored to '{name}' has another type"
        both_nan = (values != values) & (found != found)
        if self._exact or kind not in _UNIT_ROUNDOFF:
            bits: Any = np.dtype(f"u{values.dtype.itemsize}")
            wrong = (values.view(bits) != found.view(bits)) & ~both_nan
            count = int(np.count_nonzero(wrong))
            return f"{count} of {len(values)} values of '{name}' differ" if count else None
        exact, got = values.astype(np.float64), found.astype(np.float64)
        finite = exact[np.isfinite(exact)]
        rms = math.sqrt(float(np.mean(np.square(finite)))) if len(finite) else 0.0
        # The cascade's tolerance (docs/03-judgement.md), of the type that is stored.
        sums = _UNIT_ROUNDOFF["f64" if coarsest == _UNIT_ROUNDOFF["f64"] else "f32"]
        atol = rms * (8 * coarsest + 4 * math.sqrt(self._length) * sums)
        allowed = atol + 8 * _UNIT_ROUNDOFF[kind] * np.abs(exact)
        same = both_nan | (exact == got)
        error = np.where(same, 0.0, np.abs(exact - got) / np.where(allowed > 0, allowed, 1e-300))
        error = np.where(np.isnan(error), np.inf, error)
        worst = float(np.max(error, initial=0.0))
        self.worst = max(self.worst, worst)
        if worst <= 1:
            return None
        count = int(np.count_nonzero(error > 1))
        return f"{count} of {len(values)} values of '{name}' differ by more than is allowed"

    def _outside(self, before: Stored, after: Stored) -> str | None:
        """Memory that only the kernel after the passes touches, and that is no tensor's."""
        for argument, (low, high) in after.touched.items():
            tensor = self._tensors[argument]
            least, most = before.touched.get(argument, (0, 0))
            if isinstance(tensor, TensorArg):
                held = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
                least, most = min(least, 0), max(most, held)
            if low < least or high > most:
                return f"'{self._names[argument]}' is accessed outside of its tensor"
        return None
