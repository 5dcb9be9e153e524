"""`tl.make_tensor_descriptor` for a compiler that lacks it.

A kernel written for newer compilers is translated while it is parsed; every statement keeps
its line. A descriptor becomes a tuple (base, shape, strides, block shape), which passes
through jit functions. An access to it becomes

- in a loop whose counter moves the offsets by the same step each time: a block pointer made
  before the loop and advanced at its end. That is the form the Intel pipeline pass expects; a
  block pointer that is advanced to an absolute offset trips an assertion in it;
- elsewhere outside of loops: a block pointer at the offsets;
- otherwise, and everywhere when `block_pointers` is off: a tensor of pointers with a mask.

Each translation is reported, with the kinds of finding that it would cause by itself.

Runs in worker processes: standard library and Triton only.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import types
from collections.abc import Callable, Generator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from xesmith.ghost.foreign import foreign
from xesmith.ghost.position import function_position

#: findings about an access that only the translation into tensors of pointers causes
POINTER_FINDINGS = (
    "load-not-2d-block",
    "store-not-2d-block",
    "uncoalesced-access",
    "i64-address-arithmetic",
    "needless-mask",
    "missing-prefetch",
    "layout-conversion-in-loop",
    "slm-limits-occupancy",
)

#: the name under which translated kernels see the functions below
_NAMESPACE = "__xesmith_descriptor"

Report = Callable[[str, tuple[str, ...]], None]


@dataclass
class TensorDescriptor:
    """Stands in for `triton.tools.tensor_descriptor.TensorDescriptor`, made on the host.

    A program may change `block_shape` until the launch (`pre_hook` of a configuration does).
    """

    base: Any
    shape: Any
    strides: Any
    block_shape: Any
    padding: str = "zero"

    @staticmethod
    def from_tensor(tensor: Any, block_shape: Any) -> TensorDescriptor:
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape)

    def packed(self) -> tuple[Any, ...]:
        """A tuple, which Triton can pass to a kernel."""
        constexpr = foreign("triton.language").constexpr
        shape, strides = (tuple(int(n) for n in part) for part in (self.shape, self.strides))
        return self.base, shape, strides, tuple(constexpr(int(b)) for b in self.block_shape)


@contextlib.contextmanager
def translated_descriptors(report: Report, *, block_pointers: bool) -> Generator[None]:
    """While entered, a compiler without tensor descriptors compiles kernels that use them.

    Does nothing where the compiler has them.

    Args:
        report: called with a sentence for each translated access, and the kinds of finding
            that it would cause.
        block_pointers: False leaves only tensors of pointers.
    """
    triton = foreign("triton")
    tl = foreign("triton.language")
    generator_class = foreign("triton.compiler.code_generator").CodeGenerator
    function_class = foreign("triton.runtime.jit").JITFunction
    if hasattr(tl, "make_tensor_descriptor"):
        yield
        return
    original_parse = function_class.parse
    functions = _device_functions()

    def parse(function: Any) -> ast.Module:
        tree = original_parse(function)
        translator = _Translator(block_pointers)
        translator.translate(tree.body[0])
        if translator.accesses:
            function.fn.__globals__[_NAMESPACE] = functions
            for access in translator.accesses:
                line = function_position(function)[1] + access.line - 1
                report(access.sentence(line), access.suppress)
        return tree

    original_run = function_class.run

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(_packed(a, TensorDescriptor) for a in args)
        return original_run(
            function, *args, **{k: _packed(a, TensorDescriptor) for k, a in kwargs.items()}
        )

    original_call = generator_class.call_JitFunction

    def call(generator: Any, function: Any, args: Any, kwargs: Any) -> Any:
        args = [_packed(a, functions.Descriptor) for a in args]
        kwargs = {k: _packed(a, functions.Descriptor) for k, a in kwargs.items()}
        return original_call(generator, function, args, kwargs)

    stand_ins: list[tuple[Any, str, Any]] = [
        (function_class, "run", run),
        (generator_class, "call_JitFunction", call),
        (tl, "make_tensor_descriptor", functions.make_tensor_descriptor),
        (function_class, "parse", parse),
    ]
    if not hasattr(triton, "set_allocator"):
        stand_ins.append((triton, "set_allocator", _set_allocator))
    host = types.ModuleType("triton.tools.tensor_descriptor")
    host.TensorDescriptor = TensorDescriptor  # type: ignore[attr-defined]
    with contextlib.ExitStack() as undo:
        for owner, name, stand_in in stand_ins:
            before = getattr(owner, name, None)
            setattr(owner, name, stand_in)
            if before is None:
                undo.callback(delattr, owner, name)
            else:
                undo.callback(setattr, owner, name, before)
        sys.modules[host.__name__] = host
        undo.callback(sys.modules.pop, host.__name__, None)
        yield


def _set_allocator(_: Any) -> None:
    """Newer kernels give Triton an allocator for descriptors; nothing is allocated here."""


def _packed(value: Any, descriptor_class: type) -> Any:
    return value.packed() if isinstance(value, descriptor_class) else value


# -- translation of the syntax tree ------------------------------------------------------------


@dataclass
class _Access:
    """One translated `load` or `store`; `line` counts from the kernel's `def`."""

    kind: str
    line: int
    form: str

    @property
    def suppress(self) -> tuple[str, ...]:
        return POINTER_FINDINGS if self.form == "tensor of pointers" else ()

    def sentence(self, line: int) -> str:
        return f"line {line}: descriptor {self.kind} lowered as a {self.form}"


