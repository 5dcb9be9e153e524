"""An evaluator of TTIR in generic form on numpy: what one program of a kernel stores.

It is a second reading of the semantics, independent of the passes. An operation or type that it
does not know ends it: nothing is ever guessed.

Memory is a rule, not an array: what an argument holds at an offset follows from the offset, so
tensors of any size cost nothing. What the program itself has stored is read back.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from xesmith.passes.operations import Block, Operation, Type, Value, parse_module

#: dtypes are chosen at run time, so that its types say nothing
np: Any = numpy

_Rule = Callable[..., Any]

#: bfloat16 is held in float32, rounded after each operation
_DTYPES: Mapping[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "index": np.int64, "f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_UNSIGNED: Mapping[Any, Any] = {
    np.dtype(np.bool_): np.uint8, np.dtype(np.int8): np.uint8, np.dtype(np.int16): np.uint16,
    np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64,
}  # fmt: skip

#: a prime: rows of a power of two elements differ
_PERIOD = 65537
#: of one loop in one program
_MOST_ROUNDS = 1 << 20


class UnknownOperationError(Exception):
    """What the evaluator does not know. Its text names it."""


@dataclass(frozen=True)
class Pointer:
    """Elements of an argument: one offset, or a tensor of them."""

    argument: int
    offsets: Any


@dataclass(frozen=True)
class BlockPointer:
    base: Pointer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass
class Stored:
    """What one program did to memory.

    images: by argument, offsets in order and the last value stored at each.
    atomics: (operation, argument, offsets, values) in the order in which they were done.
    touched: by argument, the lowest and the highest offset that was read or written.
    types: by argument, the element type of its pointer.
    """

    images: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, "tuple[Any, Any]"])
    atomics: list[tuple[str, int, Any, Any]] = field(
        default_factory=list["tuple[str, int, Any, Any]"]
    )
    touched: dict[int, tuple[int, int]] = field(default_factory=dict[int, "tuple[int, int]"])
    types: dict[int, str] = field(default_factory=dict[int, str])


class Kernel:
    """A kernel's TTIR, read once.

    Args:
        text: a module in generic form.

    Raises:
        UnreadableLevelError: it is no MLIR.
        UnknownOperationError: it holds no function to run, or several.
    """

    def __init__(self, text: str) -> None:
        functions = [op for op in parse_module(text).walk() if op.name == "tt.func"]
        if len(functions) != 1:
            raise UnknownOperationError(f"a module of {len(functions)} functions")
        (blocks,) = functions[0].regions
        if len(blocks) != 1:
            raise UnknownOperationError("control flow between blocks")
        self.block = blocks[0]

    def run(
        self, arguments: Sequence[Any], program: tuple[int, int, int], grid: tuple[int, int, int]
    ) -> Stored:
        """What a program of the grid does.

        Args:
            arguments: of the function in order; numbers, and anything for a pointer.

        Raises:
            UnknownOperationError: an operation or type that is not known here.
        """
        if len(arguments) != len(self.block.arguments):
            raise UnknownOperationError("a kernel with other arguments than the launch")
        with np.errstate(all="ignore"):
            return _Program(self.block, arguments, program, grid).run()


class _Program:
    def __init__(self, block: Block, arguments: Sequence[Any], program: Any, grid: Any) -> None:
        self._block = block
        self._program, self._grid = program, grid
        self._values: dict[Value, Any] = {}
        self._memory: dict[int, Any] = {}
        self._done = Stored()
        for index, (value, given) in enumerate(zip(block.arguments, arguments, strict=True)):
            if value.type.is_pointer:
                self._memory[index] = _contents(value.type.element, index)
                self._done.types[index] = value.type.element
                self._values[value] = Pointer(index, np.int64(0))
            else:
                self._values[value] = _converted(np.float64(given), value.type) if isinstance(
                    given, float
                ) else _dtype(value.type.element)(given)  # fmt: skip

    def run(self) -> Stored:
        self._body(self._block)
        return self._done

    def _body(self, block: Block) -> list[Any]:
        """Runs a block and answers what its terminator passes on."""
        for op in block.operations:
            given = [self._values[v] for v in op.operands]
            if op.name in _TERMINATORS:
                return given
            results = self._one(op, given)
            for value, result in zip(op.results, results, strict=True):
                self._values[value] = result
        return []

    def _one(self, op: Operation, given: list[Any]) -> list[Any]:
        name = op.name
        if name in _NO_EFFECT:
            return []
        if (rule := _ELEMENTWISE.get(name)) is not None:
            return [_converted(rule(*given), op.results[0].type)]
        if (cast := _CASTS.get(name)) is not None:
            return [_converted(cast(given[0], op.operands[0].type), op.results[0].type)]
        method: Callable[[Operation, list[Any]], list[Any]] | None
        method = getattr(self, "_" + name.replace(".", "_"), None)
        if method is None:
            raise UnknownOperationError(name)
        return method(op, given)

    # -- numbers ------------------------------------------------------------------------------

    def _arith_constant(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_constant(op, op.results[0].type)]

    def _arith_cmpi(self, op: Operation, given: list[Any]) -> list[Any]:
        number = op.integer("predicate")
        assert number is not None
        if number >= len(_INTEGER_PREDICATES):
            given = [_unsigned(v) for v in given]
            number -= 4  # ult follows sge, as slt follows ne
        return [_INTEGER_PREDICATES[number](*given)]

    def _arith_cmpf(self, op: Operation, given: list[Any]) -> list[Any]:
        a, b = given
        number = op.integer("predicate") or 0
        unordered = np.isnan(a) | np.isnan(b)
        # 1 to 7 are false where one is NaN, 8 to 14 true; each is a set of <, ==, >.
        if number in (0, 15):
            return [np.full(np.shape(unordered), number == 15)[()]]
        if number in (7, 14):
            return [~unordered if number == 7 else unordered]
        if number < 7:
            return [_FLOAT_PREDICATES[number - 1](a, b) & ~unordered]
        return [_FLOAT_PREDICATES[number - 8](a, b) | unordered]

    def _arith_select(self, op: Operation, given: list[Any]) -> list[Any]:
        condition, yes, no = given
        if isinstance(yes, Pointer) and isinstance(no, Pointer):
            if yes.argument != no.argument:
                raise UnknownOperationError("a choice between pointers to two arguments")
            return [Pointer(yes.argument, np.where(condition, yes.offsets, no.offsets))]
        return [_converted(np.where(condition, yes, no), op.results[0].type)]

    def _arith_bitcast(self, op: Operation, given: list[Any]) -> list[Any]:
        old, new = op.operands[0].type, op.results[0].type
        if isinstance(given[0], Pointer):
            if old.element_bits != new.element_bits and {old.element, new.element} != {"i1", "i8"}:
                raise UnknownOperationError("a pointer to other elements")
            return given
        if "bf16" in (old.element, new.element) and old.element != new.element:
            raise UnknownOperationError("the bits of bf16")
        return [np.asarray(given[0]).view(_dtype(new.element))[()]]

    _tt_bitcast = _arith_bitcast

    def _tt_mulhiui(self, op: Operation, given: list[Any]) -> list[Any]:
        if op.results[0].type.element != "i32":
            raise UnknownOperationError("tt.mulhiui of 64 bits")
        a, b = (_unsigned(v).astype(np.uint64) for v in given)
        return [_converted((a * b) >> np.uint64(32), op.results[0].type)]

    def _tt_extern_elementwise(self, op: Operation, given: list[Any]) -> list[Any]:
        symbol = op.attribute("symbol") or ""
        rule = _ELEMENTWISE.get("math." + re.sub(r"^__(imf|nv|spirv_ocl)_|f$", "", symbol))
        if rule is None:
            raise UnknownOperationError(f"the function {symbol}")
        return [_converted(rule(*given), op.results[0].type)]

    # -- shapes -------------------------------------------------------------------------------

    def _tt_get_program_id(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.int32(self._program[op.integer("axis") or 0])]

    def _tt_get_num_programs(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.int32(self._grid[op.integer("axis") or 0])]

    def _tt_make_range(self, op: Operation, given: list[Any]) -> list[Any]:
        start, end = op.integer("start"), op.integer("end")
        assert start is not None
        assert end is not None
        return [np.arange(start, end, dtype=np.int32)]

    def _tt_splat(self, op: Operation, given: list[Any]) -> list[Any]:
        shape = op.results[0].type.shape
        return [_shaped(given[0], lambda a: np.broadcast_to(a, shape))]

    _tt_broadcast = _tt_splat

    def _tt_expand_dims(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_shaped(given[0], lambda a: np.expand_dims(a, op.integer("axis") or 0))]

    def _tt_reshape(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_shaped(given[0], lambda a: np.reshape(a, op.results[0].type.shape))]

    def _tt_trans(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_shaped(given[0], lambda a: np.transpose(a, op.integers("order")))]

    def _tt_join(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.stack(given, axis=-1)]

    def _tt_split(self, op: Operation, given: list[Any]) -> list[Any]:
        return [given[0][..., 0], given[0][..., 1]]

    # -- memory -------------------------------------------------------------------------------

    def _tt_addptr(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, offsets = given
        return [Pointer(pointer.argument, pointer.offsets + np.asarray(offsets, np.int64))]

    def _tt_make_tensor_ptr(self, op: Operation, given: list[Any]) -> list[Any]:
        base, *numbers = given
        rank = len(numbers) // 3
        sizes = [tuple(int(n) for n in numbers[i * rank : (i + 1) * rank]) for i in range(3)]
        return [BlockPointer(base, *sizes)]

    def _tt_advance(self, op: Operation, given: list[Any]) -> list[Any]:
        block, *steps = given
        offsets = tuple(a + int(b) for a, b in zip(block.offsets, steps, strict=True))
        return [BlockPointer(block.base, block.shape, block.strides, offsets)]

    def _tt_load(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, mask, other = _segments(op, given, 3)
        kind = op.results[0].type
        if isinstance(pointer, BlockPointer):
            pointer, mask = _block(op, pointer, kind.shape)
            padding = op.integer("padding") or 0
            other = np.nan if padding == 2 else 0
        if mask is None:
            return [_converted(self._read(pointer, None), kind)]
        value = np.where(mask, self._read(pointer, mask), 0 if other is None else other)
        return [_converted(value, kind)]

    def _tt_store(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, value, mask = _padded(given, 3)
        if isinstance(pointer, BlockPointer):
            pointer, mask = _block(op, pointer, op.operands[1].type.shape)
        offsets, values = self._lanes(pointer, value, mask)
        old = self._done.images.get(pointer.argument)
        if old is not None:
            offsets, values = np.concatenate([old[0], offsets]), np.concatenate([old[1], values])
        unique, last = np.unique(offsets[::-1], return_index=True)
        self._done.images[pointer.argument] = unique, values[::-1][last]
        return []

    def _tt_atomic_rmw(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, value, mask = _padded(given, 3)
        offsets, values = self._lanes(pointer, value, mask)
        what = f"{op.name} {op.attribute('atomic_rmw_op')}"
        self._done.atomics.append((what, pointer.argument, offsets, values))
        return [_converted(self._read(pointer, mask), op.results[0].type)]

    def _tt_atomic_cas(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, compared, value = given
        for number in (compared, value):
            offsets, values = self._lanes(pointer, number, None)
            self._done.atomics.append((op.name, pointer.argument, offsets, values))
        return [_converted(self._read(pointer, None), op.results[0].type)]

    def _lanes(self, pointer: Pointer, value: Any, mask: Any) -> tuple[Any, Any]:
        """Offsets and values of what is on, in one dimension."""
        shape = np.shape(pointer.offsets)
        offsets, values = np.ravel(pointer.offsets), np.ravel(np.broadcast_to(value, shape))
        if mask is not None:
            on = np.ravel(np.broadcast_to(mask, shape))
            offsets, values = offsets[on], values[on]
        self._touch(pointer.argument, offsets)
        return offsets, values

    def _read(self, pointer: Pointer, mask: Any) -> Any:
        offsets = np.asarray(pointer.offsets)
        self._touch(pointer.argument, offsets if mask is None else offsets[np.asarray(mask)])
        found = self._memory[pointer.argument][offsets % _PERIOD]
        image = self._done.images.get(pointer.argument)
        if image is None or not len(image[0]):
            return found
        place = np.minimum(np.searchsorted(image[0], offsets), len(image[0]) - 1)
        return np.where(image[0][place] == offsets, image[1][place], found)

    def _touch(self, argument: int, offsets: Any) -> None:
        if np.size(offsets):
            low, high = int(np.min(offsets)), int(np.max(offsets))
            old = self._done.touched.get(argument, (low, high))
            self._done.touched[argument] = min(low, old[0]), max(high, old[1])

    # -- tensors ------------------------------------------------------------------------------

    def _tt_dot(self, op: Operation, given: list[Any]) -> list[Any]:
        a, b, acc = given
        wide: Any = np.int32 if np.asarray(a).dtype.kind == "i" else np.float32
        if np.asarray(acc).dtype == np.float64:
            wide = np.float64
        return [_converted(a.astype(wide) @ b.astype(wide) + acc, op.results[0].type)]

    def _tt_reduce(self, op: Operation, given: list[Any]) -> list[Any]:
        axis = op.integer("axis") or 0
        parts = given
        while (length := parts[0].shape[axis]) > 1:
            half = length // 2
            cut = [half, 2 * half]
            pieces = [np.split(part, cut, axis=axis) for part in parts]
            made = self._combined(op, [p[0] for p in pieces], [p[1] for p in pieces])
            parts = [
                np.concatenate([m, p[2]], axis=axis) for m, p in zip(made, pieces, strict=True)
            ]
        return [np.squeeze(part, axis=axis)[()] for part in parts]

    def _tt_scan(self, op: Operation, given: list[Any]) -> list[Any]:
        axis = op.integer("axis") or 0
        slices = [np.split(part, part.shape[axis], axis=axis) for part in given]
        steps = list(zip(*slices, strict=True))
        if op.integer("reverse"):
            steps.reverse()
        results = [list(steps[0])]
        for step in steps[1:]:
            results.append(self._combined(op, results[-1], list(step)))
        if op.integer("reverse"):
            results.reverse()
        return [np.concatenate(parts, axis=axis) for parts in zip(*results, strict=True)]

    def _combined(self, op: Operation, left: list[Any], right: list[Any]) -> list[Any]:
        (block,) = op.regions[0]
        self._values.update(zip(block.arguments, [*left, *right], strict=True))
        return self._body(block)

    # -- control flow -------------------------------------------------------------------------

    def _scf_for(self, op: Operation, given: list[Any]) -> list[Any]:
        low, high, step, *carried = given
        (block,) = op.regions[0]
        rounds = range(int(low), int(high), int(step))
        if len(rounds) > _MOST_ROUNDS:
            raise UnknownOperationError(f"a loop of {len(rounds)} rounds")
        kind = block.arguments[0].type
        for index in rounds:
            self._values[block.arguments[0]] = _dtype(kind.element)(index)
            self._values.update(zip(block.arguments[1:], carried, strict=True))
            carried = self._body(block)
        return carried

    def _scf_while(self, op: Operation, given: list[Any]) -> list[Any]:
        (before,), (after,) = op.regions
        carried = given
        for _ in range(_MOST_ROUNDS):
            self._values.update(zip(before.arguments, carried, strict=True))
            goes_on, *passed = self._body(before)
            if not goes_on:
                return passed
            self._values.update(zip(after.arguments, passed, strict=True))
            carried = self._body(after)
        raise UnknownOperationError("a loop without an end")

    def _scf_if(self, op: Operation, given: list[Any]) -> list[Any]:
        region = op.regions[0 if given[0] else 1]
        return self._body(region[0]) if region else []


_TERMINATORS = ("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return")
_NO_EFFECT = ("tt.print", "tt.assert", "gpu.barrier")

_INTEGER_PREDICATES: tuple[Any, ...] = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
_FLOAT_PREDICATES: tuple[Any, ...] = (
    np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal,
)  # fmt: skip


def _unsigned(value: Any) -> Any:
    """The same bits as an unsigned integer."""
    array = np.asarray(value)
    return array.view(_UNSIGNED[array.dtype])[()]


def _of_unsigned(rule: _Rule) -> _Rule:
    def unsigned(*given: Any) -> Any:
        return rule(*(_unsigned(v) for v in given))

    return unsigned


def _of_bits_too(rule: _Rule) -> _Rule:
    """`rule` for integers, of which i1 is one: numpy's booleans do not add up."""

    def integral(*given: Any) -> Any:
        return rule(*(v + np.int8(0) if v.dtype == np.bool_ else v for v in given))

    return integral


