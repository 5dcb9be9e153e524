"""Budgets and rates: what a request may take, and when none is made any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.lm.budget import (
    MIN_REPLY_TOKENS,
    Allowance,
    Budget,
    Limits,
    Price,
    Spent,
    estimate_prompt_tokens,
)
from xesmith.lm.endpoint import EndpointChannel
from xesmith.lm.rate import RateLimiter
from xesmith.lm.record import BudgetSpentError, Message, ModelUnavailableError, Request, Usage
from xesmith.lm.settings import LmSettings
from xesmith.lm.stand_in import Fault, StandIn

ASKED = Request("a-1", (Message("user", "x" * 300),))  # 100 + 4 tokens


def test_a_prompt_counts_its_messages_and_their_roles() -> None:
    assert estimate_prompt_tokens(ASKED) == 104


def test_without_limits_all_is_allowed() -> None:
    assert Budget(Limits(), Spent(10**9, 1e6, 1e6)).admit(ASKED, None) == Allowance(None, None)


def test_the_reply_may_take_what_is_left_of_the_tokens() -> None:
    budget = Budget(Limits(tokens=1000))
    assert budget.admit(ASKED, None).reply_tokens == 896
    budget.charge(Usage(100, 400), 1.5)
    assert budget.admit(ASKED, None).reply_tokens == 396
    assert budget.spent == Spent(500, 0.0, 1.5)


@pytest.mark.parametrize(("spent", "allowed"), [(640, True), (641, False)])
def test_a_prompt_and_a_least_reply_must_fit(spent: int, allowed: bool) -> None:
    budget = Budget(Limits(tokens=1000), Spent(tokens=spent))
    if allowed:
        assert budget.admit(ASKED, None).reply_tokens == MIN_REPLY_TOKENS
        return
    with pytest.raises(BudgetSpentError, match="641 of 1000 tokens used") as told:
        budget.admit(ASKED, None)
    assert "--budget-tokens" in str(told.value.remedy)
    assert told.value.where == "request a-1"


def test_money_limits_the_reply_by_the_price() -> None:
    price = Price(1e-6, 10e-6)
    budget = Budget(Limits(usd=0.01), Spent(usd=0.002))
    assert budget.admit(ASKED, price).reply_tokens == 789  # (0.008 - 104e-6) / 10e-6
    with pytest.raises(BudgetSpentError, match=r"0\.0080 of 0\.0100 US dollars used"):
        Budget(Limits(usd=0.01), Spent(usd=0.008)).admit(ASKED, price)


def test_money_without_a_price_is_refused() -> None:
    with pytest.raises(UsageError, match="price"):
        Budget(Limits(usd=1.0)).admit(ASKED, None)


def test_a_model_that_costs_nothing_is_not_limited_by_money() -> None:
    assert Budget(Limits(usd=1.0)).admit(ASKED, Price(0.0, 0.0)).reply_tokens is None


def test_seconds_limit_the_exchange() -> None:
    assert Budget(Limits(seconds=60), Spent(seconds=45)).admit(ASKED, None).seconds == 15
    with pytest.raises(BudgetSpentError, match="60 of 60 seconds"):
        Budget(Limits(seconds=60), Spent(seconds=60)).admit(ASKED, None)


def test_the_endpoint_is_asked_for_no_more_than_is_left(
    recording: Path, channel: Callable[..., EndpointChannel], request_: Request
) -> None:
    with StandIn([recording]) as server:
        lm = channel(server, budget_tokens=400)
        for _ in range(4):
            lm.ask(request_)
        with pytest.raises(BudgetSpentError, match="140 of 400"):
            lm.ask(request_)
    asked = [served.max_tokens for served in server.requests]
    # 25 tokens of prompt are estimated; the stand-in counts 17, and 18 of reply
    assert asked == [375, 340, 305, 270]
    assert lm.budget.spent.tokens == 140


def test_what_an_earlier_process_spent_counts(recording: Path, request_: Request, key: str) -> None:
    with StandIn([recording]) as server:
        settings = LmSettings(model="openai/stand-in", base_url=server.url, key=key)
        budget = Budget(Limits(tokens=1000), Spent(tokens=990))
        with pytest.raises(BudgetSpentError, match="990 of 1000"):
            EndpointChannel(settings, budget=budget).ask(request_)
    assert server.requests == []


def test_the_seconds_left_end_an_exchange(
    recording: Path, channel: Callable[..., EndpointChannel], request_: Request
) -> None:
    with StandIn([recording], [Fault(hang_s=60)]) as server:
        lm = channel(server, budget_seconds=0.4)
        with pytest.raises(ModelUnavailableError):
            lm.ask(request_)
        with pytest.raises(BudgetSpentError):
            lm.ask(request_)
    assert lm.budget.spent.tokens == 25  # the prompt went out


def test_a_known_model_has_a_price(recording: Path, request_: Request, key: str) -> None:
    with StandIn([recording]) as server:
        settings = LmSettings(model="openai/gpt-4o", base_url=server.url, key=key)
        usage = EndpointChannel(settings).ask(request_).usage
    assert usage.cost_usd == pytest.approx(2.5e-6 * usage.prompt_tokens + 1e-5 * 18)


def test_requests_per_minute() -> None:
    rate = RateLimiter(2, None)
    for now in (0.0, 10.0):
        assert rate.delay_s(now, 1) == 0
        rate.note(now, 1)
    assert rate.delay_s(20.0, 1) == 40.0
    assert rate.delay_s(60.0, 1) == 0


def test_tokens_per_minute() -> None:
    rate = RateLimiter(None, 1000)
    rate.note(0.0, 600)
    rate.note(5.0, 300)
    assert rate.delay_s(10.0, 100) == 0
    assert rate.delay_s(10.0, 101) == 50.0
    assert rate.delay_s(10.0, 900) == 55.0


def test_a_request_that_no_minute_holds_waits_for_an_empty_one() -> None:
    rate = RateLimiter(None, 1000)
    assert rate.delay_s(0.0, 5000) == 0
    rate.note(0.0, 5000)
    assert rate.delay_s(1.0, 5000) == 59.0


def test_the_endpoint_keeps_to_the_rate(
    recording: Path, request_: Request, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xesmith.lm.rate.WINDOW_SECONDS", 0.3)
    said: list[str] = []
    with StandIn([recording], [Fault(status=500)]) as server:
        settings = LmSettings(
            model="openai/stand-in", base_url=server.url, key=key, requests_per_minute=1
        )
        reply = EndpointChannel(settings, say=said.append, pause_s=0.01).ask(request_)
    assert (reply.finish, len(server.requests)) == ("stop", 2)
    assert reply.seconds >= 0.29
    assert [line.split(";")[0] for line in said] == [
        "model: a fault of the stand-in's script",
        "model: waiting 0 s for the limit of requests or tokens per minute",
    ]
