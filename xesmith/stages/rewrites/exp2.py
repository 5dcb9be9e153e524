"""exp -> exp2, with log2(e) folded into a scale that is already there.

`tl.exp(x)` becomes `exp2(x * log2(e))`: a multiplication for every element. In attention every
exponent is a difference of scores that were multiplied by a scale just before; with log2(e) in
that scale the other multiplications go. This holds where every value between the scale and the
exponentials is homogeneous in the scores (maxima, differences, selections against -inf) and is
used for nothing else, as for a stored log-sum-exp.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from xesmith.stages.rewrites.edits import Edits
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite
from xesmith.stages.rewrites.symbolic import parse_kernel

LOG2_E = "1.4426950408889634"

_TL = m.Name("tl")
_EXP = m.Call(func=m.Attribute(value=_TL, attr=m.Name("exp")))
_INFINITY = m.Call(func=m.Name("float"), args=[m.Arg(m.SimpleString())])


def exp2(source: str, facts: KernelFacts) -> Rewrite | Refusal:
    """Equal up to rounding, so there is no guard; the correctness check has the last word."""
    parsed = parse_kernel(source)
    if isinstance(parsed, Refusal):
        return parsed
    module, function = parsed
    body = _Body(function)
    calls = [cst.ensure_type(node, cst.Call) for node in m.findall(function.body, _EXP)]
    if not calls:
        return Refusal("no tl.exp in the kernel")
    names = body.family(name for call in calls for name in _names(call.args[0].value))
    if isinstance(names, Refusal):
        return names
    seeds = [seed for name in names for seed in body.seeds(name)]
    if not seeds:
        return Refusal("no scale that log2(e) could be folded into")
    foreign = [call for call in calls if not _homogeneous(call.args[0].value, names)]
    if foreign:
        text = module.code_for_node(foreign[0])
        return Refusal(f"`{text}` is no exponential of scaled values")
    outside = body.read_outside(names, calls)
    if outside:
        return Refusal(f"`{outside[0]}` is used outside of exponentials, so its scale matters")
    edits = Edits()
    for seed in seeds:
        edits.replace[seed] = _scaled
    for call in calls:
        edits.replace[call.func] = _to_exp2
    note = f"{len(calls)} exponentials to the base 2, log2(e) in {len(seeds)} scale"
    return Rewrite(edits.apply(module).code, notes=(note,))


class _Body:
    """The assignments of a kernel, by the name that they assign."""

    def __init__(self, function: cst.FunctionDef) -> None:
        self.function = function
        self.parameters = {
            p.name.value for p in (*function.params.params, *function.params.kwonly_params)
        }
        self.values: dict[str, list[cst.BaseExpression]] = {}
        self.odd: set[str] = set()  # assigned in ways that are not followed
        for node in m.findall(function.body, m.Assign() | m.AugAssign() | m.For()):
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
                ):
                    self.values.setdefault(name, []).append(value)
                case cst.Assign(targets=targets):
                    self.odd |= {name for t in targets for name in _names(t.target)}
                case cst.AugAssign(target=cst.Name(value=name)):
                    self.odd.add(name)
                case cst.For(target=target):
                    self.odd |= set(_names(target))
                case _:
                    pass

    def family(self, first: Iterator[str]) -> set[str] | Refusal:
        """The names that the exponents go back to, up to where a scale makes them."""
        family: set[str] = set()
        waiting = [name for name in first if name not in ("tl", "None")]
        while waiting:
            name = waiting.pop()
            if name in family:
                continue
            if name in self.odd or name in self.parameters or name not in self.values:
                return Refusal(f"`{name}` in an exponent is not followed to a scale")
            family.add(name)
            for value in self.values[name]:
                if self.seed_of(value) is None and not _is_minus_infinity(value):
                    waiting += _operands(value)
        for name in family:
            for value in self.values[name]:
                known = self.seed_of(value) is not None or _is_minus_infinity(value)
                if not known and not _homogeneous(value, family):
                    text = cst.Module([]).code_for_node(value)
                    return Refusal(f"`{name} = {text}` does not scale with the scores")
        return family

    def seeds(self, name: str) -> Iterator[cst.BaseExpression]:
        for value in self.values[name]:
            seed = self.seed_of(value)
            if seed is not None:
                yield seed

    def seed_of(self, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """The scale in `tl.dot(...) * scale`: a parameter or a number."""
        match value:
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                for product, scale in ((left, right), (right, left)):
                    constant = isinstance(scale, cst.BaseNumber) or (
                        isinstance(scale, cst.Name)
                        and scale.value in self.parameters
                        and scale.value not in self.values
                        and scale.value not in self.odd
                    )
                    if constant and m.matches(
                        product, m.Call(func=m.Attribute(value=_TL, attr=m.Name("dot")))
                    ):
                        return scale
            case _:
                pass
        return None

    def read_outside(self, names: set[str], calls: list[cst.Call]) -> list[str]:
        """Names of the family that something reads beside the family and the exponentials."""
        reader = _Readers(names, set(calls))
        self.function.body.visit(reader)
        return reader.found


class _Readers(cst.CSTVisitor):
    def __init__(self, names: set[str], calls: set[cst.Call]) -> None:
        super().__init__()
        self.names = names
        self.calls = calls
        self.found: list[str] = []

    def visit_Call(self, node: cst.Call) -> bool:  # noqa: N802
        return node not in self.calls

    def visit_Assign(self, node: cst.Assign) -> bool:  # noqa: N802
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                return name not in self.names
            case _:
                return True

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        if node.value in self.names:
            self.found.append(node.value)


def _names(node: cst.CSTNode) -> list[str]:
    return [cst.ensure_type(found, cst.Name).value for found in m.findall(node, m.Name())]


def _is_minus_infinity(value: cst.BaseExpression) -> bool:
    """-inf, `tl.full(shape, -inf, dtype)`, `tl.zeros(shape, dtype) - inf`: the same, scaled."""
    match value:
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_infinity(inner)
        case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value="full"))):
            return len(value.args) >= 2 and _is_minus_infinity(value.args[1].value)
        case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
            return m.matches(left, _tl_call("zeros")) and _is_infinity(right)
        case _:
            return m.matches(value, _INFINITY) and "-inf" in cst.Module([]).code_for_node(value)


def _is_infinity(value: cst.BaseExpression) -> bool:
    text = cst.Module([]).code_for_node(value)
    return m.matches(value, _INFINITY) and "inf" in text and "-" not in text


def _tl_call(name: str) -> m.Call:
    return m.Call(func=m.Attribute(value=_TL, attr=m.Name(name)))


def _operands(value: cst.BaseExpression) -> list[str]:
    """Names that a homogeneous expression is made of."""
    match value:
        case cst.Name(value=name):
            return [name]
        case cst.Subscript(value=inner):
            return _operands(inner)
        case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
            return _operands(left) + _operands(right)
        case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value=name))):
            arguments = [a.value for a in value.args if a.keyword is None]
            if name == "max":
                return _operands(arguments[0])
            if name == "maximum":
                return [n for argument in arguments for n in _operands(argument)]
            if name == "where":
                return [n for argument in arguments[1:] for n in _operands(argument)]
            return []
        case _:
            return []


def _homogeneous(value: cst.BaseExpression, family: set[str]) -> bool:
    """Whether scaling the names of the family scales the value."""
    match value:
        case cst.Name(value=name):
            return name in family
        case cst.Subscript(value=inner):
            return _homogeneous(inner, family)
        case cst.BinaryOperation(left=left, operator=cst.Subtract(), right=right):
            return _homogeneous(left, family) and _homogeneous(right, family)
        case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value=name))):
            arguments = [a.value for a in value.args if a.keyword is None]
            if name == "max":
                return (
                    _homogeneous(arguments[0], family)
                    and not set(_names(cst.Tuple([cst.Element(a) for a in arguments[1:]]))) & family
                )
            if name in ("maximum", "where"):
                parts = arguments if name == "maximum" else arguments[1:]
                free = name == "maximum" or not set(_names(arguments[0])) & family
                return free and all(
                    _is_minus_infinity(part) or _homogeneous(part, family) for part in parts
                )
            return False
        case _:
            return False


def _scaled(node: cst.CSTNode) -> cst.CSTNode:
    text = cst.Module([]).code_for_node(node)
    return cst.parse_expression(f"({text} * {LOG2_E})")


def _to_exp2(node: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(node, cst.Attribute).with_changes(attr=cst.Name("exp2"))
