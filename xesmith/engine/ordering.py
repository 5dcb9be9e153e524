"""The order of a run's stages: by their contracts, or as a model proposes and these allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from xesmith.device import Device
from xesmith.engine.judge import Say
from xesmith.engine.model_at_work import LedgerChannel
from xesmith.engine.state import State
from xesmith.findings.record import KINDS
from xesmith.ledger import Ledger, StageOutcome
from xesmith.lm.record import (
    BudgetSpentError,
    Channel,
    Message,
    ModelUnavailableError,
    NoReplyYetError,
    Request,
    RequestRefusedError,
)
from xesmith.stage_contract import Stage
from xesmith.stages.planner import Plan, order_prompt, plan, read_order

#: what the ledger calls the planner's own outcome, and its request
PLANNER = "planner"


def ordered(stages: Mapping[str, Stage], wanted: Sequence[str] | None) -> list[Stage]:
    """All stages asked for, in the contracts' order. Which are skipped is decided at their turn,
    since an earlier stage may bring what calls for a later one.

    Raises:
        UsageError: an unknown name in `wanted`.
    """
    return [stages[name] for name in plan(stages, KINDS, wanted=wanted).order]


def ordered_by_model(
    stages: Mapping[str, Stage],
    wanted: Sequence[str] | None,
    state: State,
    device: Device,
    channel: Channel,
    ledger: Ledger,
    say: Say,
) -> list[Stage]:
    """The order that a model proposes for the stages that are pending, made legal.

    A model that is away or out of budget, and a recording that was made without, leave the
    contracts' order.
    """
    found = Counter(finding.kind for finding in state.situation(device).findings)
    pending = plan(stages, found, wanted=wanted).order
    request = Request(
        f"{PLANNER}-1-0",
        (Message("user", f"request: {PLANNER}-1-0\n\n{order_prompt(stages, pending, found)}"),),
    )
    if any(known.name == PLANNER and known.status == "failed" for known in ledger.stages()):
        return ordered(stages, wanted)  # as the process before this one went on
    asked = LedgerChannel(channel, ledger, PLANNER, say)
    try:
        proposed = read_order(asked.ask(request).text, stages)
    except (BudgetSpentError, ModelUnavailableError, RequestRefusedError, NoReplyYetError) as error:
        if isinstance(error, NoReplyYetError) and channel.name != "replay":
            raise
        ledger.set_stage(StageOutcome(PLANNER, -1, "failed", error.what))
        return ordered(stages, wanted)
    made = plan(stages, KINDS, wanted=wanted, proposed=proposed)
    outcome = StageOutcome(PLANNER, -1, "done", _told(made, channel.name))
    ledger.set_stage(outcome)
    say(f"{PLANNER}: {outcome.reason}")
    return [stages[name] for name in made.order]


def _told(made: Plan, who: str) -> str:
    if not made.proposed:
        return f"{who} proposed no order; {', '.join(made.order)}"
    parts = [f"{who} proposed {', '.join(made.proposed)}"]
    if made.dropped:
        told = ", ".join(f"{name} ({why})" for name, why in made.dropped.items())
        parts.append(f"left out {told}")
    if made.moved:
        told = ", ".join(f"{first} before {second}" for first, second in made.moved)
        parts.append(f"put by the contracts: {told}")
    return "; ".join([*parts, f"order {', '.join(made.order)}"])
