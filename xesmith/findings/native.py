"""Judges of the native code: what runs, explained by the IR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xesmith.cost.loops import match_loops
from xesmith.cost.occupancy import occupancy, residency
from xesmith.device import Device
from xesmith.errors import UsageError
from xesmith.evidence.record import Access, Evidence, Native, Send2D
from xesmith.findings.record import Finding
from xesmith.findings.registry import finding, judges
from xesmith.ghost.launch import Launch, TensorArg


def _tile_accesses(evidence: Evidence, op: str) -> Iterator[Access]:
    """Loads or stores of at least two dimensions, one per line and argument, where native
    code was read."""
    ttgir = evidence.ttgir
    if evidence.native is None or ttgir is None:
        return
    seen: set[tuple[int | None, str | None]] = set()
    for access in ttgir.accesses:
        is_tile = sum(extent > 1 for extent in access.shape) >= 2
        key = (access.site.line, access.argument)
        if access.op == op and access.reached and is_tile and key not in seen:
            seen.add(key)
            yield access


def _has_2d(evidence: Evidence, access: Access) -> bool:
    """Whether native code has a 2D message for the access.

    A message tells its line, and its argument where its payload shows it. IGC may give the line
    of a neighbour, so an argument that only this access has decides by itself. Of several
    accesses on a line the messages are taken to belong to those that the IR meant as blocks. An
    access without a line can't be told from others: it counts as one as soon as there is any.
    """
    native = evidence.native
    assert native is not None
    line = access.site.line
    sends = [send for send in native.sends_2d if send.op == access.op]
    lines = {send.site.line for send in sends}
    if line is None or None in lines:
        return bool(sends)
    if line in lines:
        return access in _meant(_at_line(evidence, access.op, line))
    named = any(send.argument == access.argument for send in sends if send.argument)
    return named and _is_only_one(evidence, access)


def _is_only_one(evidence: Evidence, access: Access) -> bool:
    """Whether all such accesses of the argument stand on one line."""
    ir = evidence.ttgir or evidence.ttir
    accesses = ir.accesses if ir is not None else ()
    lines = {a.site.line for a in accesses if a.op == access.op and a.argument == access.argument}
    return len(lines) == 1


def _at_line(evidence: Evidence, op: str, line: int | None) -> list[Access]:
    ir = evidence.ttgir or evidence.ttir
    accesses = ir.accesses if ir is not None else ()
    return [a for a in accesses if a.op == op and a.site.line == line]


def _meant(accesses: list[Access]) -> list[Access]:
    """Of the accesses of one line those that the compiler meant as blocks; else all.

    Loads carry a mark; stores do not, but the IR gives a reason against some.
    """
    marked = [a for a in accesses if a.block_io is not None]
    unopposed = [a for a in accesses if a.why_not_block_io is None]
    return marked or unopposed or accesses


def _not_2d(evidence: Evidence, device: Device, op: str) -> Iterator[Finding]:
    native = evidence.native
    if native is None or not device.has_2d_block_io:
        return
    has_dots = bool(evidence.ttgir and evidence.ttgir.dots)
    for access in _tile_accesses(evidence, op):
        line = access.site.line
        if access.block_io is not None or _has_2d(evidence, access):
            continue
        shape = "x".join(str(extent) for extent in access.shape)
        what = "a tensor of pointers" if access.kind == "pointer" else f"a {_spelled(access.kind)}"
        reason = access.why_not_block_io or access.block_io_doubt
        remedy = _block_remedy(access)
        if not has_dots:
            without = "the kernel has no dot, and only layouts of dots become 2D blocks"
            reason = f"{reason}; {without}" if reason else without
            remedy = None
        yield finding(
            f"{op}-not-2d-block",
            evidence,
            "native",
            line,
            f"{op} of {shape}x{access.element_type} stays {what}: native code has no 2D block "
            f"{op} for it",
            reason=reason,
            remedy=remedy,
            severity="warning" if access.loop is not None and has_dots else "note",
            numbers={
                f"{op}s_2d_in_kernel": native.loads_2d if op == "load" else native.stores_2d,
                "bytes": _bytes(access),
            },
        )


def _spelled(kind: str) -> str:
    return {"block_pointer": "block pointer", "descriptor": "descriptor"}.get(kind, kind)


def _bytes(access: Access) -> int:
    size = access.element_bits
    for extent in access.shape:
        size *= extent
    return size // 8


def _block_remedy(access: Access) -> str:
    if access.kind == "pointer":
        return (
            "a block pointer (or tensor descriptor), with the constant 1 as the stride of the "
            "dimension that is contiguous in memory"
        )
    return "a surface whose last stride is 1 and whose pitch is a multiple of 16 B, of rank 2"


@judges("load-not-2d-block")
def load_not_2d_block(evidence: Evidence, device: Device) -> Iterator[Finding]:
    yield from _not_2d(evidence, device, "load")


@judges("store-not-2d-block")
def store_not_2d_block(evidence: Evidence, device: Device) -> Iterator[Finding]:
    yield from _not_2d(evidence, device, "store")


@judges("block-io-intent-without-outcome")
def block_io_intent_without_outcome(evidence: Evidence, device: Device) -> Iterator[Finding]:
    native = evidence.native
    if native is None or not device.has_2d_block_io:
        return
    for op in ("load", "store"):
        for access in _tile_accesses(evidence, op):
            line = access.site.line
            if access.block_io is None or _has_2d(evidence, access):
                continue
            shape = "x".join(str(extent) for extent in access.shape)
            yield finding(
                "block-io-intent-without-outcome",
                evidence,
                "native",
                line,
                f"the TTGIR marks this {op} of {shape} block_io ({access.block_io}), and native "
                f"code has no 2D block {op} for it",
                reason=access.block_io_doubt or "the conversion to LLVM IR fell back",
                remedy="a block of rank 2 with the batch offset in its base pointer"
                if len(access.shape) > 2
                else "keep tensors of pointers here: the mark brings nothing",
                severity="warning" if access.loop is not None else "note",
                numbers={"rank": len(access.shape)},
            )


# 2D operations on the captured surface


@judges("2d-op-illegal")
def two_d_op_illegal(evidence: Evidence, device: Device) -> Iterator[Finding]:
    for sends, surface in _surfaces(evidence):
        faults = surface.faults(device)
        if not faults:
            continue
        send = sends[0]
        yield finding(
            "2d-op-illegal",
            evidence,
            "native",
            surface.line,
            f"2D block {send.op} of '{surface.argument}': {'; '.join(faults)}",
            reason="the compiler trusts what it can't know: the code is wrong on the device "
            "though it is right in the interpreter",
            remedy="guard on the shape, pad the tensor's rows, or keep tensors of pointers there",
            numbers={
                "pitch_bytes": surface.pitch_bytes,
                "width_bytes": surface.width_bytes,
                "base_alignment_bytes": surface.base_alignment_bytes,
                "messages": len(sends),
            },
        )


@judges("2d-op-unchecked")
def two_d_op_unchecked(evidence: Evidence, device: Device) -> Iterator[Finding]:
    for sends, surface in _surfaces(evidence):
        unknown = surface.unknown(device)
        if not unknown:
            continue
        send = sends[0]
        name = f" of '{surface.argument}'" if surface.argument else ""
        yield finding(
            "2d-op-unchecked",
            evidence,
            "native",
            surface.line,
            f"2D block {send.op}{name}: {', '.join(unknown)} not known from the launch",
            reason="the base is the argument plus an offset" if surface.base_moved else None,
            remedy="state shape and strides of the block pointer as arguments or constants",
            numbers={"messages": len(sends)},
        )


class _Surface:
    """Pitch, width and base of what a native 2D operation touches; None: not known."""

    def __init__(self, evidence: Evidence, access: Access | None, send: Send2D) -> None:
        self.line = access.site.line if access is not None else send.site.line
        self.argument = (access.argument if access else None) or send.argument
        self.pitch_bytes: int | None = None
        self.width_bytes: int | None = None
        self.base_alignment_bytes: int | None = None
        self.base_moved = False
        bits = access.element_bits if access is not None else send.element_bits
        stated = access.surface if access is not None else None
        value = Launch.from_json(evidence.launch).values.get(self.argument or "")
        tensor = value if isinstance(value, TensorArg) else None
        if stated is not None:
            self.base_moved = stated.base_moved
            self._measure(stated.stride_values, stated.shape_values, bits)
            self.base_alignment_bytes = stated.base_alignment_bytes
        elif tensor is not None and len(tensor.shape) == 2:
            self._measure(tensor.strides, tensor.shape, bits)
        if self.base_alignment_bytes is None and tensor is not None and not self.base_moved:
            self.base_alignment_bytes = tensor.pointer_alignment_bytes

    def _measure(
        self, strides: tuple[int | None, ...], shape: tuple[int | None, ...], bits: int
    ) -> None:
        """From strides and extents in elements; the fastest dimension has stride 1."""
        if len(strides) < 2:
            return
        fastest = next(
            (d for d in (len(strides) - 1, len(strides) - 2) if strides[d] == 1),
            len(strides) - 1,
        )
        slower = 2 * len(strides) - 3 - fastest
        pitch, width = strides[slower], shape[fastest]
        self.pitch_bytes = None if pitch is None else pitch * bits // 8
        self.width_bytes = None if width is None else width * bits // 8

    def faults(self, device: Device) -> list[str]:
        """What breaks the device's rules for 2D block operations."""
        multiple = device.block_2d_pitch_multiple_bytes
        least, most = device.block_2d_min_width_bytes, device.block_2d_max_width_bytes
        alignment = device.block_2d_base_alignment_bytes
        found: list[str] = []
        pitch, width, base = self.pitch_bytes, self.width_bytes, self.base_alignment_bytes
        if pitch is not None and multiple and pitch % multiple:
            found.append(f"pitch {pitch} B is no multiple of {multiple} B")
        for name, size in (("pitch", pitch), ("width", width)):
            if size is not None and least and size < least:
                found.append(f"{name} {size} B is under {least} B")
            if size is not None and most and size > most:
                found.append(f"{name} {size} B is over {most} B")
        if base is not None and alignment and base < alignment:
            found.append(f"base is aligned to {base} B, not {alignment} B")
        return found

    def unknown(self, device: Device) -> list[str]:
        found = [
            name
            for name, size in (("pitch", self.pitch_bytes), ("width", self.width_bytes))
            if size is None
        ]
        if self.base_alignment_bytes is None and device.block_2d_base_alignment_bytes:
            found.append("alignment of the base")
        return found


