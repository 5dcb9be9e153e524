"""What a rewrite is given and what it gives back.

A rewrite is a pure function over one kernel's source text and the facts known about it. It
never touches the wrapper: what it assumed stands in guards, expressions of the launch plan
over the kernel's parameters (constexprs with the values of the launch that they guard).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xesmith.findings.record import Finding
from xesmith.ghost.launch import Launch, TensorArg

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


@dataclass(frozen=True)
class KernelFacts:
    """What is known about the kernel beside its text.

    launches: captured launches of this kernel, over all shapes of the spec.
    findings: what the judgement floor said of them.
    helpers: names of other jit functions that it may call.
    first_line: line of the source text's first line in the kernel's file (1-based).
    """

    launches: tuple[Launch, ...] = ()
    findings: tuple[Finding, ...] = ()
    helpers: frozenset[str] = frozenset()
    first_line: int = 1

    def tensors(self, parameter: str) -> list[TensorArg]:
        """The tensors that were passed for a parameter, one per launch that passed one."""
        values = (launch.values.get(parameter) for launch in self.launches)
        return [value for value in values if isinstance(value, TensorArg)]


@dataclass(frozen=True)
class Rewrite:
    """A kernel's new text, equal to the old one wherever every guard holds.

    metas: constexprs that the launch has to pass beside (or instead of) the original ones.
    descriptor_source: the same rewrite for compilers without block pointers.
    """

    kernel_source: str
    guard: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    metas: dict[str, Any] = field(default_factory=dict[str, Any])
    dropped_metas: tuple[str, ...] = ()
    descriptor_source: str | None = None

    def with_notes(self, *notes: str) -> Rewrite:
        return replace(self, notes=self.notes + notes)


@dataclass(frozen=True)
class Refusal:
    """Why a rewrite was not made. `line` is a line of the kernel's file, where there is one."""

    reason: str
    line: int | None = None


def guard_holds(guard: str, launch: Launch, metas: Mapping[str, Any] | None = None) -> bool:
    """Evaluate a guard at a captured launch. Raises KeyError for an unknown name."""
    values = {**launch.constexprs, **launch.values, **(metas or {})}
    return bool(_evaluate(ast.parse(guard, mode="eval").body, values))


def guards_hold(guards: Sequence[str], launch: Launch) -> bool:
    return all(guard_holds(guard, launch) for guard in guards)


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, values), _evaluate(right, values)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
                case _:
                    pass
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, values)
        case ast.BoolOp(op=op, values=items):
            if isinstance(op, ast.And):
                return all(_evaluate(item, values) for item in items)
            return any(_evaluate(item, values) for item in items)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            a = _evaluate(left, values)
            for op, comparator in zip(ops, comparators, strict=True):
                b = _evaluate(comparator, values)
                if not _compare(op, a, b):
                    return False
                a = b
            return True
        case ast.Attribute(value=value, attr=attribute):
            return getattr(_evaluate(value, values), attribute)
        case ast.Call(func=ast.Name(id="aligned"), args=[tensor, count]):
            argument = cast(TensorArg, _evaluate(tensor, values))
            return argument.pointer_alignment_bytes % int(_evaluate(count, values)) == 0
        case _:
            pass
    raise ValueError(f"not an expression of the launch plan: {ast.unparse(node)}")


def _compare(op: ast.cmpop, a: Any, b: Any) -> bool:
    match op:
        case ast.Lt():
            return a < b
        case ast.LtE():
            return a <= b
        case ast.Gt():
            return a > b
        case ast.GtE():
            return a >= b
        case ast.Eq():
            return a == b
        case ast.NotEq():
            return a != b
        case _:
            raise ValueError("not a comparison of the launch plan")
