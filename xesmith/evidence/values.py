"""What is known of the integers and pointers inside a kernel's IR for one captured launch.

- `text`: a scalar as an expression in argument names ("cdiv(K, 32)");
- `range`: lower and upper bounds, per program of the grid where the grid is small enough,
  with the captured argument values put in;
- `slopes`: by how much an offset tensor grows along each of its dimensions;
- `base_argument`: the pointer argument that an address goes back to.

Everything is a proof from the IR or absent (None): never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from xesmith.evidence.mlir import Operation, Value

_T = TypeVar("_T")

Integers = npt.NDArray[np.int64]

#: up to so many programs are evaluated one by one; above, all at once as an interval
MAX_PROGRAMS = 1 << 16
_MAX_DEPTH = 200
#: sums of two such numbers still fit the 64 bits in which ranges are computed
_MAX_BITS = 63

_SAME_VALUE = frozenset(
    {
        "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat",
        "ttg.convert_layout", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast",
        "arith.index_castui",
    }
)  # fmt: skip
_LOOPS = frozenset({"scf.for", "scf.while", "scf.parallel"})


@dataclass(frozen=True)
class Range:
    """Bounds per program; arrays of the grid's size, or of size 1 when it is too large."""

    low: Integers
    high: Integers

    @property
    def exact(self) -> bool:
        return bool(np.array_equal(self.low, self.high))

    @property
    def constant(self) -> int | None:
        """The one value that it has in every program."""
        first = int(self.low.flat[0])
        same = bool((self.low == first).all()) and bool((self.high == first).all())
        return first if same else None


@dataclass(frozen=True)
class Slope:
    """Growth along one dimension: a number or an argument's expression; None: not uniform.

    `modulo` names what the offset is taken modulo of, as in `offs % M`.
    """

    step: int | str | None
    modulo: str | None = None


ZERO = Slope(0)


