"""Abstract interpretation of a kernel's index arithmetic.

Every name is mapped to what is known of it: a scalar polynomial, a vector of indices
(`start + tl.arange(0, length)`, perhaps wrapped by `% modulus`), a sum of those times
strides, the same on top of a pointer argument, or a mask of such comparisons. Variables that
a loop advances by an invariant step become polynomials in the loop's counter. What is not
understood is Opaque, with nothing assumed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from typing import cast as typed

import libcst as cst
import numpy as np
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from numpy.typing import NDArray

from xesmith.ghost.launch import Launch
from xesmith.stages.rewrites.poly import ONE, ZERO, Atom, Poly
from xesmith.stages.rewrites.result import KernelFacts, Refusal

#: programs whose scalars are computed; larger grids are not checked numerically
MAX_PROGRAMS = 1 << 20

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Index:
    """`start + arange(0, length)`, taken modulo `modulus` where there is one."""

    start: Poly
    length: Poly
    modulus: Poly | None = None


@dataclass(frozen=True)
class Term:
    """`coefficient * index` along an axis."""

    axis: int
    coefficient: Poly
    index: Index


@dataclass(frozen=True)
class Affine:
    """base + scalar + sum of terms; a scalar has shape (). Shape entries of 1 broadcast."""

    scalar: Poly = ZERO
    shape: tuple[Poly, ...] = ()
    terms: tuple[Term, ...] = ()
    base: str | None = None

    @property
    def is_scalar(self) -> bool:
        return not self.shape and self.base is None


@dataclass(frozen=True)
class Condition:
    """`index < bound` along an axis (the index has no modulus)."""

    axis: int
    index: Index
    bound: Poly


@dataclass(frozen=True)
class Mask:
    """Conjunction of conditions; `opaque` is the text of one that was not understood."""

    rank: int
    conditions: tuple[Condition, ...]
    opaque: str | None = None


@dataclass(frozen=True)
class Opaque:
    """Not understood; `why` is said to the user when an access depends on it.

    shape: of a tensor of data or the block of a pointer to one, where it is known.
    extents, base: of the tensor that a block pointer or descriptor describes.
    """

    why: str
    shape: tuple[Poly, ...] | None = None
    extents: tuple[Poly, ...] | None = None
    base: str | None = None


@dataclass(frozen=True)
class Tuple:
    items: tuple[Value, ...]


Value = Affine | Mask | Opaque | Tuple


@dataclass
class State:
    """What each name means at one place, and which assignment gave it."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    versions: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> State:
        return State(dict(self.values), dict(self.versions))

    def express(self, poly: Poly) -> Poly | None:
        """`poly` in what can be written here, None where a variable has changed since.

        A loop's counter is written through a variable that advances with it.
        """
        for atom in poly.atoms:
            if atom.kind == "iteration":
                written = self._without_counter(poly, atom)
                return None if written is None else self.express(written)
            if atom.operation == "load":  # memory may have changed since
                return None
            if any(self.versions.get(name, 0) != version for name, version in atom.needs):
                return None
        return poly

    def _without_counter(self, poly: Poly, counter: Atom) -> Poly | None:
        factor = poly.coefficient_of(counter)
        if factor is None:
            return None
        for name, value in self.values.items():
            if not isinstance(value, Affine) or not value.is_scalar:
                continue
            step = value.scalar.coefficient_of(counter)
            if step is None or step == ZERO:
                continue
            rest = value.scalar - step * Poly.atom(counter)
            times = factor.divided_by(step)
            if times is None or counter in rest.atoms:
                continue
            variable = Atom(name, needs=((name, self.versions.get(name, 0)),), kind="variable")
            others = poly - factor * Poly.atom(counter)
            return others + times * (Poly.atom(variable) - rest)
        return None


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop with its counter (0, 1, 2, ...) as an atom.

    variable: what a `for` counts, or what a `while` compares and advances.
    trips: (numerator, denominator) of the trip count rounded up, where it is known.
    """

    node: cst.For | cst.While
    counter: Atom
    before: State
    variable: str | None
    trips: tuple[Poly, Poly] | None
    line: int
    start: Poly | None = None
    step: Poly | None = None


@dataclass(frozen=True, eq=False)
class Access:
    """One `tl.load` or `tl.store`.

    statement: the innermost statement (line or compound) that holds it; `state` is before it.
    """

    node: cst.Call
    op: str  # "load" | "store"
    pointer: Value
    mask: Value | None
    other: cst.BaseExpression | None
    stored: cst.BaseExpression | None
    stored_shape: tuple[Poly, ...] | None
    keywords: dict[str, cst.BaseExpression]
    loops: tuple[Loop, ...]
    statement: cst.BaseStatement
    state: State
    line: int


@dataclass(frozen=True, eq=False)
class Block:
    """One `tl.make_block_ptr` or `tl.make_tensor_descriptor`; offsets are None where unknown."""

    shape: tuple[Poly, ...] | None
    offsets: tuple[Poly, ...] | None
    block_shape: tuple[Poly, ...]
    base: str | None
    line: int


@dataclass(frozen=True)
class Touch:
    """A pointer argument that the kernel loads from, stores to or updates atomically.

    base: None where the address is not understood.
    """

    op: Literal["load", "store", "atomic"]
    base: str | None


@dataclass(frozen=True, eq=False)
class WideCast:
    """A cast of index arithmetic to 64 bits."""

    node: cst.Call
    inner: cst.BaseExpression
    line: int


@dataclass(frozen=True, eq=False)
class Wrap:
    """`index % modulus` of a vector of indices."""

    node: cst.BinaryOperation
    index: Index
    modulus: Poly
    loops: tuple[Loop, ...]
    line: int


@dataclass(frozen=True, eq=False)
class Dot:
    """One `tl.dot`, with the shapes of its operands where they are known."""

    node: cst.Call
    a_shape: tuple[Poly, ...] | None
    b_shape: tuple[Poly, ...] | None
    loops: tuple[Loop, ...]
    line: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """All that was understood of a kernel."""

    module: cst.Module
    function: cst.FunctionDef
    parameters: tuple[str, ...]
    constexprs: tuple[str, ...]
    pointers: frozenset[str]
    accesses: tuple[Access, ...]
    dots: tuple[Dot, ...]
    blocks: tuple[Block, ...]
    steps: tuple[tuple[Poly, ...], ...]  # of every tl.advance
    wide_casts: tuple[WideCast, ...]
    wraps: tuple[Wrap, ...]
    touches: tuple[Touch, ...]
    loops: tuple[Loop, ...]
    states: dict[cst.CSTNode, State]  # before each statement
    quotients: tuple[Atom, ...]  # every quotient, rounded down or up
    program_ids: tuple[Atom, ...]  # one per call of tl.program_id
    numbers: Numbers
    lines: dict[cst.CSTNode, int]

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node).strip()


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


def parse_kernel(source: str) -> tuple[cst.Module, cst.FunctionDef] | Refusal:
    """The module and its one function. Constants and decorators around it are kept."""
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        return Refusal(f"the kernel is not valid Python: {error.message}", error.raw_line)
    functions = [node for node in module.body if isinstance(node, cst.FunctionDef)]
    if len(functions) != 1:
        return Refusal(f"expected one kernel, found {len(functions)} functions")
    return module, functions[0]


def analyse(source: str, facts: KernelFacts) -> Analysis | Refusal:
    """Interpret a kernel over what its captured launches tell of its arguments."""
    parsed = parse_kernel(source)
    if isinstance(parsed, Refusal):
        return parsed
    if not facts.launches:
        return Refusal("no captured launch: the types of the kernel's arguments are not known")
    wrapper = MetadataWrapper(parsed[0])
    function = next(n for n in wrapper.module.body if isinstance(n, cst.FunctionDef))
    positions = wrapper.resolve(PositionProvider)
    lines = {node: p.start.line + facts.first_line - 1 for node, p in positions.items()}
    return _Interpreter(wrapper.module, function, facts, lines).run()


_IDENTITY_CALLS = {"multiple_of", "max_contiguous", "max_constancy"}
_WRAPPED_FUNCTIONS = {"cdiv": "cdiv", "minimum": "min", "maximum": "max"}


class _Interpreter:
    def __init__(
        self,
        module: cst.Module,
        function: cst.FunctionDef,
        facts: KernelFacts,
        lines: dict[cst.CSTNode, int],
    ) -> None:
        self.module = module
        self.function = function
        self.facts = facts
        self.lines = lines
        self.numbers = Numbers(facts.launches)
        self.accesses: list[Access] = []
        self.dots: list[Dot] = []
        self.all_loops: list[Loop] = []
        self.states: dict[cst.CSTNode, State] = {}
        self.quotients: list[Atom] = []
        self.program_ids: list[Atom] = []
        self.blocks: list[Block] = []
        self.steps: list[tuple[Poly, ...]] = []
        self.wide_casts: list[WideCast] = []
        self.wraps: list[Wrap] = []
        self.touches: list[Touch] = []
        self.loops: list[Loop] = []
        self.statement: cst.BaseStatement | None = None
        self.fresh = itertools.count(1)
        self.state: State = State()
        self.recording = True
        parameters = function.params
        self.parameters = tuple(
            p.name.value
            for p in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
        )
        signature = facts.launches[0].signature
        self.constexprs = tuple(
            p.name.value
            for p in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
            if (p.annotation is not None and "constexpr" in self.code(p.annotation.annotation))
            or signature.get(p.name.value) == "constexpr"
        )
        self.pointers = frozenset(
            name for name in self.parameters if signature.get(name, "").startswith("*")
        )

    def run(self) -> Analysis:
        for name in self.parameters:
            atom = Atom(name, needs=((name, 0),), kind="parameter")
            if name in self.pointers:
                self.state.values[name] = Affine(base=name)
            else:
                self.state.values[name] = Affine(Poly.atom(atom))
            self.numbers.define(atom, [_integer(x, name) for x in self.facts.launches])
        self.block(self.function.body)
        return Analysis(
            module=self.module,
            function=self.function,
            parameters=self.parameters,
            constexprs=self.constexprs,
            pointers=self.pointers,
            accesses=tuple(self.accesses),
            dots=tuple(self.dots),
            blocks=tuple(self.blocks),
            steps=tuple(self.steps),
            wide_casts=tuple(self.wide_casts),
            wraps=tuple(self.wraps),
            touches=tuple(self.touches),
            loops=tuple(self.all_loops),
            states=self.states,
            quotients=tuple(self.quotients),
            program_ids=tuple(self.program_ids),
            numbers=self.numbers,
            lines=self.lines,
        )

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node).strip()

    # --- statements

    def block(self, body: cst.BaseSuite) -> None:
        for statement in body.body:
            if isinstance(statement, cst.BaseStatement):
                self.run_statement(statement)
            else:  # a suite on the line of its header
                self.small_statement(statement)

    def run_statement(self, statement: cst.BaseStatement) -> None:
        self.statement = statement
        if self.recording:
            self.states[statement] = self.state.copy()
        match statement:
            case cst.SimpleStatementLine():
                for small in statement.body:
                    self.small_statement(small)
            case cst.For():
                self.for_loop(statement)
            case cst.While():
                self.while_loop(statement)
            case cst.If():
                self.if_statement(statement)
            case _:  # with, nested functions, ...: whatever they assign is not known
                for name in assigned_names(statement):
                    self.bind(name, Opaque(f"`{name}` is assigned in a statement not understood"))

    def small_statement(self, small: cst.BaseSmallStatement) -> None:
        match small:
            case cst.Assign(targets=targets, value=value):
                result = self.evaluate(value)
                for target in targets:
                    self.assign(target.target, result)
            case cst.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.evaluate(value))
            case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
                left = self.state.values.get(name, Opaque(f"`{name}` is not known"))
                right = self.evaluate(value)
                self.bind(name, self.binary(type(operator).__name__, left, right, small))
            case cst.Expr(value=value):
                self.evaluate(value)
            case cst.Return(value=value) if value is not None:
                self.evaluate(value)
            case _:
                for name in assigned_names(small):
                    self.bind(name, Opaque(f"`{name}` is assigned in a statement not understood"))

    def assign(self, target: cst.BaseExpression, value: Value) -> None:
        match target:
            case cst.Name(value=name):
                self.bind(name, value)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                items: Sequence[Value]
                if isinstance(value, Tuple) and len(value.items) == len(elements):
                    items = value.items
                else:
                    items = [Opaque("a value of a tuple that was not understood")] * len(elements)
                for element, item in zip(elements, items, strict=True):
                    self.assign(element.value, item)
            case _:
                pass

    def bind(self, name: str, value: Value) -> None:
        """Give a name a value. A scalar with operations inside becomes an atom of that name."""
        version = next(self.fresh)
        self.state.versions[name] = version
        if isinstance(value, Affine) and value.is_scalar:
            compound = any(a.kind == "expression" for a in value.scalar.atoms)
            if compound and not any(a.kind == "iteration" for a in value.scalar.atoms):
                atom = Atom(
                    name,
                    needs=((name, version),),
                    kind="variable",
                    operation="=",
                    arguments=(value.scalar,),
                )
                self.numbers.define(atom, self.numbers.of(value.scalar))
                value = Affine(Poly.atom(atom))
        self.state.values[name] = value

    def unknown_scalar(self, name: str, numbers: list[IntArray | int | None] | None = None) -> None:
        version = next(self.fresh)
        self.state.versions[name] = version
        atom = Atom(name, needs=((name, version),), kind="variable")
        if numbers is not None:
            self.numbers.define(atom, numbers)
        self.state.values[name] = Affine(Poly.atom(atom))

    def if_statement(self, node: cst.If) -> None:
        self.evaluate(node.test)
        before = self.state
        after: list[State] = []
        self.state = before.copy()
        self.block(node.body)
        after.append(self.state)
        self.state = before.copy()
        match node.orelse:
            case cst.If() as nested:
                if self.recording:
                    self.states[nested] = self.state.copy()
                self.if_statement(nested)
            case cst.Else(body=body):
                self.block(body)
            case _:
                pass
        after.append(self.state)
        self.state = before.copy()
        one, two = after
        for name in sorted(one.versions.keys() | two.versions.keys()):
            if one.versions.get(name, 0) == two.versions.get(name, 0):
                continue
            first, second = one.values.get(name), two.values.get(name)
            if first == second and isinstance(first, Affine | Mask):
                self.bind(name, first)
            elif _scalar(first) and _scalar(second):
                self.unknown_scalar(name)
            else:
                shapes = [_shape(v) if isinstance(v, Opaque) else None for v in (first, second)]
                shape = shapes[0] if shapes[0] == shapes[1] else None
                self.bind(name, Opaque(f"`{name}` depends on a branch", shape))

    def for_loop(self, node: cst.For) -> None:
        bounds = self.range_of(node.iter)
        counter = Atom(f"iteration@{self.lines[node]}.{next(self.fresh)}", kind="iteration")
        variable = node.target.value if isinstance(node.target, cst.Name) else None
        trips: tuple[Poly, Poly] | None = None
        if bounds is not None:
            low, high, step = bounds
            trips = (high - low, step)
            count = trips[0].single
            if step == ONE and count is not None and count.cdiv is not None:
                trips = count.cdiv
        start: Value = Opaque(f"the range of the loop at line {self.lines[node]}")
        if bounds is not None:
            start = Affine(bounds[0] + bounds[2] * Poly.atom(counter))
        loop = Loop(
            node,
            counter,
            self.state.copy(),
            variable,
            trips,
            self.lines[node],
            None if bounds is None else bounds[0],
            None if bounds is None else bounds[2],
        )
        self.loop_body(loop, variable, start)

    def while_loop(self, node: cst.While) -> None:
        counter = Atom(f"iteration@{self.lines[node]}.{next(self.fresh)}", kind="iteration")
        loop = Loop(node, counter, self.state.copy(), None, None, self.lines[node])
        match node.test:
            case cst.Comparison(
                left=cst.Name(value=name),
                comparisons=[cst.ComparisonTarget(operator=cst.LessThan(), comparator=comparator)],
            ):
                step = self.induction(node.body, self.state).get(name)
                start, bound = self.state.values.get(name), self.evaluate(comparator)
                if (
                    step is not None
                    and isinstance(start, Affine)
                    and start.is_scalar
                    and isinstance(bound, Affine)
                    and bound.is_scalar
                ):
                    trips = (bound.scalar - start.scalar, step)
                    loop = replace(loop, variable=name, trips=trips, start=start.scalar, step=step)
            case _:
                pass
        self.loop_body(loop, None, None)

    def loop_body(self, loop: Loop, variable: str | None, start: Value | None) -> None:
        node = loop.node
        assigned = assigned_names(node.body)
        steps = self.induction(node.body, self.state, variable)
        counter = Poly.atom(loop.counter)
        for name in sorted(assigned):
            before = self.state.values.get(name)
            version = next(self.fresh)
            self.state.versions[name] = version
            step = steps.get(name)
            if step is not None and isinstance(before, Affine):
                self.state.values[name] = _add_scalar(before, step * counter)
            elif _scalar(before):
                atom = Atom(name, needs=((name, version),), kind="variable")
                self.state.values[name] = Affine(Poly.atom(atom))
            else:
                shape = None if isinstance(before, Affine) else _shape(before)
                self.state.values[name] = Opaque(f"`{name}` is carried through the loop", shape)
        if variable is not None and start is not None:
            self.state.versions[variable] = next(self.fresh)
            self.state.values[variable] = start
        self.loops.append(loop)
        if self.recording:
            self.all_loops.append(loop)
        if isinstance(node, cst.While):
            self.evaluate(node.test)
        self.block(node.body)
        self.loops.pop()
        for name in sorted(assigned | ({variable} if variable else set[str]())):
            before = loop.before.values.get(name)
            if (before is None or _scalar(before)) and _scalar(self.state.values.get(name)):
                self.unknown_scalar(name)
                continue
            last = self.state.values.get(name)
            shape = _shape(last) if isinstance(last, Opaque) else None
            self.bind(name, Opaque(f"`{name}` after the loop at line {loop.line}", shape))

    def induction(
        self, body: cst.BaseSuite, before: State, variable: str | None = None
    ) -> dict[str, Poly]:
        """Variables that the body advances once per iteration by an invariant step.

        variable: what the loop itself counts.
        """
        updates: dict[str, list[cst.BaseExpression | None]] = {}
        for name in assigned_names(body):
            updates[name] = []
        for statement in body.body:
            smalls = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
            for small in smalls:
                match small:
                    case cst.AugAssign(
                        target=cst.Name(value=name), operator=cst.AddAssign(), value=value
                    ):
                        updates[name].append(value)
                    case cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name(value=name))],
                        value=cst.BinaryOperation(
                            left=cst.Name(value=left), operator=cst.Add(), right=value
                        ),
                    ) if left == name:
                        updates[name].append(value)
                    case _:
                        for name in assigned_names(small):
                            updates[name].append(None)
        counts = assignment_counts(body)
        saved, recording = self.state, self.recording
        result: dict[str, Poly] = {}
        for name, values in updates.items():
            if len(values) != 1 or values[0] is None or counts[name] != 1:
                continue
            # what the body assigns is not known here, so a step that uses it is not invariant
            self.state, self.recording = before.copy(), False
            for other in (*updates, *([variable] if variable else [])):
                self.state.values[other] = Opaque(f"`{other}` changes in the loop")
            step = self.evaluate(values[0])
            if isinstance(step, Affine) and step.is_scalar:
                result[name] = step.scalar
        self.state, self.recording = saved, recording
        return result

    def range_of(self, node: cst.BaseExpression) -> tuple[Poly, Poly, Poly] | None:
        """(low, high, step) of range, tl.range and tl.static_range."""
        if not isinstance(node, cst.Call) or _callee(node) not in {"range", "static_range"}:
            return None
        values = [self.evaluate(a.value) for a in node.args if a.keyword is None]
        if not 1 <= len(values) <= 3 or not all(_scalar(v) for v in values):
            return None
        polys = [typed(Affine, v).scalar for v in values]
        if len(polys) == 1:
            return ZERO, polys[0], ONE
        return polys[0], polys[1], polys[2] if len(polys) == 3 else ONE

    # --- expressions

    def evaluate(self, node: cst.BaseExpression) -> Value:
        match node:
            case cst.Integer():
                return Affine(Poly.const(int(node.evaluated_value)))
            case cst.Float():
                return Opaque("a number", ())
            case cst.Name(value="True" | "False" | "None"):
                return Opaque(node.value)
            case cst.Name(value=name):
                if name in self.state.values:
                    return self.state.values[name]
                # a constant of the module
                return Affine(Poly.atom(Atom(name, needs=((name, 0),), kind="parameter")))
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                first, second = self.evaluate(left), self.evaluate(right)
                return self.binary(type(operator).__name__, first, second, node)
            case cst.UnaryOperation(operator=cst.Minus(), expression=expression):
                value = self.evaluate(expression)
                if _scalar(value):
                    return Affine(-typed(Affine, value).scalar)
                return Opaque(f"`{self.code(node)}`", _shape(value))
            case cst.Comparison(left=left, comparisons=comparisons):
                values = [self.evaluate(left), *(self.evaluate(c.comparator) for c in comparisons)]
                if len(values) == 2:
                    return self.compare(comparisons[0].operator, values[0], values[1], node)
                return Opaque(f"`{self.code(node)}`")
            case cst.Subscript():
                return self.subscript(node)
            case cst.Call():
                return self.call(node)
            case cst.Attribute(value=value, attr=cst.Name(value="T")):
                shape = _shape(self.evaluate(value))
                return Opaque("data", None if shape is None else tuple(reversed(shape)))
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                return Tuple(tuple(self.evaluate(element.value) for element in elements))
            case _:
                for child in node.children:  # accesses inside are still accesses
                    if isinstance(child, cst.BaseExpression):
                        self.evaluate(child)
                return Opaque(f"`{self.code(node)}`")

    def binary(self, operator: str, left: Value, right: Value, node: cst.CSTNode) -> Value:
        operator = operator.removesuffix("Assign")
        if operator == "BitAnd":
            return self.conjunction(left, right, node)
        if not isinstance(left, Affine) or not isinstance(right, Affine):
            blame = left if isinstance(left, Opaque) else right
            why = blame.why if isinstance(blame, Opaque) else f"`{self.code(node)}`"
            return Opaque(why, _broadcast(_shape(left), _shape(right)))
        match operator:
            case "Add":
                return _add(left, right) or Opaque(f"`{self.code(node)}`")
            case "Subtract":
                if right.is_scalar:
                    return _add_scalar(left, -right.scalar)
            case "Multiply":
                if right.is_scalar and left.base is None:
                    return _scale(left, right.scalar)
                if left.is_scalar and right.base is None:
                    return _scale(right, left.scalar)
            case "Modulo" if right.is_scalar and not left.is_scalar:
                index = _index_vector(left)
                if index is not None:
                    wrapped = replace(index, modulus=right.scalar)
                    if self.recording and isinstance(node, cst.BinaryOperation):
                        self.wraps.append(
                            Wrap(node, index, right.scalar, tuple(self.loops), self.lines[node])
                        )
                    return replace(left, scalar=ZERO, terms=(_term(left, wrapped),))
            case "FloorDivide" | "Modulo" if left.is_scalar and right.is_scalar:
                return self.quotient(operator, left.scalar, right.scalar, node)
            case _:
                pass
        return Opaque(f"`{self.code(node)}`")

    def quotient(self, operator: str, left: Poly, right: Poly, node: cst.CSTNode) -> Value:
        symbol = "//" if operator == "FloorDivide" else "%"
        if left.constant is not None and right.constant:
            a, b = left.constant, right.constant
            return Affine(Poly.const(a // b if symbol == "//" else a % b))
        numerator = left + ONE - right if symbol == "//" else None
        # (X + B - 1) // B is a quotient rounded up
        if numerator is not None and left != numerator and right.constant != 1:
            candidate = left - right + ONE
            if _looks_rounded_up(left, right):
                return self.expression(self.code(node), "cdiv", (candidate, right), node)
        return self.expression(self.code(node), symbol, (left, right), node)

    def expression(
        self, text: str, operation: str, arguments: tuple[Poly, ...], node: cst.CSTNode
    ) -> Value:
        """An atom for a scalar that is not a polynomial."""
        names = {n.value for n in m.findall(node, m.Name()) if isinstance(n, cst.Name)}
        versions = self.state.versions
        needs = tuple(sorted((n, versions.get(n, 0)) for n in names if n in self.state.values))
        if not isinstance(node, cst.Call):
            text = f"({text})"
        atom = Atom(text, needs, kind="expression", operation=operation, arguments=arguments)
        if operation in ("//", "cdiv"):
            self.quotients.append(atom)
        self.numbers.define(atom, self.numbers.apply(operation, arguments))
        return Affine(Poly.atom(atom))

    def compare(
        self, operator: cst.BaseCompOp, left: Value, right: Value, node: cst.CSTNode
    ) -> Value:
        text = self.code(node)
        if isinstance(operator, cst.GreaterThan):
            left, right = right, left
        elif not isinstance(operator, cst.LessThan):
            rank = len(left.shape) if isinstance(left, Affine) else 0
            return Mask(rank, (), opaque=text)
        if not isinstance(left, Affine) or not isinstance(right, Affine):
            return Opaque(f"`{text}`")
        rank = max(len(left.shape), len(right.shape))
        index = _index_vector(left)
        if index is None or index.modulus is not None or not right.is_scalar:
            return Mask(rank, (), opaque=text)
        return Mask(rank, (Condition(left.terms[0].axis, index, right.scalar),))

    def conjunction(self, left: Value, right: Value, node: cst.CSTNode) -> Value:
        if isinstance(left, Mask) and isinstance(right, Mask):
            ranks = {r for r in (left.rank, right.rank) if r}
            if len(ranks) <= 1:
                return Mask(
                    max(left.rank, right.rank),
                    left.conditions + right.conditions,
                    left.opaque or right.opaque,
                )
        return Opaque(f"`{self.code(node)}`")

    def subscript(self, node: cst.Subscript) -> Value:
        value = self.evaluate(node.value)
        axes: list[bool] = []  # True where a new axis is inserted
        for element in node.slice:
            match element.slice:
                case cst.Index(value=cst.Name(value="None")):
                    axes.append(True)
                case cst.Slice(lower=None, upper=None, step=None):
                    axes.append(False)
                case _:
                    return Opaque(f"`{self.code(node)}`")
        shape_before = _shape(value)
        places = [position for position, new in enumerate(axes) if not new]
        if isinstance(value, Affine) and len(places) == len(value.shape):
            shape = [ONE] * len(axes)
            for old, new in enumerate(places):
                shape[new] = value.shape[old]
            terms = tuple(replace(t, axis=places[t.axis]) for t in value.terms)
            return replace(value, shape=tuple(shape), terms=terms)
        if isinstance(value, Mask) and len(places) == value.rank:
            conditions = tuple(replace(c, axis=places[c.axis]) for c in value.conditions)
            return Mask(len(axes), conditions, value.opaque)
        why = value.why if isinstance(value, Opaque) else f"`{self.code(node)}`"
        if shape_before is None or len(places) != len(shape_before):
            return Opaque(why)
        items = iter(shape_before)
        return Opaque(why, tuple(ONE if new else next(items) for new in axes))

    def call(self, node: cst.Call) -> Value:
        name = _callee(node)
        if name in ("load", "store") and _is_language(node):
            return self.access(node, name)
        if isinstance(node.func, cst.Attribute) and name == "to" and node.args:
            return self.cast(self.evaluate(node.func.value), node.args[0].value, node)
        if _is_language(node) and name in ("make_block_ptr", "make_tensor_descriptor"):
            return self.block_pointer(node)
        arguments = [self.evaluate(a.value) for a in node.args]
        if isinstance(node.func, cst.Attribute) and not _is_language(node):
            return self.method(node, name, self.evaluate(node.func.value), arguments)
        if name.startswith("atomic_") and arguments and self.recording:
            self.touches.append(Touch("atomic", _base(arguments[0])))
        if name == "advance" and arguments:
            step = _polys(arguments[1]) if len(arguments) > 1 else None
            if step is not None and self.recording:
                self.steps.append(step)
            return arguments[0]
        if name == "dot" and len(arguments) >= 2:
            shapes = [_shape(value) for value in arguments[:2]]
            if self.recording:
                self.dots.append(
                    Dot(node, shapes[0], shapes[1], tuple(self.loops), self.lines[node])
                )
            a, b = shapes
            return Opaque("a product", (a[0], b[1]) if a and b else None)
        if name in ("zeros", "full") and arguments:
            return Opaque("data", _polys(arguments[0]))
        if name in ("trans",) and len(arguments) == 1:
            shape = _shape(arguments[0])
            return Opaque("data", None if shape is None else tuple(reversed(shape)))
        if name == "program_id" and node.args:
            return self.program_id(node, arguments[0])
        if name in ("num_programs",) and node.args:
            return self.expression(self.code(node), "", (), node)
        if name == "arange" and len(arguments) == 2 and all(_scalar(v) for v in arguments):
            low, high = (typed(Affine, v).scalar for v in arguments)
            length = high - low
            return Affine(ZERO, (length,), (Term(0, ONE, Index(low, length)),))
        if name in _IDENTITY_CALLS and arguments:
            return arguments[0]
        if name == "cast" and len(node.args) >= 2:
            return self.cast(arguments[0], node.args[1].value, node)
        if name == "expand_dims" and len(arguments) == 2:
            axis = typed(Affine, arguments[1]).scalar.constant if _scalar(arguments[1]) else None
            value = arguments[0]
            if axis in (0, 1) and isinstance(value, Affine) and len(value.shape) == 1:
                place = 1 - axis
                shape = (value.shape[0], ONE) if place == 0 else (ONE, value.shape[0])
                return replace(
                    value, shape=shape, terms=tuple(replace(t, axis=place) for t in value.terms)
                )
        operation = _WRAPPED_FUNCTIONS.get(name) or (name if name in ("min", "max") else None)
        scalars = bool(arguments) and all(_scalar(v) for v in arguments)
        if operation is not None and scalars:
            polys = tuple(typed(Affine, v).scalar for v in arguments)
            return self.expression(self.code(node), operation, polys, node)
        return Opaque(f"`{self.code(node)}`", self.shape_of_call(node, name, arguments))

    def shape_of_call(
        self, node: cst.Call, name: str, arguments: Sequence[Value]
    ) -> tuple[Poly, ...] | None:
        """The shape of a call's result, where it follows from those of its arguments."""
        if name == "float":
            return ()
        if name in _REDUCTIONS and arguments:
            axis = node.args[1].value if len(node.args) > 1 else None
            shape = _shape(arguments[0])
            if shape is None or not isinstance(axis, cst.Integer):
                return None if shape is None or len(shape) > 1 else ()
            return tuple(n for i, n in enumerate(shape) if i != int(axis.value) % len(shape))
        if name == "where" and len(arguments) == 3:
            shape = _broadcast(_shape(arguments[1]), _shape(arguments[2]))
            return shape if shape and ONE not in shape else None  # the condition may widen it
        if name not in _ELEMENTWISE:
            return None
        shape = ()
        for value in arguments[:1] if name == "cast" else arguments:
            shape = _broadcast(shape, _shape(value))
        return shape

    def method(self, node: cst.Call, name: str, value: Value, arguments: Sequence[Value]) -> Value:
        """A call such as `desc.load([m, k])` or `x.trans()`."""
        offsets = _polys(arguments[0]) if arguments else None
        block = _shape(value)
        if name in ("load", "store") and offsets and block and self.recording:
            extents = value.extents if isinstance(value, Opaque) else None
            self.blocks.append(Block(extents, offsets, block, None, self.lines[node]))
        if name in ("load", "store") and self.recording:
            self.touches.append(Touch(name, _base(value)))
        if name == "load":
            return Opaque("a loaded value", block)
        return Opaque(f"`{self.code(node)}`")

    def block_pointer(self, node: cst.Call) -> Value:
        names = ("base", "shape", "strides", "offsets", "block_shape", "order")
        if _callee(node) == "make_tensor_descriptor":
            names = ("base", "shape", "strides", "block_shape")
        values: dict[str, Value] = {}
        for position, argument in enumerate(node.args):
            name = argument.keyword.value if argument.keyword else names[position]
            values[name] = self.evaluate(argument.value)
        block = _polys(values.get("block_shape"))
        base = values.get("base")
        if block is None:
            return Opaque("a block pointer")
        if self.recording:
            self.blocks.append(
                Block(
                    shape=_polys(values.get("shape")),
                    offsets=_polys(values.get("offsets")),
                    block_shape=block,
                    base=base.base if isinstance(base, Affine) else None,
                    line=self.lines[node],
                )
            )
        name = base.base if isinstance(base, Affine) else None
        return Opaque("a block pointer", block, _polys(values.get("shape")), name)

    def program_id(self, node: cst.Call, axis: Value) -> Value:
        number = axis.scalar.constant if isinstance(axis, Affine) and axis.is_scalar else None
        if number not in (0, 1, 2):
            return Opaque(f"`{self.code(node)}`")
        atom = Atom(
            f"tl.program_id({number})",
            kind="expression",
            operation="program_id",
            arguments=(Poly.const(number),),
        )
        self.numbers.define(atom, [_program_ids(x, number) for x in self.facts.launches])
        if self.recording:
            self.program_ids.append(atom)
        return Affine(Poly.atom(atom))

    def cast(self, value: Value, dtype: cst.BaseExpression, node: cst.Call) -> Value:
        text = self.code(dtype)
        if not isinstance(value, Affine) or value.base is not None:
            return value if isinstance(value, Opaque) else Opaque(f"`{self.code(node)}`")
        if text.endswith("int64") and self.recording:
            inner = node.func.value if isinstance(node.func, cst.Attribute) else node.args[0].value
            inner = node.args[0].value if _callee(node) == "cast" else inner
            self.wide_casts.append(WideCast(node, inner, self.lines[node]))
        if text.endswith("int64"):
            terms = tuple(
                replace(t, index=replace(t.index, start=t.index.start.widen())) for t in value.terms
            )
            return replace(value, scalar=value.scalar.widen(), terms=terms)
        if text.endswith("int32"):
            return value
        return Opaque(f"`{self.code(node)}`")

    def access(self, node: cst.Call, op: str) -> Value:
        slots = {"load": ("pointer", "mask", "other"), "store": ("pointer", "value", "mask")}[op]
        arguments: dict[str, cst.BaseExpression] = {}
        for position, argument in enumerate(node.args):
            if argument.keyword is not None:
                arguments[argument.keyword.value] = argument.value
            elif position < len(slots):
                arguments[slots[position]] = argument.value
            else:
                arguments[f"positional{position}"] = argument.value
        evaluated = {k: self.evaluate(v) for k, v in arguments.items()}
        pointer = evaluated.get("pointer", Opaque("no pointer"))
        mask = evaluated.get("mask")
        if "mask" in arguments and m.matches(arguments["mask"], m.Name("None")):
            mask = None
        statement = self.statement
        if self.recording:
            self.touches.append(Touch("load" if op == "load" else "store", _base(pointer)))
        if self.recording and statement is not None:
            keep = {k: v for k, v in arguments.items() if k not in (*slots, "value", "other")}
            self.accesses.append(
                Access(
                    node=node,
                    op=op,
                    pointer=pointer,
                    mask=mask,
                    other=arguments.get("other"),
                    stored=arguments.get("value"),
                    stored_shape=_shape(evaluated.get("value")),
                    keywords=keep,
                    loops=tuple(self.loops),
                    statement=statement,
                    state=self.state.copy(),
                    line=self.lines[node],
                )
            )
        if op == "load" and isinstance(pointer, Affine) and not pointer.shape:
            return self.expression(self.code(node), "load", (pointer.scalar,), node)
        return Opaque("a loaded value", _shape(pointer))


