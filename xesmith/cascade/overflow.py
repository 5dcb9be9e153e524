"""Offsets that wrap around at a real shape, though they never do at a small one.

32 bits reach 2^31 elements. Where a tensor has more, an offset that a kernel computes in 32 bits
can wrap, and the access goes elsewhere; no shape that an interpreter can afford shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xesmith.evidence.kernel_ir import KernelIr
from xesmith.evidence.mlir import Operation, Value
from xesmith.evidence.unreadable import UnreadableLevelError
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
    left, right = (ir.values.range(operand) for operand in op.operands)
    if left is None or right is None or min(left.low.min(), right.low.min()) < 0:
        return False
    operator = np.multiply if op.name == "arith.muli" else np.add
    least = operator(left.low.astype(np.float64), right.low.astype(np.float64))
    return not math.isnan(most := float(least.max())) and most > _LARGEST
