"""What the tests of models share: settings with short limits, a recording, a client's key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xesmith.lm.endpoint import EndpointChannel
from xesmith.lm.record import Message, Request
from xesmith.lm.settings import LmSettings
from xesmith.lm.stand_in import StandIn

KEY = "sk-a-key-that-no-one-may-see-0123456789"
TEXT = "NOTE: hold the sum in a register\n```python\nx = 1\n```\n"


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
def text() -> str:
    """The recorded reply to the request "fusion-1-1"."""
    return TEXT


@pytest.fixture
def request_() -> Request:
    system = Message("system", "You make kernels faster.")
    return Request("fusion-1-1", (system, Message("user", "request: fusion-1-1\n\nWell?")))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "fusion-1-1.reply.md").write_bytes(TEXT.encode())
    return folder


@pytest.fixture
def channel() -> Callable[..., EndpointChannel]:
    """Makes a channel to a stand-in; keyword arguments are settings."""

    def make(server: StandIn, **settings: Any) -> EndpointChannel:
        given = {"timeout_s": 5.0, "retries": 2, **settings}
        model = LmSettings(model="openai/stand-in", base_url=server.url, key=KEY, **given)
        return EndpointChannel(model, pause_s=0.02)

    return make
