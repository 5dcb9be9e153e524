"""From proposals to trials: the cascade over the proposals of a stage, each verdict kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xesmith.cascade.correctness import DEFAULT_SEEDS
from xesmith.cascade.examine import Examination
from xesmith.cascade.performance import predicted_seconds
from xesmith.cascade.record import LevelResult, Verdict
from xesmith.cost import order_key
from xesmith.engine.judge import Baseline, Judge, Say, verdict
from xesmith.engine.state import State
from xesmith.engine.trials import keep_trial
from xesmith.launch_plan import PlanError
from xesmith.ledger import Ledger, Trial, text_digest
from xesmith.pass_plan import NO_PASSES, PassPlan
from xesmith.stage_contract import Stage
from xesmith.stages.proposers.judged import Judged
from xesmith.stages.proposers.record import Proposal

#: a file's text, and the text of the plan of passes beside it
_Key = tuple[str, str]

_NOT_BEST = LevelResult("correctness", "not_run", ("another candidate is predicted better",))
_RACED_SLOWER = LevelResult("correctness", "not_run", ("another candidate was faster in a race",))


@dataclass
class _Candidate:
    """A proposal while it is judged. `known`: its trial, where it was judged before."""

    proposal: Proposal
    text: str
    known: Trial | None
    levels: list[LevelResult]
    examinations: Mapping[str, Examination] = field(default_factory=dict[str, Examination])
    seconds: float = 0.0

    @property
    def passes(self) -> PassPlan:
        return self.proposal.draft.passes

    @property
    def stands(self) -> bool:
        return all(result.status == "passed" for result in self.levels)


class Candidates:
    """Judges the proposals of a run and keeps a trial of each.

    Args:
        ledger: of this run; what an earlier, interrupted process judged is taken from it.
        say: told about progress.
    """

    def __init__(self, judge: Judge, baseline: Baseline, ledger: Ledger, say: Say) -> None:
        self._judge = judge
        self._baseline = baseline
        self._ledger = ledger
        self._say = say

    def judge(
        self, stage: Stage, proposer: str, proposals: Sequence[Proposal], before: State
    ) -> tuple[list[Judged], list[str]]:
        """Every proposal with its verdict, and why others gave no file.

        The one that is predicted best and passes every level is accepted, one at most. Nothing of
        a candidate is lowered or run before its text is known to be a kernel's.
        """
        distinct, unfit = _rendered(proposals)
        candidates = [self._begun(stage, key[0], p, before) for key, p in distinct.items()]
        # The timer runs sources, and knows nothing of passes.
        passes = before.draft.passes or any(c.passes for c in candidates)
        measured = self._judge.measures and not passes
        begun = [c for c in candidates if c.stands]
        self._lower(stage, begun, before, predict=not measured)
        standing = sorted((c for c in candidates if c.stands), key=lambda c: rank(c.examinations))
        raced = measured and len(standing) > 1
        if raced:
            self._race(stage, standing, before)
        skipped: LevelResult | None = None
        for candidate in standing:
            result = skipped or self._results_of(stage, candidate, on_device=measured)
            candidate.levels.append(result)
            if result.status != "passed":
                continue
            if measured:
                candidate.levels.append(self._timed(stage, candidate, before))
            if raced:  # those that come after it were slower
                skipped = _RACED_SLOWER
            elif candidate.stands:
                skipped = _NOT_BEST
        verdicts = [self._judged(stage, proposer, c, before) for c in candidates]
        judged = dict(zip(distinct, verdicts, strict=True))
        return [judged[key] for p in proposals if (key := _key(p)) is not None], unfit

    def _begun(self, stage: Stage, text: str, proposal: Proposal, before: State) -> _Candidate:
        digest, passes = text_digest(text), proposal.draft.passes.to_text()
        known = self._ledger.find(stage.name, digest, before.trial.id, passes)
        return _Candidate(proposal, text, known, [self._judge.syntax(text)])

    def _lower(
        self, stage: Stage, candidates: Sequence[_Candidate], before: State, *, predict: bool
    ) -> None:
        """Lowers the candidates at every shape and judges what came of it."""
        if not candidates:
            return
        session, count = self._judge.session, len(candidates)
        self._say(f"{stage.name}: lowering {count} candidate{'s' * (count > 1)}")
        started = time.monotonic()
        lowered = session.examine(
            self._judge.problem, [c.text for c in candidates], [c.passes for c in candidates]
        )
        share = (time.monotonic() - started) / count
        for candidate, examinations in zip(candidates, lowered, strict=True):
            candidate.examinations = examinations
            candidate.seconds = share
            candidate.levels += self._judge.lowered_levels(
                before.examinations,
                examinations,
                promises=stage.conditions(session.device.kind),
                must_improve=stage.improves,
                predict=predict,
            )

    def _race(self, stage: Stage, standing: list[_Candidate], before: State) -> None:
        """Puts the fastest first, as a short race on the device tells."""
        if any(c.known is not None and c.known.accepted for c in standing):  # in a run cut short
            standing.sort(key=lambda c: c.known is None or not c.known.accepted)
            return
        self._say(f"{stage.name}: racing {len(standing)} candidates")
        seconds = self._judge.race([c.text for c in standing], before.text)
        times = {id(c): s for c, s in zip(standing, seconds, strict=True)}
        standing.sort(key=lambda c: times[id(c)])

    def _timed(self, stage: Stage, candidate: _Candidate, before: State) -> LevelResult:
        """The level "performance" as measured: from the ledger where it was before."""
        if candidate.known is not None:
            seen = Verdict.from_json(candidate.known.verdict).level("performance")
            if seen is not None and seen.facts.get("measured"):
                return seen
        started = time.monotonic()
        result = self._judge.performance(candidate.text, before.text, must_improve=stage.improves)
        candidate.seconds += time.monotonic() - started
        return result

    def _results_of(self, stage: Stage, candidate: _Candidate, *, on_device: bool) -> LevelResult:
        """The level "correctness": from the ledger where the candidate was judged before."""
        if candidate.known is not None:
            seen = Verdict.from_json(candidate.known.verdict).level("correctness")
            # What passed where the device was not at hand is asked again where it is.
            passed_elsewhere = on_device and seen is not None and "device" not in seen.facts
            if (
                seen is not None
                and seen.status != "not_run"
                and not (seen.status == "passed" and passed_elsewhere)
            ):
                return seen
        self._say(f"{stage.name}: checking the results of '{candidate.proposal.note}'")
        started = time.monotonic()
        result = self.results(
            candidate.text, candidate.examinations, on_device=on_device, passes=candidate.passes
        )
        candidate.seconds += time.monotonic() - started
        return result

    def results(
        self,
        text: str,
        examinations: Mapping[str, Examination],
        seeds: Sequence[int] = DEFAULT_SEEDS,
        *,
        on_device: bool = False,
        wide: bool = False,
        passes: PassPlan = NO_PASSES,
    ) -> LevelResult:
        """The level "correctness" of a text, asked anew.

        Args:
            examinations: of the text.
            on_device: also on the device at hand.
            wide: also where all sizes but one are the real ones.
        """
        result = self._judge.correctness(
            text, self._baseline, seeds, examinations=examinations, wide=wide, passes=passes
        )
        if on_device and result.status == "passed":
            result = self._judge.also_on_device(text, self._baseline, result)
        return result

    def _judged(self, stage: Stage, proposer: str, candidate: _Candidate, before: State) -> Judged:
        judged = verdict(candidate.levels)
        request = candidate.proposal.request
        exchange = None if request is None else self._ledger.find_exchange(proposer, request)
        trial = Trial(
            stage=stage.name,
            proposer=proposer,
            note=candidate.proposal.note,
            source=text_digest(candidate.text),
            passes=candidate.passes.to_text(),
            verdict=judged.to_json(),
            accepted=judged.accepted,
            parent=before.trial.id,
            exchange=None if exchange is None else exchange.id,
        )
        trial = replace(trial, wall_seconds=candidate.seconds)
        kept = keep_trial(self._ledger, trial, candidate.text, candidate.examinations)
        return Judged(candidate.proposal, judged, candidate.examinations, kept)


def _key(proposal: Proposal) -> _Key | None:
    """What tells the proposal's candidate from others; None where its launch plan does not fit
    the file (a name is taken, a wrapper launches in a way that cannot be rebound): the proposal's
    end, not the run's."""
    try:
        return proposal.draft.text, proposal.draft.passes.to_text()
    except PlanError:
        return None


def _rendered(proposals: Sequence[Proposal]) -> tuple[dict[_Key, Proposal], list[str]]:
    """The distinct proposals by text and passes, and why others give no file."""
    distinct: dict[_Key, Proposal] = {}
    unfit: list[str] = []
    for proposal in proposals:
        try:
            key = proposal.draft.text, proposal.draft.passes.to_text()
        except PlanError as error:
            unfit.append(f"{proposal.note}: no launch plan: {error.what} ({error.where})")
        else:
            distinct.setdefault(key, proposal)
    return distinct, unfit


def rank(examinations: Mapping[str, Examination]) -> tuple[Any, ...]:
    """Sorts programs, the predicted best first."""
    seconds = predicted_seconds(examinations)
    keys = sorted(
        (order_key(e) for item in examinations.values() for e in item.evidence), reverse=True
    )
    return (seconds is None, seconds or 0.0, keys)
