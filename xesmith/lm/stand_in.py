"""A stand-in for a model's server: OpenAI's protocol over real HTTP, replies out of recordings.

It is no model and says so in every reply (`model: "stand-in"`). It finds the reply by the
label in the first line of the last user message, and breaks down where its script says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from xesmith.errors import UsageError, nearest
from xesmith.lm import files
from xesmith.lm.folder import read_facts
from xesmith.lm.record import Usage
from xesmith.tokens import estimate_tokens

MODEL = "stand-in"
_LABEL_LINE = re.compile(r"request: *(\S+)")
_MAX_BODY_BYTES = 16_000_000
_CHUNK_CHARACTERS = 400


@dataclass(frozen=True)
class Fault:
    """What the stand-in does to one request; without any field, nothing.

    With a `label` it is for requests of that label, else for the next request of any.
    """

    label: str | None = None
    times: int = 1  # so many requests in a row
    status: int | None = None  # answer with this status and an error in the body
    retry_after: float | None = None  # seconds, with a status
    hang_s: float = 0.0  # say nothing for so long, then go on
    close: bool = False  # close the connection without a word
    close_after: int | None = None  # close it after so many characters of the reply
    not_json: bool = False  # a body that is no JSON
    bad_event: bool = False  # a stream with an event that is no JSON instead of its first part
    cut: int | None = None  # end the reply there as if the limit of tokens had been met
    empty: bool = False  # a reply without text
    size: int | None = None  # a reply of so many characters
    endless: bool = False  # a reply that does not end
    endless_line: bool = False  # bytes without end and without a line's end
    trickle_s: float = 0.0  # so many seconds between the parts of the reply
    echo_key: bool = False  # the key that the client sent, within the reply
    no_usage: bool = False  # say nothing of tokens
    text: str | None = None  # this reply instead of the recorded one


def read_faults(data: Any, where: str) -> list[Fault]:
    """A script of faults: a list of steps, each a mapping of the fields of Fault.

    Raises:
        UsageError: it is no such list, or a name or value is wrong.
    """
    if not isinstance(data, list):
        raise UsageError("a script of faults is a list of steps", where=where)
    known = {field.name: field.default for field in fields(Fault)}
    numbers = {"status", "retry_after", "close_after", "cut", "size"}
    faults: list[Fault] = []
    for number, step in enumerate(cast(list[Any], data), start=1):
        place = f"{where}, step {number}"
        if not isinstance(step, dict):
            raise UsageError("a step is a mapping such as {status: 429}", where=place)
        values = cast(dict[str, Any], step)
        for name, value in values.items():
            if name not in known:
                raise UsageError(
                    f"unknown fault {name!r}", where=place, remedy=nearest(str(name), known)
                )
            if name in {"label", "text"}:
                right = isinstance(value, str)
            elif isinstance(known[name], bool):
                right = isinstance(value, bool)
            else:
                right = isinstance(value, int | float) and not isinstance(value, bool)
                right = right and value >= 0
                right = right and (name in numbers or isinstance(known[name], int | float))
            if not right:
                raise UsageError(f"the fault {name!r} has a wrong value", where=place)
        faults.append(Fault(**values))
    return faults


@dataclass(frozen=True)
class Served:
    """One request as it came, in the order of coming."""

    number: int
    label: str
    digest: str  # SHA-256, in hex, of the request's body
    path: str
    stream: bool
    max_tokens: int | None
    fault: bool  # a step of the script was applied


class StandIn:
    """The server, from `__enter__` to `__exit__`.

    Args:
        folders: recordings; the first that holds a label's reply gives it.
        faults: see Fault.
        port: 0 takes a free one.
        log: a JSON line per request is added to this file.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        faults: Iterable[Fault] = (),
        *,
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise UsageError("there is no such folder of recorded replies", where=str(folder))
        self.folders = tuple(folders)
        self.requests: list[Served] = []
        self.stopping = threading.Event()
        self._log = log
        self._lock = threading.Lock()
        self._in_order: deque[Fault] = deque()
        self._by_label: dict[str, deque[Fault]] = {}
        for fault in faults:
            queue = self._in_order
            if fault.label is not None:
                queue = self._by_label.setdefault(fault.label, deque())
            queue.extend([fault] * fault.times)
        handler = type("_BoundHandler", (_Handler,), {"stand_in": self})
        try:
            self._server = _Server(("127.0.0.1", port), handler)
        except OSError as error:
            raise UsageError(
                f"the port cannot be used: {error.strerror}",
                where=f"--port {port}",
                remedy="give another one, or none to take a free one",
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        """The base that clients are given: "http://127.0.0.1:PORT/v1"."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> StandIn:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count(self, label: str) -> int:
        """How often a label was asked."""
        return sum(served.label == label for served in self.requests)

    def note(self, path: str, body: bytes, data: Mapping[str, Any]) -> tuple[str, Fault]:
        """Enters a request in the log; its label and what is to be done to it."""
        label = _label_of(data)
        with self._lock:
            queue = self._by_label.get(label) or self._in_order
            fault = queue.popleft() if queue else None
            limit = data.get("max_tokens", data.get("max_output_tokens"))
            served = Served(
                number=len(self.requests) + 1,
                label=label,
                digest=hashlib.sha256(body).hexdigest(),
                path=path,
                stream=bool(data.get("stream")),
                max_tokens=limit if isinstance(limit, int) else None,
                fault=fault is not None,
            )
            self.requests.append(served)
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(served.__dict__) + "\n")
        return label, fault or Fault()

    def recorded(self, label: str) -> tuple[str, str, Usage | None] | None:
        """Text, finish and usage of the recorded reply; None where no folder holds one."""
        try:
            files.checked_label(label)
        except UsageError:
            return None
        for folder in self.folders:
            path = files.reply_path(folder, label)
            if path.exists():
                facts = read_facts(folder, label)
                return files.read_text(path), facts.get("finish", "stop"), facts.get("usage")
        # What `xesmith lm check` asks: no run does.
        return ("ready", "stop", None) if label == "check" else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news: faults make them do so."""


class _HangUpError(Exception):
    """The connection is to be closed here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "xesmith-stand-in"
    stand_in: StandIn

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: standard error is the caller's, and headers hold keys."""

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            models = [{"id": MODEL, "object": "model", "owned_by": "xesmith"}]
            self._send_json(200, {"object": "list", "data": models})
        else:
            self._send_error(404, f"the stand-in does not serve {self.path}")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MAX_BODY_BYTES:
            self._send_error(413, "the request is too large")
            return
        body = self.rfile.read(length)
        try:
            data: Any = json.loads(body)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            self._send_error(400, "the body is no JSON object")
            return
        request = cast(dict[str, Any], data)
        kind = self.path.split("?")[0].rstrip("/").rpartition("/v1/")[2]
        if kind not in {"chat/completions", "responses"}:
            self._send_error(404, f"the stand-in does not serve {self.path}")
            return
        label, fault = self.stand_in.note(self.path, body, request)
        with contextlib.suppress(_HangUpError, ConnectionError, TimeoutError):
            self._answer(kind, request, label, fault)
            return
        self._drop()

    def _answer(self, kind: str, request: dict[str, Any], label: str, fault: Fault) -> None:
        if fault.hang_s and self.stand_in.stopping.wait(fault.hang_s):
            raise _HangUpError
        if fault.close:
            raise _HangUpError
        if fault.status is not None:
            headers: dict[str, str] = {}
            if fault.retry_after is not None:
                headers["Retry-After"] = f"{fault.retry_after:g}"
            self._send_error(fault.status, "a fault of the stand-in's script", headers)
            return
        if fault.not_json:
            self._send(200, "text/html", b"<html>busy</html>", {})
            return
        found = self._reply(label, fault)
        if found is None:
            self._send_error(400, f"the stand-in has no reply to the request '{label}'")
            return
        text, finish, usage = found
        if usage is None:
            asked = "\n".join(_texts(request))
            usage = Usage(estimate_tokens(asked), estimate_tokens(text))
        form = _Chat(usage, fault) if kind == "chat/completions" else _Responses(usage, fault)
        if not request.get("stream"):
            if fault.close_after is not None:
                raise _HangUpError
            self._send_json(200, form.whole(text, finish))
            return
        self._stream(form, text, finish, fault)

    def _reply(self, label: str, fault: Fault) -> tuple[str, str, Usage | None] | None:
        found = self.stand_in.recorded(label)
        if fault.text is not None:
            found = fault.text, "stop", None
        elif fault.empty:
            found = "", "stop", None
        elif fault.size is not None:
            found = ("0123456789abcde\n" * (fault.size // 16 + 1))[: fault.size], "stop", None
        elif fault.endless or fault.endless_line:
            found = "", "stop", None
        if fault.echo_key:
            given = self.headers.get("Authorization", "") or self.headers.get("api-key", "")
            text = found[0] if found is not None else ""
            found = f"{text}\nThe key was {given.removeprefix('Bearer ')}.\n", "stop", None
        if found is not None and fault.cut is not None:
            found = found[0][: fault.cut], "length", None
        return found

    def _stream(self, form: _Form, text: str, finish: str, fault: Fault) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in form.opening():
            self._event(event)
        while fault.endless_line:
            self._chunk(b"x" * 65_536)
        sent = 0
        for number, part in enumerate(_parts(text, endless=fault.endless)):
            if fault.bad_event and number == 0:
                self._chunk(b"data: {busy\n\n")
                continue
            if fault.trickle_s and self.stand_in.stopping.wait(fault.trickle_s):
                raise _HangUpError
            if self.stand_in.stopping.is_set():
                raise _HangUpError
            if fault.close_after is not None and sent + len(part) > fault.close_after:
                self._event(form.part(part[: fault.close_after - sent]))
                raise _HangUpError
            self._event(form.part(part))
            sent += len(part)
        for event in form.closing(text, finish):
            self._event(event)
        if isinstance(form, _Chat):
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, event: dict[str, Any]) -> None:
        name = f"event: {event['type']}\n" if "type" in event else ""
        self._chunk(f"{name}data: {json.dumps(event)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_error(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        error = {"message": message, "type": "stand_in_error", "code": str(status)}
        self._send_json(status, {"error": error}, headers)

    def _send_json(self, status: int, data: Any, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, "application/json", json.dumps(data).encode(), headers or {})

    def _send(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _drop(self) -> None:
        """Closes the connection with a reset, as a server that died."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class _Form(ABC):
    """How one of the two protocols words a reply."""

    def __init__(self, usage: Usage, fault: Fault) -> None:
        self._usage = usage
        self._said = not fault.no_usage

    @abstractmethod
    def whole(self, text: str, finish: str) -> dict[str, Any]:
        """The reply in one piece."""

    @abstractmethod
    def opening(self) -> list[dict[str, Any]]:
        """Events before the first part of a stream."""

    @abstractmethod
    def part(self, text: str) -> dict[str, Any]:
        """The event that brings a part of the text."""

    @abstractmethod
    def closing(self, text: str, finish: str) -> list[dict[str, Any]]:
        """Events after the last part of a stream."""


class _Chat(_Form):
    def whole(self, text: str, finish: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": _chat_finish(finish)}
        whole = self._chunk("chat.completion", [choice])
        return {**whole, "usage": self._counts()} if self._said else whole

    def opening(self) -> list[dict[str, Any]]:
        return [self._delta({"role": "assistant", "content": ""})]

    def part(self, text: str) -> dict[str, Any]:
        return self._delta({"content": text})

    def closing(self, text: str, finish: str) -> list[dict[str, Any]]:
        events = [self._delta({}, _chat_finish(finish))]
        if self._said:
            events.append({**self._chunk("chat.completion.chunk", []), "usage": self._counts()})
        return events

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._chunk("chat.completion.chunk", [choice])

    def _chunk(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": "chatcmpl-stand-in",
            "object": kind,
            "created": 0,
            "model": MODEL,
            "choices": choices,
        }

    def _counts(self) -> dict[str, int]:
        usage = self._usage
        return {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.tokens,
        }


class _Responses(_Form):
    def whole(self, text: str, finish: str) -> dict[str, Any]:
        status = "completed" if finish == "stop" else "incomplete"
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        message: dict[str, Any] = {
            "type": "message",
            "id": "msg_stand_in",
            "role": "assistant",
            "status": status,
            "content": [part],
        }
        return self._response(status, [message])

    def opening(self) -> list[dict[str, Any]]:
        return [{"type": "response.created", "response": self._response("in_progress", [])}]

    def part(self, text: str) -> dict[str, Any]:
        return {
            "type": "response.output_text.delta",
            "item_id": "msg_stand_in",
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        }

    def closing(self, text: str, finish: str) -> list[dict[str, Any]]:
        whole = self.whole(text, finish)
        return [{"type": f"response.{whole['status']}", "response": whole}]

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        usage = self._usage
        counts = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.tokens,
        }
        cut = status == "incomplete"
        return {
            "id": "resp_stand_in",
            "object": "response",
            "created_at": 0,
            "status": status,
            "model": MODEL,
            "output": output,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": counts if self._said and status != "in_progress" else None,
        }


def _chat_finish(finish: str) -> str:
    return "stop" if finish == "stop" else "length"


def _parts(text: str, *, endless: bool) -> Generator[str, None, None]:
    for start in range(0, len(text), _CHUNK_CHARACTERS):
        yield text[start : start + _CHUNK_CHARACTERS]
    while endless:
        yield "and so on, and so on\n" * 20


def _texts(request: Mapping[str, Any]) -> list[str]:
    """The texts of a request's messages, whichever protocol words them."""
    messages: Any = request.get("messages", request.get("input"))
    if isinstance(messages, str):
        return [messages]
    texts: list[str] = []
    for message in cast(list[dict[str, Any]], messages or []):
        content: Any = message.get("content")
        if isinstance(content, list):
            parts = cast(list[dict[str, Any]], content)
            content = "".join(str(part.get("text", "")) for part in parts)
        texts.append(str(content))
    return texts


def _label_of(request: Mapping[str, Any]) -> str:
    """The label in the first line of the last message; "" where there is none."""
    texts = _texts(request)
    found = _LABEL_LINE.match(texts[-1]) if texts else None
    return found.group(1) if found is not None else ""
