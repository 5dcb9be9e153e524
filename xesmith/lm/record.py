"""The nouns Request and Reply: one exchange with a model, and how one can fail.

A channel is whatever answers: an endpoint over HTTP, a folder in which a person or an agent
writes replies, a recording.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from xesmith.errors import XesmithError

Role = Literal["system", "user", "assistant"]

#: why a reply ended. "stop": the model was done; "length": the endpoint's own limit of tokens;
#: "size": our limit of characters; "time": our limit of seconds, while it was still coming
Finish = Literal["stop", "length", "size", "time"]


@dataclass(frozen=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True)
class Request:
    """What a model is asked. `label` is unique within a run: "fusion-2-1" is the second try of
    the stage fusion, its first answer."""

    label: str
    messages: tuple[Message, ...]
    temperature: float | None = None

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of all that the reply may depend on."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def characters(self) -> int:
        return sum(len(message.content) for message in self.messages)


@dataclass(frozen=True)
class Usage:
    """Tokens as the endpoint counts them; `estimated` where it says nothing.

    `cost_usd` is None where the model's price is not known.
    """

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Reply:
    """What came back, whole or cut (`finish` says which). `text` may be empty."""

    text: str
    model: str
    finish: Finish
    usage: Usage
    seconds: float = 0.0  # wall time, retries included

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Reply:
        values: dict[str, Any] = {**data, "usage": Usage(**data["usage"])}
        return cls(**values)


class Channel(Protocol):
    """Answers requests, one at a time."""

    @property
    def name(self) -> str:
        """Of the proposer that uses it, for ledgers: "lm", "exchange", "replay"."""
        ...

    def ask(self, request: Request) -> Reply:
        """The reply.

        Raises:
            ModelError: one of the errors below.
        """
        ...


class ModelError(XesmithError):
    """A model gave no reply. `usage` and `seconds` are what trying cost all the same."""

    exit_code = 3

    usage: Usage | None = None
    seconds: float = 0.0


class ModelUnavailableError(ModelError):
    """No reply after all retries (time, rate limit, server, connection). A later one may come."""


class RequestRefusedError(ModelError):
    """The endpoint will never answer this request (too long, malformed); another it may."""


class ModelRefusedError(ModelError):
    """The endpoint will never answer us: credentials, an unknown model, a wrong address."""


class BudgetSpentError(ModelError):
    """The run's limit of tokens, money or time does not allow another request."""


class NoReplyYetError(ModelError):
    """The exchange folder waits for a reply that a person or an agent is to write."""

    exit_code = 5
