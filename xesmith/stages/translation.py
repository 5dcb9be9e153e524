"""Expressions over a launched kernel's parameters, said in the words of who calls the plan.

Rewrites state guards and grids over the parameters of the kernel that they changed. Where a
launch plan launches that kernel, these stand for what the launch passes: values of `args` and
`metas`, buffers, arguments of the rebound function. A guard is evaluated before any buffer is
there, so what it asks of one is answered from the plan: shape, strides and dtype are stated,
and a fresh allocation is contiguous and begins at a multiple of 64 bytes.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from xesmith.kernel_file import JitFunction
from xesmith.launch_plan import Alternative, Buffer, PlanError, PlannedLaunch, parse
from xesmith.launch_plan.plan import Value
from xesmith.stages.rewrites.result import constant_value

#: every allocator of torch keeps to it, that of the CPU too
ALLOCATION_ALIGNMENT_BYTES = 64
#: numbers up to this are ranks, strides and counts more often than sizes
_SMALL = 8
_WHERE = "launch plan"


def substituted(expression: str, values: Mapping[str, Value]) -> str:
    """The expression with values for some of its names."""
    trees = {name: _tree(value) for name, value in values.items()}
    return ast.unparse(_Substitute(trees).visit(_tree(expression)))


def parts_of(guard: str) -> list[str]:
    """The parts of an outermost `and`; none of "True"."""
    tree = _tree(guard)
    is_and = isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And)
    parts = tree.values if is_and and isinstance(tree, ast.BoolOp) else [tree]
    if len(parts) > 1:
        return [part for item in parts for part in parts_of(ast.unparse(item))]
    text = ast.unparse(tree)
    return [] if text == "True" else [text]


def guard_of(parts: Iterable[str]) -> str:
    """One guard from its parts."""
    return " and ".join(f"({part})" for part in dict.fromkeys(parts)) or "True"


def is_over_tiles(guard: str) -> bool:
    """Whether a guard may speak of whole tiles: of divisors, or of a size that is a number."""

    def found(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="aligned")):
                return False
            case ast.Mod() | ast.FloorDiv() | ast.Name(id="cdiv"):
                return True
            case ast.Constant(value=int(value)) if value > _SMALL:
                return True
            case _:
                return any(found(child) for child in ast.iter_child_nodes(node))

    return found(_tree(guard))


def names_in(values: Iterable[Value]) -> set[str]:
    """Names that expressions read."""
    return {
        node.id for value in values for node in ast.walk(_tree(value)) if isinstance(node, ast.Name)
    }


@dataclass(frozen=True)
class Translation:
    """What the parameters of a launched kernel stand for at one launch of an alternative.

    values: by parameter; None where only the launch itself decides it (tuning, a default that
        is no literal).
    owner: the first parameter of a rebound method, whose attributes may be read.
    """

    values: Mapping[str, ast.expr | None]
    buffers: Mapping[str, Buffer]
    owner: str | None = None

    @classmethod
    def of(
        cls,
        function: JitFunction,
        launch: PlannedLaunch,
        alternative: Alternative,
        caller: Sequence[str],
        owner: str | None = None,
    ) -> Translation:
        """`function`: the launched kernel. `caller`: parameters of what is rebound."""
        buffers = {buffer.name: buffer for buffer in alternative.buffers}
        stated = {**launch.args, **launch.metas}
        by_name = {*caller, *buffers} - set(alternative.dropped)
        values: dict[str, ast.expr | None] = {}
        for parameter in function.parameters:
            name = parameter.name
            if name in stated:
                values[name] = _tree(stated[name])
            elif name in function.tuned or (parameter.is_constexpr and not function.tuned_is_exact):
                values[name] = None
            elif name in by_name:
                values[name] = ast.Name(name)
            else:
                values[name] = _literal(parameter.default)
        return cls(values, buffers, owner)

    def at(self, metas: Mapping[str, Value]) -> Translation:
        """With other values for some meta-parameters."""
        trees = {name: _tree(value) for name, value in metas.items()}
        return replace(self, values={**self.values, **trees})

    def without(self, names: Iterable[str]) -> Translation:
        """With some meta-parameters left to tuning."""
        return replace(self, values={**self.values, **dict.fromkeys(names)})

    def conditions(self, guard: str) -> list[str]:
        """The parts of a guard that remain to be checked when the plan is called.

        Raises:
            PlanError: a part cannot be evaluated there, or never holds.
        """
        return [
            text
            for part in parts_of(guard)
            if (text := self._condition(part, _Substitute(self.values).visit(_tree(part))))
        ]

    def size(self, expression: int | str, kept: Iterable[str]) -> str:
        """A size of the kernel's grid; the meta-parameters `kept` stay names.

        Raises:
            PlanError: it reads what only the launch decides.
        """
        kept = frozenset(kept)
        values = {name: tree for name, tree in self.values.items() if name not in kept}
        tree = _tree(expression)
        read = names_in([expression]) - kept
        hidden = kept & names_in(ast.unparse(t) for n, t in values.items() if n in read and t)
        if hidden:
            raise PlanError(f"'{min(hidden)}' names an argument and a meta-parameter", where=_WHERE)
        return ast.unparse(_Substitute(values).visit(tree))

    def grid_conditions(
        self, own: Sequence[int | str], understood: Sequence[int | str], metas: Iterable[str]
    ) -> list[str]:
        """What must hold for the plan's own grid to be the one that the rewrites understood.

        own: as the plan says it, over the caller's names and meta-parameters. understood: over
        the kernel's parameters. metas: the names of meta-parameters that `own` can read.

        Raises:
            PlanError: the two are not equal as texts, and cannot be compared by values.
        """
        metas = {*metas, *(name for name, tree in self.values.items() if tree is None)}
        found: list[str] = []
        for axis in range(3):
            ours, theirs = (g[axis] if axis < len(g) else 1 for g in (own, understood))
            if ast.unparse(_tree(ours)) == self.size(theirs, metas):
                continue
            known = {name: self.values.get(name) for name in metas}
            first = ast.unparse(_Substitute(known).visit(_tree(ours)))
            second = self.size(theirs, ())
            if first != second:
                equal = f"({first}) == ({second})"
                condition = self._condition(equal, _tree(equal))
                found += [condition] if condition else []
        return found

    def _condition(self, part: str, tree: ast.expr) -> str | None:
        text = ast.unparse(_Buffers(self.buffers, part).visit(tree))
        expression = parse(text, f"guard '{part}'", self.owner)
        if expression.names:
            return None if _compares_with_itself(expression.tree) else text
        if not constant_value(text):
            raise PlanError(
                f"'{part}' never holds where the launch plan launches the kernel", where=_WHERE
            )
        return None


def _tree(value: Value) -> ast.expr:
    return ast.parse(value.strip() if isinstance(value, str) else repr(value), mode="eval").body


def _compares_with_itself(tree: ast.expr) -> bool:
    match tree:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.GtE() | ast.LtE()], comparators=[right]):
            return ast.dump(left) == ast.dump(right)
        case _:
            return False


def _literal(default: str | None) -> ast.expr | None:
    tree = None if default is None else _tree(default)
    return tree if isinstance(tree, ast.Constant) else None


class _Functions(ast.NodeTransformer):
    """Visits the arguments of calls, and leaves the functions' names alone."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self.visit(argument) for argument in node.args]
        return node


