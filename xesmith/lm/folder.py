"""Exchanges in a folder: written by a person or an agent, recorded from an endpoint, replayed.

For a request with the label L the folder holds L.request.md (the messages under headings),
L.reply.md (the reply's text and nothing else) and, where they are known, L.reply.json with
`model`, `finish`, `usage` and `seconds`. A recording is such a folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from xesmith.errors import UsageError, nearest
from xesmith.lm import files
from xesmith.lm.budget import estimate_prompt_tokens
from xesmith.lm.record import Channel, Finish, NoReplyYetError, Reply, Request, Usage
from xesmith.lm.redact import Redactor
from xesmith.tokens import estimate_tokens

_POLL_SECONDS = 0.2
#: a reply that somebody writes in place is whole once it has kept its size for so long
_SETTLE_SECONDS = 0.5


def render(request: Request) -> str:
    """The request as people read it: one heading per message, its text below, unchanged."""
    parts = [f"# {message.role}\n\n{message.content}\n" for message in request.messages]
    return "\n".join(parts)


def read_reply(folder: Path, request: Request) -> Reply:
    """The reply that the folder holds for a request.

    Raises:
        FileNotFoundError: there is none.
        UsageError: a file of it cannot be read.
    """
    text = files.read_text(files.reply_path(folder, request.label))
    facts = read_facts(folder, request.label)
    usage = facts.get("usage")
    if usage is None:
        usage = Usage(estimate_prompt_tokens(request), estimate_tokens(text), estimated=True)
    return Reply(
        text,
        model=facts.get("model", "unknown"),
        finish=facts.get("finish", "stop"),
        usage=usage,
        seconds=facts.get("seconds", 0.0),
    )


def read_facts(folder: Path, label: str) -> dict[str, Any]:
    """What L.reply.json says, `usage` as Usage; {} where there is no such file.

    Raises:
        UsageError: it is not JSON, or holds a name or value that is not known.
    """
    path = files.facts_path(folder, label)
    try:
        data: Any = json.loads(files.read_text(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"not JSON: {error}", where=str(path)) from None
    known: dict[str, type | tuple[type, ...]] = {
        "model": str,
        "finish": str,
        "usage": dict,
        "seconds": (int, float),
    }
    facts = _checked(data, known, path)
    if facts.get("finish", "stop") not in get_args(Finish):
        raise UsageError(
            f"unknown finish {facts['finish']!r}",
            where=str(path),
            remedy=nearest(facts["finish"], get_args(Finish)),
        )
    if "usage" in facts:
        counts: dict[str, type | tuple[type, ...]] = {
            "prompt_tokens": int,
            "completion_tokens": int,
            "estimated": bool,
            "cost_usd": (int, float, type(None)),
        }
        usage = _checked(facts["usage"], counts, path)
        facts["usage"] = Usage(
            usage.get("prompt_tokens", 0),
            usage.get("completion_tokens", 0),
            usage.get("estimated", False),
            usage.get("cost_usd"),
        )
    return facts


def _checked(data: Any, known: Mapping[str, type | tuple[type, ...]], path: Path) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UsageError("a JSON object is needed", where=str(path))
    fields = cast(dict[str, Any], data)
    for name, value in fields.items():
        if name not in known:
            raise UsageError(f"unknown name {name!r}", where=str(path), remedy=nearest(name, known))
        if not isinstance(value, known[name]):
            raise UsageError(f"{name!r} has a value of the wrong type", where=str(path))
    return fields


class FolderChannel:
    """Takes replies from a folder.

    Args:
        folder: made where it is missing, but not for a replay.
        replay: nothing is written and nobody waited for: every reply must be there.
        strict: replay only: the request must be the recorded one, character for character.
        wait_s: how long to wait for one reply; 0 ends at once when it is not there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        replay: bool = False,
        strict: bool = False,
        wait_s: float = 0.0,
        redactor: Redactor | None = None,
    ) -> None:
        self._folder = folder
        self._replay = replay
        self._strict = strict
        self._wait_s = wait_s
        self._redactor = redactor or Redactor()
        if replay and not folder.is_dir():
            raise UsageError(
                "there is no such folder of recorded replies",
                where=str(folder),
                remedy="record one, or use exchange:DIR to write replies by hand",
            )

    @property
    def name(self) -> str:
        return "replay" if self._replay else "exchange"

    def ask(self, request: Request) -> Reply:
        """The folder's reply.

        Raises:
            NoReplyYetError: it is not there (any more time is not given).
            UsageError: a file cannot be read, or the folder's request is another one.
        """
        return self._replayed(request) if self._replay else self._exchanged(request)

    def _replayed(self, request: Request) -> Reply:
        path = files.reply_path(self._folder, request.label)
        if self._strict:
            self._require_same(request)
        try:
            return self._redactor.reply(read_reply(self._folder, request))
        except FileNotFoundError:
            raise NoReplyYetError(
                f"the recording holds no reply to the request '{request.label}'",
                where=str(path),
                remedy="the run asks other things than the recorded one did: record it anew, or "
                "use exchange:DIR to write the missing reply",
            ) from None

    def _require_same(self, request: Request) -> None:
        path = files.request_path(self._folder, request.label)
        text = rendered(request, self._redactor)
        recorded = files.read_text(path) if path.exists() else None
        if recorded is None:
            raise UsageError(
                "the recording holds no such request", where=str(path), remedy="record it anew"
            )
        if recorded != text:
            raise UsageError(
                f"the request is not the recorded one: {files.first_difference(recorded, text)}",
                where=str(path),
                remedy="record it anew, or replay without the strict comparison",
            )

    def _exchanged(self, request: Request) -> Reply:
        self._folder.mkdir(parents=True, exist_ok=True)
        keep_request(self._folder, request, self._redactor)
        path = files.reply_path(self._folder, request.label)
        ends = time.monotonic() + self._wait_s
        while not _is_whole(path):
            if time.monotonic() >= ends:
                raise self._no_reply_yet(request, path)
            time.sleep(_POLL_SECONDS)
        return self._redactor.reply(read_reply(self._folder, request))

    def _no_reply_yet(self, request: Request, path: Path) -> NoReplyYetError:
        asked = files.request_path(self._folder, request.label)
        state = "is empty" if path.exists() else "is not there yet"
        return NoReplyYetError(
            f"the reply to the request '{request.label}' {state}",
            where=str(path),
            remedy=f"read {asked}, write the reply to {path}, and go on with --resume",
        )