# --- the algebra of values

_ELEMENTWISE = {
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "abs", "sigmoid", "maximum", "minimum",
    "fma", "cos", "sin", "floor", "ceil", "div_rn", "sqrt_rn", "cast",
}  # fmt: skip
_REDUCTIONS = {"max", "min", "sum", "argmax", "argmin"}


def _shape(value: Value | None) -> tuple[Poly, ...] | None:
    """The shape of a tensor; () of a scalar."""
    match value:
        case Affine(shape=shape):
            return shape
        case Opaque(shape=shape):
            return shape
        case _:
            return None


def _base(value: Value) -> str | None:
    """The pointer argument that an address goes back to."""
    return value.base if isinstance(value, Affine | Opaque) else None


def _broadcast(
    left: tuple[Poly, ...] | None, right: tuple[Poly, ...] | None
) -> tuple[Poly, ...] | None:
    """The shape of an elementwise result; None where either is not known."""
    if left is None or right is None:
        return None
    if not left or not right:
        return left or right
    if len(left) != len(right):
        return None
    return tuple(b if a == ONE else a for a, b in zip(left, right, strict=True))


def _polys(value: Value | None) -> tuple[Poly, ...] | None:
    """The scalars of a tuple or list, None where one is not known."""
    if not isinstance(value, Tuple):
        return None
    items = [item.scalar for item in value.items if isinstance(item, Affine) and item.is_scalar]
    return tuple(items) if len(items) == len(value.items) else None


