"""The channel `lm`: asks an endpoint over HTTP, whatever that endpoint does.

A reply is streamed, so that it can be cut: at a size, at a time, and by Ctrl-C. What may pass
(a timeout, a rate limit, a server's fault, a connection that breaks, a body that is no JSON) is
tried again with growing pauses; what will not is refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from xesmith.errors import XesmithError
from xesmith.lm import event_loop, files
from xesmith.lm import litellm_facade as facade
from xesmith.lm.budget import Budget, Price, estimate_prompt_tokens
from xesmith.lm.rate import RateLimiter
from xesmith.lm.record import (
    Finish,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    Reply,
    Request,
    RequestRefusedError,
    Usage,
)
from xesmith.lm.redact import Redactor
from xesmith.lm.settings import LmSettings
from xesmith.tokens import estimate_tokens

#: a server that is given to xesmith gets the key that is given to xesmith, never the key that
#: LiteLLM would find in OPENAI_API_KEY or the like
_NO_KEY = "none"
_PAUSE_SECONDS = 0.5  # before the first retry; doubled for each further one
_LONGEST_PAUSE_SECONDS = 30.0
_REFUSING_STATUSES = frozenset({400, 401, 402, 403, 404, 405, 413, 414, 415, 422})
#: of those, the ones that any other request would meet as well
_STATUSES_OF_US = frozenset({401, 402, 403, 404, 405})
_GRACE_SECONDS = 5.0  # for what is cancelled to end by itself
_MESSAGE_CHARACTERS = 400  # of an endpoint's own words in an error
#: how LiteLLM begins its messages: the names of the exceptions that it has caught
_EXCEPTION_NAMES = re.compile(r"^((litellm\.)?\w*(Error|Exception|Timeout)(:| -) *)+")
#: each token comes in an event of its own, of some 300 bytes
_WIRE_BYTES_PER_CHARACTER = 400
_WIRE_BYTES_MIN = 1_000_000


@dataclass
class _Received:
    """What one try has brought so far; what is cut off keeps it."""

    text: str = ""
    unseen_characters: int = 0
    finish: Finish | None = None
    usage: Usage | None = None

    @property
    def characters(self) -> int:
        return len(self.text) + self.unseen_characters


@dataclass
class _Fault(Exception):  # noqa: N818
    """A try that failed. `final`: no other will do better; `of_us`: nor another request."""

    what: str
    final: bool = False
    of_us: bool = False
    remedy: str | None = None
    retry_after_s: float | None = None


@dataclass
class _Exchange:
    """One request and its tries."""

    request: Request
    max_reply_tokens: int
    price: Price | None
    timeout_s: float
    ends: float  # monotonic
    tries: int = 0
    wasted: list[Usage] = field(default_factory=list[Usage])


class EndpointChannel:
    """Asks the model that the settings name.

    Args:
        settings: see LmSettings.
        budget: of the run; made from the settings where it is not given.
        redactor: of secrets; the key in use is always among them.
        say: told about each pause and retry, in one line.
        pause_s: the first of the growing pauses between tries, in seconds.
    """

    def __init__(
        self,
        settings: LmSettings,
        *,
        budget: Budget | None = None,
        redactor: Redactor | None = None,
        say: Callable[[str], None] | None = None,
        pause_s: float = _PAUSE_SECONDS,
    ) -> None:
        self._settings = settings
        self._key = settings.secret()
        self.budget = budget or Budget(settings.limits)
        self.redactor = redactor or Redactor([] if self._key is None else [self._key])
        self._say = say or _say_nothing
        self._pause_s = pause_s
        self._rate = RateLimiter(settings.requests_per_minute, settings.tokens_per_minute)

    @property
    def name(self) -> str:
        return "lm"

    @property
    def settings(self) -> LmSettings:
        return self._settings

    def ask(self, request: Request) -> Reply:
        """The model's reply, without secrets.

        Raises:
            ModelUnavailableError: no reply after all tries.
            RequestRefusedError: the endpoint refuses this request.
            ModelRefusedError: the endpoint refuses us.
            BudgetSpentError: the budget does not allow the request.
        """
        request = self.redactor.request(request)
        model = self._describe(request)
        allowed = self.budget.admit(request, model.price)
        limits = [self._settings.max_reply_tokens, allowed.reply_tokens, model.max_reply_tokens]
        max_reply_tokens = min(limit for limit in limits if limit is not None)
        seconds = self._settings.deadline_s
        if allowed.seconds is not None:
            seconds = min(seconds, allowed.seconds)
        start = time.monotonic()
        exchange = _Exchange(
            request,
            max_reply_tokens,
            model.price,
            min(self._settings.timeout_s, seconds),
            start + seconds,
        )
        usage, failed = Usage(0, 0), None
        received: _Received | None = None
        patience = seconds + self._rate.longest_s * (self._settings.retries + 1) + _GRACE_SECONDS
        try:
            received = event_loop.run(self._tries(exchange), patience)
            usage = _sum([*exchange.wasted, self._usage(exchange, received)])
        except TimeoutError:
            fault = _Fault(f"no reply within {seconds:.2g} seconds")
            usage, failed = _sum(exchange.wasted), self._error(request, fault, exchange.tries)
        except _Fault as fault:
            usage, failed = _sum(exchange.wasted), self._error(request, fault, exchange.tries)
        finally:
            took = time.monotonic() - start
            self.budget.charge(usage, took)
        if failed is not None:
            failed.usage, failed.seconds = usage, round(took, 3)
            raise failed
        assert received is not None
        text = self.redactor.text(files.storable(received.text))
        longest = self._settings.max_reply_characters
        finish = received.finish or "stop"
        if len(text) > longest:
            text, finish = text[:longest], "size"
        return Reply(text, self._settings.model, finish, usage, round(took, 3))

    def _describe(self, request: Request) -> facade.Model:
        try:
            return facade.describe(self._settings.model, self._settings.base_url)
        except XesmithError:
            raise
        except Exception as error:
            raise self._error(request, self._fault(error, None)) from None

    async def _keep_rate(self, exchange: _Exchange) -> None:
        """Waits until one more request fits the limits per minute; the deadline moves along."""
        tokens = estimate_prompt_tokens(exchange.request) + exchange.max_reply_tokens
        wait = self._rate.delay_s(time.monotonic(), tokens)
        if wait > 0:
            self._say(f"model: waiting {wait:.0f} s for the limit of requests or tokens per minute")
            exchange.ends += wait
            await asyncio.sleep(wait)
        self._rate.note(time.monotonic(), tokens)

    async def _tries(self, exchange: _Exchange) -> _Received:
        for number in range(self._settings.retries + 1):
            await self._keep_rate(exchange)
            try:
                return await self._try(exchange)
            except _Fault as fault:
                if fault.final or number == self._settings.retries:
                    raise
                pause = self._pause(exchange.request, number)
                if fault.retry_after_s is not None:
                    pause = max(pause, fault.retry_after_s)
                if time.monotonic() + pause >= exchange.ends:
                    raise
                self._say(f"model: {fault.what}; again in {pause:.1f} s")
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def _pause(self, request: Request, number: int) -> float:
        """Doubled with each try, and spread over half of it, differently for each request."""
        digest = hashlib.sha256(f"{request.label}/{number}".encode()).digest()
        spread = 0.75 + 0.5 * digest[0] / 255
        return min(self._pause_s * 2**number * spread, _LONGEST_PAUSE_SECONDS)

    async def _try(self, exchange: _Exchange) -> _Received:
        settings, received = self._settings, _Received()
        exchange.tries += 1
        wire = facade.Wire(
            _WIRE_BYTES_MIN + _WIRE_BYTES_PER_CHARACTER * settings.max_reply_characters
        )
        seconds = min(exchange.timeout_s, exchange.ends - time.monotonic())
        try:
            await asyncio.wait_for(self._receive(exchange, received, wire, seconds), seconds)
        except asyncio.TimeoutError:
            return self._at_end_of_time(exchange, received, seconds)
        except Exception as error:
            if wire.overrun and received.text:
                received.finish = "size"
                return received
            if received.characters:
                exchange.wasted.append(self._usage(exchange, received))
            if wire.overrun:
                raise _Fault("more bytes came than any reply needs") from None
            raise self._fault(error, wire) from None
        if received.finish is None:
            if received.characters:
                exchange.wasted.append(self._usage(exchange, received))
            raise _Fault("the reply broke off, or was none of the protocol's")
        return received

    def _at_end_of_time(
        self, exchange: _Exchange, received: _Received, seconds: float
    ) -> _Received:
        """What had come of a reply is kept: a further try would be as slow."""
        if received.text:
            received.finish = "time"
            return received
        exchange.wasted.append(self._usage(exchange, received))
        raise _Fault(f"no reply within {seconds:.2g} seconds")

    async def _receive(
        self, exchange: _Exchange, received: _Received, wire: facade.Wire, seconds: float
    ) -> None:
        settings = self._settings
        key = self._key
        if key is None and settings.base_url is not None:
            key = _NO_KEY
        temperature = exchange.request.temperature
        call = facade.Call(
            model=settings.model,
            messages=exchange.request.messages,
            base_url=settings.base_url,
            key=key,
            timeout_s=seconds + _GRACE_SECONDS,  # ours comes first, and keeps what there is
            temperature=settings.temperature if temperature is None else temperature,
            max_reply_tokens=exchange.max_reply_tokens,
        )
        # A secret that the cut would halve is to be seen whole.
        limit = settings.max_reply_characters + self.redactor.longest
        facade.WIRE.set(wire)
        ask = facade.chat if settings.api == "chat" else facade.responses
        async with aclosing(ask(call)) as parts:
            async for part in parts:
                received.text = received.text + part.text if part.whole is None else part.whole
                received.unseen_characters += part.unseen_characters
                if part.finish is not None:
                    received.finish, received.usage = part.finish, part.usage
                if received.characters > limit:
                    received.finish = "size"
                    return

    def _usage(self, exchange: _Exchange, received: _Received) -> Usage:
        usage = received.usage
        if usage is None:
            completion = estimate_tokens(received.text) + received.unseen_characters // 3
            usage = Usage(estimate_prompt_tokens(exchange.request), completion, estimated=True)
        price = exchange.price
        cost = None if price is None else price.of(usage.prompt_tokens, usage.completion_tokens)
        return Usage(usage.prompt_tokens, usage.completion_tokens, usage.estimated, cost)

    def _fault(self, error: Exception, wire: facade.Wire | None) -> _Fault:
        """LiteLLM's exception in our words: which of them is final, and how long to wait."""
        status: Any = getattr(error, "status_code", None)
        own = " ".join(str(error).split()).partition(" Original exception: ")[0]
        own = _EXCEPTION_NAMES.sub("", own)
        own = self.redactor.text(own)[:_MESSAGE_CHARACTERS]
        name = type(error).__name__
        if "Missing credentials" in own:  # the client's own words, without a request
            return _Fault(own, final=True, remedy=self._remedy(401, own), of_us=True)
        if status in _REFUSING_STATUSES:
            remedy = self._remedy(status, own)
            of_us = status in _STATUSES_OF_US or self._lacks_a_provider(own)
            return _Fault(own or name, final=True, remedy=remedy, of_us=of_us)
        return _Fault(own or name, retry_after_s=_retry_after_s(error, wire))

    def _remedy(self, status: int | None, own: str) -> str:
        base = self._settings.base_url or "the provider"
        if status in {401, 403}:
            return (
                "give a key that the endpoint takes: XESMITH_LM_API_KEY, or key_variable in the "
                "configuration file"
            )
        if status == 404:
            return (
                f"see that {base} is right (it mostly ends in /v1) and knows the model "
                f"'{self._settings.model}'; some servers have no {self._settings.api} endpoint: "
                "--lm-api chat or --lm-api responses"
            )
        if self._lacks_a_provider(own):
            return (
                f"name the provider before the model: --lm openai/{self._settings.model} for "
                "any server that speaks OpenAI's protocol"
            )
        return "see the endpoint's own words above; 'xesmith lm check' asks it one short question"

    def _lacks_a_provider(self, own: str) -> bool:
        """Whether LiteLLM says that it cannot tell from the model's name whose it is."""
        return "provider" in own.lower() and "/" not in self._settings.model

    def _error(self, request: Request, fault: _Fault, tries: int = 0) -> ModelError:
        where = f"{self._settings.model}, request {request.label}"
        if fault.final:
            kind = ModelRefusedError if fault.of_us else RequestRefusedError
            return kind(
                f"the model's endpoint refuses: {fault.what}", where=where, remedy=fault.remedy
            )
        return ModelUnavailableError(
            f"the model gave no reply in {tries} {'try' if tries == 1 else 'tries'}: {fault.what}",
            where=where,
            remedy="see that the endpoint is up ('xesmith lm check'), then go on with --resume; "
            "more patience: --lm-timeout",
        )


def _say_nothing(line: str) -> None:
    del line


def _sum(usages: list[Usage]) -> Usage:
    """Of a reply and the tries before it that had begun to answer."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return Usage(
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
        any(usage.estimated for usage in usages),
        sum(costs) if costs else None,
    )


def _retry_after_s(error: Exception, wire: facade.Wire | None) -> float | None:
    """The pause that the endpoint asks for, in seconds; None where it asks for none."""
    value = None if wire is None else wire.retry_after
    for holder in (getattr(error, "response", None), error):
        headers: Any = getattr(holder, "headers", None) or getattr(
            holder, "litellm_response_headers", None
        )
        if value is None and headers is not None:
            value = headers.get("retry-after")
    if value is None:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError):
        until = parsedate_to_datetime(value)
        return max(0.0, (until - datetime.now(timezone.utc)).total_seconds())
    return None