def _or_nan(rule: _Rule) -> _Rule:
    """`rule` as it is, and NaN where one of the two is."""

    def strict(a: Any, b: Any) -> Any:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, rule(a, b))

    return strict


def _divided(a: Any, b: Any) -> Any:
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0)))


def _divided_upwards(a: Any, b: Any) -> Any:
    return -(-a // b)


def _erf(a: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(np.asarray(a, np.float64))[()]


def _fma(a: Any, b: Any, c: Any) -> Any:
    return np.asarray(a, np.float64) * b + c


def _rsqrt(a: Any) -> Any:
    return 1 / np.sqrt(a)


def _clamped(a: Any, low: Any, high: Any) -> Any:
    return np.fmin(np.fmax(a, low), high)


_ELEMENTWISE: Mapping[str, _Rule] = {
    "arith.addi": _of_bits_too(np.add), "arith.subi": _of_bits_too(np.subtract),
    "arith.muli": _of_bits_too(np.multiply),
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "tt.precise_divf": np.divide, "arith.remf": np.fmod,
    "arith.negf": np.negative, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.maximumf": _or_nan(np.maximum), "arith.minimumf": _or_nan(np.minimum),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum, "arith.maxsi": np.maximum, "arith.remsi": np.fmod,
    "arith.minui": _of_unsigned(np.minimum), "arith.maxui": _of_unsigned(np.maximum),
    "arith.divsi": _divided, "arith.floordivsi": np.floor_divide,
    "arith.ceildivsi": _divided_upwards,
    "arith.divui": _of_unsigned(np.floor_divide), "arith.remui": _of_unsigned(np.fmod),
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": _of_unsigned(np.right_shift),
    "math.exp": np.exp, "math.exp2": np.exp2, "math.log": np.log, "math.log2": np.log2,
    "math.log1p": np.log1p, "math.expm1": np.expm1, "math.sin": np.sin, "math.cos": np.cos,
    "math.tanh": np.tanh, "math.erf": _erf, "math.sqrt": np.sqrt, "tt.precise_sqrt": np.sqrt,
    "math.rsqrt": _rsqrt, "math.absf": np.abs, "math.absi": np.abs,
    "math.floor": np.floor, "math.ceil": np.ceil, "math.fma": _fma, "math.pow": np.power,
    "math.powf": np.power,
    "tt.clampf": _clamped,
}  # fmt: skip

_CASTS: Mapping[str, Callable[[Any, Type], Any]] = {
    "arith.extsi": lambda a, kind: -np.asarray(a, np.int8) if kind.element == "i1" else a,
    "arith.sitofp": lambda a, kind: -np.asarray(a, np.int8) if kind.element == "i1" else a,
    "arith.extui": lambda a, kind: _unsigned(a), "arith.uitofp": lambda a, kind: _unsigned(a),
    "arith.trunci": lambda a, kind: a, "arith.truncf": lambda a, kind: a,
    "arith.extf": lambda a, kind: a, "arith.fptosi": lambda a, kind: a,
    "arith.fptoui": lambda a, kind: np.asarray(a, np.float64).astype(np.uint64),
    "arith.index_cast": lambda a, kind: a, "arith.index_castui": lambda a, kind: _unsigned(a),
    "tt.fp_to_fp": lambda a, kind: a,
}  # fmt: skip


def _dtype(element: str) -> Any:
    if element not in _DTYPES:
        raise UnknownOperationError(f"the type {element}")
    return _DTYPES[element]


def _converted(value: Any, kind: Type) -> Any:
    """`value` as elements of a type: wrapped or rounded to it."""
    dtype = _dtype(kind.element)
    array = np.asarray(value)
    if dtype is np.bool_ and array.dtype != np.bool_:
        return (array & 1).astype(np.bool_)[()]
    array = array.astype(dtype)
    return (_rounded_to_bf16(array) if kind.element == "bf16" else array)[()]


def _rounded_to_bf16(array: Any) -> Any:
    bits = array.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    return np.where(np.isnan(array), array, rounded.view(np.float32))


def _contents(element: str, argument: int) -> Any:
    """What an argument holds, over and over."""
    random = np.random.default_rng([7, argument])
    if element.startswith("i"):
        dtype = _dtype(element)
        return random.integers(0, 2 if dtype is np.bool_ else 64, _PERIOD).astype(dtype)
    some = random.uniform(-1, 1, _PERIOD).astype(_dtype(element))
    return _rounded_to_bf16(some) if element == "bf16" else some


def _shaped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Pointer):
        return Pointer(value.argument, change(value.offsets))
    return change(value)


def _padded(given: list[Any], count: int) -> list[Any]:
    return [*given, *[None] * count][:count]


def _segments(op: Operation, given: list[Any], count: int) -> list[Any]:
    """The operands of an operation that may lack some in the middle."""
    sizes = op.integers("operandSegmentSizes") or (1,) * len(given)
    left = iter(given)
    found = [next(left) if size else None for size in sizes]
    return _padded(found, count)


def _block(op: Operation, block: BlockPointer, shape: tuple[int, ...]) -> tuple[Pointer, Any]:
    """The elements that a block pointer means, and which of them are checked to be inside."""
    checked = op.integers("boundaryCheck")
    offsets: Any = np.asarray(block.base.offsets)
    mask: Any = None
    for axis, size in enumerate(shape):
        index = np.arange(size, dtype=np.int64) + block.offsets[axis]
        index = index.reshape([size if other == axis else 1 for other in range(len(shape))])
        offsets = offsets + index * block.strides[axis]
        if axis in checked:
            inside = (index >= 0) & (index < block.shape[axis])
            mask = inside if mask is None else mask & inside
    mask = None if mask is None else np.broadcast_to(mask, shape)
    return Pointer(block.base.argument, np.broadcast_to(offsets, shape)), mask


def _constant(op: Operation, kind: Type) -> Any:
    text = op.attribute("value") or ""
    found = re.match(r"(?:dense<)?([\w.+-]+)>? : ", text)
    if found is None and text not in ("true", "false"):
        raise UnknownOperationError(f"the constant {text[:60]}")
    word: str = text if found is None else found.group(1)
    if word in ("true", "false"):
        number: Any = word == "true"
    elif word.startswith("0x") and kind.is_float:
        number = _of_bits(int(word, 16), kind.element)
    else:
        number = float(word) if kind.is_float else int(word)
    made = _converted(number, kind)
    return np.broadcast_to(made, kind.shape) if kind.shape else made


def _of_bits(bits: int, element: str) -> float:
    match element:
        case "f16":
            return struct.unpack("<e", struct.pack("<H", bits))[0]
        case "bf16":
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        case "f32":
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        case "f64":
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        case _:
            raise UnknownOperationError(f"the type {element}")
