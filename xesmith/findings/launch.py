"""Judges of the launch itself: what the compiler or the device refuses."""

from __future__ import annotations

from collections.abc import Iterator

from xesmith.device import Device
from xesmith.errors import UsageError
from xesmith.evidence.record import Evidence
from xesmith.findings.record import Finding
from xesmith.findings.registry import finding, judges

_GRF_MODES = {"small": 128, "128": 128, "large": 256, "256": 256, "512": 512}


def _launch_line(evidence: Evidence) -> int | None:
    return evidence.launch["line"]


@judges("cannot-launch")
def cannot_launch(evidence: Evidence, device: Device) -> Iterator[Finding]:
    failure = evidence.failure
    if failure is None or failure["kind"] != "out_of_resources":
        return
    yield finding(
        "cannot-launch",
        evidence,
        "launch",
        failure["line"] or _launch_line(evidence),
        f"{device.title} refuses the launch: {failure['message']}",
        reason="the limit is the hardware's; the driver raises the same error",
        remedy="a smaller tile, fewer stages or fewer warps",
        numbers=dict(failure["numbers"]),
    )


@judges("cannot-compile")
def cannot_compile(evidence: Evidence, device: Device) -> Iterator[Finding]:
    failure = evidence.failure
    if failure is None or failure["kind"] == "out_of_resources" or _wants_power_of_two(evidence):
        return
    what = {
        "crash": "the compiler crashed",
        "timeout": "the compiler did not come to an end",
        "memory": "the compiler ran out of memory",
        "options": "an option would be ignored",
    }.get(failure["kind"], "it does not compile")
    yield finding(
        "cannot-compile",
        evidence,
        "launch",
        failure["line"],
        f"{what} at level {failure['level']}: {failure['message']}",
        numbers=dict(failure["numbers"]),
    )


@judges("not-power-of-two")
def not_power_of_two(evidence: Evidence, device: Device) -> Iterator[Finding]:
    warps = evidence.launch["options"].get("num_warps")
    if isinstance(warps, int) and not _is_power_of_two(warps):
        yield finding(
            "not-power-of-two",
            evidence,
            "launch",
            _launch_line(evidence),
            f"num_warps is {warps}, no power of two",
            remedy=f"num_warps={1 << max(0, warps.bit_length() - 1)}",
            numbers={"num_warps": warps},
        )
    elif evidence.failure is not None and _wants_power_of_two(evidence):
        sizes: dict[str, float | int | None] = {
            name: value
            for name, value in evidence.launch["constexprs"].items()
            if isinstance(value, int) and value > 2 and not _is_power_of_two(value)
        }
        named = ", ".join(f"{name}={value}" for name, value in sizes.items())
        yield finding(
            "not-power-of-two",
            evidence,
            "launch",
            evidence.failure["line"],
            "the shape of a tile is no power of two" + (f" (not so: {named})" if named else ""),
            reason=evidence.failure["message"],
            remedy="round the block size up to a power of two and mask the rest",
            numbers=sizes,
        )


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _wants_power_of_two(evidence: Evidence) -> bool:
    if evidence.failure is None:
        return False
    message: str = evidence.failure["message"].lower()
    return "power of 2" in message or "power of two" in message


@judges("slm-over-limit")
def slm_over_limit(evidence: Evidence, device: Device) -> Iterator[Finding]:
    limit = device.slm_bytes_per_work_group
    needed = slm_bytes(evidence)
    if limit is None or needed is None or needed <= limit:
        return
    yield finding(
        "slm-over-limit",
        evidence,
        "ttgir",
        _launch_line(evidence),
        f"a work-group needs {needed} B of shared local memory, {device.title} has {limit} B",
        reason=_slm_reason(evidence),
        remedy="block pointers, so that operands do not go through SLM; else a smaller tile",
        numbers={"slm_bytes": needed, "limit_bytes": limit},
    )


def slm_bytes(evidence: Evidence) -> int | None:
    """SLM of a work-group from the lowest level that was read."""
    if evidence.native is not None and evidence.native.slm_bytes is not None:
        return evidence.native.slm_bytes
    if evidence.ttgir is not None and evidence.ttgir.shared_bytes is not None:
        return evidence.ttgir.shared_bytes
    return None


def _slm_reason(evidence: Evidence) -> str | None:
    if evidence.ttgir is None:
        return None
    lines = sorted(
        {
            c.site.line
            for c in evidence.ttgir.layout_conversions
            if c.slm_bytes != 0 and c.site.line is not None
        }
    )
    if not lines:
        return None
    plural = "s" if len(lines) > 1 else ""
    listed = ", ".join(str(line) for line in lines)
    return f"layout conversions through SLM at line{plural} {listed}"


@judges("grf-warps-illegal")
def grf_warps_illegal(evidence: Evidence, device: Device) -> Iterator[Finding]:
    options = evidence.launch["options"]
    warps = options.get("num_warps") or (evidence.ttgir.num_warps if evidence.ttgir else None)
    grf = _GRF_MODES.get(str(options.get("grf_mode")))
    if grf is None and evidence.native is not None:
        grf = evidence.native.grf_count
    if not isinstance(warps, int) or grf is None or not device.grf_modes:
        return
    line = _launch_line(evidence)
    try:
        limit = device.max_sub_groups_per_work_group(grf)
    except UsageError as error:
        yield finding(
            "grf-warps-illegal", evidence, "launch", line, error.what,
            remedy=error.remedy, numbers={"grf_count": grf},
        )  # fmt: skip
        return
    if warps > limit:
        yield finding(
            "grf-warps-illegal",
            evidence,
            "launch",
            line,
            f"{warps} warps with {grf} registers each: at most {limit} fit",
            reason=f"a Xe core holds {limit} hardware threads of {grf} registers in a work-group",
            remedy=f"num_warps={limit}, or fewer registers",
            numbers={"num_warps": warps, "limit_sub_groups": limit, "grf_count": grf},
        )