@dataclass
class _Loop:
    """A `for` over a range, and what its body assigns."""

    node: ast.For
    counter: str
    start: ast.expr
    step: ast.expr
    assigned: set[str]
    steps: dict[str, tuple[ast.expr, int]]  # `name += step` once a round -> (step, its line)
    before: list[ast.stmt] = field(default_factory=list[ast.stmt])
    at_end: list[ast.stmt] = field(default_factory=list[ast.stmt])


class _Translator:
    """Rewrites the accesses of one function."""

    def __init__(self, block_pointers: bool) -> None:
        self._block_pointers = block_pointers
        self.accesses: list[_Access] = []
        self._count = 0

    def translate(self, function: Any) -> None:
        function.body = self._block(function.body, None, straight=True)
        ast.fix_missing_locations(function)

    def _block(self, body: list[ast.stmt], loop: _Loop | None, *, straight: bool) -> list[ast.stmt]:
        """`straight`: each statement runs once per round of `loop` (or once at all)."""
        out: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.For):
                out += self._for(statement)
                continue
            for name in ("body", "orelse"):
                inner: list[ast.stmt] | None = getattr(statement, name, None)
                if isinstance(inner, list):
                    in_loop = None if isinstance(statement, ast.While) else loop
                    nested = self._block(inner, in_loop or loop, straight=False)
                    setattr(statement, name, nested)
            out.append(_Expressions(self, loop, straight).visit(statement))
        return out

    def _for(self, node: ast.For) -> list[ast.stmt]:
        loop = _range_loop(node)
        # Inside a loop that is no range, nothing can be carried.
        outer = loop or _Loop(node, "", ast.Constant(0), ast.Constant(1), set(), {})
        node.body = self._block(node.body, outer, straight=loop is not None)
        node.body += outer.at_end
        return [*outer.before, node]

    def access(self, call: ast.Call, loop: _Loop | None, straight: bool) -> ast.expr | None:
        """The translation of a call on a descriptor; None when it is none."""
        found = _descriptor_call(call)
        if found is None:
            return None
        kind, descriptor, offsets, value = found
        if not self._block_pointers:
            return self._as_pointers(call, kind, descriptor, offsets, value)
        if loop is None or kind == "store":
            pointer = _call("block_pointer", [descriptor, offsets], call)
            return self._through(call, kind, pointer, value, "block pointer")
        if kind == "load" and straight and loop.counter:
            carried = self._carried(call, descriptor, offsets, loop)
            if carried is not None:
                return carried
        return self._as_pointers(call, kind, descriptor, offsets, value)

    def _as_pointers(
        self, call: ast.Call, kind: str, descriptor: ast.expr, offsets: ast.expr, value: Any
    ) -> ast.expr:
        self.accesses.append(_Access(kind, call.lineno, "tensor of pointers"))
        arguments = [descriptor, offsets, *([value] if value is not None else [])]
        return _call(f"pointer_{kind}", arguments, call)

    def _through(
        self, call: ast.Call, kind: str, pointer: ast.expr, value: Any, form: str
    ) -> ast.expr:
        self.accesses.append(_Access(kind, call.lineno, form))
        return _call(f"block_{kind}", [pointer, *([value] if value is not None else [])], call)

    def _carried(
        self, call: ast.Call, descriptor: ast.expr, offsets: ast.expr, loop: _Loop
    ) -> ast.expr | None:
        """A block pointer carried by the loop; None when an offset moves otherwise."""
        if not isinstance(offsets, (ast.List, ast.Tuple)) or not isinstance(descriptor, ast.Name):
            return None
        if descriptor.id in loop.assigned:
            return None
        first: list[ast.expr] = []
        steps: list[ast.expr] = []
        for offset in offsets.elts:
            step = _step_of(offset, loop)
            if step is None:
                return None
            steps.append(step)
            first.append(_first_value(offset, loop, call.lineno))
        self._count += 1
        name = f"__descriptor_{self._count}"
        start = ast.copy_location(ast.List(first, ast.Load()), call)
        pointer = _call("block_pointer", [deepcopy(descriptor), start], call)
        advance = _call(
            "advance",
            [_name(name, call), ast.copy_location(ast.List(steps, ast.Load()), call)],
            call,
        )
        loop.before.append(_assign(name, pointer, call))
        loop.at_end.append(_assign(name, advance, call))
        return self._through(
            call, "load", _name(name, call), None, "block pointer carried by the loop"
        )