def _of_argument(accesses: list[Access], argument: str | None) -> list[Access]:
    """Those of the message's argument, where it is known and any of them has it."""
    return [a for a in accesses if a.argument == argument] or accesses


def _surfaces(evidence: Evidence) -> Iterator[tuple[list[Send2D], _Surface]]:
    """Native 2D operations, each with a surface that it touches.

    A message whose line is no access's is held against every surface of its kind that it may
    touch. Prefetches touch what their load touches and fault nowhere, so they are left out.
    """
    native = evidence.native
    if native is None:
        return
    groups: dict[tuple[str, int | None, str | None], list[Send2D]] = {}
    for send in native.sends_2d:
        if send.op != "prefetch":
            groups.setdefault((send.op, send.site.line, send.argument), []).append(send)
    ir = evidence.ttgir or evidence.ttir
    everywhere = ir.accesses if ir is not None else ()
    seen: set[tuple[Any, ...]] = set()
    for (op, line, argument), sends in groups.items():
        accesses = _at_line(evidence, op, line) or [a for a in everywhere if a.op == op]
        candidates = _meant([a for a in _of_argument(accesses, argument) if a.reached])
        if accesses and not candidates:
            continue  # behind a condition that this launch never meets
        if not candidates:
            yield sends, _Surface(evidence, None, sends[0])
        for access in candidates:
            surface = _Surface(evidence, access, sends[0])
            key = (
                op,
                surface.line,
                surface.argument,
                surface.pitch_bytes,
                surface.width_bytes,
                surface.base_alignment_bytes,
            )
            if key not in seen:
                seen.add(key)
                yield sends, surface


