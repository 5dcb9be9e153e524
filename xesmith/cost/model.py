"""The static prediction of one launch (docs/04-cost-model.md states every assumption).

Each resource of the busiest Xe core gets the time that it alone would need; a soft maximum of
these is the prediction. It ranks configurations and names the bound. It is no measurement.
"""

from __future__ import annotations

import math
from typing import Any

from xesmith.cost.executed import Executed, UnknownTripsError, executed
from xesmith.cost.loops import running_main_loop
from xesmith.cost.occupancy import Residency, occupancy, residency
from xesmith.device import Device
from xesmith.evidence.record import Access, Derived, Evidence, Prediction

#: L2 to one Xe core. Max 1550: 13 TB/s = 128 Xe cores x 64 B x 1.6 GHz.
L2_BYTES_PER_CLOCK_PER_CORE = 64
#: lanes that an XVE's ALUs serve per clock
ALU_LANES = 16
#: the extended math pipe works on a quarter of the lanes per clock
MATH_CYCLES = 4
#: one message of up to 16 lanes on the Xe core's SLM port, bank conflicts not considered
SLM_MESSAGE_CYCLES = 1
#: one load or store of global memory that is no 2D block: 256 bytes in four cache lines
GLOBAL_MESSAGE_CYCLES = 4
#: a spill or fill: IGC moves four 64-byte registers with most of its scratch messages
SCRATCH_MESSAGE_BYTES = 256
#: scratch of all resident threads of a Xe core that its L1 can be expected to keep
SCRATCH_IN_L1_BYTES = 128 * 1024
#: clocks until a load answers: from memory or L2, and from L1 after a prefetch
MEMORY_LATENCY_CYCLES = 700
L1_LATENCY_CYCLES = 150
BARRIER_CYCLES = 50
#: exponent of the soft maximum: resources overlap, those that are nearly full disturb each other
OVERLAP = 3

_NEEDED = (
    "xe_cores",
    "xves_per_xe_core",
    "clock_hz",
    "memory_bytes_per_second",
    "fp16_dpas_flop_per_clock_per_xve",
    "slm_bytes_per_xe_core",
)


def derive(evidence: Evidence, device: Device, *, lowered_hash: str = "") -> Evidence:
    """The evidence with `derived` filled in.

    Where the compiler made several versions of the main loop, `native.main_loop` is turned to
    the one that runs at the captured values.

    Args:
        lowered_hash: of the lowered code and its native options (see evidence.lowered_hash);
            an empty one keeps the hash that `evidence` may already hold.
    """
    main = running_main_loop(evidence)
    if evidence.native is not None and main != evidence.native.main_loop:
        native = evidence.native.model_copy(update={"main_loop": main})
        evidence = evidence.model_copy(update={"native": native})
    kept = evidence.derived.lowered_hash if evidence.derived else ""
    derived = Derived(
        occupancy=occupancy(evidence, device),
        prediction=predict(evidence, device),
        lowered_hash=lowered_hash or kept,
    )
    return evidence.model_copy(update={"derived": derived})


def predict(evidence: Evidence, device: Device) -> Prediction:
    """Predicted time of one launch, or why there is none."""
    missing = [name for name in _NEEDED if device.fact(name) is None]
    if missing:
        return _not_predicted(f"{device.name} has no {', '.join(missing)}")
    if device.kind != "xpu":
        return _not_predicted("the model knows Intel GPUs only")
    if evidence.launch["grid"] is None:
        return _not_predicted("no launch is known")
    for level in ("ttir", "ttgir", "native"):
        if getattr(evidence, level) is None:
            reason = evidence.not_read.get(level)
            return _not_predicted(f"{level} was not read" + (f": {reason}" if reason else ""))
    if evidence.failure is not None:
        return _not_predicted(f"it cannot run: {evidence.failure['message']}")
    resident = residency(evidence, device)
    if resident is None:
        return _not_predicted("no work-group fits on a Xe core")
    ttir = evidence.ttir
    assert ttir is not None
    if ttir.bytes_loaded_per_program is None or ttir.bytes_stored_per_program is None:
        return _not_predicted("the bytes of one program are not known")
    try:
        run = executed(evidence, device.xe_cores or 1)
    except UnknownTripsError as unknown:
        return _not_predicted(f"{unknown} is not known")
    native = evidence.native
    if run.counts["f64_instructions"] and device.fact("fp64_flop_per_clock_per_xve") is None:
        return _not_predicted(f"{device.name} has no fp64_flop_per_clock_per_xve")
    assert native is not None
    parts = {
        **_core_parts(evidence, device, resident, run),
        **_memory_parts(evidence, device, resident, run),
    }
    seconds = sum(part**OVERLAP for part in parts.values()) ** (1 / OVERLAP)
    bound_by = max(parts, key=lambda name: parts[name])
    return Prediction(seconds=seconds, bound_by=bound_by, parts=parts)


def _not_predicted(why: str) -> Prediction:
    return Prediction(seconds=None, bound_by=None, why_not=why)


