"""Offsets that wrap around at a real shape, though they never do at a small one.

32 bits reach 2^31 elements. Where a tensor has more, an offset that a kernel computes in 32 bits
can wrap, and the access goes elsewhere; no shape that an interpreter can afford shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xesmith.cost.executed import evaluate
from xesmith.evidence.kernel_ir import Floats, KernelIr
from xesmith.evidence.mlir import Operation, Value
from xesmith.evidence.unreadable import UnreadableLevelError
from xesmith.evidence.values import MAX_PROGRAMS
from xesmith.ghost.launch import Launch, TensorArg
from xesmith.lowering.record import Lowering

_LARGEST = 2**31 - 1


def overflows(lowering: Lowering) -> tuple[int, ...]:
    """Lines of 32-bit arithmetic that leads to an address and wraps in a whole program.

    Proven from the captured arguments: in some program of the grid even the smallest result is
    beyond 32 bits.
    """
    path = lowering.levels.get("ttir_generic")
    if path is None or not _is_large(lowering.launch):
        return ()
    try:
        ir = KernelIr(Path(path).read_text(encoding="utf-8"), lowering.launch)
    except (OSError, UnreadableLevelError):
        return ()
    lines = {op.site.line for op in _before_addresses(ir) if ir.reached(op) and _wraps(op, ir)}
    return tuple(sorted(line for line in lines if line is not None))


def _is_large(launch: Launch) -> bool:
    return any(
        isinstance(value, TensorArg)
        and sum((n - 1) * abs(s) for n, s in zip(value.shape, value.strides, strict=True))
        > _LARGEST
        for value in launch.values.values()
    )


def _before_addresses(ir: KernelIr) -> Iterator[Operation]:
    """The operations from which offsets are computed, outside of loops' own values."""
    waiting: list[Value] = [
        value
        for op in ir.operations
        if op.name in ("tt.addptr", "tt.make_tensor_ptr", "tt.advance")
        for value in op.operands[1:]
    ]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen or value.type.is_float or value.owner is None:
            continue
        seen.add(value)
        if not value.owner.regions:
            yield value.owner
            waiting.extend(value.owner.operands)


def _wraps(op: Operation, ir: KernelIr) -> bool:
    """Whether a sum or product of 32-bit numbers, none of them negative, is always too large."""
    if op.name not in ("arith.muli", "arith.addi") or op.results[0].type.element_bits != 32:
        return False
    left, right = (_least(operand, ir) for operand in op.operands)
    if left is None or right is None or min(left.min(), right.min()) < 0:
        return False
    operator = np.multiply if op.name == "arith.muli" else np.add
    return bool((operator(left, right) > _LARGEST).any())


def _least(value: Value, ir: KernelIr) -> Floats | None:
    """The smallest that a value is in each program; in the last one alone, where they are too
    many to be looked at one by one and the value is a scalar."""
    grid = ir.launch.grid
    if math.prod(grid) <= MAX_PROGRAMS:
        found = ir.values.range(value)
        return None if found is None else found.low.astype(np.float64)
    text = ir.values.text(value)
    if text is None:
        return None
    names = {**ir.launch.values, **ir.launch.constexprs}
    names |= {f"pid{axis}": extent - 1 for axis, extent in enumerate(grid)}
    names |= {f"programs{axis}": extent for axis, extent in enumerate(grid)}
    number = evaluate(text, names)
    return None if number is None else np.array([number])
