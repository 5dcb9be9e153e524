"""JSON values over a socket between a client and one task: length first, then the text."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

LARGEST_MESSAGE_BYTES = 64 << 20
_LENGTH = struct.Struct("!I")


class ChannelClosedError(Exception):
    """The other side is gone, or says no more."""


class Channel:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, value: Any) -> None:
        """Raises ChannelClosedError."""
        data = json.dumps(value).encode()
        try:
            self._end.sendall(_LENGTH.pack(len(data)) + data)
        except OSError:
            raise ChannelClosedError from None

    def receive(self, timeout_s: float | None = None) -> Any:
        """Waits for one value; `timeout_s` bounds the wait for each part of it.

        Raises:
            TimeoutError, ChannelClosedError: nothing came.
            ValueError: what came is no JSON, or too long.
        """
        self._end.settimeout(timeout_s)
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > LARGEST_MESSAGE_BYTES:
            raise ValueError(f"a message of {length} bytes")
        return json.loads(self._exactly(length))

    def serve(self, handler: Callable[[Any], Any]) -> None:
        """Answers each question by `handler(message)`, until there are no more."""
        while True:
            try:
                question = self.receive()
                answer = {"word": question["word"], "message": handler(question["message"])}
                self.send(answer)
            except ChannelClosedError:
                return

    def close(self) -> None:
        self._end.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self._end.recv(size - len(data))
            except TimeoutError:
                raise
            except OSError:
                raise ChannelClosedError from None
            if not part:
                raise ChannelClosedError
            data += part
        return data
