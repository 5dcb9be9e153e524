"""An evaluator of TTIR in generic form on numpy: what one program of a kernel stores.

It knows the operations of our pointer kernels, and refuses any other. It is a second reading of
the semantics, not of the passes.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.mlir_facade import Operation, Value, parse_module

_DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "index": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=")
_COMPARE: dict[str, Any] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip
_FLOAT_PREDICATES = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<="}
_TWO: dict[str, Any] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum, "arith.maxsi": np.maximum,
    "arith.divsi": lambda a, b: np.trunc(a / b).astype(a.dtype), "arith.remsi": np.fmod,
}  # fmt: skip
_ONE: dict[str, Any] = {
    "math.exp": np.exp, "math.exp2": np.exp2, "math.sqrt": np.sqrt, "math.log": np.log,
    "math.rsqrt": lambda a: 1 / np.sqrt(a), "math.erf": lambda a: _erf(a),
    "tt.precise_sqrt": np.sqrt,
}  # fmt: skip
_CASTS = ("extsi", "extui", "trunci", "truncf", "extf", "sitofp", "fptosi", "index_cast")


@dataclass
class Pointer:
    argument: int
    offsets: Any


def _erf(a: Any) -> Any:
    import math

    return np.vectorize(math.erf)(a).astype(a.dtype)


def stores(
    text: str, arguments: list[Any], pid: tuple[int, int, int], grid: tuple[int, int, int]
) -> list[tuple[int, Any, Any]]:
    """(argument, offsets, values) of each store in order; `arguments` hold flat arrays and
    numbers. Masked-off elements are left out."""
    function = next(op for op in parse_module(text).walk() if op.name == "tt.func")
    return _Program(function, arguments, pid, grid).run()


class _Program:
    def __init__(self, function: Operation, arguments: list[Any], pid: Any, grid: Any) -> None:
        self.block = function.regions[0][0]
        self.memory = arguments
        self.pid, self.grid = pid, grid
        self.values: dict[Value, Any] = {}
        for index, (value, given) in enumerate(zip(self.block.arguments, arguments, strict=True)):
            if value.type.is_pointer:
                self.values[value] = Pointer(index, np.int64(0))
            else:
                self.values[value] = _DTYPES[value.type.element](given)
        self.stored: list[tuple[int, Any, Any]] = []

    def run(self) -> list[tuple[int, Any, Any]]:
        with np.errstate(all="ignore"):
            self.body(self.block.operations)
        return self.stored

    def body(self, operations: list[Operation]) -> list[Any]:
        for op in operations:
            if op.name in ("scf.yield", "tt.return", "tt.reduce.return"):
                return [self.values[v] for v in op.operands]
            results = self.one(op, [self.values[v] for v in op.operands])
            for value, result in zip(op.results, results, strict=True):
                self.values[value] = result
        return []

    def one(self, op: Operation, given: list[Any]) -> list[Any]:
        kind = op.results[0].type if op.results else None
        name = op.name
        if name == "arith.constant":
            return [_constant(op, kind)]
        if name in _TWO:
            return [_TWO[name](*given).astype(_DTYPES[kind.element])]
        if name in _ONE:
            return [_ONE[name](given[0]).astype(_DTYPES[kind.element])]
        if name.removeprefix("arith.") in _CASTS:
            return [np.asarray(given[0]).astype(_DTYPES[kind.element])]
        return getattr(self, name.replace(".", "_"))(op, given)

    def arith_cmpi(self, op: Operation, given: list[Any]) -> list[Any]:
        number = op.integer("predicate")
        assert number is not None
        assert number < 6, "unsigned comparisons are not known here"
        return [_COMPARE[_INTEGER_PREDICATES[number]](*given)]

    def arith_cmpf(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_COMPARE[_FLOAT_PREDICATES[op.integer("predicate") or 0]](*given)]

    def arith_select(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.where(*given).astype(_DTYPES[op.results[0].type.element])]

    def tt_get_program_id(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.int32(self.pid[op.integer("axis") or 0])]

    def tt_get_num_programs(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.int32(self.grid[op.integer("axis") or 0])]

    def tt_make_range(self, op: Operation, given: list[Any]) -> list[Any]:
        return [np.arange(op.integer("start"), op.integer("end"), dtype=np.int32)]

    def tt_splat(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_shaped(given[0], lambda a: np.broadcast_to(a, op.results[0].type.shape))]

    tt_broadcast = tt_splat

    def tt_expand_dims(self, op: Operation, given: list[Any]) -> list[Any]:
        return [_shaped(given[0], lambda a: np.expand_dims(a, op.integer("axis") or 0))]

    def tt_addptr(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, offsets = given
        return [Pointer(pointer.argument, pointer.offsets + offsets.astype(np.int64))]

    def tt_load(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, mask, other = (*given, None, None)[:3]
        memory = self.memory[pointer.argument]
        if mask is None:
            return [memory[pointer.offsets]]
        inside = np.where(mask, pointer.offsets, 0)
        return [np.where(mask, memory[inside], 0 if other is None else other).astype(memory.dtype)]

    def tt_store(self, op: Operation, given: list[Any]) -> list[Any]:
        pointer, value, mask = (*given, None)[:3]
        value = np.broadcast_to(value, np.shape(pointer.offsets))
        mask = np.ones(np.shape(value), bool) if mask is None else mask
        self.stored.append((pointer.argument, pointer.offsets[mask], value[mask]))
        return []

    def tt_dot(self, op: Operation, given: list[Any]) -> list[Any]:
        a, b, acc = given
        return [a.astype(np.float32) @ b.astype(np.float32) + acc]

    def tt_reduce(self, op: Operation, given: list[Any]) -> list[Any]:
        names = {inner.name for inner in op.body()}
        axis = op.integer("axis") or 0
        how = np.add if "arith.addf" in names else np.fmax
        assert names <= {"arith.addf", "arith.maxnumf", "tt.reduce.return"}, names
        return [how.reduce(given[0], axis=axis)]

    def scf_for(self, op: Operation, given: list[Any]) -> list[Any]:
        low, high, step, *carried = given
        block = op.regions[0][0]
        for index in range(int(low), int(high), int(step)):
            self.values[block.arguments[0]] = type(low)(index)
            self.values.update(zip(block.arguments[1:], carried, strict=True))
            carried = self.body(block.operations)
        return carried

    def scf_if(self, op: Operation, given: list[Any]) -> list[Any]:
        region = op.regions[0 if given[0] else 1]
        return self.body(region[0].operations) if region else []


def _shaped(value: Any, change: Any) -> Any:
    if isinstance(value, Pointer):
        return Pointer(value.argument, change(value.offsets))
    return change(value)


def _constant(op: Operation, kind: Any) -> Any:
    text = op.attribute("value") or ""
    inner = re.match(r"dense<([^>]*)>|(\S+)", text)
    assert inner is not None
    word = inner.group(1) or inner.group(2)
    dtype = _DTYPES[kind.element]
    if word in ("true", "false"):
        number: Any = word == "true"
    elif word.startswith("0x") and kind.is_float:
        bits = int(word, 16)
        number = (
            struct.unpack("f", struct.pack("I", bits))[0]
            if kind.element == "f32"
            else (struct.unpack("e", struct.pack("H", bits))[0])
        )
    else:
        number = float(word) if kind.is_float else int(word)
    made = np.asarray(number).astype(dtype)
    return np.broadcast_to(made, kind.shape) if kind.shape else made[()]
