"""derive() of the cost model; first the lowered hash and occupancy."""

from __future__ import annotations

from xesmith.device import Device
from xesmith.evidence.record import Derived, Evidence


def derive(evidence: Evidence, device: Device, *, lowered_hash: str = "") -> Evidence:
    return evidence.model_copy(
        update={"derived": Derived(occupancy=None, prediction=None, lowered_hash=lowered_hash)}
    )
