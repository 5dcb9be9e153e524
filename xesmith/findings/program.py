"""Judges of a whole program: what only shows between launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from xesmith.evidence.record import Evidence
from xesmith.findings.record import Finding
from xesmith.findings.registry import finding
from xesmith.ghost.launch import Launch, TensorArg

#: shape, strides, type
_TensorKey = tuple[tuple[int, ...], tuple[int, ...], str]


def many_kernels(launches: Sequence[Evidence]) -> Iterator[Finding]:
    """Neighbouring launches of which one stores what the next loads, and one is elementwise.

    The record of a tensor has no address, so a tensor counts as the same when shape, strides and
    type are the same; the finding is a note for that reason too.
    """
    for producer, consumer in pairwise(launches):
        if not (_elementwise(consumer) or _elementwise(producer)):
            continue
        stored, loaded = _tensors(producer, "store"), _tensors(consumer, "load")
        shared = [key for key in stored if key in loaded]
        if not shared:
            continue
        key = shared[0]
        size = stored[key].storage_bytes
        shape = "x".join(str(extent) for extent in stored[key].shape)
        role = "epilogue" if _elementwise(consumer) else "prologue"
        yield finding(
            "many-kernels",
            consumer,
            "launch",
            consumer.launch["line"],
            f"'{consumer.kernel}' loads a {shape} tensor of {stored[key].dtype} that "
            f"'{producer.kernel}' has just stored",
            reason=f"the elementwise one can be the {role} of the other",
            remedy=f"one launch instead of two saves writing and reading {size} B",
            numbers={"intermediate_bytes": size, "saved_bytes": 2 * size},
        )


def _elementwise(evidence: Evidence) -> bool:
    """No dot, no reduction, no atomic, and no tensor that is loaded in a loop."""
    ttir = evidence.ttir
    if ttir is None:
        return False
    counts = ttir.counts
    return not (
        ttir.dots
        or counts.reductions
        or counts.atomics
        or any(a.op == "load" and a.loop is not None and a.reached for a in ttir.accesses)
    )


def _tensors(evidence: Evidence, op: str) -> dict[_TensorKey, TensorArg]:
    """Tensor arguments that the kernel loads or stores, by shape, strides and type.

    Vectors and scalars are left out: a bias says nothing about who made it.
    """
    found: dict[_TensorKey, TensorArg] = {}
    if evidence.ttir is None:
        return found
    values = Launch.from_json(evidence.launch).values
    for access in evidence.ttir.accesses:
        tensor = values.get(access.argument or "")
        if access.op == op and isinstance(tensor, TensorArg) and len(tensor.shape) >= 2:
            found[tensor.shape, tensor.strides, tensor.dtype] = tensor
    return found