def _scalar(value: Value | None) -> bool:
    return isinstance(value, Affine) and value.is_scalar


def _term(value: Affine, index: Index) -> Term:
    return replace(value.terms[0], index=index)


def _index_vector(value: Affine) -> Index | None:
    """The index of a plain vector of indices (coefficient 1, no pointer), else None."""
    if value.base is not None or len(value.terms) != 1:
        return None
    term = value.terms[0]
    if term.coefficient != ONE:
        return None
    if value.scalar == ZERO:
        return term.index
    if term.index.modulus is not None:
        return None
    return replace(term.index, start=term.index.start + value.scalar)


def _add_scalar(value: Affine, scalar: Poly) -> Affine:
    """A scalar added to a plain index vector moves its start; elsewhere it stands apart."""
    if value.base is None and value.shape and len(value.terms) == 1:
        index = _index_vector(replace(value, scalar=value.scalar + scalar))
        if index is not None:
            return replace(value, scalar=ZERO, terms=(_term(value, index),))
    return replace(value, scalar=value.scalar + scalar)


def _scale(value: Affine, factor: Poly) -> Affine:
    terms = tuple(replace(t, coefficient=t.coefficient * factor) for t in value.terms)
    return replace(value, scalar=value.scalar * factor, terms=terms)


def _add(left: Affine, right: Affine) -> Affine | None:
    if left.base is not None and right.base is not None:
        return None
    if right.is_scalar:
        return _add_scalar(left, right.scalar)
    if left.is_scalar:
        return _add_scalar(right, left.scalar)
    if left.shape and right.shape and len(left.shape) != len(right.shape):
        return None
    shape = tuple(
        a if b == ONE else b
        for a, b in itertools.zip_longest(left.shape, right.shape, fillvalue=ONE)
    )
    if any(
        len({a, b} - {ONE}) > 1
        for a, b in itertools.zip_longest(left.shape, right.shape, fillvalue=ONE)
    ):
        return None
    scalar = left.scalar + right.scalar
    terms = list(left.terms)
    for term in right.terms:
        same = next((t for t in terms if t.axis == term.axis), None)
        if same is None:
            terms.append(term)
            continue
        if same.index.modulus is not None or term.index.modulus is not None:
            return None
        # c1*(s1 + i) + c2*(s2 + i) = (c1 + c2)*(s1 + i) + c2*(s2 - s1)
        scalar = scalar + term.coefficient * (term.index.start - same.index.start)
        terms[terms.index(same)] = replace(same, coefficient=same.coefficient + term.coefficient)
    base = left.base or right.base
    return Affine(scalar, shape, tuple(sorted(terms, key=lambda t: t.axis)), base)


