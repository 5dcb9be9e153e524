"""The nouns Proposal and Situation: what a proposer is shown, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xesmith.cascade.examine import Examination
from xesmith.device import Device
from xesmith.evidence.record import Evidence
from xesmith.findings.record import Finding
from xesmith.ghost.launch import Launch
from xesmith.stages.draft import Draft, Variant


@dataclass(frozen=True)
class Situation:
    """Where a stage, or a round of one, begins: the best draft so far and what is known of it.

    `ranked` holds, by kernel, the variants that a search has lowered and found legal, the best
    predicted first.
    """

    draft: Draft
    examinations: Mapping[str, Examination]  # by shape name
    device: Device
    ranked: Mapping[str, tuple[Variant, ...]] = field(
        default_factory=dict[str, tuple[Variant, ...]]
    )

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for item in self.examinations.values() for f in item.findings)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(e for item in self.examinations.values() for e in item.evidence)

    def launches(self, kernel: str) -> tuple[Launch, ...]:
        """Launches of the kernel or of its variant, over all shapes."""
        return tuple(Launch.from_json(e.launch) for e in self.evidence_of(kernel))

    def evidence_of(self, kernel: str) -> tuple[Evidence, ...]:
        return tuple(e for e in self.evidence if self.draft.kernel_of(e.kernel) == kernel)

    def findings_of(self, kernel: str) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if self.draft.kernel_of(f.kernel) == kernel)


@dataclass(frozen=True)
class Proposal:
    """A candidate. `note` says in one line what was done."""

    draft: Draft
    note: str
    kernel: str | None = None  # the one kernel that it changes, where it is one of a search
    request: str | None = None  # digest of the request to a model that it answers


@dataclass(frozen=True)
class NoProposal:
    """Why a proposer has nothing (or nothing more) to offer at a place."""

    reason: str
    line: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}" if self.line else self.reason
