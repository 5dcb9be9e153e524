"""A model in a run, reached through a channel: an endpoint, a folder or a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from xesmith.engine.candidates import Candidates
from xesmith.engine.judge import Judge, Say
from xesmith.engine.state import Attempt, State
from xesmith.knowledge import Knowledge
from xesmith.ledger import Ledger, Lost
from xesmith.lm.record import Channel, ModelError, NoReplyYetError, Reply, Request
from xesmith.stage_contract import Stage
from xesmith.stages.proposers.judged import Judged
from xesmith.stages.proposers.record import Proposal

if TYPE_CHECKING:
    from xesmith.stages.cover.module import Outcome

#: room for knowledge entries in a request; entries are never cut
_KNOWLEDGE_TOKENS = 2000
#: stages in a row at which the model was away, after which the run goes on without it
_GIVE_UP_AFTER = 2


@dataclass(frozen=True)
class ModelOptions:
    """How a model is asked.

    iterations: most tries per stage; None: as the stage says.
    samples: answers per try, the best of which is kept.
    withheld: keeps the compiler's facts from the model, to learn what they are worth.
    """

    iterations: int | None = None
    samples: int = 1
    withheld: bool = False


class LedgerChannel:
    """Answers from the ledger what was asked before; keeps what is asked anew."""

    def __init__(self, inner: Channel, ledger: Ledger, stage: str, say: Say) -> None:
        self._inner = inner
        self._ledger = ledger
        self._stage = stage
        self._say = say

    @property
    def name(self) -> str:
        return self._inner.name

    def ask(self, request: Request) -> Reply:
        known = self._ledger.find_exchange(self.name, request.digest)
        if known is not None:
            return known.reply
        self._say(f"{self._stage}: asking {self.name} ({request.label})")
        try:
            reply = self._inner.ask(request)
        except ModelError as error:
            if error.usage is not None:  # None: nothing was sent
                cost = error.usage, error.seconds
                self._ledger.add_lost(
                    Lost(self.name, self._stage, request.label, error.what, *cost)
                )
            raise
        # Lone surrogates have no UTF-8: no file could hold them.
        text = reply.text.encode("utf-8", "replace").decode()
        reply = replace(reply, text=text)
        return self._ledger.add_exchange(self.name, self._stage, request, reply).reply


class ModelAtWork:
    """Generate, judge, refine (`stages.cover`) at each stage."""

    goes_with_others = False

    def __init__(
        self,
        channel: Channel,
        judge: Judge,
        candidates: Candidates,
        ledger: Ledger,
        knowledge: Knowledge,
        options: ModelOptions,
        say: Say,
    ) -> None:
        self._channel = channel
        self._judge = judge
        self._candidates = candidates
        self._ledger = ledger
        self._knowledge = knowledge
        self._options = options
        self._say = say
        self._silent: str | None = None  # why it is not asked any more
        self._away = 0

    @property
    def name(self) -> str:
        return self._channel.name

    def knows(self, stage: Stage) -> str | None:
        if self._silent is not None:
            return self._silent
        return None if self._iterations(stage) else "the stage allows no iteration"

    def _iterations(self, stage: Stage) -> int:
        asked = self._options.iterations
        return stage.iterations if asked is None else min(asked, stage.iterations)

    def work(self, stage: Stage, state: State) -> Attempt:
        from xesmith.stages.cover.brief import make_brief, shown_names
        from xesmith.stages.cover.module import Cover

        session, options = self._judge.session, self._options
        device, toolchain = session.device, session.toolchain
        situation = state.situation(device)
        kinds = {finding.kind for finding in situation.findings}
        chosen = self._knowledge.choose(
            stage,
            kinds,
            _KNOWLEDGE_TOKENS,
            device=device.name,
            kind=device.kind,
            distribution=toolchain.triton_distribution,
            version=toolchain.triton_version,
        )
        if chosen.left_out:
            count = len(chosen.left_out)
            self._say(f"{stage.name}: no room for {count} of the knowledge entries")
        brief = make_brief(
            stage, situation, self._judge.problem.shapes, chosen, withheld=options.withheld
        )

        def judge(proposals: Sequence[Proposal]) -> list[Judged]:
            judged, _ = self._candidates.judge(stage, self.name, proposals, state)
            return judged

        cover = Cover(
            LedgerChannel(self._channel, self._ledger, stage.name, self._say),
            samples=options.samples,
        )
        try:
            outcome: Outcome = cover(
                stage=stage.name,
                iterations=self._iterations(stage),
                brief=brief,
                names=shown_names(stage, device),
                situation=situation,
                judge=judge,
                on_fault=partial(self._ledger.set_fault, self.name),
            ).outcome
        except NoReplyYetError:
            if self.name != "replay" or self._was_asked(stage):
                raise
            return Attempt(state, reasons=("the recording holds no reply for this stage",))
        return self._attempt(outcome, state)

    def _was_asked(self, stage: Stage) -> bool:
        held = self._ledger.exchanges()
        return any(e.channel == self.name and e.stage == stage.name for e in held)

    def _attempt(self, outcome: Outcome, state: State) -> Attempt:
        away = outcome.ending in ("unavailable", "refused")
        self._away = self._away + 1 if away else 0
        if outcome.ending == "out of budget":
            self._silent = outcome.reason
        elif self._away >= _GIVE_UP_AFTER:
            self._silent = f"the model was away {self._away} times: {outcome.reason}"
        judged = any(attempt.judged is not None for attempt in outcome.tries)
        if (best := outcome.accepted) is not None:
            draft = best.proposal.draft
            state = State(draft, draft.text, best.examinations, best.trial)
            return Attempt(state, (best.proposal.note,), (), judged)
        asked = len(outcome.tries)
        reason = f"{self.name}: {outcome.ending} after {asked} answer{'s' * (asked != 1)}"
        return Attempt(state, (), (f"{reason}: {outcome.reason}",), judged, failed=away)
