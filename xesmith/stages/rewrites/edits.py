"""Edits of a kernel's tree: replace, insert, append to a loop, and drop what became dead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst import matchers as m


@dataclass
class Edits:
    """Changes by node identity; nodes are those of the analysed module.

    replace: makes the new node from the old one with its inner edits already made.
    """

    replace: dict[cst.CSTNode, Callable[[cst.CSTNode], cst.CSTNode]] = field(
        default_factory=dict[cst.CSTNode, Callable[[cst.CSTNode], cst.CSTNode]]
    )
    before: dict[cst.CSTNode, list[str]] = field(default_factory=dict[cst.CSTNode, list[str]])
    at_end: dict[cst.CSTNode, list[str]] = field(default_factory=dict[cst.CSTNode, list[str]])
    remove: set[cst.CSTNode] = field(default_factory=set[cst.CSTNode])

    def insert_before(self, statement: cst.CSTNode, text: str) -> None:
        self.before.setdefault(statement, []).append(text)

    def append_to(self, loop: cst.CSTNode, text: str) -> None:
        self.at_end.setdefault(loop, []).append(text)

    def apply(self, module: cst.Module) -> cst.Module:
        return module.visit(_Editor(self))


class _Editor(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self.edits = edits

    def on_leave(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        edits = self.edits
        extra = [cst.parse_statement(text) for text in edits.before.get(original_node, ())]
        if original_node in edits.remove:
            return cst.FlattenSentinel(extra) if extra else cst.RemovalSentinel.REMOVE
        if original_node in edits.replace:
            updated_node = edits.replace[original_node](updated_node)
        if original_node in edits.at_end and isinstance(updated_node, cst.For | cst.While):
            last = [cst.parse_statement(text) for text in edits.at_end[original_node]]
            body = cst.ensure_type(updated_node.body, cst.IndentedBlock)
            updated_node = updated_node.with_changes(
                body=body.with_changes(body=[*body.body, *last])
            )
        if extra:
            return cst.FlattenSentinel([*extra, updated_node])
        if updated_node is not original_node and _assigns_itself(updated_node):
            return cst.RemovalSentinel.REMOVE
        if isinstance(updated_node, cst.IndentedBlock) and not updated_node.body:
            return updated_node.with_changes(body=[cst.parse_statement("pass")])
        return updated_node


def _assigns_itself(node: cst.CSTNode) -> bool:
    """`x = x`, which an edit of the right-hand side can leave."""
    match node:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=target))],
                    value=cst.Name(value=value),
                )
            ]
        ):
            return target == value
        case _:
            return False


def drop_dead_assignments(module: cst.Module, original: cst.Module) -> cst.Module:
    """Remove assignments of pure index arithmetic whose value nothing reads any more.

    What was dead in `original` already is the author's business and stays.
    """
    dead_before = {original.code_for_node(small) for small in _dead(original)}
    dead = [s for s in _dead(module) if module.code_for_node(s) not in dead_before]
    if not dead:
        return module
    edits = Edits(remove=set(dead))
    for line in m.findall(module, m.SimpleStatementLine()):
        if all(
            small in edits.remove for small in cst.ensure_type(line, cst.SimpleStatementLine).body
        ):
            edits.remove.add(line)
    return edits.apply(module)


_PURE_CALLS = {
    "arange", "cdiv", "multiple_of", "max_contiguous", "max_constancy", "program_id",
    "num_programs", "to", "cast", "min", "max", "minimum", "maximum", "expand_dims",
    "broadcast_to", "where", "zeros", "full", "int", "range", "load",
}  # fmt: skip


def _pure_target(small: cst.BaseSmallStatement) -> str | None:
    """The one name that a side-effect-free assignment gives a value to."""
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return name if _is_pure(value) else None
        case cst.AugAssign(target=cst.Name(value=name), value=value):
            return name if _is_pure(value) else None
        case cst.AnnAssign(target=cst.Name(value=name), value=value) if value is not None:
            return name if _is_pure(value) else None
        case _:
            return None


def _is_pure(value: cst.BaseExpression) -> bool:
    for call in m.findall(value, m.Call()):
        function = cst.ensure_type(call, cst.Call).func
        name = function.attr.value if isinstance(function, cst.Attribute) else None
        name = function.value if isinstance(function, cst.Name) else name
        if name not in _PURE_CALLS:
            return False
    return True


@dataclass(eq=False)
class _Definition:
    """A pure assignment: where it stands and the names its right-hand side reads."""

    node: cst.BaseSmallStatement
    name: str
    order: int
    loops: tuple[int, ...]
    reads: list[str] = field(default_factory=list[str])


class _Flow(cst.CSTVisitor):
    """Pure assignments, and all reads outside of them, in the order of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.definitions: list[_Definition] = []
        self.reads: list[tuple[str, int, tuple[int, ...]]] = []
        self.order = 0
        self.loops: list[int] = []
        self.current: _Definition | None = None

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            self.order += 1
        if isinstance(node, cst.For | cst.While):
            self.loops.append(self.order)
        if isinstance(node, cst.BaseSmallStatement):
            name = _pure_target(node)
            if name is not None:
                self.current = _Definition(node, name, self.order, tuple(self.loops))
                self.definitions.append(self.current)
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.For | cst.While):
            self.loops.pop()
        if isinstance(original_node, cst.BaseSmallStatement):
            self.current = None
        super().on_leave(original_node)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        node.body.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:  # noqa: N802
        return self.current is None

    def visit_For(self, node: cst.For) -> bool:  # noqa: N802
        for part in (node.iter, node.body, node.orelse):  # the target is no read
            if part is not None:
                part.visit(self)
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        if self.current is not None:
            self.current.reads.append(node.value)
        else:
            self.reads.append((node.value, self.order, tuple(self.loops)))


def _dead(module: cst.Module) -> list[cst.BaseSmallStatement]:
    """Pure assignments that no effect depends on; a read sees what stands before it in the
    text or shares a loop with it."""
    flow = _Flow()
    module.visit(flow)
    live: set[int] = set()
    waiting = list(flow.reads)
    while waiting:
        name, order, loops = waiting.pop()
        for definition in flow.definitions:
            reaches = definition.order < order or set(definition.loops) & set(loops)
            if definition.name == name and reaches and definition.order not in live:
                live.add(definition.order)
                waiting += [(read, definition.order, definition.loops) for read in definition.reads]
    return [d.node for d in flow.definitions if d.order not in live]


def unique_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or it with the first free number; recorded in `taken`."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def names_in(module: cst.Module) -> set[str]:
    return {cst.ensure_type(n, cst.Name).value for n in m.findall(module, m.Name())}


def call_text(
    function: str, arguments: Sequence[str] | Mapping[str, str], *, target: str | None = None
) -> str:
    """`target = function(...)`, over several lines where one would be too long."""
    if isinstance(arguments, Mapping):
        items = [f"{key}={value}" for key, value in arguments.items()]
    else:
        items = list(arguments)
    head = f"{target} = {function}(" if target else f"{function}("
    one_line = f"{head}{', '.join(items)})"
    if len(one_line) <= 88:
        return one_line
    return head + "\n    " + ",\n    ".join(items) + ",\n)"
