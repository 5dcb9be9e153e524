"""The noun Judged: what the cascade said of one proposal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xesmith.cascade.examine import Examination
from xesmith.cascade.lowering import has_code, lowered_hash
from xesmith.cascade.record import Verdict
from xesmith.ledger import Trial
from xesmith.stages.proposers.record import Proposal


@dataclass(frozen=True)
class Judged:
    """A proposal with its verdict. `examinations` is empty where nothing was lowered: its text
    was refused before."""

    proposal: Proposal
    verdict: Verdict
    examinations: Mapping[str, Examination]
    trial: Trial

    @property
    def accepted(self) -> bool:
        return self.verdict.accepted

    @property
    def code(self) -> str:
        """Equal for two that the compiler made the same code of; "" where it made none at a shape:
        two that fail have nothing in common by that."""
        return lowered_hash(self.examinations) if has_code(self.examinations) else ""

    def objections(self) -> list[str]:
        """Why it is not accepted: what refused it, and what could not be read of it."""
        return [
            f"{self.proposal.note}: {level.level}: {'; '.join(level.messages)}"
            for level in self.verdict.levels
            if level.status in ("refused", "not_read")
        ]


#: judges proposals of one stage together: one at most is accepted, the best
Judging = Callable[[Sequence[Proposal]], list[Judged]]
