"""What a rewrite is given and what it gives back.

A rewrite is a pure function over one kernel's source text and the facts known about it. It
never touches the wrapper: what it assumed stands in guards, expressions of the launch plan
over the kernel's parameters (constexprs with the values of the launch that they guard).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import cast as typed

from xesmith.findings.record import Finding
from xesmith.ghost.launch import Launch, TensorArg
from xesmith.launch_plan.expression import check_names, parse

ELEMENT_BYTES: Mapping[str, int] = {
    "float64": 8,
    "int64": 8,
    "uint64": 8,
    "float32": 4,
    "int32": 4,
    "uint32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "uint16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}


#: torch's names of element types -> Triton's, where they differ
TRITON_NAMES: Mapping[str, str] = {
    "bool": "int1",
    "float8_e4m3fn": "float8e4nv",
    "float8_e5m2": "float8e5",
}


@dataclass(frozen=True)
class KernelFacts:
    """What is known about the kernel beside its text.

    launches: captured launches of this kernel, over all shapes of the spec.
    findings: what the judgement floor said of them.
    helpers: names of other jit functions that it may call.
    first_line: line of the source text's first line in the kernel's file (1-based).
    grid_is_known: whether other launches have the grid that the captured ones would have at
        their sizes: else nothing is proved by where captured programs stand.
    original_source: the kernel before earlier rewrites, whose masks tell the bounds of tiles
        that are read without a mask since.
    """

    launches: tuple[Launch, ...] = ()
    findings: tuple[Finding, ...] = ()
    helpers: frozenset[str] = frozenset()
    first_line: int = 1
    original_source: str | None = None
    grid_is_known: bool = True

    def tensors(self, parameter: str) -> list[TensorArg]:
        """The tensors that were passed for a parameter, one per launch that passed one."""
        values = (launch.values.get(parameter) for launch in self.launches)
        return [value for value in values if isinstance(value, TensorArg)]


@dataclass(frozen=True)
class Rewrite:
    """A kernel's new text, equal to the old one wherever every guard holds.

    metas: constexprs that the launch has to pass beside (or instead of) the original ones.
    descriptor_source: the same rewrite for compilers without block pointers.
    grid: expressions of the launch plan for the new grid, where it differs from the old one.
    """

    kernel_source: str
    guard: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    metas: dict[str, Any] = field(default_factory=dict[str, Any])
    descriptor_source: str | None = None
    grid: tuple[str, ...] | None = None

    @property
    def holds_always(self) -> bool:
        """Whether it can replace the kernel where it stands: nothing is assumed or passed."""
        return not (self.guard or self.metas or self.descriptor_source or self.grid)


@dataclass(frozen=True)
class Refusal:
    """Why a rewrite was not made. `line` is a line of the kernel's file, where there is one."""

    reason: str
    line: int | None = None


def guard_holds(guard: str, launch: Launch, metas: Mapping[str, Any] | None = None) -> bool:
    """Whether a guard of the launch plan's language holds at a captured launch.

    One that cannot be evaluated there (an argument is None) does not hold, as in the plan.

    Args:
        metas: values of constexprs that the guarded launch passes instead.

    Raises:
        PlanError: not an expression of the launch plan, or an unknown name.
    """
    return bool(evaluate(guard, launch, metas))


def evaluate(text: str, launch: Launch, metas: Mapping[str, Any] | None = None) -> Any:
    """The value of a launch plan's expression at a captured launch.

    None where it has none there: an argument is None, or a divisor 0.
    """
    values = {**launch.constexprs, **launch.values, **(metas or {})}
    expression = parse(text, "guard")
    check_names(expression, values, "guard")
    try:
        return _Evaluator(values).value(expression.tree)
    except (AttributeError, IndexError, TypeError, ZeroDivisionError):
        return None


def constant_value(text: str) -> Any:
    """The value of a launch plan's expression that reads no name."""
    return _Evaluator({}).value(parse(text, "expression").tree)


def guards_hold(
    guards: Sequence[str], launch: Launch, metas: Mapping[str, Any] | None = None
) -> bool:
    return all(guard_holds(guard, launch, metas) for guard in guards)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


@dataclass(frozen=True)
class _Evaluator:
    """Evaluates a tree that the launch plan's parser has checked."""

    values: Mapping[str, Any]

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.values[name]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self.value(element) for element in elements]
            case ast.BinOp(left=left, op=op, right=right):
                return _BINARY[type(op)](self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.value(operand))
            case ast.BoolOp(op=op, values=items):
                results = (self.value(item) for item in items)
                return all(results) if isinstance(op, ast.And) else any(results)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                operands = [self.value(left), *(self.value(item) for item in comparators)]
                pairs = zip(ops, operands, operands[1:], strict=False)
                return all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(name, [self.value(argument) for argument in arguments])
            case ast.Subscript(value=ast.Attribute(value=tensor, attr=name), slice=index):
                field_name = "strides" if name == "stride" else name
                return getattr(self.value(tensor), field_name)[self.value(index)]
            case ast.Attribute(value=tensor, attr=name):
                return self.attribute(typed(TensorArg, self.value(tensor)), name)
            case _:
                raise ValueError(f"not an expression of the launch plan: {ast.unparse(node)}")

    @staticmethod
    def attribute(tensor: TensorArg, name: str) -> Any:
        if name == "ndim":
            return len(tensor.shape)
        if name == "numel":
            return math.prod(tensor.shape)
        if name == "is_contiguous":
            expected = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
            return all(
                size == 1 or stride == wanted
                for size, stride, wanted in zip(tensor.shape, tensor.strides, expected, strict=True)
            )
        return tensor.dtype

    @staticmethod
    def call(name: str, arguments: list[Any]) -> Any:
        match name, arguments:
            case "aligned", [tensor, size]:
                return typed(TensorArg, tensor).pointer_alignment_bytes % size == 0
            case "cdiv", [a, b]:
                return -(-a // b)
            case "next_power_of_2", [a]:
                return 1 << max(0, a - 1).bit_length()
            case "min", _:
                return min(arguments)
            case _:
                return max(arguments)
