"""The scalars of every program of the captured launches, computed where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from typing import cast as typed

import numpy as np
from numpy.typing import NDArray

from xesmith.ghost.launch import Launch
from xesmith.stages.rewrites.poly import Atom, Poly

#: programs whose scalars are computed; larger grids are not checked numerically
MAX_PROGRAMS = 1 << 20

IntArray = NDArray[np.int64]


class Numbers:
    """The scalars of all programs of each captured launch, where they can be computed."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        self._known: dict[Atom, list[IntArray | int | None]] = {}

    def define(self, atom: Atom, values: list[IntArray | int | None]) -> None:
        self._known[replace(atom, wide=False)] = values

    def of(self, poly: Poly) -> list[IntArray | int | None]:
        """Its value per launch: a number, or an array over the programs; None: not known."""
        return [self._evaluate(poly, index) for index in range(len(self.launches))]

    def _evaluate(self, poly: Poly, launch: int) -> IntArray | int | None:
        result: IntArray | int = 0
        for monomial, coefficient in poly.terms:
            product: IntArray | int = coefficient
            for atom in monomial:
                known = self._known.get(replace(atom, wide=False))
                value = known[launch] if known else None
                if value is None:
                    return None
                product = product * value
            result = result + product
        return result

    def apply(self, operation: str, arguments: Sequence[Poly]) -> list[IntArray | int | None]:
        columns = [self.of(argument) for argument in arguments]
        result: list[IntArray | int | None] = []
        for launch in range(len(self.launches)):
            row = [column[launch] for column in columns]
            result.append(_compute(operation, row))
        return result


def _compute(operation: str, row: Sequence[IntArray | int | None]) -> IntArray | int | None:
    if any(value is None for value in row):
        return None
    known = typed("Sequence[IntArray | int]", row)
    if operation in ("//", "%", "cdiv") and np.any(np.asarray(known[1]) == 0):
        return None
    match operation:
        case "//":
            value = np.floor_divide(known[0], known[1])
        case "%":
            value = np.mod(known[0], known[1])
        case "cdiv":
            value = -np.floor_divide(np.negative(known[0]), known[1])
        case "min":
            value = np.minimum.reduce(np.broadcast_arrays(*known))
        case "max":
            value = np.maximum.reduce(np.broadcast_arrays(*known))
        case _:
            return None
    return np.asarray(value, dtype=np.int64)


def program_ids(launch: Launch, axis: int) -> IntArray | int | None:
    """That program id of every program, in the order of the grid."""
    x, y, z = launch.grid
    if x * y * z > MAX_PROGRAMS:
        return None
    index = np.arange(x * y * z, dtype=np.int64)
    return (index % x, index // x % y, index // (x * y))[axis]


def integer_argument(launch: Launch, name: str) -> int | None:
    value: Any = launch.values.get(name, launch.constexprs.get(name))
    return int(value) if isinstance(value, int) else None
