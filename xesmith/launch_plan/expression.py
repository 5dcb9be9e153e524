"""The expression language of launch plans: arithmetic and conditions over a call's arguments.

A plan is data from a proposer, so its expressions are parsed with `ast`, checked node by node
against a list of what is allowed, and written out again from the checked tree. Nothing else of
the text reaches the generated file.

What there is:
    numbers, True, False, None, 'text' (to compare a dtype or to pass a text meta-parameter)
    names of parameters, meta-parameters and buffers
    + - * // %, comparisons, `is None`, `in ('a', 'b')`, and, or, not
    min, max, cdiv(a, b), next_power_of_2(a)
    t.shape[0], t.stride[-1], t.ndim, t.numel, t.dtype ('float16'), t.is_contiguous
    aligned(t, 64)  # the address of t's first element is a multiple of 64 bytes
    self.weight  # of a rebound method: an attribute of its first parameter
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from xesmith.errors import UsageError, nearest


class PlanError(UsageError):
    """A launch plan, or a source that goes with it, cannot be used."""


_MAX_CHARACTERS = 2000
_MAX_NODES = 400
_MAX_INTEGER = 2**63

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_UNARY: dict[type[ast.unaryop], str] = {ast.Not: "not ", ast.USub: "-", ast.UAdd: "+"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
#: functions with the number of arguments that each takes (least, most)
_FUNCTIONS = {
    "min": (2, 8),
    "max": (2, 8),
    "cdiv": (2, 2),
    "next_power_of_2": (1, 1),
    "aligned": (2, 2),
}
_TENSOR_VALUES = {
    "ndim": "{0}.ndim",
    "numel": "{0}.numel()",
    "dtype": "_xs_dtype({0})",
    "is_contiguous": "{0}.is_contiguous()",
}
_TENSOR_ITEMS = {"shape": "{0}.shape[{1}]", "stride": "{0}.stride({1})"}


@dataclass(frozen=True)
class Expression:
    """A checked expression. `names` are the names that it reads."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def code(self, names: Mapping[str, str] | None = None) -> str:
        """Python code of the generated block; `names` maps a name to the code that stands for it.

        Functions become the block's helpers (`cdiv` -> `_xs_cdiv`).
        """
        return _code(self.tree, names or {})

    def conditions(self) -> list[str]:
        """The code of each part of an outermost `and`; of the whole where there is none."""
        if isinstance(self.tree, ast.BoolOp) and isinstance(self.tree.op, ast.And):
            return [_inner(part, {}, _LEVELS[ast.And] + 1) for part in self.tree.values]
        return [_inner(self.tree, {}, _LEVELS[ast.And] + 1)]


def parse(
    text: str | int | float | bool | None, where: str, owner: str | None = None
) -> Expression:
    """Check `text`. A number, boolean or None stands for itself.

    Args:
        where: place in the plan, for errors.
        owner: the parameter whose attributes may be read (`self` of a rebound method).

    Raises:
        PlanError: anything outside the language, or too large.
    """
    source = text if isinstance(text, str) else repr(text)
    if len(source) > _MAX_CHARACTERS:
        raise PlanError(f"an expression of {len(source)} characters is too long", where=where)
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        raise PlanError(f"'{_short(source)}' is no expression: {message}", where=where) from error
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        raise PlanError(f"'{_short(source)}' has too many terms", where=where)
    names: set[str] = set()
    _Checker(source, where, owner, names).check(tree)
    return Expression(source.strip(), tree, frozenset(names))


def check_names(expression: Expression, known: Collection[str], where: str) -> None:
    """Raises PlanError where the expression reads a name that is not in `known`."""
    for name in sorted(expression.names):
        if name not in known:
            raise PlanError(
                f"unknown name '{name}' in '{_short(expression.text)}'",
                where=where,
                remedy=nearest(name, known),
            )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."


