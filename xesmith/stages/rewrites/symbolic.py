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
from dataclasses import replace
from typing import cast as typed

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider

from xesmith.stages.rewrites.analysis import (
    Access,
    Analysis,
    Block,
    Dot,
    Loop,
    Selection,
    Touch,
    WideCast,
    Wrap,
)
from xesmith.stages.rewrites.poly import ONE, ZERO, Atom, Poly
from xesmith.stages.rewrites.programs import IntArray, Numbers, integer_argument, program_ids
from xesmith.stages.rewrites.result import KernelFacts, Refusal
from xesmith.stages.rewrites.values import (
    Affine,
    Condition,
    Index,
    Mask,
    Opaque,
    State,
    Term,
    Tuple,
    Value,
    add,
    add_scalar,
    base_of,
    broadcast,
    index_vector,
    is_scalar,
    looks_rounded_up,
    polys_of,
    scale,
    shape_of,
    with_index,
)


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
        self.selections: list[Selection] = []
        self.touches: list[Touch] = []
        self.loops: list[Loop] = []
        self.statement: cst.BaseStatement | None = None
        self.fresh = itertools.count(1)
        self.state: State = State()
        self.recording = True
        every = function.params
        parameters = (*every.posonly_params, *every.params, *every.kwonly_params)
        self.parameters = tuple(p.name.value for p in parameters)
        # a signature calls an argument of 1 or None a constexpr too: only the text tells
        self.constexprs = tuple(
            p.name.value
            for p in parameters
            if p.annotation is not None and "constexpr" in self.code(p.annotation.annotation)
        )
        self.pointers = frozenset(
            name
            for launch in facts.launches
            for name, kind in launch.signature.items()
            if kind.startswith("*")
        )

    def run(self) -> Analysis:
        for name in self.parameters:
            atom = Atom(name, needs=((name, 0),), kind="parameter")
            if name in self.pointers:
                self.state.values[name] = Affine(base=name)
            else:
                self.state.values[name] = Affine(Poly.atom(atom))
            self.numbers.define(atom, [integer_argument(x, name) for x in self.facts.launches])
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
            selections=tuple(self.selections),
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
            elif is_scalar(first) and is_scalar(second):
                self.unknown_scalar(name)
            else:
                shapes = [shape_of(v) if isinstance(v, Opaque) else None for v in (first, second)]
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
                self.state.values[name] = add_scalar(before, step * counter)
            elif is_scalar(before):
                atom = Atom(name, needs=((name, version),), kind="variable")
                self.state.values[name] = Affine(Poly.atom(atom))
            else:
                shape = None if isinstance(before, Affine) else shape_of(before)
                why = f"`{name}` is carried through the loop"
                # a block pointer that is only advanced stays on its tensor
                kept = isinstance(before, Opaque) and _only_advances(node.body, name)
                base = before.base if isinstance(before, Opaque) and kept else None
                self.state.values[name] = Opaque(why, shape, base=base)
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
            if (before is None or is_scalar(before)) and is_scalar(self.state.values.get(name)):
                self.unknown_scalar(name)
                continue
            last = self.state.values.get(name)
            shape = shape_of(last) if isinstance(last, Opaque) else None
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
        if not 1 <= len(values) <= 3 or not all(is_scalar(v) for v in values):
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
                if is_scalar(value):
                    return Affine(-typed(Affine, value).scalar)
                return Opaque(f"`{self.code(node)}`", shape_of(value))
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
                shape = shape_of(self.evaluate(value))
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
            return Opaque(why, broadcast(shape_of(left), shape_of(right)))
        match operator:
            case "Add":
                return add(left, right) or Opaque(f"`{self.code(node)}`")
            case "Subtract":
                if right.is_scalar:
                    return add_scalar(left, -right.scalar)
            case "Multiply":
                if right.is_scalar and left.base is None:
                    return scale(left, right.scalar)
                if left.is_scalar and right.base is None:
                    return scale(right, left.scalar)
            case "Modulo" if right.is_scalar and not left.is_scalar:
                index = index_vector(left)
                if index is not None:
                    wrapped = replace(index, modulus=right.scalar)
                    if self.recording and isinstance(node, cst.BinaryOperation):
                        self.wraps.append(
                            Wrap(node, index, right.scalar, tuple(self.loops), self.lines[node])
                        )
                    return replace(left, scalar=ZERO, terms=(with_index(left, wrapped),))
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
            if looks_rounded_up(left, right):
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
        index = index_vector(left)
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
        shape_before = shape_of(value)
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
            self.touches.append(Touch("atomic", base_of(arguments[0])))
        if name == "advance" and arguments:
            step = polys_of(arguments[1]) if len(arguments) > 1 else None
            if step is not None and self.recording:
                self.steps.append(step)
            return arguments[0]
        if name == "dot" and len(arguments) >= 2:
            shapes = [shape_of(value) for value in arguments[:2]]
            if self.recording:
                self.dots.append(
                    Dot(node, shapes[0], shapes[1], tuple(self.loops), self.lines[node])
                )
            a, b = shapes
            return Opaque("a product", (a[0], b[1]) if a and b else None)
        if name in ("zeros", "full") and arguments:
            return Opaque("data", polys_of(arguments[0]))
        if name in ("trans",) and len(arguments) == 1:
            shape = shape_of(arguments[0])
            return Opaque("data", None if shape is None else tuple(reversed(shape)))
        if name == "program_id" and node.args:
            return self.program_id(node, arguments[0])
        if name in ("num_programs",) and node.args:
            return self.expression(self.code(node), "", (), node)
        if name == "arange" and len(arguments) == 2 and all(is_scalar(v) for v in arguments):
            low, high = (typed(Affine, v).scalar for v in arguments)
            length = high - low
            return Affine(ZERO, (length,), (Term(0, ONE, Index(low, length)),))
        if name in _IDENTITY_CALLS and arguments:
            return arguments[0]
        if name == "cast" and len(node.args) >= 2:
            return self.cast(arguments[0], node.args[1].value, node)
        if name == "expand_dims" and len(arguments) == 2:
            axis = typed(Affine, arguments[1]).scalar.constant if is_scalar(arguments[1]) else None
            value = arguments[0]
            if axis in (0, 1) and isinstance(value, Affine) and len(value.shape) == 1:
                place = 1 - axis
                shape = (value.shape[0], ONE) if place == 0 else (ONE, value.shape[0])
                return replace(
                    value, shape=shape, terms=tuple(replace(t, axis=place) for t in value.terms)
                )
        operation = _WRAPPED_FUNCTIONS.get(name) or (name if name in ("min", "max") else None)
        scalars = bool(arguments) and all(is_scalar(v) for v in arguments)
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
            shape = shape_of(arguments[0])
            if shape is None or not isinstance(axis, cst.Integer):
                return None if shape is None or len(shape) > 1 else ()
            return tuple(n for i, n in enumerate(shape) if i != int(axis.value) % len(shape))
        if name == "where" and len(arguments) == 3:
            self.selection(node, arguments)
            shape = broadcast(shape_of(arguments[1]), shape_of(arguments[2]))
            return shape if shape and ONE not in shape else None  # the condition may widen it
        if name not in _ELEMENTWISE:
            return None
        shape = ()
        for value in arguments[:1] if name == "cast" else arguments:
            shape = broadcast(shape, shape_of(value))
        return shape

    def selection(self, node: cst.Call, arguments: Sequence[Value]) -> None:
        mask, value = arguments[0], arguments[1]
        shape = value.shape if isinstance(value, Opaque) else None
        if isinstance(mask, Mask) and shape and self.recording:
            loops = tuple(self.loops)
            self.selections.append(Selection(node, mask, shape, loops, self.lines[node]))

    def method(self, node: cst.Call, name: str, value: Value, arguments: Sequence[Value]) -> Value:
        """A call such as `desc.load([m, k])` or `x.trans()`."""
        offsets = polys_of(arguments[0]) if arguments else None
        block = shape_of(value)
        if name in ("load", "store") and offsets and block and self.recording:
            extents = value.extents if isinstance(value, Opaque) else None
            self.blocks.append(Block(extents, offsets, block, None, self.lines[node]))
        if name in ("load", "store") and self.recording:
            self.touches.append(Touch(name, base_of(value)))
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
        block = polys_of(values.get("block_shape"))
        base = values.get("base")
        if block is None:
            return Opaque("a block pointer")
        if self.recording:
            self.blocks.append(
                Block(
                    shape=polys_of(values.get("shape")),
                    offsets=polys_of(values.get("offsets")),
                    block_shape=block,
                    base=base.base if isinstance(base, Affine) else None,
                    line=self.lines[node],
                )
            )
        name = base.base if isinstance(base, Affine) else None
        return Opaque("a block pointer", block, polys_of(values.get("shape")), name)

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
        self.numbers.define(atom, [program_ids(x, number) for x in self.facts.launches])
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
            self.touches.append(Touch("load" if op == "load" else "store", base_of(pointer)))
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
                    stored_shape=shape_of(evaluated.get("value")),
                    keywords=keep,
                    loops=tuple(self.loops),
                    statement=statement,
                    state=self.state.copy(),
                    line=self.lines[node],
                )
            )
        if op == "load" and isinstance(pointer, Affine) and not pointer.shape:
            return self.expression(self.code(node), "load", (pointer.scalar,), node)
        return Opaque("a loaded value", shape_of(pointer))


