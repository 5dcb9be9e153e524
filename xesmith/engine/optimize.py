"""The pipeline: baseline, stage after stage, final check; everything into the ledger.

The pipeline is deterministic, so a run is resumed by running it again with the same ledger:
what was judged, and what a model was asked, is read there instead of done anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xesmith.engine.candidates import Candidates
from xesmith.engine.judge import Baseline, Judge, Say, verdict
from xesmith.engine.state import ProposerAtWork, State
from xesmith.engine.trials import keep_baseline, keep_trial
from xesmith.ledger import FINAL, Ledger, StageOutcome, Trial, text_digest
from xesmith.stage_contract import Stage
from xesmith.stages.draft import Draft

#: seeds that no candidate has met before the final check
FINAL_SEEDS = (101, 102, 103)

#: makes the proposers of a run, in the order in which each stage asks them
MakeProposers = Callable[[Candidates], Sequence[ProposerAtWork]]
#: from the baseline to the stages in their order
OrderStages = Callable[[State], Sequence[Stage]]


@dataclass(frozen=True)
class Result:
    """What a run came to. `improved`: the file is better than the baseline and was accepted."""

    baseline: State
    final: State
    improved: bool
    outcomes: tuple[StageOutcome, ...]
    final_check: Trial | None  # None: nothing changed, so there was nothing to check
    unreached: str | None = None  # why no request to a model got a reply, where some were made


class Optimizer:
    """One run of the pipeline.

    Args:
        order: gives the stages, once the baseline is known.
        make_proposers: at a stage each is asked for what the ones before have left.
        ledger: of this run; may hold the trials of an earlier, interrupted process.
        say: told about progress.
    """

    def __init__(
        self,
        judge: Judge,
        order: OrderStages,
        make_proposers: MakeProposers,
        ledger: Ledger,
        say: Say,
    ) -> None:
        self._judge = judge
        self._order = order
        self._make_proposers = make_proposers
        self._ledger = ledger
        self._say = say

    def run(self) -> Result:
        """Runs all stages.

        Raises:
            InputKernelError: the kernel that was given does not lower, launch or compute.
            ModelRefusedError, NoReplyYetError: a model that the run cannot do without.
        """
        started = time.monotonic()
        known = self._judge.baseline()
        candidates = Candidates(self._judge, known, self._ledger, self._say)
        state = baseline = self._start(known, time.monotonic() - started)
        proposers = self._make_proposers(candidates)
        outcomes: list[StageOutcome] = []
        for position, stage in enumerate(self._order(baseline)):
            outcome, state = self._stage(stage, position, state, proposers)
            self._ledger.set_stage(outcome)
            outcomes.append(outcome)
            self._say(f"{stage.name}: {outcome.status}: {outcome.reason}")
        improved = state is not baseline
        final_check = self._final_check(candidates, state) if improved else None
        if final_check is not None and not final_check.accepted:
            improved, state = False, baseline
        self._ledger.finish()
        unreached = self._unreached()
        return Result(baseline, state, improved, tuple(outcomes), final_check, unreached)

    def _unreached(self) -> str | None:
        """Why no request to a model got a reply, where some were made."""
        lost = self._ledger.lost()
        return lost[-1].reason if lost and not self._ledger.exchanges() else None

    def _start(self, known: Baseline, wall_seconds: float) -> State:
        source = self._judge.problem.source
        kept = keep_baseline(self._ledger, source, known, wall_seconds)
        draft = Draft.of_file(self._judge.kernel_file, source, self._judge.session.device.kind)
        return State(draft, source, known.examinations, kept)

    # -- one stage ----------------------------------------------------------------------------

    def _stage(
        self, stage: Stage, position: int, state: State, proposers: Sequence[ProposerAtWork]
    ) -> tuple[StageOutcome, State]:
        kinds = self._kinds(state)

        def outcome(status: str, reason: str, trial: int | None = None) -> StageOutcome:
            return StageOutcome(stage.name, position, status, reason, trial)

        if stage.name == "analysis":
            return outcome("done", f"found {', '.join(sorted(kinds)) or 'nothing'}"), state
        if not stage.applies(kinds):
            return outcome("skipped", f"no finding of {', '.join(stage.triggers)}"), state
        start = state
        notes: list[str] = []
        reasons: list[str] = []
        idle: list[str] = []
        judged = failed = False
        for proposer in proposers:
            done = state is not start and not self._something_is_left(stage, state)
            if done and not proposer.goes_with_others:
                continue
            if (why := proposer.knows(stage)) is not None:
                idle.append(why)
                continue
            attempt = proposer.work(stage, state)
            state = attempt.state
            by = f"{proposer.name}: " if len(proposers) > 1 else ""
            notes += [by + note for note in attempt.notes]
            # That a model could not be asked is told first.
            reasons = (
                [*attempt.reasons, *reasons] if attempt.failed else [*reasons, *attempt.reasons]
            )
            judged, failed = judged or attempt.judged, failed or attempt.failed
        if state is not start:
            return outcome("improved", "; then ".join(notes), state.trial.id), state
        if len(idle) == len(proposers):
            return outcome("skipped", "; ".join(dict.fromkeys(idle))), state
        status = "refused" if judged else "failed" if failed else "no proposal"
        # Why a proposer was not asked comes last, and is always told: a budget that is spent.
        told = [_first(list(dict.fromkeys(reasons))), *dict.fromkeys(idle)]
        return outcome(status, "; ".join(told)), state

    def _something_is_left(self, stage: Stage, state: State) -> bool:
        """Whether what calls for a stage is still there after an improvement. A stage that nothing
        in particular calls for has done its work."""
        return bool(stage.triggers) and stage.applies(self._kinds(state))

    def _kinds(self, state: State) -> set[str]:
        situation = state.situation(self._judge.session.device)
        return {finding.kind for finding in situation.findings}

    # -- the end ------------------------------------------------------------------------------

    def _final_check(self, candidates: Candidates, state: State) -> Trial:
        """The final file against the original reference, with inputs no candidate has met; and
        its time against the original kernel's, where it is measured."""
        passes = state.draft.passes
        digest, plan = text_digest(state.text), passes.to_text()
        known = self._ledger.find(FINAL, digest, state.trial.id, plan)
        if known is not None and known.accepted:  # before an interruption
            return known
        self._say("checking the final file with new seeds")
        started = time.monotonic()
        measured = self._judge.measures and not passes
        result = candidates.results(
            state.text,
            state.examinations,
            FINAL_SEEDS,
            on_device=measured,
            wide=True,
            passes=passes,
        )
        levels = [result]
        if measured and result.status == "passed":
            original = self._judge.problem.source
            levels.append(self._judge.performance(state.text, original, must_improve=True))
        trial = Trial(
            stage=FINAL,
            proposer="xesmith",
            note="the final file, end to end",
            source=digest,
            passes=plan,
            verdict=verdict(levels).to_json(),
            accepted=all(level.status == "passed" for level in levels),
            parent=state.trial.id,
            wall_seconds=time.monotonic() - started,
        )
        return keep_trial(self._ledger, trial, state.text, state.examinations)


def _first(reasons: Sequence[str]) -> str:
    if not reasons:
        return "no candidate was accepted"
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more
