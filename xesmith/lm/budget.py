"""What a run may spend on models: tokens, money, seconds of waiting for replies.

Asked before every request, so that a limit is never passed by more than an endpoint's own
miscount. Reported spending counts after the fact; estimates stand in where nothing is reported.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from xesmith.errors import UsageError
from xesmith.lm.record import BudgetSpentError, Request, Usage
from xesmith.tokens import estimate_tokens

#: tokens that an endpoint adds to a message for its role and ends
_TOKENS_PER_MESSAGE = 4
#: a reply of fewer tokens cannot hold a kernel; a request that leaves fewer is not made
MIN_REPLY_TOKENS = 256


def estimate_prompt_tokens(request: Request) -> int:
    return sum(estimate_tokens(m.content) + _TOKENS_PER_MESSAGE for m in request.messages)


@dataclass(frozen=True)
class Limits:
    """Of one run; None is no limit."""

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None  # of waiting for the model, not of the run


@dataclass(frozen=True)
class Spent:
    """What exchanges have cost. `usd` counts those alone whose price is known."""

    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def plus(self, usage: Usage, seconds: float) -> Spent:
        return Spent(
            self.tokens + usage.tokens,
            self.usd + (usage.cost_usd or 0.0),
            self.seconds + seconds,
        )


@dataclass(frozen=True)
class Price:
    """In US dollars for one token."""

    prompt_usd: float
    completion_usd: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return prompt_tokens * self.prompt_usd + completion_tokens * self.completion_usd


@dataclass(frozen=True)
class Allowance:
    """What one request may take; None is no limit of the budget's."""

    reply_tokens: int | None
    seconds: float | None


class Budget:
    """The limits of a run and what has been spent of them.

    Args:
        limits: of the run, all its processes together.
        spent: by earlier processes of the same run.
    """

    def __init__(self, limits: Limits, spent: Spent | None = None) -> None:
        self.limits = limits
        self._spent = spent or Spent()
        self._lock = threading.Lock()

    @property
    def spent(self) -> Spent:
        return self._spent

    def admit(self, request: Request, price: Price | None) -> Allowance:
        """What the request may take of what is left.

        Raises:
            BudgetSpentError: the prompt and a reply of MIN_REPLY_TOKENS do not fit any more.
            UsageError: there is a limit of money and no price of the model.
        """
        limits, spent = self.limits, self._spent
        prompt = estimate_prompt_tokens(request)
        replies: list[int] = []
        if limits.tokens is not None:
            left = limits.tokens - spent.tokens - prompt
            if left < MIN_REPLY_TOKENS:
                needed = f"about {prompt + MIN_REPLY_TOKENS} tokens"
                raise _spent_error(
                    f"{spent.tokens} of {limits.tokens} tokens", needed, "--budget-tokens", request
                )
            replies.append(left)
        if limits.usd is not None:
            if price is None:
                raise UsageError(
                    "a limit of money needs the model's price, which is not known",
                    where="--budget-usd",
                    remedy="limit tokens instead: --budget-tokens N",
                )
            needed_usd = price.of(prompt, MIN_REPLY_TOKENS)
            if spent.usd + needed_usd > limits.usd or spent.usd >= limits.usd:
                raise _spent_error(
                    f"{spent.usd:.4f} of {limits.usd:.4f} US dollars",
                    f"about {needed_usd:.4f} US dollars",
                    "--budget-usd",
                    request,
                )
            if price.completion_usd > 0:
                left_usd = limits.usd - spent.usd - price.of(prompt, 0)
                replies.append(int(left_usd / price.completion_usd))
        seconds: float | None = None
        if limits.seconds is not None:
            seconds = limits.seconds - spent.seconds
            if seconds <= 0:
                raise _spent_error(
                    f"{spent.seconds:.0f} of {limits.seconds:.0f} seconds of waiting for the model",
                    "more",
                    "--budget-seconds",
                    request,
                )
        return Allowance(min(replies, default=None), seconds)

    def charge(self, usage: Usage, seconds: float) -> None:
        """Counts what an exchange took, whether or not it gave a reply."""
        with self._lock:
            self._spent = self._spent.plus(usage, seconds)


def _spent_error(spent: str, needed: str, flag: str, request: Request) -> BudgetSpentError:
    return BudgetSpentError(
        f"the model budget is spent: {spent} used, and the next request needs {needed}",
        where=f"request {request.label}",
        remedy=f"the best so far stands; go on with --resume and a higher {flag}",
    )