class _Substitute(_Functions):
    def __init__(self, values: Mapping[str, ast.expr | None]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values:
            return node
        value = self.values[node.id]
        if value is None:
            raise PlanError(
                f"the launch plan does not say what '{node.id}' is before it launches",
                where=_WHERE,
            )
        return copy.deepcopy(value)


class _Buffers(_Functions):
    """Answers what is asked of buffers. `part` is what is asked, for errors."""

    def __init__(self, buffers: Mapping[str, Buffer], part: str) -> None:
        self.buffers = buffers
        self.part = part

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.buffers:
            raise PlanError(
                f"'{self.part}' asks of the buffer '{node.id}' what is not known before it is "
                "allocated",
                where=_WHERE,
            )
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(
                func=ast.Name(id="aligned"),
                args=[ast.Name(id=name), ast.Constant(value=int(size))],
            ) if name in self.buffers and ALLOCATION_ALIGNMENT_BYTES % max(1, size) == 0:
                return ast.Constant(True)
            case _:
                return super().visit_Call(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        buffer = self._buffer(node.value)
        if buffer is None:
            return node
        if node.attr == "dtype":
            is_named = buffer.dtype.endswith(".dtype")
            return self.visit(_tree(buffer.dtype if is_named else repr(buffer.dtype)))
        if node.attr == "ndim":
            return ast.Constant(len(buffer.shape))
        if node.attr == "numel":
            return self._product(buffer.shape)
        if node.attr == "is_contiguous":
            return ast.Constant(True)
        return self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        buffer = self._buffer(node.value.value) if isinstance(node.value, ast.Attribute) else None
        if buffer is None or not isinstance(node.value, ast.Attribute):
            return node
        index: int = ast.literal_eval(node.slice)
        if not -len(buffer.shape) <= index < len(buffer.shape):
            raise PlanError(
                f"'{self.part}' asks for a dimension that '{buffer.name}' has not", where=_WHERE
            )
        index %= len(buffer.shape)
        if node.value.attr == "shape":
            return self.visit(_tree(buffer.shape[index]))
        return self._product(buffer.shape[index + 1 :])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if self._buffer(node.left) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            return ast.Constant(isinstance(node.ops[0], ast.IsNot))
        return self.generic_visit(node)  # pyright: ignore[reportReturnType]

    def _buffer(self, node: ast.expr) -> Buffer | None:
        return self.buffers.get(node.id) if isinstance(node, ast.Name) else None

    def _product(self, sizes: Sequence[int | str]) -> ast.expr:
        trees: list[ast.expr] = [self.visit(_tree(size)) for size in sizes]
        if not trees:
            return ast.Constant(1)
        return reduce(lambda left, right: ast.BinOp(left, ast.Mult(), right), trees)