class _Expressions(ast.NodeTransformer):
    """Replaces accesses within one statement, not within the statements it holds."""

    def __init__(self, owner: _Translator, loop: _Loop | None, straight: bool) -> None:
        self._owner = owner
        self._loop = loop
        self._straight = straight

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                continue
            if isinstance(value, list):
                items = cast("list[Any]", value)
                visited = [self.visit(v) if isinstance(v, ast.AST) else v for v in items]
                setattr(node, name, visited)
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return self._owner.access(node, self._loop, self._straight) or node


def _descriptor_call(call: ast.Call) -> tuple[str, ast.expr, ast.expr, ast.expr | None] | None:
    """(kind, descriptor, offsets, value) of `d.load(o)`, `d.store(o, v)` and the like.

    Triton's tensors have no such methods, and `tl.load` takes no list of offsets.
    """
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    arguments = [*call.args, *(k.value for k in call.keywords if k.arg in ("offsets", "value"))]
    if function.attr in ("load_tensor_descriptor", "store_tensor_descriptor"):
        kind = function.attr.partition("_")[0]
        descriptor, *arguments = arguments
    elif function.attr in ("load", "store"):
        kind, descriptor = function.attr, function.value
    else:
        return None
    if not arguments or not isinstance(arguments[0], (ast.List, ast.Tuple)):
        return None
    if kind == "load":
        return kind, descriptor, arguments[0], None
    return (kind, descriptor, arguments[0], arguments[1]) if len(arguments) > 1 else None


