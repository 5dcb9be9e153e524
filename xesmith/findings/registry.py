"""The registry of judges: one small pure function per kind of finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from xesmith.device import Device
from xesmith.evidence.record import Evidence
from xesmith.findings.record import KINDS, Finding, Severity

Judge = Callable[[Evidence, Device], Iterable[Finding]]
FindingLevel = Literal["source", "ttir", "ttgir", "spirv", "native", "derived", "launch"]

#: kind -> the function that finds it in one launch
JUDGES: dict[str, Judge] = {}


def judges(kind: str) -> Callable[[Judge], Judge]:
    """Registers a function as the judge of a kind."""
    if kind not in KINDS:
        raise ValueError(f"'{kind}' is not in KINDS")
    if kind in JUDGES:
        raise ValueError(f"'{kind}' has a judge already")

    def register(judge: Judge) -> Judge:
        JUDGES[kind] = judge
        return judge

    return register


def finding(
    kind: str,
    evidence: Evidence,
    level: FindingLevel,
    line: int | None,
    message: str,
    *,
    reason: str | None = None,
    remedy: str | None = None,
    severity: Severity | None = None,
    numbers: dict[str, float | int | None] | None = None,
) -> Finding:
    """A Finding about one launch; numbers that are None are left out."""
    known = {name: float(value) for name, value in (numbers or {}).items() if value is not None}
    return Finding(
        kind=kind,
        severity=severity or KINDS[kind][0],
        level=level,
        kernel=evidence.kernel,
        line=line,
        message=message,
        reason=reason,
        remedy=remedy,
        numbers=known,
        launch_index=evidence.launch["index"],
    )
