"""The proposer "rules" in a run: round after round, each from what the one before has left."""

from __future__ import annotations

from collections.abc import Sequence

from xesmith.device import Device
from xesmith.engine.candidates import Candidates, rank
from xesmith.engine.state import Attempt, State
from xesmith.stage_contract import Stage
from xesmith.stages.draft import Variant
from xesmith.stages.proposers.judged import Judged
from xesmith.stages.proposers.record import NoProposal, Proposal
from xesmith.stages.proposers.rules import RulesProposer


class RulesAtWork:
    """Deterministic rewrites."""

    name = "rules"
    goes_with_others = False

    def __init__(self, rules: RulesProposer, candidates: Candidates, device: Device) -> None:
        self._rules = rules
        self._candidates = candidates
        self._device = device
        self._ranked: dict[str, tuple[Variant, ...]] = {}

    def knows(self, stage: Stage) -> str | None:
        known = self._rules.knows(stage.name)
        return None if known else "no deterministic rewrite; needs a model"

    def work(self, stage: Stage, state: State) -> Attempt:
        reasons: list[str] = []
        notes: list[str] = []
        any_judged = False
        for ask in self._rules.rounds(stage.name, state.situation(self._device)):
            answers = list(ask(state.situation(self._device, self._ranked)))
            reasons += [str(answer) for answer in answers if isinstance(answer, NoProposal)]
            proposals = [answer for answer in answers if isinstance(answer, Proposal)]
            if not proposals:
                continue
            judged, unfit = self._candidates.judge(stage, self.name, proposals, state)
            any_judged = any_judged or bool(judged)
            reasons += [*unfit, *(text for item in judged for text in item.objections())]
            self._remember(judged)
            for item in judged:
                if item.accepted:
                    draft = item.proposal.draft
                    state = State(draft, draft.text, item.examinations, item.trial)
                    notes.append(item.proposal.note)
        return Attempt(state, tuple(notes), tuple(dict.fromkeys(reasons)), any_judged)

    def _remember(self, judged: Sequence[Judged]) -> None:
        """Keeps the variants of a search, the predicted best first, for the stage that tunes."""
        legal = [
            item
            for item in judged
            if all(r.status == "passed" for r in item.verdict.levels if r.level != "correctness")
        ]
        legal.sort(key=lambda item: rank(item.examinations))
        for kernel in {item.proposal.kernel for item in legal} - {None}:
            assert kernel is not None
            self._ranked[kernel] = tuple(
                item.proposal.draft.variants[kernel]
                for item in legal
                if item.proposal.kernel == kernel
            )