@dataclass(frozen=True)
class _Checker:
    source: str
    where: str
    owner: str | None
    names: set[str]

    def check(self, node: ast.expr) -> None:
        checkers: dict[type[ast.expr], Callable[..., None]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._bool,
            ast.Compare: self._compare,
            ast.Call: self._call,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
        }
        checker = checkers.get(type(node))
        if checker is None:
            raise self._refusal(node)
        checker(node)

    def _refusal(self, node: ast.AST, why: str | None = None) -> PlanError:
        part = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        reason = why or f"{type(node).__name__} is not part of the expression language"
        return PlanError(
            f"'{_short(part)}' in '{_short(self.source)}': {reason}",
            where=self.where,
            remedy="numbers, names, + - * // %, comparisons, and/or/not, min, max, cdiv, "
            "next_power_of_2, aligned(t, n), t.shape[i], t.stride[i], t.dtype, t.ndim, t.numel",
        )

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if value is None or isinstance(value, bool):
            return
        if isinstance(value, int) and abs(value) < _MAX_INTEGER:
            return
        if isinstance(value, float) and value == value and abs(value) != float("inf"):
            return
        if isinstance(value, str) and len(value) <= 100 and value.isprintable():
            return
        raise self._refusal(node, "no number, truth value, None or short text")

    def _name(self, node: ast.Name) -> None:
        if node.id.startswith("_xs") or node.id.startswith("__"):
            raise self._refusal(node, "the name is reserved")
        self.names.add(node.id)

    def _binary(self, node: ast.BinOp) -> None:
        if type(node.op) not in _BINARY:
            raise self._refusal(node, f"the operator {type(node.op).__name__} is not allowed")
        self.check(node.left)
        self.check(node.right)

    def _unary(self, node: ast.UnaryOp) -> None:
        if type(node.op) not in _UNARY:
            raise self._refusal(node, "the operator ~ is not allowed")
        self.check(node.operand)

    def _bool(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self.check(value)

    def _compare(self, node: ast.Compare) -> None:
        self.check(node.left)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Is | ast.IsNot):
                if not (isinstance(right, ast.Constant) and right.value is None):
                    raise self._refusal(node, "`is` compares with None alone")
            elif isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, ast.Tuple | ast.List) or not right.elts:
                    raise self._refusal(node, "`in` takes a tuple of constants")
                for element in right.elts:
                    if not isinstance(element, ast.Constant):
                        raise self._refusal(node, "`in` takes a tuple of constants")
                    self._constant(element)
            else:
                self.check(right)

    def _call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
            raise self._refusal(node, f"known functions: {', '.join(_FUNCTIONS)}")
        least, most = _FUNCTIONS[node.func.id]
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if node.keywords or starred or not least <= len(node.args) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise self._refusal(node, f"{node.func.id} takes {count} plain arguments")
        if node.func.id == "aligned":
            if not self._is_tensor(node.args[0]):
                raise self._refusal(node, "aligned takes a tensor's name and bytes")
            self._tensor(node.args[0])
            self.check(node.args[1])
            return
        for argument in node.args:
            self.check(argument)

    def _attribute(self, node: ast.Attribute) -> None:
        if node.attr in _TENSOR_VALUES and self._is_tensor(node.value):
            self._tensor(node.value)
        elif self._is_owned(node):
            self._tensor(node)
        else:
            known = [*_TENSOR_VALUES, *(f"{name}[i]" for name in _TENSOR_ITEMS)]
            raise self._refusal(node, f"a tensor has {', '.join(known)}")

    def _subscript(self, node: ast.Subscript) -> None:
        value = node.value
        named = isinstance(value, ast.Attribute) and value.attr in _TENSOR_ITEMS
        if not (isinstance(value, ast.Attribute) and named and self._is_tensor(value.value)):
            raise self._refusal(node, "only t.shape[i] and t.stride[i] take an index")
        if _index(node.slice) is None:
            raise self._refusal(node, "the index is a number from -8 to 7")
        self._tensor(value.value)

    def _is_tensor(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) or self._is_owned(node)

    def _is_owned(self, node: ast.expr) -> bool:
        """Whether it is `self.a` or `self.a.b` with names that do not begin with '_'."""
        while isinstance(node, ast.Attribute) and not node.attr.startswith("_"):
            node = node.value
            if isinstance(node, ast.Name):
                return self.owner is not None and node.id == self.owner
        return False

    def _tensor(self, node: ast.expr) -> None:
        while isinstance(node, ast.Attribute):
            node = node.value
        assert isinstance(node, ast.Name)
        self._name(node)


def _index(node: ast.expr) -> int | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value <= 8:
        index = sign * node.value
        return index if -8 <= index <= 7 else None
    return None


# -- code -------------------------------------------------------------------------------------

_TERM = 9  # binds as tightly as a name
_LEVELS: dict[type[ast.AST], int] = {
    ast.Or: 1,
    ast.And: 2,
    ast.Not: 3,
    ast.Compare: 4,
    ast.Add: 5,
    ast.Sub: 5,
    ast.Mult: 6,
    ast.FloorDiv: 6,
    ast.Mod: 6,
    ast.USub: 7,
    ast.UAdd: 7,
}


def _level(node: ast.expr) -> int:
    """How tightly a tree's outermost operator binds."""
    operator = node.op if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) else node
    return _LEVELS.get(type(operator), _TERM)


def _code(node: ast.expr, names: Mapping[str, str]) -> str:
    """Code of a checked tree."""
    level = _level(node)
    if isinstance(node, ast.Constant):
        return json.dumps(node.value) if isinstance(node.value, str) else repr(node.value)
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.BinOp):
        left, right = _inner(node.left, names, level), _inner(node.right, names, level + 1)
        return f"{left} {_BINARY[type(node.op)]} {right}"
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)] + _inner(node.operand, names, level)
    if isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.And) else " or "
        return word.join(_inner(value, names, level + 1) for value in node.values)
    if isinstance(node, ast.Compare):
        parts = [_inner(node.left, names, level + 1)]
        for op, right in zip(node.ops, node.comparators, strict=True):
            parts += [_COMPARE[type(op)], _operand(right, names)]
        return " ".join(parts)
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        arguments = ", ".join(_code(argument, names) for argument in node.args)
        return f"_xs_{node.func.id}({arguments})"
    if isinstance(node, ast.Subscript):
        assert isinstance(node.value, ast.Attribute)
        tensor = _inner(node.value.value, names, _TERM)
        return _TENSOR_ITEMS[node.value.attr].format(tensor, _index(node.slice))
    assert isinstance(node, ast.Attribute)
    if node.attr in _TENSOR_VALUES:
        return _TENSOR_VALUES[node.attr].format(_inner(node.value, names, _TERM))
    return f"{_code(node.value, names)}.{node.attr}"


def _operand(node: ast.expr, names: Mapping[str, str]) -> str:
    if isinstance(node, ast.Tuple | ast.List):
        elements = [_code(element, names) for element in node.elts]
        return f"({', '.join(elements)},)" if len(elements) == 1 else f"({', '.join(elements)})"
    return _inner(node, names, _LEVELS[ast.Compare] + 1)


def _inner(node: ast.expr, names: Mapping[str, str], least: int) -> str:
    """Code of a part, in parentheses where it binds less tightly than its place asks for."""
    code = _code(node, names)
    if isinstance(node, ast.Name) and node.id in names:
        return code if code.isidentifier() or code.isdigit() else f"({code})"
    return code if _level(node) >= least else f"({code})"
