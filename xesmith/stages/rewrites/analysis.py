"""What the analysis finds in a kernel: its loops, accesses, block pointers and products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import libcst as cst

from xesmith.stages.rewrites.poly import Atom, Poly
from xesmith.stages.rewrites.programs import Numbers
from xesmith.stages.rewrites.values import Index, Mask, State, Value


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
class Selection:
    """`tl.where(mask, value, other)` of a tensor of data, whose shape is known."""

    node: cst.Call
    mask: Mask
    shape: tuple[Poly, ...]
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
    selections: tuple[Selection, ...]
    touches: tuple[Touch, ...]
    loops: tuple[Loop, ...]
    states: dict[cst.CSTNode, State]  # before each statement
    quotients: tuple[Atom, ...]  # every quotient, rounded down or up
    program_ids: tuple[Atom, ...]  # one per call of tl.program_id
    numbers: Numbers
    lines: dict[cst.CSTNode, int]

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node).strip()
