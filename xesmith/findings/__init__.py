"""Findings: what the evidence says is wrong, explained by the IR and judged on outcomes.

One judge per kind, in a module per level; `judge` asks them all about a launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from xesmith.device import Device
from xesmith.evidence.record import Evidence
from xesmith.findings import ir, launch, native
from xesmith.findings.program import many_kernels
from xesmith.findings.record import KINDS, Finding, Severity
from xesmith.findings.registry import JUDGES

__all__ = ["JUDGES", "KINDS", "Finding", "Severity", "judge", "judge_program"]

# The modules register their judges when they are imported.
_MODULES = (launch, ir, native)
_RANK = {"error": 0, "warning": 1, "note": 2}


def judge(evidence: Evidence, device: Device) -> tuple[Finding, ...]:
    """All findings of one launch: errors first, then by line.

    Kinds that a translation by the ghost device would cause are left out
    (`evidence.suppress`).
    """
    found = [
        item
        for kind, judged in JUDGES.items()
        if kind not in evidence.suppress
        for item in judged(evidence, device)
    ]
    return _sorted(found)


def judge_program(evidence: Sequence[Evidence], device: Device) -> tuple[Finding, ...]:
    """Findings of all launches and of the program as a whole.

    What several launches of a kernel share (the same kind, line and numbers) stands once, with
    the index of the first.
    """
    found = [item for one in evidence for item in judge(one, device)]
    found += many_kernels(_without_configurations(evidence))
    once: dict[tuple[str, str, int | None, str], Finding] = {}
    for item in found:
        once.setdefault((item.kind, item.kernel, item.line, item.message), item)
    return _sorted(list(once.values()))


def _without_configurations(evidence: Sequence[Evidence]) -> list[Evidence]:
    """One evidence per launch: of an autotuned one its first configuration."""
    kept: list[Evidence] = []
    for item in evidence:
        number = item.launch.get("config_index")
        last = kept[-1] if kept else None
        again = (
            last is not None
            and number is not None
            and last.launch.get("config_index") is not None
            and number > last.launch["config_index"]
            and last.kernel == item.kernel
        )
        if not again:
            kept.append(item)
    return kept


def _sorted(found: list[Finding]) -> tuple[Finding, ...]:
    return tuple(
        sorted(found, key=lambda f: (_RANK[f.severity], f.launch_index or 0, f.line or 0, f.kind))
    )