class Recorder:
    """Asks another channel and keeps the exchanges, redacted, in a folder.

    An exchange that the folder already holds for the same request is not asked again. What a
    Recorder returns is what a replay of its folder returns.
    """

    def __init__(self, channel: Channel, folder: Path, redactor: Redactor | None = None) -> None:
        self._channel = channel
        self._folder = folder
        self._redactor = redactor or Redactor()

    @property
    def name(self) -> str:
        return self._channel.name

    def ask(self, request: Request) -> Reply:
        """The inner channel's reply, or the recorded one.

        Raises:
            UsageError: the folder holds another request of that label.
            ModelError: as the inner channel does.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        keep_request(self._folder, request, self._redactor)
        if files.reply_path(self._folder, request.label).exists():
            return read_reply(self._folder, request)
        reply = self._redactor.reply(self._channel.ask(request))
        facts = reply.to_json()
        text = files.storable(facts.pop("text"))
        # The text last: where it is, the rest is there as well.
        files.write_whole(
            files.facts_path(self._folder, request.label), json.dumps(facts, indent=2) + "\n"
        )
        files.write_whole(files.reply_path(self._folder, request.label), text)
        return read_reply(self._folder, request)


def rendered(request: Request, redactor: Redactor) -> str:
    """The request as its file holds it."""
    return files.storable(redactor.text(render(request)))


def keep_request(folder: Path, request: Request, redactor: Redactor) -> None:
    """Writes the request's file unless it is there.

    Raises:
        UsageError: the file is there and holds another request.
    """
    path, text = files.request_path(folder, request.label), rendered(request, redactor)
    if not path.exists():
        files.write_whole(path, text)
        return
    kept = files.read_text(path)
    if kept != text:
        raise UsageError(
            f"the folder holds another request '{request.label}': "
            f"{files.first_difference(kept, text)}",
            where=str(path),
            remedy="give a new folder, or remove that request and its reply",
        )


def _is_whole(path: Path) -> bool:
    """Whether a reply has been written to its end: it has kept its size, and is not empty."""
    try:
        before = path.stat()
        if before.st_size == 0:
            return False
        if 0 <= time.time() - before.st_mtime < _SETTLE_SECONDS:
            time.sleep(_SETTLE_SECONDS)
        after = path.stat()
    except FileNotFoundError:
        return False
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