class Values:
    """Answers about one function for one launch; every answer is computed once."""

    def __init__(
        self,
        function: Operation,
        names: list[str],
        numbers: Mapping[str, object],
        grid: tuple[int, int, int],
    ) -> None:
        """
        Args:
            function: the kernel's `tt.func`.
            names: of its arguments, in order.
            numbers: the captured values of integer arguments, by name.
            grid: programs along each axis.
        """
        self.function = function
        self.grid = grid
        self._names = names
        self._numbers = numbers
        programs = math.prod(grid)
        self._ids: list[Range] = []
        if 0 < programs <= MAX_PROGRAMS:
            index = np.arange(programs, dtype=np.int64)
            for axis in range(3):
                ids = index // math.prod(grid[:axis]) % grid[axis]
                self._ids.append(Range(ids, ids))
        else:
            zero = np.zeros(1, dtype=np.int64)
            self._ids = [Range(zero, np.full(1, size - 1, dtype=np.int64)) for size in grid]
        self._ranges: dict[Value, Range | None] = {}
        self._texts: dict[Value, str | None] = {}
        self._slopes: dict[Value, tuple[Slope, ...] | None] = {}
        self._depth = 0

    # arguments

    def argument(self, value: Value) -> str | None:
        """The name of a function argument; None for any other value."""
        if value.block_of is not self.function:
            return None
        return self._names[value.index] if value.index < len(self._names) else None

    def base_argument(self, pointer: Value) -> str | None:
        """The function argument from which an address is computed; None for several."""
        found: set[str | None] = set()
        waiting, seen = [pointer], set[Value]()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if (name := self.argument(current)) is not None:
                found.add(name if current.type.is_pointer else None)
                continue
            sources = self._pointer_sources(current)
            if not sources:
                found.add(None)
            waiting.extend(sources)
        return found.pop() if len(found) == 1 else None

    def _pointer_sources(self, value: Value) -> list[Value]:
        """One step back along an address: every pointer that `value` may be made from."""
        owner = value.owner
        if owner is None:
            start = self._carried_from(value)
            return [] if start is None else [start]
        if owner.name in _LOOPS:
            return [owner.operands[value.index + (3 if owner.name == "scf.for" else 0)]]
        if owner.name == "scf.if":
            branches = [region[0].operations[-1].operands for region in owner.regions if region]
            return [branch[value.index] for branch in branches]
        pointers = [operand for operand in owner.operands if operand.type.is_pointer]
        return pointers if owner.name == "arith.select" else pointers[:1]

    def pointer_source(self, value: Value) -> Value | None:
        """One step back along an address, where there is only one way."""
        sources = self._pointer_sources(value)
        return sources[0] if len(sources) == 1 else None

    @staticmethod
    def _carried_from(value: Value) -> Value | None:
        """What a loop's block argument holds before the first iteration."""
        loop = value.block_of
        if loop is None:
            return None
        if loop.name == "scf.for":
            return loop.operands[value.index + 2] if value.index > 0 else None
        if loop.name == "scf.while" and len(loop.operands) > value.index:
            return loop.operands[value.index]
        return None

    # expressions

    def text(self, value: Value) -> str | None:
        """A scalar integer as an expression in argument names, `pid0`..`pid2` and numbers."""
        return self._memo(self._texts, value, self._text)

    def _text(self, value: Value) -> str | None:
        if (name := self.argument(value)) is not None:
            return None if value.type.is_pointer else name
        owner = value.owner
        if owner is None:
            return None
        if (number := constant(value)) is not None:
            return str(number)
        name = owner.name
        if name == "tt.get_program_id":
            return f"pid{owner.integer('axis') or 0}"
        if name == "tt.get_num_programs":
            return f"programs{owner.integer('axis') or 0}"
        if name in _SAME_VALUE:
            return self.text(owner.operands[0])
        operator = _TEXT_OPERATORS.get(name)
        if operator is None or len(owner.operands) != 2:
            return None
        left, right = self.text(owner.operands[0]), self.text(owner.operands[1])
        if left is None or right is None:
            return None
        if name == "arith.divsi" and (whole := _ceiling_division(left, right)) is not None:
            return whole
        return _fold(operator, left, right)

    # ranges

    def range(self, value: Value) -> Range | None:
        """Bounds of an integer scalar, or of all elements of an integer tensor."""
        return self._memo(self._ranges, value, self._range)

    def number(self, value: Value) -> int | None:
        """The value where it is the same in every program, else None."""
        found = self.range(value)
        return None if found is None else found.constant

    def _range(self, value: Value) -> Range | None:
        if value.type.is_float or value.type.is_pointer:
            return None
        owner = value.owner
        if owner is None:
            return self._block_argument_range(value)
        name = owner.name
        if name == "arith.constant":
            return _constant_range(value)
        if name == "tt.get_program_id":
            return self._ids[owner.integer("axis") or 0]
        if name == "tt.get_num_programs":
            return _single(self.grid[owner.integer("axis") or 0])
        if name == "tt.make_range":
            start, end = owner.integer("start"), owner.integer("end")
            return None if start is None or end is None else _single(start, end - 1)
        if name in _SAME_VALUE:
            if name == "arith.extsi" and owner.operands[0].type.element == "i1":
                return None  # true becomes -1
            return _within_type(self.range(owner.operands[0]), value)
        if name == "scf.if":
            return self._if_range(owner, value.index)
        if name == "arith.select":
            return _union(self.range(owner.operands[1]), self.range(owner.operands[2]))
        if name == "scf.for":
            return self._carried_range(owner, value.index, after=True)
        ranges = [self.range(operand) for operand in owner.operands]
        if len(ranges) != 2 or ranges[0] is None or ranges[1] is None:
            return None
        if name == "arith.cmpi":
            return _compare(owner.integer("predicate"), ranges[0], ranges[1])
        operator = _RANGE_OPERATORS.get(name)
        return None if operator is None else _within_type(operator(ranges[0], ranges[1]), value)

    def _block_argument_range(self, value: Value) -> Range | None:
        if (name := self.argument(value)) is not None:
            number = self._numbers.get(name)
            return _single(int(number)) if isinstance(number, int) else None
        loop = value.block_of
        if loop is None or loop.name != "scf.for":
            return None
        if value.index == 0:
            return self.induction(loop)
        return self._carried_range(loop, value.index - 1, after=False)

    def _bounds(self, loop: Operation) -> tuple[Range, Range, Range] | None:
        """Lower bound, upper bound and a positive step of a `scf.for`."""
        low, high, step = (self.range(operand) for operand in loop.operands[:3])
        if low is None or high is None or step is None or not bool((step.low > 0).all()):
            return None
        return low, high, step

    def induction(self, loop: Operation) -> Range | None:
        """Bounds of a `scf.for`'s induction variable, over all its iterations."""
        bounds = self._bounds(loop)
        if bounds is None:
            return None
        low, high, step = bounds
        if low.exact and step.exact:
            span = np.maximum(high.high - 1 - low.low, 0)
            last = low.low + span // step.low * step.low
        else:
            last = np.maximum(high.high - 1, low.low)
        return Range(low.low, last)

    def trips(self, loop: Operation) -> Range | None:
        """Bounds of a `scf.for`'s number of iterations, per program."""
        if loop.name != "scf.for":
            return None
        bounds = self._bounds(loop)
        if bounds is None:
            return None
        low, high, step = bounds
        least = np.maximum(-((low.high - high.low) // step.high), 0)
        most = np.maximum(-((low.low - high.high) // step.low), 0)
        return Range(least, most)

    def _carried_range(self, loop: Operation, index: int, *, after: bool) -> Range | None:
        """A loop-carried integer that does not change, or grows by the same step each time."""
        block = loop.regions[0][0]
        argument, start = block.arguments[index + 1], self.range(loop.operands[index + 3])
        if start is None:
            return None
        following = block.operations[-1].operands[index]
        if following is argument:
            return start
        step = self._added(following, argument)
        trips = self.trips(loop)
        if step is None or trips is None:
            return None
        # Inside the loop the last step has not been added yet.
        most = trips.high if after else np.maximum(trips.high - 1, 0)
        grown = _multiply(Range(np.zeros_like(most), most), step)
        return None if grown is None else _within_type(_add(start, grown), argument)

    def _added(self, value: Value, argument: Value) -> Range | None:
        """What `value` adds to `argument`, when it is a chain of additions of invariants."""
        total = _single(0)
        current = value
        for _ in range(_MAX_DEPTH):
            if current is argument:
                return total
            owner = current.owner
            if owner is None or owner.name not in ("arith.addi", "tt.addptr"):
                return None
            sides = owner.operands
            carried = 0 if self._reaches(sides[0], argument) else 1
            added = self.range(sides[1 - carried])
            if added is None or self._reaches(sides[1 - carried], argument):
                return None
            total = _add(total, added)
            current = sides[carried]
        return None

    @staticmethod
    def _reaches(value: Value, argument: Value) -> bool:
        """Whether a chain of additions leads from `value` back to `argument`."""
        waiting, seen = [value], set[Value]()
        while waiting:
            current = waiting.pop()
            if current is argument:
                return True
            if current in seen or current.owner is None:
                continue
            seen.add(current)
            waiting.extend(current.owner.operands)
        return False

    def _if_range(self, owner: Operation, index: int) -> Range | None:
        branches = [region[0].operations[-1].operands for region in owner.regions if region]
        if len(branches) != 2:
            return None
        return _union(self.range(branches[0][index]), self.range(branches[1][index]))

    # slopes

    def slopes(self, value: Value) -> tuple[Slope, ...] | None:
        """Growth of an offset or of a tensor of pointers (in elements) along its dimensions."""
        rank = len(value.type.shape)
        if rank == 0:
            return ()
        if value in self._slopes:
            return self._slopes[value]
        if self._depth >= _MAX_DEPTH:
            return None
        self._slopes[value] = None
        self._depth += 1
        try:
            self._slopes[value] = self._slope(value, rank)
        finally:
            self._depth -= 1
        return self._slopes[value]

    def _slope(self, value: Value, rank: int) -> tuple[Slope, ...] | None:
        owner = value.owner
        if owner is None or owner.name in _LOOPS:
            # Loops move addresses as a whole; what a step adds must itself be uniform.
            return self._carried_slope(value)
        name = owner.name
        operands = owner.operands
        if name in ("arith.constant", "tt.splat"):
            return (ZERO,) * rank
        if name == "tt.make_range":
            return (Slope(1),)
        if name == "tt.expand_dims":
            axis = owner.integer("axis") or 0
            inner = self.slopes(operands[0])
            return None if inner is None else (*inner[:axis], ZERO, *inner[axis:])
        if name == "tt.broadcast":
            return self.slopes(operands[0])
        if name in ("ttg.convert_layout", "arith.extsi", "arith.extui", "arith.trunci"):
            return self.slopes(operands[0])
        if name == "tt.trans":
            inner, permutation = self.slopes(operands[0]), owner.integers("order")
            if inner is None or len(permutation) != rank:
                return None
            return tuple(inner[d] for d in permutation)
        if name in ("arith.addi", "tt.addptr", "arith.subi"):
            return self._sum_slopes(operands[0], operands[1], subtract=name == "arith.subi")
        if name == "arith.muli":
            return self._scaled_slopes(operands[0], operands[1])
        if name in ("arith.remsi", "arith.remui"):
            return self._modulo_slopes(operands[0], operands[1])
        return None

    def _carried_slope(self, value: Value) -> tuple[Slope, ...] | None:
        owner = value.owner
        if owner is not None:
            source = owner.operands[value.index + (3 if owner.name == "scf.for" else 0)]
            return self.slopes(source)
        start = self._carried_from(value)
        loop = value.block_of
        if start is None or loop is None or loop.name != "scf.for":
            return None
        following = loop.regions[0][0].operations[-1].operands[value.index - 1]
        if following is value:
            return self.slopes(start)
        moved = following.owner
        if moved is None or moved.name not in ("tt.addptr", "arith.addi"):
            return None
        if moved.operands[0] is not value or self.slopes(moved.operands[1]) is None:
            return None
        if any(slope != ZERO for slope in self.slopes(moved.operands[1]) or ()):
            return None
        return self.slopes(start)

    def _sum_slopes(self, left: Value, right: Value, *, subtract: bool) -> tuple[Slope, ...] | None:
        first, second = self.slopes(left), self.slopes(right)
        if first is None or second is None:
            return None
        return tuple(_add_slopes(a, b, subtract) for a, b in zip(first, second, strict=True))

    def _scaled_slopes(self, left: Value, right: Value) -> tuple[Slope, ...] | None:
        first, second = self.slopes(left), self.slopes(right)
        if first is None or second is None:
            return None
        for slopes, factor in ((first, right), (second, left)):
            other = second if slopes is first else first
            if all(slope == ZERO for slope in other):
                text = self.text(_unsplat(factor))
                return tuple(_scale_slope(slope, text) for slope in slopes)
        return None

    def _modulo_slopes(self, left: Value, right: Value) -> tuple[Slope, ...] | None:
        first, second = self.slopes(left), self.slopes(right)
        if first is None or second is None or any(slope != ZERO for slope in second):
            return None
        divisor = self.text(_unsplat(right))
        if (whole := self.range(left)) is not None and (limit := self.range(right)) is not None:
            stays = bool((whole.low >= 0).all()) and bool((whole.high < limit.low).all())
            if stays:
                return first
        return tuple(
            slope if slope == ZERO else Slope(slope.step, modulo=divisor or "a value")
            for slope in first
        )

    # the memo shared by `text` and `range`

    def _memo(
        self, table: dict[Value, _T | None], value: Value, compute: Callable[[Value], _T | None]
    ) -> _T | None:
        if value in table:
            return table[value]
        if self._depth >= _MAX_DEPTH:
            return None
        table[value] = None  # cuts cycles
        self._depth += 1
        try:
            table[value] = compute(value)
        finally:
            self._depth -= 1
        return table[value]


# constants


def constant(value: Value) -> int | None:
    """The value of an integer `arith.constant`, also of a splat tensor."""
    owner = value.owner
    if owner is None or owner.name != "arith.constant" or value.type.is_float:
        return None
    text = owner.attribute("value") or ""
    if text.startswith("dense<"):
        text = text[6 : text.find(">")]
    text = text.partition(":")[0].strip()
    if text in ("true", "false"):
        return int(text == "true")
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _constant_range(value: Value) -> Range | None:
    number = constant(value)
    return None if number is None else _single(number)


def _unsplat(value: Value) -> Value:
    """The scalar that fills a tensor."""
    while value.owner is not None and value.owner.name in (
        "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout",
    ):  # fmt: skip
        value = value.owner.operands[0]
    return value


# ranges


def _single(low: int, high: int | None = None) -> Range:
    least = np.array([low], dtype=np.int64)
    return Range(least, least if high is None else np.array([high], dtype=np.int64))


def _within_type(found: Range | None, value: Value) -> Range | None:
    """None where a value could wrap around in its type (64 bits: with a bit to spare)."""
    bits = value.type.element_bits
    if found is None or bits <= 1:
        return found
    limit = 1 << (min(bits, _MAX_BITS) - 1)
    if int(found.low.min()) < -limit or int(found.high.max()) >= limit:
        return None
    return found


def _union(first: Range | None, second: Range | None) -> Range | None:
    if first is None or second is None:
        return None
    return Range(np.minimum(first.low, second.low), np.maximum(first.high, second.high))


def _corners(first: Range, second: Range, operator: Callable[..., Integers]) -> Range:
    """For operators that are monotonic in each operand: the extremes are at the corners."""
    values = [operator(a, b) for a in (first.low, first.high) for b in (second.low, second.high)]
    low, high = values[0], values[0]
    for item in values[1:]:
        low, high = np.minimum(low, item), np.maximum(high, item)
    return Range(low, high)


def _add(first: Range, second: Range) -> Range:
    return Range(first.low + second.low, first.high + second.high)


def _subtract(first: Range, second: Range) -> Range:
    return Range(first.low - second.high, first.high - second.low)


def _multiply(first: Range, second: Range) -> Range | None:
    largest = [max(abs(int(r.low.min())), abs(int(r.high.max()))) for r in (first, second)]
    if largest[0] * largest[1] >= 1 << (_MAX_BITS - 1):
        return None
    return _corners(first, second, np.multiply)


def _divide(first: Range, second: Range) -> Range | None:
    """Division that rounds toward zero; by positive values only."""
    if not bool((second.low > 0).all()):
        return None
    return _corners(first, second, _toward_zero)


def _toward_zero(left: Integers, right: Integers) -> Integers:
    return np.sign(left) * (np.abs(left) // right)


def _unsigned(
    operator: Callable[[Range, Range], Range | None],
) -> Callable[[Range, Range], Range | None]:
    """For unsigned operations: the same as signed where nothing is negative."""

    def guarded(first: Range, second: Range) -> Range | None:
        if bool((first.low < 0).any()) or bool((second.low < 0).any()):
            return None
        return operator(first, second)

    return guarded


def _remainder(first: Range, second: Range) -> Range | None:
    if not bool((second.low > 0).all()) or not bool((first.low >= 0).all()):
        return None
    if first.exact and second.exact:
        left = first.low % second.low
        return Range(left, left)
    inside = (first.high < second.low) & (first.low >= 0)
    zero = np.zeros_like(second.high)
    return Range(
        np.where(inside, first.low, zero),
        np.where(inside, first.high, np.minimum(first.high, second.high - 1)),
    )


def _minimum(first: Range, second: Range) -> Range:
    return Range(np.minimum(first.low, second.low), np.minimum(first.high, second.high))


def _maximum(first: Range, second: Range) -> Range:
    return Range(np.maximum(first.low, second.low), np.maximum(first.high, second.high))


def _and(first: Range, second: Range) -> Range | None:
    if first.exact and second.exact:
        both = first.low & second.low
        return Range(both, both)
    if bool((first.low >= 0).all()) and bool((second.low >= 0).all()):
        # Exact for predicates; for masks of bits an upper bound.
        truth = (first.high <= 1) & (second.high <= 1)
        low = np.where(truth, np.minimum(first.low, second.low), 0)
        return Range(low, np.minimum(first.high, second.high))
    return None


def _or(first: Range, second: Range) -> Range | None:
    truth = bool((first.high <= 1).all()) and bool((second.high <= 1).all())
    if truth and bool((first.low >= 0).all()) and bool((second.low >= 0).all()):
        return _maximum(first, second)
    return None


def _shift_left(first: Range, second: Range) -> Range | None:
    shift = second.constant
    if shift is None or not 0 <= shift < 32:
        return None
    return _multiply(first, _single(1 << shift))


def _shift_right(first: Range, second: Range) -> Range | None:
    shift = second.constant
    if shift is None or not 0 <= shift < 63:
        return None
    return Range(first.low >> shift, first.high >> shift)


_RANGE_OPERATORS: dict[str, Callable[[Range, Range], Range | None]] = {
    "arith.addi": _add,
    "arith.subi": _subtract,
    "arith.muli": _multiply,
    "arith.divsi": _divide,
    "arith.divui": _unsigned(_divide),
    "arith.remsi": _remainder,
    "arith.remui": _unsigned(_remainder),
    "arith.minsi": _minimum,
    "arith.minui": _unsigned(_minimum),
    "arith.maxsi": _maximum,
    "arith.maxui": _unsigned(_maximum),
    "arith.andi": _and,
    "arith.ori": _or,
    "arith.shli": _shift_left,
    "arith.shrsi": _shift_right,
}


def _compare(predicate: int | None, first: Range, second: Range) -> Range | None:
    """A predicate as 0 or 1: low 1 means always true, high 0 means never."""
    # MLIR's numbering: eq ne slt sle sgt sge ult ule ugt uge.
    unsigned = predicate is not None and predicate >= 6
    if unsigned and not (bool((first.low >= 0).all()) and bool((second.low >= 0).all())):
        return None
    kind = predicate - 4 if unsigned and predicate is not None else predicate
    if kind in (4, 5):
        first, second, kind = second, first, kind - 2
    if kind == 2:
        always, ever = first.high < second.low, first.low < second.high
    elif kind == 3:
        always, ever = first.high <= second.low, first.low <= second.high
    elif kind in (0, 1):
        apart = (first.high < second.low) | (second.high < first.low)
        equal = (first.low == first.high) & (second.low == second.high) & ~apart
        equal = equal & (first.low == second.low)
        always, ever = (equal, ~apart) if kind == 0 else (apart, ~equal)
    else:
        return None
    return Range(always.astype(np.int64), ever.astype(np.int64))


# expressions

_TEXT_OPERATORS = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divsi": "//",
    "arith.divui": "//",
    "arith.remsi": "%",
    "arith.remui": "%",
    "arith.minsi": "min",
    "arith.maxsi": "max",
}
_IDENTITIES = {("+", "0"), ("-", "0"), ("*", "1"), ("//", "1")}


def _fold(operator: str, left: str, right: str) -> str:
    if operator in ("min", "max"):
        return f"{operator}({left}, {right})"
    if (operator, right) in _IDENTITIES:
        return left
    if (operator, left) in {("+", "0"), ("*", "1")}:
        return right
    if operator == "*" and "0" in (left, right):
        return "0"
    numbers = re.fullmatch(r"-?\d+", left), re.fullmatch(r"-?\d+", right)
    if numbers[0] and numbers[1] and operator in ("+", "-", "*"):
        a, b = int(left), int(right)
        return str(a + b if operator == "+" else a - b if operator == "-" else a * b)
    return f"{_operand(left)} {operator} {_operand(right)}"


def _operand(text: str) -> str:
    simple = re.fullmatch(r"[\w.]+|\w+\([^()]*\)", text)
    return text if simple else f"({text})"


def _ceiling_division(left: str, right: str) -> str | None:
    """`(x + 31) // 32` as `cdiv(x, 32)`."""
    match = re.fullmatch(r"(.+) \+ (\d+)", left)
    if match is None or not right.isdigit() or int(match.group(2)) != int(right) - 1:
        return None
    numerator = match.group(1)
    if numerator.startswith("(") and numerator.endswith(")"):
        numerator = numerator[1:-1]
    return f"cdiv({numerator}, {right})"


# slopes


def _add_slopes(first: Slope, second: Slope, subtract: bool) -> Slope:
    if second == ZERO:
        return first
    if first == ZERO and not subtract:
        return second
    modulo = first.modulo or second.modulo
    if first.step is None or second.step is None:
        return Slope(None, modulo)
    if isinstance(first.step, int) and isinstance(second.step, int):
        step = first.step - second.step if subtract else first.step + second.step
        return Slope(step, modulo)
    return Slope(_fold("-" if subtract else "+", str(first.step), str(second.step)), modulo)


def _scale_slope(slope: Slope, factor: str | None) -> Slope:
    if slope == ZERO:
        return ZERO
    if factor is None or slope.step is None:
        return Slope(None, slope.modulo)
    text = _fold("*", str(slope.step), factor)
    return Slope(int(text) if re.fullmatch(r"-?\d+", text) else text, slope.modulo)