def _core_parts(
    evidence: Evidence, device: Device, resident: Residency, run: Executed
) -> dict[str, float]:
    """Seconds that each resource inside the busiest Xe core needs for all its work-groups."""
    native, ttgir = evidence.native, evidence.ttgir
    assert native is not None
    assert ttgir is not None
    clock: Any = device.clock_hz
    xves: Any = device.xves_per_xe_core
    rate: Any = device.fp16_dpas_flop_per_clock_per_xve
    threads = run.work_groups * resident.sub_groups
    waves = math.ceil(run.work_groups / resident.work_groups)
    threads_per_xve = max(1.0, threads / xves)
    counts = run.counts

    # The L1 of a Xe core delivers as many bytes per clock as one of its XVEs does fp16 FLOP:
    # 512 on Max 1550 (published), which keeps the engines of its smaller sisters fed alike.
    l1_bytes_per_clock = rate
    l1 = run.bytes_2d / l1_bytes_per_clock + GLOBAL_MESSAGE_CYCLES * (
        counts["global_loads"] + counts["global_stores"]
    )
    scratch_bytes = native.spill_bytes_per_thread * resident.work_groups * resident.sub_groups
    in_l1 = min(1.0, SCRATCH_IN_L1_BYTES / scratch_bytes) if scratch_bytes else 1.0
    spill = (
        counts["scratch_messages"]
        * SCRATCH_MESSAGE_BYTES
        * (in_l1 / l1_bytes_per_clock + (1 - in_l1) / L2_BYTES_PER_CLOCK_PER_CORE)
    )
    waiting = sum(
        rounds * (L1_LATENCY_CYCLES if prefetched else MEMORY_LATENCY_CYCLES)
        for rounds, prefetched in run.load_rounds
    )
    cycles = {
        "dpas": counts["dpas"] * _dpas_cycles(evidence, rate) * threads_per_xve,
        "issue": _issue_cycles(native.simd_size, device, run) * threads_per_xve,
        "l1": l1 * threads,
        "slm": counts["slm_messages"] * SLM_MESSAGE_CYCLES * threads,
        "spill": spill * threads,
        "latency": (waiting + run.barriers * BARRIER_CYCLES) * waves,
    }
    return {name: value / clock for name, value in cycles.items()}


def _issue_cycles(simd_size: int, device: Device, run: Executed) -> float:
    """Clocks in which an XVE issues what a thread executes beside dpas.

    One instruction a clock, and no pipe more than its lanes a clock; threads fill the pipes
    next to each other.
    """
    others = run.counts["instructions"] - run.counts["dpas"]
    alu_cycles = max(1.0, simd_size / ALU_LANES)
    pipes = {
        name: count * alu_cycles * (MATH_CYCLES if name == "math" else 1)
        for name, count in run.pipes.items()
        if name != "xmx"
    }
    float64 = 0.0
    fp64 = device.fact("fp64_flop_per_clock_per_xve")
    if run.counts["f64_instructions"] and fp64 is not None:
        # One FMA is 2 FLOP a lane.
        float64 = run.counts["f64_instructions"] * max(alu_cycles, 2 * simd_size / fp64.value)
    return max(others, float64, *pipes.values())


def _dpas_cycles(evidence: Evidence, fp16_flop_per_clock: int) -> float:
    """Clocks of one dpas.

    All operand types take as long as fp16: the depth of the engine is counted in 32-bit
    channels, and TF32 does half, int8 twice the operations of fp16 in the same time.
    """
    ttgir = evidence.ttgir
    if ttgir is None or not ttgir.dpas:
        return 0.0
    d = ttgir.dpas[0]
    return 2 * d.repeat_count * d.execution_size * d.systolic_depth * 2 / fp16_flop_per_clock


def _memory_parts(
    evidence: Evidence, device: Device, resident: Residency, run: Executed
) -> dict[str, float]:
    """Seconds of DRAM for the whole launch and of L2 for the busiest Xe core."""
    clock: Any = device.clock_hz
    bandwidth: Any = device.memory_bytes_per_second
    return {
        "memory": dram_bytes(evidence, device, resident) / bandwidth,
        "l2": run.bytes_moved / (L2_BYTES_PER_CLOCK_PER_CORE * clock),
    }


def dram_bytes(evidence: Evidence, device: Device, resident: Residency) -> float:
    """Bytes between DRAM and L2.

    Every tensor is loaded at least once. Tiles that several programs load again come from
    L2 while those programs run together: a wave of P programs is taken as a square of tiles, so
    that it loads 1/sqrt(P) of what its programs ask for. A launch whose tensors all fit in
    L2 loads each only once.
    """
    ttir = evidence.ttir
    assert ttir is not None
    x, y, z = evidence.launch["grid"]
    programs = x * y * z
    asked = (ttir.bytes_loaded_per_program or 0.0) * programs
    stored = (ttir.bytes_stored_per_program or 0.0) * programs
    unique = tensor_bytes(evidence, "load")
    together = min(programs, resident.work_groups * (device.xe_cores or 1))
    if device.l2_bytes is not None and unique + stored <= device.l2_bytes:
        return min(asked, unique) + stored
    return min(asked, max(unique, asked / math.sqrt(max(1, together)))) + stored


def tensor_bytes(evidence: Evidence, op: str) -> float:
    """Bytes of the tensors that are loaded (or stored), each counted once.

    An access that the IR does not trace back to an argument counts every tensor.
    """
    ttir = evidence.ttir
    assert ttir is not None
    accesses: list[Access] = [a for a in ttir.accesses if a.op == op]
    tensors: dict[str, Any] = {
        name: value
        for name, value in evidence.launch["values"].items()
        if isinstance(value, dict) and "pointer_alignment_bytes" in value
    }
    names = {a.argument for a in accesses}
    if not names <= set(tensors):
        names = set(tensors)
    return float(sum(_view_bytes(tensors[name]) for name in names if name is not None))


_DTYPE_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1}


def _view_bytes(tensor: dict[str, Any]) -> int:
    """Bytes of the elements that a tensor argument shows (a broadcast dimension once)."""
    dtype: str = tensor["dtype"]
    size = 1
    for suffix, width in _DTYPE_BYTES.items():
        if suffix in dtype:
            size = width
            break
    count = 1
    for extent, stride in zip(tensor["shape"], tensor["strides"], strict=True):
        count *= extent if stride else 1
    return count * size
