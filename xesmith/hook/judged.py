"""Judges the kernels of a trace: evidence, with native code made for it, and findings.

Not for users' processes: it needs all of xesmith.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from xesmith import cost, evidence
from xesmith.evidence.record import Evidence
from xesmith.findings import judge
from xesmith.findings.record import Finding
from xesmith.hook.read import TracedKernel, device_of, with_native
from xesmith.toolchain.record import NativeTools


@dataclass(frozen=True)
class JudgedKernel:
    """A kernel with what is known of it. `was_shown`: an earlier judgement's findings were."""

    kernel: TracedKernel
    device: str
    evidence: Evidence
    findings: tuple[Finding, ...]
    was_shown: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.kernel.folder),
            "hash": self.kernel.hash,
            "device": self.device,
            "transform": self.kernel.event.get("transform"),
            "from_cache": self.kernel.event.get("from_cache"),
            "seconds": self.kernel.lowering.seconds,
            "evidence": self.evidence.model_dump(mode="json"),
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
        }


def judge_kernel(
    kernel: TracedKernel, target: str | None, tools: NativeTools | None
) -> JudgedKernel:
    """Reads and judges one kernel, and leaves its findings in its folder.

    Args:
        target: the device; None: the one that it was compiled for.
        tools: build native code for Intel GPUs; None: none is built.

    Raises:
        UsageError: no device fits, or the record is damaged.
    """
    device = device_of(kernel, target)
    lowering = with_native(kernel, device, tools)
    read = cost.derive(
        evidence.read(lowering), device, lowered_hash=evidence.lowered_hash(lowering) or ""
    )
    findings = judge(read, device)
    found = [finding.model_dump(mode="json") for finding in findings]
    return JudgedKernel(kernel, device.name, read, findings, not _first(kernel, device.name, found))


def _first(kernel: TracedKernel, device: str, found: list[dict[str, Any]]) -> bool:
    """Whether nobody has shown the findings before: of several processes one is told so."""
    try:
        with (kernel.folder / f"findings-{device}.json").open("x", encoding="utf-8") as file:
            file.write(json.dumps(found))
    except FileExistsError:
        return False
    return True
