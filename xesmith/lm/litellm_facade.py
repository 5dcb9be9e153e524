"""LiteLLM behind four typed functions: load, describe, stream a chat, stream a response.

Importing it takes seconds and, unless told otherwise, fetches a price list and reads a .env
file; it is told otherwise here, and imported when the first request is made.
"""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, cast

from xesmith.errors import XesmithError
from xesmith.lm.budget import Price
from xesmith.lm.record import Message, Usage

#: set before the import: nothing is fetched, no .env of the current folder is read
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_MODE": "PRODUCTION",
}


@dataclass(frozen=True)
class Model:
    """What LiteLLM's own list says of a model; None where it says nothing."""

    price: Price | None
    max_reply_tokens: int | None


@dataclass(frozen=True)
class Call:
    """One request to an endpoint, as LiteLLM is given it."""

    model: str
    messages: tuple[Message, ...]
    base_url: str | None
    key: str | None
    timeout_s: float
    temperature: float | None
    max_reply_tokens: int


@dataclass(frozen=True)
class Part:
    """A piece of a reply: text of it, the count of unseen characters (reasoning), its end."""

    text: str = ""
    whole: str | None = None  # the whole reply at its end, where the endpoint repeats it
    unseen_characters: int = 0
    finish: Literal["stop", "length"] | None = None
    usage: Usage | None = None


class TooManyBytesError(Exception):
    """The endpoint sent more than any reply needs."""


@dataclass
class Wire:
    """What is watched below LiteLLM, per request: the bytes that came, and Retry-After."""

    bytes_left: int
    retry_after: str | None = None
    overrun: bool = field(default=False, init=False)


#: of the request that the current task makes
WIRE: ContextVar[Wire | None] = ContextVar("WIRE", default=None)


@cache
def load() -> Any:
    """The module litellm, quiet.

    Raises:
        XesmithError: it is not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import litellm
    except ImportError as error:
        raise XesmithError(
            f"LiteLLM is not installed: {error}",
            remedy="pip install 'xesmith[llm]'",
        ) from None
    return _quiet(cast(Any, litellm))


def _quiet(litellm: Any) -> Any:
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.telemetry = False
    litellm.disable_aiohttp_transport = True  # httpx, whose hooks bound what is read
    litellm.drop_params = True  # a temperature that a model does not take, and the like
    # A reply that repeats itself is a reply, and ends at our own limits.
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = 1_000_000_000
    # Its log lines can hold requests and keys; what matters of them comes as exceptions.
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm


def _quiet_warnings() -> None:
    """What these packages warn of among themselves concerns nobody here."""
    for package in ("litellm", "openai", "httpx", "pydantic"):
        warnings.filterwarnings("ignore", module=rf"{package}(\.|$)")


def provider_of(model: str, base_url: str | None) -> tuple[str, str]:
    """The model's name at its provider, and the provider. Raises what LiteLLM raises."""
    name, provider, _, _ = load().get_llm_provider(model, api_base=base_url)
    return str(name), str(provider)


def describe(model: str, base_url: str | None) -> Model:
    """Price and longest reply by LiteLLM's local list. Asks nobody."""
    name, provider = provider_of(model, base_url)
    known: dict[str, dict[str, Any]] = load().model_cost
    entry = next((known[key] for key in (model, f"{provider}/{name}", name) if key in known), None)
    if entry is None or entry.get("litellm_provider") not in {
        provider,
        f"text-completion-{provider}",
    }:
        return Model(None, None)
    prompt, completion = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    price = None if prompt is None or completion is None else Price(prompt, completion)
    longest = entry.get("max_output_tokens")
    return Model(price, longest if isinstance(longest, int) else None)