def _looks_rounded_up(left: Poly, right: Poly) -> bool:
    """Whether `left` is X + right - 1 with X free of `right`."""
    rest = left - right + ONE
    if right.constant is not None:
        return any(m == () and c == right.constant - 1 for m, c in left.terms)
    return right.single is not None and right.single not in rest.atoms and bool(rest.terms)


def _program_ids(launch: Launch, axis: int) -> IntArray | int | None:
    """That program id of every program, in the order of the grid."""
    x, y, z = launch.grid
    if x * y * z > MAX_PROGRAMS:
        return None
    index = np.arange(x * y * z, dtype=np.int64)
    return (index % x, index // x % y, index // (x * y))[axis]


def _integer(launch: Launch, name: str) -> int | None:
    value: Any = launch.values.get(name, launch.constexprs.get(name))
    return int(value) if isinstance(value, int) else None


def _callee(node: cst.Call) -> str:
    match node.func:
        case cst.Name(value=name):
            return name
        case cst.Attribute(attr=cst.Name(value=name)):
            return name
        case _:
            return ""


def _is_language(node: cst.Call) -> bool:
    """Whether the callee is `tl.x` or `triton.language.x`."""
    return m.matches(
        node.func,
        m.Attribute(value=m.Name("tl"))
        | m.Attribute(value=m.Attribute(value=m.Name("triton"), attr=m.Name("language"))),
    )


def assigned_names(node: cst.CSTNode) -> set[str]:
    """Names that a statement or suite may assign."""
    return set(assignment_counts(node))


def assignment_counts(node: cst.CSTNode) -> dict[str, int]:
    """How many times each name is assigned in a statement or suite, read as text."""
    counter = _AssignmentCounter()
    node.visit(counter)
    return counter.counts


class _AssignmentCounter(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def _target(self, node: cst.BaseExpression) -> None:
        match node:
            case cst.Name(value=name):
                self.counts[name] = self.counts.get(name, 0) + 1
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for element in elements:
                    self._target(element.value)
            case _:
                pass

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802
        self._target(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:  # noqa: N802
        self._target(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802
        self._target(node.target)

    def visit_For(self, node: cst.For) -> None:  # noqa: N802
        self._target(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:  # noqa: N802
        self._target(node.target)