# registers and occupancy


@judges("spill")
def spill(evidence: Evidence, device: Device) -> Iterator[Finding]:
    native = evidence.native
    if native is None or not native.spill_bytes_per_thread:
        return
    grf_bytes = device.grf_bytes or 64
    registers = -(-native.spill_bytes_per_thread // grf_bytes)
    main = native.main
    in_loop = main.scratch_messages if main else 0
    larger, remedy = _larger_grf(evidence, device, native, registers)
    where = f", {in_loop} scratch messages in the main loop" if in_loop else ""
    yield finding(
        "spill",
        evidence,
        "native",
        main_loop_line(evidence) if in_loop else None,
        f"spills {native.spill_bytes_per_thread} B per thread "
        f"({native.spill_bytes_per_lane:g} B per lane, {registers} registers){where}",
        reason=f"more values are live than {native.grf_count} registers of {grf_bytes} B hold",
        remedy=remedy,
        severity="warning" if in_loop else "note",
        numbers={
            "spill_bytes_per_thread": native.spill_bytes_per_thread,
            "spill_bytes_per_lane": native.spill_bytes_per_lane,
            "spilled_registers": registers,
            "scratch_messages_in_main_loop": in_loop,
            "grf_count": native.grf_count,
            "larger_grf_count": larger,
        },
    )


def _larger_grf(
    evidence: Evidence, device: Device, native: Native, registers: int
) -> tuple[int | None, str]:
    """The next register mode, and what it would hold."""
    larger = next((mode for mode in device.grf_modes if mode > native.grf_count), None)
    smaller_tile = "a smaller tile per warp (smaller blocks or more warps)"
    if larger is None:
        return None, smaller_tile
    gained = larger - native.grf_count
    holds = (
        f"{larger} registers hold the {registers} that are spilled"
        if registers <= gained
        else f"{larger} registers hold {gained} of the {registers} that are spilled"
    )
    try:
        limit = device.max_sub_groups_per_work_group(larger)
    except UsageError:
        return None, smaller_tile
    warps = evidence.ttgir.num_warps if evidence.ttgir else 0
    if warps > limit:
        return larger, f"{holds}, but need at most {limit} warps instead of {warps}"
    return larger, f"{holds}; {smaller_tile} otherwise"


@judges("slm-limits-occupancy")
def slm_limits_occupancy(evidence: Evidence, device: Device) -> Iterator[Finding]:
    native = evidence.native
    resident, occupied = residency(evidence, device), occupancy(evidence, device)
    if native is None or resident is None or occupied is None or resident.limited_by != "slm":
        return
    if native.slm_bytes is None:
        return
    by_threads = resident.threads_per_core // resident.sub_groups
    allocated = device.slm_allocated_bytes(native.slm_bytes)
    yield finding(
        "slm-limits-occupancy",
        evidence,
        "derived",
        evidence.launch["line"],
        f"{resident.work_groups} work-groups per Xe core instead of {by_threads}: each takes "
        f"{allocated} B of shared local memory",
        reason=f"it asks for {native.slm_bytes} B"
        + (", which the hardware rounds up" if allocated != native.slm_bytes else "")
        + f"; a Xe core has {device.slm_bytes_per_xe_core} B",
        remedy="block pointers, so that operands do not go through SLM; else a smaller tile",
        numbers={
            "slm_bytes": native.slm_bytes,
            "slm_allocated_bytes": allocated,
            "slm_bytes_per_xe_core": device.slm_bytes_per_xe_core,
            "work_groups_per_xe_core": resident.work_groups,
            "possible_work_groups_per_xe_core": by_threads,
            "threads_per_xve": occupied.threads_per_xve,
        },
    )


@judges("missing-prefetch")
def missing_prefetch(evidence: Evidence, device: Device) -> Iterator[Finding]:
    native = evidence.native
    if native is None or not device.has_2d_block_io or native.main is None:
        return
    main = native.main
    loads = main.loads_2d + main.global_loads
    if not loads or main.prefetches_2d or not _main_runs_often(evidence):
        return
    if evidence.ttgir is not None and not evidence.ttgir.dots:
        return  # the compiler prefetches nothing but the operands of dots
    yield finding(
        "missing-prefetch",
        evidence,
        "native",
        main_loop_line(evidence),
        f"the main loop has {loads} load message{'s' if loads > 1 else ''} and no prefetch: every "
        "iteration waits for memory",
        reason="the compiler prefetches operands of a dot that are block loads"
        if not main.loads_2d
        else "num_stages leaves no room for a prefetch, or the load does not feed a dot",
        remedy="block pointers and num_stages of 2 or more",
        numbers={"loads_in_main_loop": loads, "prefetches_in_main_loop": 0},
    )


def main_loop_line(evidence: Evidence) -> int | None:
    """Line of the loop statement: the IR's, since native code names lines of its body only."""
    native, ttir = evidence.native, evidence.ttir
    if native is None or native.main is None:
        return None
    if ttir is not None:
        matched = match_loops(ttir, native).get(native.main.index)
        if matched is not None:
            return ttir.loops[matched].site.line
    return native.main.site.line


def _main_runs_often(evidence: Evidence) -> bool:
    """Whether some loop with loads is known or may be to run more than once."""
    if evidence.ttir is None:
        return True
    in_loops = {a.loop for a in evidence.ttir.accesses if a.op == "load" and a.reached}
    loops = [loop for loop in evidence.ttir.loops if loop.index in in_loops and loop.reached]
    return any(loop.trip_count is None or loop.trip_count > 1 for loop in loops)
