"""Offsets that wrap around at a real shape, though they never do at a small one.

32 bits reach 2^31 elements. Where a tensor has more, an offset that a kernel computes in 32 bits
can wrap, and the access goes elsewhere; no shape that an interpreter can afford shows it.
"""

from __future__ import annotations

from pathlib import Path

from xesmith.errors import UnreadableLevelError
from xesmith.ghost.launch import Launch, TensorArg
from xesmith.lowering.record import Lowering
from xesmith.passes.dump import with_launch
from xesmith.passes.pipeline import run_pipeline

_LARGEST = 2**31 - 1


def overflows(lowering: Lowering) -> tuple[int, ...]:
    """Lines of 32-bit arithmetic that leads to an address and wraps in a whole program.

    Proven from the captured arguments: in some program of the grid even the smallest result is
    beyond 32 bits.
    """
    path = lowering.levels.get("ttir_generic")
    if path is None or not _is_large(lowering.launch):
        return ()
    pipeline = with_launch("xesmith-check-offsets{launch}", lowering.launch)
    try:
        found = run_pipeline(Path(path).read_text(encoding="utf-8"), pipeline, keep_text=False)
    except (OSError, UnreadableLevelError):
        return ()
    return tuple(sorted({item["line"] for item in found.findings if "line" in item}))


def _is_large(launch: Launch) -> bool:
    return any(
        isinstance(value, TensorArg)
        and sum((n - 1) * abs(s) for n, s in zip(value.shape, value.strides, strict=True))
        > _LARGEST
        for value in launch.values.values()
    )
