"""The proposer "passes" in a run: one on top of the other, as long as one is accepted."""

from __future__ import annotations

from xesmith.device import Device
from xesmith.engine.candidates import Candidates
from xesmith.engine.state import Attempt, State
from xesmith.stage_contract import Stage
from xesmith.stages.proposers.passes import PassesProposer, Step


class PassesAtWork:
    """Tries what a stage lists on every launched kernel, and goes on from the best."""

    name = "passes"
    goes_with_others = True

    def __init__(self, candidates: Candidates, device: Device) -> None:
        self._passes = PassesProposer(device.kind)
        self._candidates = candidates
        self._device = device

    def knows(self, stage: Stage) -> str | None:
        return None if self._passes.knows(stage) else "the stage lists no passes"

    def work(self, stage: Stage, state: State) -> Attempt:
        notes: list[str] = []
        reasons: dict[str, None] = {}
        any_judged = False
        steps: list[Step] = self._passes.steps(stage, state.situation(self._device))
        while steps:
            situation = state.situation(self._device)
            proposed = list(self._passes.proposals(stage, steps, situation))
            proposals = [proposal for _, proposal in proposed]
            judged, _ = self._candidates.judge(stage, self.name, proposals, state)
            any_judged = any_judged or bool(judged)
            accepted: Step | None = None
            for (step, _), item in zip(proposed, judged, strict=True):
                reasons.update(dict.fromkeys(item.objections()))
                if item.accepted:
                    accepted = step
                    draft = item.proposal.draft
                    state = State(draft, draft.text, item.examinations, item.trial)
                    notes.append(item.proposal.note)
            if accepted is None:
                break
            steps = [step for step in steps if step != accepted]
        return Attempt(state, tuple(notes), tuple(reasons), any_judged)
