"""Exchanges in folders: by hand, recorded, replayed bit for bit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.lm.endpoint import EndpointChannel
from xesmith.lm.folder import FolderChannel, Recorder, render
from xesmith.lm.record import Message, NoReplyYetError, Reply, Request, Usage
from xesmith.lm.redact import Redactor
from xesmith.lm.stand_in import Fault, StandIn

ODD_TEXT = "NOTE: ü, \u2028, 𝄞\r\n\r\n```python\r\nx = 1\n```\n\n  \t\rend without a newline"


class Fixed:
    """A channel that gives one reply and counts."""

    name = "lm"

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def ask(self, request: Request) -> Reply:
        self.asked += 1
        return Reply(self.text, "a/model", "length", Usage(3, 4, False, 0.25), 1.5)


def ask_for(label: str, text: str = "Well?") -> Request:
    return Request(label, (Message("system", "Be brief."), Message("user", text)))


def test_a_request_is_written_for_people(tmp_path: Path) -> None:
    folder = tmp_path / "exchange"
    with pytest.raises(NoReplyYetError, match="is not there yet") as told:
        FolderChannel(folder).ask(ask_for("fusion-1-1"))
    written = (folder / "fusion-1-1.request.md").read_text()
    assert written == "# system\n\nBe brief.\n\n# user\n\nWell?\n"
    assert told.value.where == str(folder / "fusion-1-1.reply.md")
    assert "--resume" in str(told.value.remedy)
    assert [path.name for path in folder.iterdir()] == ["fusion-1-1.request.md"]


def test_a_reply_is_taken_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.reply.md").write_bytes(ODD_TEXT.encode())
    reply = FolderChannel(tmp_path).ask(ask_for("a"))
    assert (reply.text, reply.finish, reply.model) == (ODD_TEXT, "stop", "unknown")
    assert reply.usage.estimated


def test_an_editors_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.reply.md").write_bytes(b"\xef\xbb\xbfNOTE: x\r\n")
    assert FolderChannel(tmp_path).ask(ask_for("a")).text == "NOTE: x\r\n"


def test_an_empty_file_is_no_reply_yet(tmp_path: Path) -> None:
    (tmp_path / "a.reply.md").touch()
    with pytest.raises(NoReplyYetError, match="is empty"):
        FolderChannel(tmp_path).ask(ask_for("a"))


def test_a_reply_is_waited_for_and_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.reply.md"

    def write() -> None:
        with path.open("w") as file:
            for part in ("one ", "two ", "three"):
                file.write(part)
                file.flush()
                time.sleep(0.15)

    writer = threading.Thread(target=write)
    writer.start()
    reply = FolderChannel(tmp_path, wait_s=10).ask(ask_for("a"))
    writer.join()
    assert reply.text == "one two three"


def test_a_request_is_not_answered_by_the_reply_to_another(tmp_path: Path) -> None:
    channel = FolderChannel(tmp_path)
    with pytest.raises(NoReplyYetError):
        channel.ask(ask_for("a", "one\ntwo"))
    (tmp_path / "a.reply.md").write_text("x")
    with pytest.raises(
        UsageError, match=r"holds another request 'a': line 8 is 'TWO' and was 'two'"
    ):
        channel.ask(ask_for("a", "one\nTWO"))
    assert "two" in (tmp_path / "a.request.md").read_text()


@pytest.mark.parametrize(
    "label", ["../a", "a/b", "/a", ".a", "a..b", "", "a b", "a\n", "a\0", "x" * 200, "-a"]
)
def test_a_label_is_no_path(tmp_path: Path, label: str) -> None:
    for channel in (FolderChannel(tmp_path), FolderChannel(tmp_path, replay=True)):
        with pytest.raises(UsageError, match="label"):
            channel.ask(ask_for(label))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("a.reply.md", b"\xff\xfe", "not UTF-8"),
        ("a.reply.md", b"x" * 8_000_001, "more than 8 MB"),
        ("a.reply.json", b"{", "not JSON"),
        ("a.reply.json", b'{"modle": "x"}', "unknown name 'modle'"),
        ("a.reply.json", b'{"finish": "stopp"}', "unknown finish"),
        ("a.reply.json", b'{"usage": {"prompt_tokens": "x"}}', "wrong type"),
        ("a.reply.json", b"[]", "JSON object"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: bytes, what: str
) -> None:
    (tmp_path / "a.reply.md").write_text("x")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=what) as told:
        FolderChannel(tmp_path, replay=True).ask(ask_for("a"))
    assert told.value.where == str(tmp_path / name)


def test_what_is_recorded_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    inner = Fixed(ODD_TEXT)
    recorded = Recorder(inner, tmp_path).ask(ask_for("a"))
    replayed = FolderChannel(tmp_path, replay=True, strict=True).ask(ask_for("a"))
    assert recorded == replayed == inner.ask(ask_for("a"))
    assert json.loads((tmp_path / "a.reply.json").read_text()) == {
        "model": "a/model",
        "finish": "length",
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "estimated": False,
            "cost_usd": 0.25,
        },
        "seconds": 1.5,
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.reply.json",
        "a.reply.md",
        "a.request.md",
    ]


@pytest.mark.parametrize("text", ["", "\ufeffx", "\ud800 alone"])
def test_what_a_recorder_returns_is_what_a_replay_returns(tmp_path: Path, text: str) -> None:
    recorded = Recorder(Fixed(text), tmp_path).ask(ask_for("a"))
    assert FolderChannel(tmp_path, replay=True).ask(ask_for("a")) == recorded


def test_a_recorded_exchange_is_not_asked_again(tmp_path: Path) -> None:
    inner = Fixed("x")
    first = Recorder(inner, tmp_path).ask(ask_for("a"))
    assert (Recorder(inner, tmp_path).ask(ask_for("a")), inner.asked) == (first, 1)


def test_a_recorder_overwrites_nothing(tmp_path: Path) -> None:
    inner = Fixed("x")
    Recorder(inner, tmp_path).ask(ask_for("a"))
    with pytest.raises(UsageError, match="another request"):
        Recorder(inner, tmp_path).ask(ask_for("a", "Else?"))
    assert inner.asked == 1


def test_a_replay_says_which_reply_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NoReplyYetError, match="no reply to the request 'b'") as told:
        FolderChannel(tmp_path, replay=True).ask(ask_for("b"))
    assert told.value.where == str(tmp_path / "b.reply.md")
    assert list(tmp_path.iterdir()) == []


def test_a_replay_of_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        FolderChannel(tmp_path / "none", replay=True)


def test_a_strict_replay_shows_the_first_difference(tmp_path: Path) -> None:
    Recorder(Fixed("x"), tmp_path).ask(ask_for("a", "tile 64"))
    assert FolderChannel(tmp_path, replay=True).ask(ask_for("a", "tile 32")).text == "x"
    with pytest.raises(UsageError, match="line 7 is 'tile 32' and was 'tile 64'"):
        FolderChannel(tmp_path, replay=True, strict=True).ask(ask_for("a", "tile 32"))


def test_a_strict_replay_needs_the_recorded_request(tmp_path: Path) -> None:
    (tmp_path / "a.reply.md").write_text("x")
    with pytest.raises(UsageError, match="no such request"):
        FolderChannel(tmp_path, replay=True, strict=True).ask(ask_for("a"))


def test_channels_are_named_for_ledgers(tmp_path: Path) -> None:
    assert FolderChannel(tmp_path).name == "exchange"
    assert FolderChannel(tmp_path, replay=True).name == "replay"
    assert Recorder(Fixed("x"), tmp_path).name == "lm"


def test_no_file_ever_holds_the_key(
    tmp_path: Path, recording: Path, channel: Callable[..., EndpointChannel], key: str
) -> None:
    """Through the endpoint: a prompt that holds it, a reply that echoes it, a log of requests."""
    kept, log = tmp_path / "kept", tmp_path / "log.jsonl"
    request = ask_for("fusion-1-1", f"request: fusion-1-1\n\nthe key is {key}")
    with StandIn([recording], [Fault(echo_key=True)], log=log) as server:
        recorder = Recorder(channel(server), kept, Redactor([key], {}))
        recorder.ask(request)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".md", ".json", ".jsonl"}
    assert [path for path in files if key.encode() in path.read_bytes()] == []
    assert "the key is [redacted]" in (kept / "fusion-1-1.request.md").read_text()
    assert "The key was [redacted]." in (kept / "fusion-1-1.reply.md").read_text()


def test_rendering_keeps_the_text_of_messages() -> None:
    assert "a\r\nb\t \n\n" in render(ask_for("a", "a\r\nb\t \n"))