_ELEMENTWISE = {
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "abs", "sigmoid", "maximum", "minimum",
    "fma", "cos", "sin", "floor", "ceil", "div_rn", "sqrt_rn", "cast",
}  # fmt: skip
_REDUCTIONS = {"max", "min", "sum", "argmax", "argmin"}


def _callee(node: cst.Call) -> str:
    match node.func:
        case cst.Name(value=name):
            return name
        case cst.Attribute(attr=cst.Name(value=name)):
            return name
        case _:
            return ""


def _only_advances(body: cst.BaseSuite, name: str) -> bool:
    """Whether the body binds `name` by `name = tl.advance(name, ...)` alone."""
    target = m.Name(name)
    advance = m.Call(
        func=m.Attribute(value=m.Name("tl"), attr=m.Name("advance")),
        args=[m.Arg(value=target), m.ZeroOrMore()],
    )
    binding = m.Assign(targets=[m.AssignTarget(target=target)], value=advance)
    some = m.ZeroOrMore()
    others = (
        m.AugAssign(target=target)
        | m.AnnAssign(target=target)
        | m.NamedExpr(target=target)
        | m.For(target=target)
        | m.AssignTarget(target=m.Tuple(elements=[some, m.Element(target), some]))
        | m.Assign(targets=[m.AssignTarget(target=target)], value=m.DoesNotMatch(advance))
    )
    return bool(m.findall(body, binding)) and not m.findall(body, others)


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
