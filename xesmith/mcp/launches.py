"""What the compiler made of a program, as tools answer it: launches, findings, changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from xesmith.cascade.examine import Examination
from xesmith.contracts import Number, ProgramEvidence
from xesmith.evidence.record import Access, Evidence
from xesmith.findings.record import Finding, Severity
from xesmith.mcp.text import first, microseconds, short
from xesmith.mcp.tool import Answer

_LAUNCHES = 12
_FINDINGS = 30
_ACCESSES = 40
_LINES = 12
_OPTIONS = ("num_warps", "num_stages", "grf_mode")

#: values shown of a launch without detail; a name that says nothing of a device is left out
KEY_VALUES = (
    *("ttir.masked_accesses", "ttir.bytes", "ttir.flop", "ttgir.dots", "ttgir.dots_on_dpas"),
    *("native.instructions", "native.grf_count", "native.spill_bytes_per_thread"),
    *("native.loads_2d", "native.stores_2d", "native.global_loads", "native.global_stores"),
    *("native.slm_bytes", "native.slm_messages", "native.main.instructions", "native.main.dpas"),
    *("native.main.loads_2d", "native.main.slm_messages", "native.main.scratch_messages"),
    *("derived.threads_per_xve", "ptx.instructions", "ptx.matrix_instructions"),
    "ptx.bytes_per_load",
)


class AccessAnswer(Answer):
    op: str
    line: int | None
    kind: str
    shape: list[int]
    element_type: str
    masked: bool
    bytes_per_access: int | None = None
    block_io: str | None = None
    why_not_block_io: str | None = None


class LaunchAnswer(Answer):
    kernel: str
    grid: list[int]
    configuration: dict[str, Any]
    predicted_us: float | None = None
    bound_by: str | None = None
    why_not_predicted: str | None = None
    values: dict[str, Number] = Field(
        description="By contract name, the words of the stages' promises; with detail all."
    )
    not_read: dict[str, str] = Field(default_factory=dict, description="Level and reason.")
    failure: str | None = None
    notes: list[str] = Field(default_factory=list[str])
    predicted_parts_us: dict[str, float] = Field(default_factory=dict)
    accesses: list[AccessAnswer] = Field(default_factory=list[AccessAnswer])
    busiest_lines: dict[int, int] = Field(
        default_factory=dict[int, int], description="Source line and its native instructions."
    )


class FindingAnswer(Answer):
    kind: str
    severity: Severity
    kernel: str
    line: int | None = None
    source: str | None = None
    message: str
    reason: str | None = None
    remedy: str | None = None


class ShapeAnswer(Answer):
    """One shape of the spec."""

    shape: str
    launches: list[LaunchAnswer] = Field(default_factory=list[LaunchAnswer])
    more_launches: int = 0
    findings: list[FindingAnswer] = Field(default_factory=list[FindingAnswer])
    more_findings: int = 0
    failure: str | None = Field(default=None, description="Why the program did not come to its end")


def shape_answer(
    name: str, item: Examination, source: str, *, launches: bool, findings: bool, detail: bool
) -> ShapeAnswer:
    """What was seen of a program at one shape. `source`: its text, for the findings' lines."""
    shown, more_launches = first(item.evidence, _LAUNCHES) if launches else ([], 0)
    found, more_findings = first(item.findings, _FINDINGS) if findings else ([], 0)
    lines = source.splitlines()
    return ShapeAnswer(
        shape=name,
        launches=[launch_answer(evidence, detail=detail) for evidence in shown],
        more_launches=more_launches,
        findings=[_finding_answer(finding, lines) for finding in found],
        more_findings=more_findings,
        failure=_failure(item),
    )


def _failure(item: Examination) -> str | None:
    failure = item.first_failure
    if failure is not None:
        at = f"line {failure.line}: " if failure.line else ""
        return short(f"{at}{failure.message}")
    return None if item.evidence else "no Triton kernel is launched"


def launch_answer(evidence: Evidence, *, detail: bool) -> LaunchAnswer:
    launch = evidence.launch
    prediction = evidence.derived.prediction if evidence.derived else None
    accesses: tuple[Access, ...] = ()
    busiest: dict[int, int] = {}
    if detail and evidence.ttgir is not None:
        accesses = evidence.ttgir.accesses[:_ACCESSES]
    if detail and evidence.native is not None:
        per_line = evidence.native.instructions_per_line
        busiest = dict(sorted(per_line.items(), key=lambda item: -item[1])[:_LINES])
    parts = prediction.parts if detail and prediction is not None else {}
    return LaunchAnswer(
        kernel=evidence.kernel,
        grid=list(launch["grid"]),
        configuration={
            **launch["constexprs"],
            **{name: value for name, value in launch["options"].items() if name in _OPTIONS},
        },
        predicted_us=None if prediction is None else microseconds(prediction.seconds),
        bound_by=None if prediction is None else prediction.bound_by,
        why_not_predicted=None if prediction is None else prediction.why_not,
        values=_values(evidence, detail=detail),
        not_read={level: short(why, 200) for level, why in evidence.not_read.items()},
        failure=None if evidence.failure is None else short(evidence.failure["message"]),
        notes=[short(note, 200) for note in evidence.notes],
        predicted_parts_us={name: round(part * 1e6, 2) for name, part in parts.items()},
        accesses=[_access_answer(access) for access in accesses],
        busiest_lines=busiest,
    )


def _values(evidence: Evidence, *, detail: bool) -> dict[str, Number]:
    values = ProgramEvidence.of([evidence]).values
    names = values if detail else KEY_VALUES
    return {name: value for name in names if (value := values[name]) is not None}


def _access_answer(access: Access) -> AccessAnswer:
    return AccessAnswer(
        op=access.op,
        line=access.site.line,
        kind=access.kind,
        shape=list(access.shape),
        element_type=access.element_type,
        masked=access.masked,
        bytes_per_access=access.bytes_per_access,
        block_io=access.block_io,
        why_not_block_io=access.why_not_block_io,
    )


def _finding_answer(finding: Finding, lines: list[str]) -> FindingAnswer:
    has_line = finding.line is not None and finding.line <= len(lines)
    return FindingAnswer(
        kind=finding.kind,
        severity=finding.severity,
        kernel=finding.kernel,
        line=finding.line,
        source=short(lines[(finding.line or 1) - 1], 160) if has_line else None,
        message=short(finding.message),
        reason=None if finding.reason is None else short(finding.reason),
        remedy=None if finding.remedy is None else short(finding.remedy),
    )


def changes(
    before: Mapping[str, Examination], after: Mapping[str, Examination], *, detail: bool
) -> dict[str, dict[str, list[Number | None]]]:
    """By shape and contract name: the values before and after, where they differ."""
    found: dict[str, dict[str, list[Number | None]]] = {}
    for shape, item in after.items():
        old = ProgramEvidence.of(before[shape].evidence).values
        new = ProgramEvidence.of(item.evidence).values
        found[shape] = {
            name: [old[name], new[name]]
            for name in (new if detail else KEY_VALUES)
            if old[name] != new[name]
        }
    return found