def _range_loop(node: ast.For) -> _Loop | None:
    call = node.iter
    if not isinstance(call, ast.Call) or not isinstance(node.target, ast.Name) or not call.args:
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name != "range":
        return None
    start, step = ast.Constant(0), ast.Constant(1)
    bounds: list[ast.expr] = call.args
    if len(bounds) > 1:
        start = bounds[0]
    if len(bounds) > 2:
        step = bounds[2]
    assigned: set[str] = {node.target.id}
    steps: dict[str, tuple[ast.expr, int]] = {}
    for inner in ast.walk(ast.Module(node.body, [])):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            steps.pop(inner.id, None)
            assigned.add(inner.id)
    for statement in node.body:
        if (
            isinstance(statement, ast.AugAssign)
            and isinstance(statement.op, ast.Add)
            and isinstance(statement.target, ast.Name)
            and _assignments(node, statement.target.id) == 1
            and not _names(statement.value) & assigned
        ):
            steps[statement.target.id] = (statement.value, statement.lineno)
    return _Loop(node, node.target.id, start, step, assigned, steps)


def _assignments(node: ast.For, name: str) -> int:
    return sum(
        isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id == name
        for inner in ast.walk(ast.Module(node.body, []))
    )


def _step_of(expression: ast.expr, loop: _Loop) -> ast.expr | None:
    """How much `expression` grows each round; None when it is not the same each time."""
    if not _names(expression) & loop.assigned:
        return ast.copy_location(ast.Constant(0), expression)
    if isinstance(expression, ast.Name):
        if expression.id == loop.counter:
            return deepcopy(loop.step)
        step = loop.steps.get(expression.id)
        return None if step is None else deepcopy(step[0])
    if not isinstance(expression, ast.BinOp):
        return None
    left, right = _step_of(expression.left, loop), _step_of(expression.right, loop)
    if left is None or right is None:
        return None
    if isinstance(expression.op, (ast.Add, ast.Sub)):
        return _sum(left, expression.op, right)
    if not isinstance(expression.op, ast.Mult):
        return None
    if _is_zero(right):
        return ast.copy_location(
            ast.BinOp(left, ast.Mult(), deepcopy(expression.right)), expression
        )
    if _is_zero(left):
        return ast.copy_location(
            ast.BinOp(deepcopy(expression.left), ast.Mult(), right), expression
        )
    return None


