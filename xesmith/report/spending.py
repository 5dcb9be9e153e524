"""What models cost in a run: per stage, and per accepted win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xesmith.ledger import Exchange, Lost, Trial


@dataclass(frozen=True)
class Spending:
    """Of one stage, or of the run (`stage` is "all").

    without_candidate: answers that held none. unanswered: requests that got no reply; what
    they cost all the same is counted. accepted: candidates of models that were accepted.
    cost_usd: None where the price of an exchange is not known.
    """

    stage: str
    answers: int
    without_candidate: int
    unanswered: int
    prompt_tokens: int
    completion_tokens: int
    estimated: bool  # some of the tokens are
    cost_usd: float | None
    seconds: float
    accepted: int

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens_per_win(self) -> float | None:
        return self.tokens / self.accepted if self.accepted else None


def spending(
    exchanges: Sequence[Exchange], lost: Sequence[Lost], trials: Sequence[Trial]
) -> tuple[Spending, ...]:
    """One per stage that asked a model, in their order, then the run's; empty without a model."""
    stages = list(dict.fromkeys(item.stage for item in (*exchanges, *lost)))
    if not stages:
        return ()
    rows = [
        _of(
            stage,
            [e for e in exchanges if e.stage == stage],
            [item for item in lost if item.stage == stage],
            trials,
        )
        for stage in stages
    ]
    return (*rows, _of("all", exchanges, lost, trials))


def _of(
    stage: str, exchanges: Sequence[Exchange], lost: Sequence[Lost], trials: Sequence[Trial]
) -> Spending:
    ids = {exchange.id for exchange in exchanges}
    usages = [
        *(e.reply.usage for e in exchanges),
        *(item.usage for item in lost if item.usage.tokens),
    ]
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return Spending(
        stage=stage,
        answers=len(exchanges),
        without_candidate=sum(exchange.fault is not None for exchange in exchanges),
        unanswered=len(lost),
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        estimated=any(usage.estimated for usage in usages),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        seconds=sum(e.reply.seconds for e in exchanges) + sum(item.seconds for item in lost),
        accepted=sum(trial.accepted and trial.exchange in ids for trial in trials),
    )
