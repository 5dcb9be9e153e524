"""The pipeline: baseline, stage after stage, final check; everything into the ledger.

The pipeline is deterministic, so a run is resumed by running it again with the same ledger:
what was judged is read there instead of judged anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xesmith.cascade.correctness import DEFAULT_SEEDS
from xesmith.cascade.examine import Examination
from xesmith.cascade.lowering import lowered_hash
from xesmith.cascade.performance import predicted_seconds
from xesmith.cascade.record import LevelResult, Verdict
from xesmith.contracts import ProgramEvidence
from xesmith.cost import order_key
from xesmith.engine.judge import Baseline, Judge, Say, verdict
from xesmith.engine.probes import Probes
from xesmith.launch_plan import PlanError
from xesmith.ledger import Ledger, StageOutcome, Trial, text_digest
from xesmith.stage_contract import Stage
from xesmith.stages.draft import Draft, Variant
from xesmith.stages.proposers.record import NoProposal, Proposal, Situation
from xesmith.stages.proposers.rules import RulesProposer

#: seeds that no candidate has met before the final check
FINAL_SEEDS = (101, 102, 103)
_NOT_BEST = LevelResult("correctness", "not_run", ("another candidate is predicted better",))
BASELINE = "baseline"
FINAL = "final"


@dataclass(frozen=True)
class State:
    """The best program so far: its draft, what is known of it, and its trial in the ledger."""

    draft: Draft
    text: str
    examinations: Mapping[str, Examination]
    trial: Trial


@dataclass
class _Candidate:
    """A proposal while it is judged. `known`: its trial, where an earlier process judged it."""

    proposal: Proposal
    text: str
    examinations: Mapping[str, Examination]
    known: Trial | None
    seconds: float
    levels: list[LevelResult] = field(default_factory=list[LevelResult])

    def objections(self) -> list[str]:
        """Why it is not accepted: what refused it, and what could not be read of it."""
        return [
            f"{self.proposal.note}: {result.level}: {'; '.join(result.messages)}"
            for result in self.levels
            if result.status in ("refused", "not_read")
        ]


@dataclass(frozen=True)
class Result:
    """What a run came to. `improved`: the file is better than the baseline and was accepted."""

    baseline: State
    final: State
    improved: bool
    outcomes: tuple[StageOutcome, ...]
    final_check: LevelResult | None  # None: nothing changed, so there was nothing to check


class Optimizer:
    """One run of the pipeline.

    Args:
        stages: in a legal order.
        ledger: of this run; may hold the trials of an earlier, interrupted process.
        say: told about progress.
    """

    def __init__(
        self,
        judge: Judge,
        stages: Sequence[Stage],
        ledger: Ledger,
        say: Say,
    ) -> None:
        self._judge = judge
        self._session = judge.session
        self._stages = stages
        self._ledger = ledger
        self._say = say
        self._proposer = RulesProposer(Probes(judge.session, judge.problem).launches)
        self._baseline: Baseline | None = None
        self._ranked: dict[str, tuple[Variant, ...]] = {}

    def run(self) -> Result:
        """Runs all stages.

        Raises:
            InputKernelError: the kernel that was given does not lower, launch or compute.
        """
        state = baseline = self._start()
        outcomes: list[StageOutcome] = []
        for position, stage in enumerate(self._stages):
            outcome, state = self._stage(stage, position, state)
            self._ledger.set_stage(outcome)
            outcomes.append(outcome)
            self._say(f"{stage.name}: {outcome.status}: {outcome.reason}")
        improved = state is not baseline
        final_check = self._final_check(state) if improved else None
        if final_check is not None and final_check.status != "passed":
            improved, state = False, baseline
        self._ledger.finish()
        return Result(baseline, state, improved, tuple(outcomes), final_check)

    def _start(self) -> State:
        started = time.monotonic()
        self._baseline = known = self._judge.baseline()
        source = self._judge.problem.source
        trial = Trial(
            stage=BASELINE,
            proposer="user",
            note="as given",
            source=text_digest(source),
            verdict=verdict([LevelResult("lowering", "passed"), known.correctness]).to_json(),
            accepted=True,
        )
        kept = self._keep(trial, source, known.examinations, time.monotonic() - started)
        draft = Draft(self._judge.kernel_file, self._session.device.kind)
        return State(draft, source, known.examinations, kept)

    # -- one stage ----------------------------------------------------------------------------

    def _stage(self, stage: Stage, position: int, state: State) -> tuple[StageOutcome, State]:
        situation = Situation(state.draft, state.examinations, self._session.device)
        kinds = {finding.kind for finding in situation.findings}

        def outcome(status: str, reason: str, trial: int | None = None) -> StageOutcome:
            return StageOutcome(stage.name, position, status, reason, trial)

        if stage.name == "analysis":
            return outcome("done", f"found {', '.join(sorted(kinds)) or 'nothing'}"), state
        if not stage.applies(kinds):
            return outcome("skipped", f"no finding of {', '.join(stage.triggers)}"), state
        if not self._proposer.knows(stage.name):
            return outcome("skipped", "no deterministic rewrite; needs a model"), state
        reasons: list[str] = []
        notes: list[str] = []
        start = state
        for ask in self._proposer.rounds(stage.name, situation):
            now = Situation(state.draft, state.examinations, self._session.device, self._ranked)
            answers = list(ask(now))
            reasons += [str(answer) for answer in answers if isinstance(answer, NoProposal)]
            proposals = [answer for answer in answers if isinstance(answer, Proposal)]
            if proposals:
                accepted, refusals = self._judged(stage, proposals, state)
                reasons += refusals
                if accepted is not None:
                    state = accepted
                    notes.append(accepted.trial.note)
        if state is not start:
            return outcome("improved", "; then ".join(notes), state.trial.id), state
        status = "refused" if self._ledger_has(stage) else "no proposal"
        return outcome(status, _first(list(dict.fromkeys(reasons)))), state

    def _ledger_has(self, stage: Stage) -> bool:
        return any(trial.stage == stage.name for trial in self._ledger.trials())

    def _judged(
        self, stage: Stage, proposals: Sequence[Proposal], before: State
    ) -> tuple[State | None, list[str]]:
        """The best predicted proposal that every level accepts, and why others were refused."""
        by_text, unfit = _rendered(proposals)
        candidates = self._lowered(stage, by_text, before)
        standing: list[_Candidate] = []
        for candidate in candidates:
            candidate.levels += self._judge.static_levels(
                candidate.text,
                before.examinations,
                candidate.examinations,
                promises=stage.promises.on(self._session.device.kind),
                must_improve=stage.improves,
            )
            if all(result.status == "passed" for result in candidate.levels):
                standing.append(candidate)
            else:
                self._record(stage, candidate, before)
        standing.sort(key=lambda candidate: _rank(candidate.examinations))
        self._remember([candidate.proposal for candidate in standing])
        best: State | None = None
        for candidate in standing:
            result = _NOT_BEST if best else self._results_of(stage, candidate)
            candidate.levels.append(result)
            trial = self._record(stage, candidate, before)
            if result.status == "passed":
                proposal = candidate.proposal
                best = State(proposal.draft, candidate.text, candidate.examinations, trial)
        return best, [*unfit, *(t for candidate in candidates for t in candidate.objections())]

    def _lowered(
        self, stage: Stage, by_text: Mapping[str, Proposal], before: State
    ) -> list[_Candidate]:
        """The proposals, each lowered at every shape."""
        if not by_text:
            return []
        texts = list(by_text)
        self._say(f"{stage.name}: lowering {len(texts)} candidate{'s' * (len(texts) > 1)}")
        started = time.monotonic()
        lowered = self._session.examine(self._judge.problem, texts)
        share = (time.monotonic() - started) / len(texts)
        return [
            _Candidate(
                proposal=by_text[text],
                text=text,
                examinations=examinations,
                known=self._ledger.find(stage.name, text_digest(text), before.trial.id),
                seconds=share,
            )
            for text, examinations in zip(texts, lowered, strict=True)
        ]

    def _results_of(self, stage: Stage, candidate: _Candidate) -> LevelResult:
        """The level "correctness": from the ledger where an earlier process has judged it."""
        if candidate.known is not None:
            seen = Verdict.from_json(candidate.known.verdict).level("correctness")
            if seen is not None and seen.status != "not_run":
                return seen
        self._say(f"{stage.name}: checking the results of '{candidate.proposal.note}'")
        started = time.monotonic()
        result = self._correctness(candidate.text)
        candidate.seconds += time.monotonic() - started
        return result

    def _record(self, stage: Stage, candidate: _Candidate, before: State) -> Trial:
        judged = verdict(candidate.levels)
        trial = Trial(
            stage=stage.name,
            proposer=self._proposer.name,
            note=candidate.proposal.note,
            source=text_digest(candidate.text),
            verdict=judged.to_json(),
            accepted=judged.accepted,
            parent=before.trial.id,
        )
        return self._keep(trial, candidate.text, candidate.examinations, candidate.seconds)

    def _remember(self, proposals: Sequence[Proposal]) -> None:
        """Keeps the variants of a search in their order, for the stage that tunes."""
        for kernel in {p.kernel for p in proposals if p.kernel is not None}:
            self._ranked[kernel] = tuple(
                p.draft.variants[kernel] for p in proposals if p.kernel == kernel
            )

    # -- the end ------------------------------------------------------------------------------

    def _final_check(self, state: State) -> LevelResult:
        """The final file against the original reference, with inputs no candidate has met."""
        self._say("checking the final file with new seeds")
        started = time.monotonic()
        result = self._correctness(state.text, FINAL_SEEDS, unseen=True)
        trial = Trial(
            stage=FINAL,
            proposer="xesmith",
            note="the final file, end to end",
            source=text_digest(state.text),
            verdict=verdict([result]).to_json(),
            accepted=result.status == "passed",
            parent=state.trial.id,
        )
        self._keep(trial, state.text, state.examinations, time.monotonic() - started)
        return result

    def _correctness(
        self, text: str, seeds: Sequence[int] = DEFAULT_SEEDS, *, unseen: bool = False
    ) -> LevelResult:
        assert self._baseline is not None
        return self._judge.correctness(text, self._baseline, seeds, unseen=unseen)

    # -- the ledger ---------------------------------------------------------------------------

    def _keep(
        self,
        trial: Trial,
        text: str,
        examinations: Mapping[str, Examination],
        wall_seconds: float,
    ) -> Trial:
        if (known := self._ledger.find(trial.stage, trial.source, trial.parent)) is not None:
            return known
        evidence = {
            name: {
                "evidence": [e.model_dump(mode="json") for e in item.evidence],
                "findings": [f.model_dump(mode="json") for f in item.findings],
            }
            for name, item in examinations.items()
        }
        return self._ledger.add(
            replace(
                trial,
                summary={name: summary(item) for name, item in examinations.items()},
                lowered_hash=lowered_hash(examinations),
                predicted_seconds=predicted_seconds(examinations),
                wall_seconds=wall_seconds,
            ),
            source_text=text,
            evidence_json=json.dumps(evidence, sort_keys=True),
        )


def _rendered(proposals: Sequence[Proposal]) -> tuple[dict[str, Proposal], list[str]]:
    """The distinct proposals by their file's text, and why others give no file.

    A launch plan may not fit a file (a name is taken, a wrapper launches in a way that cannot
    be rebound): that is the proposal's end, not the run's.
    """
    by_text: dict[str, Proposal] = {}
    unfit: list[str] = []
    for proposal in proposals:
        try:
            by_text.setdefault(proposal.draft.text, proposal)
        except PlanError as error:
            unfit.append(f"{proposal.note}: no launch plan: {error.what} ({error.where})")
    return by_text, unfit


def summary(item: Examination) -> dict[str, Any]:
    """The contract names' values of one shape, for reports."""
    return dict(ProgramEvidence.of(item.evidence).values) if item.evidence else {}


def _rank(examinations: Mapping[str, Examination]) -> tuple[Any, ...]:
    seconds = predicted_seconds(examinations)
    keys = sorted(
        (order_key(e) for item in examinations.values() for e in item.evidence), reverse=True
    )
    return (seconds is None, seconds or 0.0, keys)


def _first(reasons: Sequence[str]) -> str:
    if not reasons:
        return "no candidate was accepted"
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more