def _sum(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    if _is_zero(right):
        return left
    if _is_zero(left) and isinstance(op, ast.Add):
        return right
    return ast.copy_location(ast.BinOp(left, op, right), left)


def _is_zero(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value == 0


def _first_value(expression: ast.expr, loop: _Loop, line: int) -> ast.expr:
    """`expression` in the first round, in terms of what is known before the loop."""

    class First(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id == loop.counter:
                return ast.copy_location(deepcopy(loop.start), node)
            step = loop.steps.get(node.id)
            if step is not None and step[1] < line:  # the access comes after the increment
                return ast.copy_location(ast.BinOp(node, ast.Add(), deepcopy(step[0])), node)
            return node

    return First().visit(deepcopy(expression))


def _names(expression: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _name(name: str, at: ast.expr) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _assign(name: str, value: ast.expr, at: ast.expr) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    return ast.copy_location(ast.Assign([target], value), at)


def _call(function: str, arguments: list[ast.expr], at: ast.expr) -> ast.Call:
    namespace = ast.copy_location(ast.Name(_NAMESPACE, ast.Load()), at)
    attribute = ast.copy_location(ast.Attribute(namespace, function, ast.Load()), at)
    return ast.copy_location(ast.Call(attribute, arguments, []), at)


# -- what the translated kernels call ----------------------------------------------------------


def _device_functions() -> types.ModuleType:
    """The functions of the language that translated kernels call, as a module."""
    tl = foreign("triton.language")
    core, semantic = foreign("triton.language.core"), foreign("triton.language.semantic")
    module = types.ModuleType("triton.language.xesmith_descriptor")

    def builtin(function: Any) -> Any:
        function.__module__ = "triton.language.core"
        wrapped = core.builtin(function)
        setattr(module, function.__name__, wrapped)
        return wrapped

    class Descriptor(core.base_value):
        """A descriptor within one function. The front end would turn the constants of a tuple
        that is assigned to a name into tensors; this it leaves alone."""

        def __init__(self, base: Any, shape: Any, strides: Any, block_shape: Any) -> None:
            self.parts = (base, list(shape), list(strides), [_plain(b) for b in block_shape])
            self.type = base.type

        def packed(self) -> Any:
            """As an argument of another jit function."""
            base, shape, strides, block = self.parts
            return tl.tuple(
                [
                    base,
                    tl.tuple(shape),
                    tl.tuple(strides),
                    tl.tuple([tl.constexpr(b) for b in block]),
                ]
            )

    def parts(descriptor: Any) -> Any:
        return descriptor.parts if isinstance(descriptor, Descriptor) else descriptor

    module.Descriptor = Descriptor  # type: ignore[attr-defined]

    @builtin
    def make_tensor_descriptor(
        base: Any,
        shape: Any,
        strides: Any,
        block_shape: Any,
        padding_option: Any = "zero",
        _builder: Any = None,
    ) -> Any:
        return Descriptor(base, shape, strides, block_shape)

    @builtin
    def block_pointer(descriptor: Any, offsets: Any, _builder: Any = None) -> Any:
        base, shape, strides, block = parts(descriptor)
        order = list(reversed(range(len(block))))
        return core.make_block_ptr(
            base,
            list(shape),
            list(strides),
            list(offsets),
            [_plain(b) for b in block],
            order,
            _builder=_builder,
        )

    def dimensions(pointer: Any) -> tuple[int, ...]:
        return tuple(range(len(pointer.type.element_ty.shape)))

    @builtin
    def block_load(pointer: Any, _builder: Any = None) -> Any:
        return core.load(
            pointer,
            boundary_check=dimensions(pointer),
            padding_option="zero",
            _builder=_builder,
        )

    @builtin
    def block_store(pointer: Any, value: Any, _builder: Any = None) -> Any:
        value = semantic.cast(value, pointer.type.element_ty.element_ty, _builder)
        return core.store(pointer, value, boundary_check=dimensions(pointer), _builder=_builder)

    @builtin
    def advance(pointer: Any, offsets: Any, _builder: Any = None) -> Any:
        return core.advance(pointer, list(offsets), _builder=_builder)

    def pointers_and_mask(descriptor: Any, offsets: Any, builder: Any) -> tuple[Any, Any]:
        base, shape, strides, block = parts(descriptor)
        rank = len(block)
        pointers, mask = base, None
        for dim in range(rank):
            index = core.arange(tl.constexpr(0), tl.constexpr(_plain(block[dim])), _builder=builder)
            start = semantic.to_tensor(offsets[dim], builder)
            index = semantic.add(index, start, True, builder)
            for axis in range(rank):
                if axis != dim:
                    index = semantic.expand_dims(index, axis, builder)
            extent = semantic.to_tensor(shape[dim], builder)
            inside = semantic.and_(
                semantic.greater_equal(index, semantic.to_tensor(0, builder), builder),
                semantic.less_than(index, extent, builder),
                builder,
            )
            mask = inside if mask is None else semantic.and_(mask, inside, builder)
            # A descriptor's addresses are 64 bits wide.
            wide = semantic.cast(index, tl.int64, builder)
            step = semantic.to_tensor(strides[dim], builder)
            pointers = semantic.add(
                pointers, semantic.mul(wide, step, True, builder), True, builder
            )
        return pointers, mask

    @builtin
    def pointer_load(descriptor: Any, offsets: Any, _builder: Any = None) -> Any:
        pointers, mask = pointers_and_mask(descriptor, offsets, _builder)
        zero = semantic.to_tensor(0, _builder)
        zero = semantic.cast(zero, pointers.dtype.element_ty, _builder)
        return core.load(pointers, mask=mask, other=zero, _builder=_builder)

    @builtin
    def pointer_store(descriptor: Any, offsets: Any, value: Any, _builder: Any = None) -> Any:
        pointers, mask = pointers_and_mask(descriptor, offsets, _builder)
        return core.store(pointers, value, mask=mask, _builder=_builder)

    def _plain(value: Any) -> Any:
        while isinstance(value, tl.constexpr):
            value = value.value
        return value

    return module
