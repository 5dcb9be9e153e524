"""How many hardware threads can hold work at once, and what limits them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

from xesmith.device import Device
from xesmith.errors import UsageError
from xesmith.evidence.record import Evidence, Occupancy

Limit = Literal["grf", "slm", "work_group_size", "grid", "none"]


@dataclass(frozen=True)
class Residency:
    """Work-groups that one Xe core holds at once."""

    work_groups: int
    sub_groups: int  # per work-group
    threads_per_core: int  # hardware threads of a Xe core at the kernel's register count
    limited_by: Limit


def residency(evidence: Evidence, device: Device) -> Residency | None:
    """None when native code was not read, a device fact is missing, or nothing can start."""
    native, ttgir = evidence.native, evidence.ttgir
    xves = device.xves_per_xe_core
    if native is None or ttgir is None or not xves or not device.grf_modes:
        return None
    if native.slm_bytes is None:
        return None
    try:
        threads = device.threads_per_xve(native.grf_count) * xves
    except UsageError:
        return None
    by_threads = threads // ttgir.num_warps
    by_slm = by_threads
    slm_bytes = device.slm_allocated_bytes(native.slm_bytes)
    if slm_bytes:
        if device.slm_bytes_per_xe_core is None:
            return None
        by_slm = device.slm_bytes_per_xe_core // slm_bytes
    fitting = min(by_threads, by_slm)
    if fitting == 0:
        return None
    grid = evidence.launch["grid"]
    per_core = (
        None
        if grid is None or device.xe_cores is None
        else max(1, ceil(prod(grid) / device.xe_cores))
    )
    most_threads = device.threads_per_xve(min(128, device.grf_modes[-1])) * xves
    limit: Limit = "none"
    if per_core is not None and per_core < fitting:
        limit = "grid"
    elif by_slm < by_threads:
        limit = "slm"
    elif by_threads * ttgir.num_warps < threads:
        limit = "work_group_size"
    elif threads < most_threads:
        limit = "grf"
    return Residency(
        work_groups=fitting if per_core is None else min(fitting, per_core),
        sub_groups=ttgir.num_warps,
        threads_per_core=threads,
        limited_by=limit,
    )


def occupancy(evidence: Evidence, device: Device) -> Occupancy | None:
    """Occupancy of the busiest Xe core; None as for residency()."""
    resident = residency(evidence, device)
    if resident is None or device.xves_per_xe_core is None:
        return None
    used = resident.work_groups * resident.sub_groups
    at_128 = device.threads_per_xve(min(128, device.grf_modes[-1])) * device.xves_per_xe_core
    return Occupancy(
        threads_per_xve=max(1, used // device.xves_per_xe_core),
        fraction=used / at_128,
        limited_by=resident.limited_by,
    )
