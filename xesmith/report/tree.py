"""The trial tree: every candidate under the program that it set out from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xesmith.ledger import Exchange, Trial


@dataclass(frozen=True)
class Node:
    """A trial at its place. `tokens` of the exchange that it came from; None without a model."""

    trial: Trial
    depth: int
    fate: str  # "accepted", or what refused it and why
    tokens: int | None
    tokens_estimated: bool
    model_seconds: float | None

    @property
    def evidence(self) -> str:
        """The first digits of its evidence's digest."""
        return (self.trial.evidence or "")[:12]


def tree(trials: Sequence[Trial], exchanges: Sequence[Exchange]) -> tuple[Node, ...]:
    """The trials depth first, each parent before its children, these in the order judged."""
    children: dict[int | None, list[Trial]] = {}
    for trial in trials:
        children.setdefault(trial.parent, []).append(trial)
    by_id = {exchange.id: exchange for exchange in exchanges}
    return tuple(_below(None, 0, children, by_id))


def _below(
    parent: int | None,
    depth: int,
    children: Mapping[int | None, Sequence[Trial]],
    exchanges: Mapping[int | None, Exchange],
) -> Iterator[Node]:
    for trial in children.get(parent, ()):
        exchange = exchanges.get(trial.exchange) if trial.exchange is not None else None
        usage = None if exchange is None else exchange.reply.usage
        yield Node(
            trial=trial,
            depth=depth,
            fate="accepted" if trial.accepted else objection(trial.verdict),
            tokens=None if usage is None else usage.tokens,
            tokens_estimated=usage is not None and usage.estimated,
            model_seconds=None if exchange is None else exchange.reply.seconds,
        )
        yield from _below(trial.id, depth + 1, children, exchanges)


def objection(verdict: Mapping[str, Any]) -> str:
    """The level that refused, else one that was not read or not run, and what it said; else empty.

    The baseline and the final file are no candidates: levels that they lack say nothing.
    """
    for status, words in (("refused", ""), ("not_read", " not read"), ("not_run", " not run")):
        for level in verdict["levels"]:
            if level["status"] == status and (status != "not_run" or level["messages"]):
                return f"{level['level']}{words}: {'; '.join(level['messages'])}"
    return ""
