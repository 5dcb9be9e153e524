"""A thin, typed facade over the MLIR Python bindings: text in generic form -> operations.

The tests' evaluator walks these. The bindings are used as parser only: names, operands, results,
types, attributes by name and locations are copied into plain objects, once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xesmith.errors import UnreadableLevelError
from xesmith.evidence.record import Site
from xesmith.ir_bounds import MAX_NESTING
from xesmith.passes.mlir import bindings, check_bounds

_OPENING = frozenset("<[{(")
_SCALAR_BITS = {"index": 64, "bf16": 16, "tf32": 32}


@dataclass(frozen=True, slots=True)
class Type:
    """A type: scalar, tensor (of scalars or pointers), pointer, descriptor or memory.

    `shape` is that of the tensor itself or of the block that a pointer or descriptor means;
    () for scalars and pointers to scalars. `element` is the scalar that memory holds: "f16".
    """

    text: str
    kind: str  # "scalar" | "tensor" | "pointer" | "block_pointer" | "descriptor" | "memory"
    shape: tuple[int, ...]
    element: str
    is_pointer: bool  # pointer, block pointer, descriptor, or tensor of pointers
    encoding: str | None

    @property
    def element_bits(self) -> int:
        """Bits of `element`; 0 where it is no number."""
        if self.element in _SCALAR_BITS:
            return _SCALAR_BITS[self.element]
        match = re.match(r"(?:f|i|si|ui)(\d+)", self.element)
        return int(match.group(1)) if match else 0

    @property
    def is_float(self) -> bool:
        return not self.is_pointer and self.element[:1] in ("f", "b", "t")

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(eq=False, slots=True)
class Value:
    """An SSA value: result `index` of `owner`, or argument `index` of a block of `block_of`."""

    type: Type
    index: int
    owner: Operation | None = None
    block_of: Operation | None = None
    name_hint: str | None = None  # from a name location


@dataclass(eq=False, slots=True)
class Block:
    arguments: list[Value]
    operations: list[Operation]


@dataclass(eq=False, slots=True)
class Operation:
    name: str
    operands: list[Value]
    results: list[Value]
    regions: list[list[Block]]
    site: Site
    parent: Operation | None
    raw: Any = field(repr=False)

    def attribute(self, name: str) -> str | None:
        """An attribute as MLIR prints it, discardable or inherent; strings without quotes."""
        try:
            text = str(self.raw.attributes[name])
        except KeyError:
            return None
        return text[1:-1] if text[:1] == '"' and text[-1:] == '"' else text

    def integer(self, name: str) -> int | None:
        """An integer or boolean attribute."""
        text = self.attribute(name)
        if text in ("true", "false"):
            return int(text == "true")
        match = re.match(r"-?\d+", text or "")
        return int(match.group()) if match else None

    def integers(self, name: str) -> tuple[int, ...]:
        """`array<i32: 1, 0>` or `[1, 0]` as numbers."""
        text = self.attribute(name)
        if text is None:
            return ()
        body = text.partition(":")[2] if text.startswith("array<") else text
        return tuple(int(n) for n in re.findall(r"-?\d+", body))

    def attribute_names(self) -> tuple[str, ...]:
        """Names of the discardable attributes (inherent ones answer by name only)."""
        return tuple(str(name) for name in self.raw.attributes)

    def body(self) -> list[Operation]:
        """The operations of its regions, one level down."""
        return [op for region in self.regions for block in region for op in block.operations]

    def walk(self) -> Iterator[Operation]:
        """Itself, then everything inside, in textual order."""
        yield self
        for op in self.body():
            yield from op.walk()


@functools.lru_cache(maxsize=8192)
def parse_type(text: str) -> Type:
    """A type from its text; unknown dialect types are scalars named by their text."""
    if text.startswith("tensor<"):
        shape, element, encoding = _shaped(text[7:-1])
        if element.startswith("!tt.ptr<"):
            pointee = parse_type(element)
            return Type(text, "tensor", shape, pointee.element, True, encoding)
        return Type(text, "tensor", shape, element, False, encoding)
    if text.startswith("!tt.ptr<"):
        inner = _first_part(text[8:-1])
        if inner.startswith("tensor<"):
            block = parse_type(inner)
            return Type(text, "block_pointer", block.shape, block.element, True, block.encoding)
        return Type(text, "pointer", (), inner, True, None)
    if text.startswith("!tt.tensordesc<"):
        inner = _first_part(text[15:-1])
        if not inner.startswith("tensor<"):  # newer: tensordesc<64x64xf16, #shared>
            inner = f"tensor<{text[15:-1]}>"
        block = parse_type(inner)
        return Type(text, "descriptor", block.shape, block.element, True, block.encoding)
    if text.startswith("!ttg.memdesc<"):
        shape, element, encoding = _shaped(text[13:-1])
        return Type(text, "memory", shape, element, False, encoding)
    return Type(text, "scalar", (), text, False, None)


def _first_part(text: str) -> str:
    """Up to the first comma outside of brackets."""
    depth = 0
    for match in re.finditer(r"->|[<>\[\]{}(),]", text):
        token = match.group()
        if token in _OPENING:
            depth += 1
        elif token == ",":
            if depth == 0:
                return text[: match.start()]
        elif token != "->":
            depth -= 1
    return text


def _shaped(body: str) -> tuple[tuple[int, ...], str, str | None]:
    """`256x32xf16, #encoding[, more]` -> shape, element, encoding."""
    head = _first_part(body)
    rest = body[len(head) + 1 :].strip()
    shape: list[int] = []
    while (match := re.match(r"(\d+|\?)x", head)) is not None:
        shape.append(int(match.group(1)) if match.group(1) != "?" else 0)
        head = head[match.end() :]
    return tuple(shape), head, _first_part(rest) or None


def parse_module(text: str) -> Operation:
    """Parses a module in generic form, aliases expanded.

    Raises:
        UnreadableLevelError: too large, too deep, or not MLIR.
        ToolchainError: the bindings are not installed.
    """
    check_bounds(text)
    mlir = bindings()
    try:
        module = mlir.ir.Module.parse(text, mlir.context(len(text)))
    except mlir.ir.MLIRError as error:
        lines = [line for line in str(error).splitlines() if line.startswith("error:")]
        said = lines[0].removeprefix("error:").strip() if lines else str(error)
        raise UnreadableLevelError(f"MLIR can't parse it: {said[:300]}") from error
    return _Copier(module).operation(module.operation, None)


class _Copier:
    def __init__(self, module: Any) -> None:
        self._module = module  # owns every operation that is copied
        self._values: dict[Any, Value] = {}

    def _value(self, raw: Any) -> Value:
        """The copy of a value; made on its first use, which may stand before its definition."""
        value = self._values.get(raw)
        if value is None:
            value = self._values[raw] = Value(parse_type(str(raw.type)), 0)
        return value

    def operation(self, raw: Any, parent: Operation | None) -> Operation:
        copy = Operation(
            name=str(raw.name),
            operands=[self._value(operand) for operand in raw.operands],
            results=[],
            regions=[],
            site=_site(raw.location),
            parent=parent,
            raw=raw,
        )
        for index, result in enumerate(raw.results):
            value = self._value(result)
            value.owner, value.index = copy, index
            copy.results.append(value)
        for region in raw.regions:
            blocks: list[Block] = []
            for raw_block in region.blocks:
                block = Block([], [])
                for index, argument in enumerate(raw_block.arguments):
                    value = self._value(argument)
                    value.block_of, value.index = copy, index
                    value.name_hint = _name(argument.location)
                    block.arguments.append(value)
                blocks.append(block)
            copy.regions.append(blocks)
            for block, raw_block in zip(blocks, region.blocks, strict=True):
                block.operations.extend(
                    self.operation(op.operation, copy) for op in raw_block.operations
                )
        return copy


def _site(location: Any) -> Site:
    """The innermost place in the kernel's own code: a call site counts as its caller."""
    for _ in range(MAX_NESTING):
        if location.is_a_callsite():
            location = location.caller
        elif location.is_a_name():
            location = location.child_loc
        elif location.is_a_fused():
            parts = list(location.locations)
            if not parts:
                return Site()
            location = parts[0]
        elif location.is_a_file():
            line = int(location.start_line)
            return Site(
                file=str(location.filename), line=line or None, column=int(location.start_col)
            )
        else:
            return Site()
    return Site()


def _name(location: Any) -> str | None:
    return str(location.name_str) if location.is_a_name() else None
