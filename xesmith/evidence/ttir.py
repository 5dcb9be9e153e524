"""Reader of TTIR in generic form -> `Ttir`: what the kernel asks for, before any layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from xesmith.evidence.kernel_ir import (
    DOTS,
    FLOAT_ARITHMETIC,
    REDUCTIONS,
    Floats,
    KernelIr,
    dot_batch,
    dot_shape,
    input_precision,
    math_name,
)
from xesmith.evidence.mlir import Operation
from xesmith.evidence.record import Access, Dot, ProgramGroup, Ttir
from xesmith.ghost.launch import Launch


def read_ttir(text: str, launch: Launch) -> Ttir:
    """Reads one kernel's TTIR.

    FLOPs count each element of floating arithmetic once (dots 2 m n k, a fused multiply-add
    twice); bytes count every access whole, masked-off elements too. A branch that the captured
    values rule out counts nothing; any other counts as taken. Numbers are means over the
    programs of the captured grid.

    Raises:
        UnreadableLevelError: not a kernel in generic form.
    """
    ir = KernelIr(text, launch)
    flops = [(op, _flops(op)) for op in ir.operations if _flops(op)]
    # An atomic reads and writes what it changes.
    atomics = [(op, _bytes(op)) for op in ir.operations if "atomic" in op.name]
    loads = [(op, _bytes(op)) for kind, op in ir.accesses() if kind == "load"] + atomics
    stores = [(op, _bytes(op)) for kind, op in ir.accesses() if kind == "store"] + atomics
    return Ttir(
        dots=tuple(_dot(ir, op) for op in ir.operations if op.name in DOTS),
        accesses=tuple(_access(ir, kind, op) for kind, op in ir.accesses()),
        loops=ir.loops(),
        counts=ir.counts(),
        f64_sites=ir.f64_sites(),
        i64_address_sites=ir.i64_address_sites(),
        flop_expression=_expression(ir, flops),
        bytes_expression=_expression(ir, [*loads, *stores]),
        flop_per_program=_mean(ir, flops),
        bytes_loaded_per_program=_mean(ir, loads),
        bytes_stored_per_program=_mean(ir, stores),
        program_groups=_program_groups(ir, [*loads, *stores]),
    )


def _dot(ir: KernelIr, op: Operation) -> Dot:
    m, n, k = dot_shape(op)
    return Dot(
        site=op.site,
        m=m,
        n=n,
        k=k,
        batch=dot_batch(op),
        a_type=op.operands[0].type.element,
        b_type=op.operands[1].type.element,
        acc_type=op.operands[2].type.element,
        input_precision=input_precision(op),
        loop=ir.loop_of(op),
        reached=ir.reached(op),
    )


def _access(ir: KernelIr, kind: str, op: Operation) -> Access:
    address = ir.address(op)
    moved = op.operands[0].type
    return Access(
        op="load" if kind == "load" else "store" if kind == "store" else "prefetch",
        kind=address.kind,
        site=op.site,
        shape=moved.shape,
        element_type=moved.element,
        element_bits=moved.element_bits,
        masked=ir.masked(op),
        mask_always_true=ir.mask_always_true(op, address),
        loop=ir.loop_of(op),
        reached=ir.reached(op),
        argument=address.argument,
        surface=ir.surface(address),
    )


def _flops(op: Operation) -> int:
    """Floating operations of one execution."""
    if op.parent is not None and op.parent.name in REDUCTIONS:
        return 0  # counted at the reduction
    if op.name in DOTS:
        m, n, k = dot_shape(op)
        return 2 * m * n * k * dot_batch(op)
    if op.name in REDUCTIONS:
        steps = sum(inner.name in FLOAT_ARITHMETIC for inner in op.body())
        return steps * (op.operands[0].type.elements if op.operands else 0)
    if op.name in FLOAT_ARITHMETIC:
        return op.results[0].type.elements
    name = math_name(op)
    if name is None or not op.results or not op.results[0].type.is_float:
        return 0
    return op.results[0].type.elements * (2 if name == "fma" else 1)


def _bytes(op: Operation) -> int:
    moved = op.operands[0].type
    return moved.elements * moved.element_bits // 8


def _mean(ir: KernelIr, amounts: Iterable[tuple[Operation, int]]) -> float | None:
    """Total per program, the mean over the grid; None where a loop's count is unknown."""
    total = _per_program(ir, amounts)
    return None if total is None else float(np.mean(total))


def _per_program(ir: KernelIr, amounts: Iterable[tuple[Operation, int]]) -> Floats | None:
    total = np.zeros(1)
    for op, amount in amounts:
        trips = ir.trips_around(op)
        if trips is None:
            return None
        total = total + amount * trips
    return total


def _program_groups(
    ir: KernelIr, moved: Sequence[tuple[Operation, int]]
) -> tuple[ProgramGroup, ...]:
    """The programs of the grid by what they run; () where a loop's count is unknown.

    A grid that is too large for single programs is one group, of the mean.
    """
    programs = math.prod(ir.launch.grid)
    columns = [*(ir.iterations(loop) for loop in ir.loop_operations), _per_program(ir, moved)]
    known = [column for column in columns if column is not None]
    if not programs or len(known) < len(columns):
        return ()
    rows = np.stack(np.broadcast_arrays(*known), axis=1)
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    each = programs // len(rows)  # a row for every program, or one for all
    return tuple(
        ProgramGroup(programs=int(count) * each, iterations=tuple(iterations), bytes_moved=size)
        for (*iterations, size), count in zip(kinds.tolist(), counts, strict=True)
    )


def _expression(ir: KernelIr, amounts: Iterable[tuple[Operation, int]]) -> str | None:
    """The sum of amounts times trip counts, as an expression in argument names."""
    per_loop: dict[str, int] = {}
    for op, amount in amounts:
        if not ir.reached(op):
            continue
        text = ir.trip_text_around(op)
        per_loop[text] = per_loop.get(text, 0) + amount
    terms = [f"{trips} * {n}" if trips else str(n) for trips, n in per_loop.items()]
    return " + ".join(sorted(terms, key=str.isdigit)) or None