async def chat(call: Call) -> AsyncGenerator[Part, None]:
    """The parts of a reply from a chat endpoint. Raises what LiteLLM raises."""
    litellm = load()
    _quiet_warnings()
    if litellm.aclient_session is None:
        litellm.aclient_session = _http_client()
    stream = await litellm.acompletion(
        **_common(call),
        messages=_messages(call),
        max_tokens=call.max_reply_tokens,
        stream_options={"include_usage": True},
    )
    async with _closing(stream):
        async for chunk in cast(AsyncIterator[Any], stream):
            for choice in chunk.choices[:1]:
                unseen = getattr(choice.delta, "reasoning_content", None) or ""
                yield Part(choice.delta.content or "", unseen_characters=len(unseen))
        # LiteLLM makes an end up where the endpoint gave none, and counts where it did not.
        usage = None
        for chunk in reversed(stream.chunks):
            counted = getattr(chunk, "usage", None)
            if counted is not None:
                usage = Usage(counted.prompt_tokens, counted.completion_tokens)
                break
        finish = stream.received_finish_reason
        if finish is not None:
            yield Part(finish="length" if finish == "length" else "stop", usage=usage)


async def responses(call: Call) -> AsyncGenerator[Part, None]:
    """The parts of a reply from a responses endpoint. Raises what LiteLLM raises."""
    litellm = load()
    _quiet_warnings()
    _stream_natively(litellm, call)
    stream = await litellm.aresponses(
        **_common(call),
        input=_messages(call),
        max_output_tokens=call.max_reply_tokens,
        store=False,
        client=_handler(),
    )
    async with _closing(stream):
        async for event in cast(AsyncIterator[Any], stream):
            kind = str(getattr(event.type, "value", event.type))
            if kind == "response.output_text.delta":
                yield Part(event.delta)
            elif kind.endswith(".delta"):
                yield Part(unseen_characters=len(str(getattr(event, "delta", ""))))
            elif kind in {"response.completed", "response.incomplete"}:
                counted = event.response.usage
                usage = None
                # What LiteLLM counts itself, where the endpoint did not, lacks the details.
                if counted is not None and counted.output_tokens_details is not None:
                    usage = Usage(counted.input_tokens, counted.output_tokens)
                cut = event.response.incomplete_details is not None
                # LiteLLM passes over an event that it cannot parse; the end has it all again.
                whole = _output_text(event.response) or None
                yield Part(whole=whole, finish="length" if cut else "stop", usage=usage)


def _output_text(response: Any) -> str:
    """The text of a whole response; "" where its output is not repeated."""
    parts = [
        part
        for item in response.output or ()
        if getattr(item, "type", None) == "message"
        for part in item.content
    ]
    return "".join(part.text for part in parts if getattr(part, "type", None) == "output_text")


@asynccontextmanager
async def _closing(stream: Any) -> AsyncGenerator[None, None]:
    """Lets go of the connection; a stream that LiteLLM makes out of a whole reply has none."""
    try:
        yield
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()


def _common(call: Call) -> dict[str, Any]:
    values: dict[str, Any] = {
        "model": call.model,
        "api_base": call.base_url,
        "api_key": call.key,
        "timeout": call.timeout_s,
        "temperature": call.temperature,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return {**given, "stream": True, "max_retries": 0, "num_retries": 0}


def _messages(call: Call) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in call.messages]


def _stream_natively(litellm: Any, call: Call) -> None:
    """Without this a model that LiteLLM's list lacks is asked for its reply in one piece."""
    name, provider = provider_of(call.model, call.base_url)
    key = f"{provider}/{name}"
    if provider != "openai" or name in litellm.model_cost or key in litellm.model_cost:
        return
    entry = {"litellm_provider": provider, "mode": "chat", "supports_native_streaming": True}
    litellm.register_model({key: entry})


def _hooks() -> dict[str, list[Any]]:
    return {"response": [_watch]}


def _http_client() -> Any:
    import httpx

    return httpx.AsyncClient(event_hooks=_hooks(), follow_redirects=True)


@cache
def _handler() -> Any:
    module: Any = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    return module.AsyncHTTPHandler(event_hooks=_hooks())


async def _watch(response: Any) -> None:
    """Called by httpx with each response before its body is read."""
    wire = WIRE.get()
    if wire is None:
        return
    wire.retry_after = response.headers.get("retry-after")
    response.stream = _bounded(response.stream, wire)


def _bounded(stream: Any, wire: Wire) -> Any:
    import httpx

    class Bounded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in stream:
                wire.bytes_left -= len(data)
                if wire.bytes_left < 0:
                    wire.overrun = True
                    raise TooManyBytesError
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
