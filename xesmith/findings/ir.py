"""Judges that read TTIR and TTGIR, confirmed by the native code where it was read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from xesmith.device import Device
from xesmith.evidence.record import Access, Evidence, LayoutConversion, Site
from xesmith.findings.record import Finding
from xesmith.findings.registry import finding, judges

#: widest access of one lane
_WIDEST_BYTES = 16


def _lines(sites: tuple[Site, ...]) -> list[int]:
    return sorted({site.line for site in sites if site.line is not None})


def _listed(lines: list[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(str(line) for line in lines)}"


@judges("f64-arithmetic")
def f64_arithmetic(evidence: Evidence, device: Device) -> Iterator[Finding]:
    ttir, native = evidence.ttir, evidence.native
    if ttir is None or not ttir.counts.f64_operations:
        return
    if native is not None and not native.f64_instructions:
        return  # the compiler got rid of it
    lines = _lines(ttir.f64_sites)
    emulated = device.has_fp64 is False
    yield finding(
        "f64-arithmetic",
        evidence,
        "ttir",
        lines[0] if lines else None,
        f"{ttir.counts.f64_operations} float64 operations" + (f" ({_listed(lines)})" * bool(lines)),
        reason=(
            f"{device.title} has no float64: it is emulated"
            if emulated
            else "a value is float64 here: a cast, a float64 constant or a float64 tensor"
        ),
        remedy="accumulate in float32; compensate a long sum where the tolerance asks for it",
        numbers={
            "f64_operations": ttir.counts.f64_operations,
            "f64_instructions": None if native is None else native.f64_instructions,
        },
    )


@judges("i64-address-arithmetic")
def i64_address_arithmetic(evidence: Evidence, device: Device) -> Iterator[Finding]:
    ttir, native = evidence.ttir, evidence.native
    if ttir is None or not ttir.counts.i64_address_operations:
        return
    if native is not None and not native.int64_instructions:
        return
    lines = _lines(ttir.i64_address_sites)
    yield finding(
        "i64-address-arithmetic",
        evidence,
        "ttir",
        lines[0] if lines else None,
        f"{ttir.counts.i64_address_operations} operations on 64-bit offsets"
        + (f" ({_listed(lines)})" * bool(lines)),
        reason="the vector engines do 64-bit integers in several 32-bit instructions",
        remedy="32-bit offsets behind a guard that the tensor has fewer than 2^31 elements",
        numbers={
            "i64_address_operations": ttir.counts.i64_address_operations,
            "int64_instructions": None if native is None else native.int64_instructions,
        },
    )


@judges("needless-mask")
def needless_mask(evidence: Evidence, device: Device) -> Iterator[Finding]:
    if evidence.ttir is None:
        return
    seen: set[tuple[str, int | None]] = set()
    for access in evidence.ttir.accesses:
        key = (access.op, access.site.line)
        if not (access.masked and access.mask_always_true and access.reached) or key in seen:
            continue
        seen.add(key)
        check = "mask" if access.kind == "pointer" else "boundary check"
        is_known = evidence.launch["grid"] is not None
        yield finding(
            "needless-mask",
            evidence,
            "ttir",
            access.site.line,
            f"the {check} of this {access.op} is true for every element "
            + ("at the launched shape" if is_known else "in every launch of this binary"),
            reason="the captured sizes are multiples of the block sizes"
            if is_known
            else "its constants, and the arguments' values where they were given, make it so",
            remedy="leave it out where sizes divide, by a constexpr that @triton.heuristics sets",
            severity="note",
        )


@judges("dot-not-dpas")
def dot_not_dpas(evidence: Evidence, device: Device) -> Iterator[Finding]:
    if evidence.ttgir is None or not device.has_dpas or device.kind != "xpu":
        return
    for dot in evidence.ttgir.dots:
        if dot.on_dpas is not False or not dot.reached:
            continue
        yield finding(
            "dot-not-dpas",
            evidence,
            "ttgir",
            dot.site.line,
            f"the dot {dot.m}x{dot.n}x{dot.k} of {dot.a_type} and {dot.b_type} "
            "is not computed by the matrix engines",
            reason=dot.why_not_dpas,
            remedy="16-bit operands as they were loaded; float32 operands need "
            "input_precision='tf32'; every dot of the kernel must qualify",
            numbers={
                "m": dot.m,
                "n": dot.n,
                "k": dot.k,
                "dpas_instructions": None if evidence.native is None else evidence.native.dpas,
            },
        )


@judges("layout-conversion-in-loop")
def layout_conversion_in_loop(evidence: Evidence, device: Device) -> Iterator[Finding]:
    ttgir, native = evidence.ttgir, evidence.native
    if ttgir is None:
        return
    if native is not None and not native.slm_messages:
        return  # whatever the IR converts, it moves within registers
    by_line: dict[int | None, list[LayoutConversion]] = {}
    for conversion in ttgir.layout_conversions:
        # None: not known; the native code has SLM messages, so it is named.
        if conversion.loop is not None and conversion.reached and conversion.slm_bytes != 0:
            by_line.setdefault(conversion.site.line, []).append(conversion)
    for line, conversions in by_line.items():
        sizes = [c.slm_bytes for c in conversions if c.slm_bytes is not None]
        first = conversions[0]
        shape = "x".join(str(extent) for extent in first.shape)
        main = None if native is None else native.main
        yield finding(
            "layout-conversion-in-loop",
            evidence,
            "ttgir",
            line,
            f"a {shape} tensor changes its layout through SLM in every iteration"
            + (f" ({sum(sizes)} B)" if sizes else ""),
            reason=f"from {_layout(first.source)} to {_layout(first.destination)}",
            remedy="block pointers load a tile in the layout that the dot wants",
            numbers={
                "slm_bytes_per_iteration": sum(sizes) if sizes else None,
                "conversions": len(conversions),
                "slm_messages_in_main_loop": None if main is None else main.slm_messages,
            },
        )


def _layout(encoding: str) -> str:
    """A layout in short: "blocked", "dpas", "dot_op of dpas"."""
    names: list[str] = re.findall(r"#\w+\.(\w+)", encoding)
    return " of ".join(names) or encoding


@judges("uncoalesced-access")
def uncoalesced_access(evidence: Evidence, device: Device) -> Iterator[Finding]:
    ttgir = evidence.ttgir
    if ttgir is None:
        return
    lanes = ttgir.num_warps * ttgir.threads_per_warp
    seen: set[tuple[str, int | None]] = set()
    for access in ttgir.accesses:
        possible = _possible_bytes(access, lanes)
        key = (access.op, access.site.line)
        if (
            access.kind != "pointer"
            or access.op == "prefetch"
            or not access.reached
            or access.bytes_per_access is None
            or access.bytes_per_access >= min(4, possible)
            or key in seen
        ):
            continue
        seen.add(key)
        yield finding(
            "uncoalesced-access",
            evidence,
            "ttgir",
            access.site.line,
            f"each lane moves {access.bytes_per_access} B at a time where {possible} B could be",
            reason=access.why_not_block_io
            or "the compiler did not prove that neighbouring elements are neighbours in memory",
            remedy="run the fastest index along the dimension of stride 1, and make that stride "
            "a constant",
            severity="warning" if access.loop is not None else "note",
            numbers={"bytes_per_access": access.bytes_per_access, "possible_bytes": possible},
        )


def _possible_bytes(access: Access, lanes: int) -> int:
    """Bytes that a lane could move at once: its share of the tile, at most 16."""
    elements = max(1, prod(access.shape) // lanes)
    return min(_WIDEST_BYTES, elements * max(1, access.element_bits // 8))
