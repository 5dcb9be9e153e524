"""Every fault of an endpoint, over real HTTP against the stand-in, on both kinds of endpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.lm.endpoint import EndpointChannel
from xesmith.lm.record import (
    Message,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    Request,
    RequestRefusedError,
)
from xesmith.lm.settings import Api, LmSettings
from xesmith.lm.stand_in import Fault, StandIn

pytestmark = pytest.mark.parametrize("api", ["chat", "responses"])
Make = Callable[..., EndpointChannel]


def test_a_reply_comes_as_it_was_recorded(
    api: Api, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, reply.finish, reply.model) == (text, "stop", "openai/stand-in")
    assert (reply.usage.estimated, reply.usage.cost_usd) == (False, None)
    assert reply.usage.completion_tokens == 18  # as the stand-in counts: 53 bytes
    path = "/v1/chat/completions" if api == "chat" else "/v1/responses"
    assert [(served.path, served.stream) for served in server.requests] == [(path, True)]


def test_timeout_is_tried_again(
    api: Api, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording], [Fault(hang_s=30)]) as server:
        reply = channel(server, api=api, timeout_s=0.6).ask(request_)
    assert (reply.text, len(server.requests)) == (text, 2)
    assert reply.usage.estimated  # the prompt of the first try is counted as well


def test_a_silent_server_does_not_hang(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with (
        StandIn([recording], [Fault(hang_s=60, times=2)]) as server,
        pytest.raises(ModelUnavailableError, match=r"no reply within 0\.\d+ seconds") as told,
    ):
        channel(server, api=api, timeout_s=0.3, retries=1).ask(request_)
    assert "--lm-timeout" in str(told.value.remedy)
    assert len(server.requests) == 2


def test_rate_limit_waits_as_long_as_retry_after_says(
    api: Api, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording], [Fault(status=429, retry_after=0.4)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, len(server.requests)) == (text, 2)
    assert reply.seconds >= 0.4  # the pause of its own would be 0.02


def test_retry_after_beyond_the_deadline_is_not_waited_for(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with (
        StandIn([recording], [Fault(status=429, retry_after=3600)]) as server,
        pytest.raises(ModelUnavailableError),
    ):
        channel(server, api=api).ask(request_)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=503),
        Fault(close=True),
        Fault(close_after=10),
        Fault(not_json=True),
    ],
    ids=["500", "503", "closed", "closed in the middle", "no JSON"],
)
def test_what_may_pass_is_tried_again(
    api: Api, fault: Fault, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording], [fault]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, reply.finish, len(server.requests)) == (text, "stop", 2)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, times=9),
        Fault(status=500, times=9),
        Fault(close=True, times=9),
        Fault(close_after=10, times=9),
        Fault(not_json=True, times=9),
    ],
    ids=["429", "500", "closed", "closed in the middle", "no JSON"],
)
def test_what_does_not_pass_ends_after_all_tries(
    api: Api, fault: Fault, recording: Path, channel: Make, request_: Request
) -> None:
    with (
        StandIn([recording], [fault]) as server,
        pytest.raises(ModelUnavailableError, match="in 3 tries") as told,
    ):
        channel(server, api=api).ask(request_)
    assert told.value.where == "openai/stand-in, request fusion-1-1"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_what_never_passes_is_refused_at_once(
    api: Api, status: int, recording: Path, channel: Make, request_: Request
) -> None:
    with (
        StandIn([recording], [Fault(status=status)]) as server,
        pytest.raises(ModelError, match="a fault of the stand-in's script") as told,
    ):
        channel(server, api=api).ask(request_)
    assert len(server.requests) == 1
    # Another request may pass where this one is too long; none does without a key.
    of_the_request = status in {400, 413}
    assert told.type is (RequestRefusedError if of_the_request else ModelRefusedError)
    assert ("XESMITH_LM_API_KEY" in str(told.value.remedy)) == (status in {401, 403})


def test_an_event_that_is_no_json_loses_nothing(
    api: Api, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording], [Fault(bad_event=True)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, reply.finish) == (text, "stop")
    # A responses endpoint repeats the whole text at the end; a chat is asked again.
    assert len(server.requests) == (2 if api == "chat" else 1)


def test_a_reply_cut_in_the_middle_says_so(
    api: Api, recording: Path, channel: Make, request_: Request, text: str
) -> None:
    with StandIn([recording], [Fault(cut=20)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, reply.finish, len(server.requests)) == (text[:20], "length", 1)


def test_an_empty_reply_is_a_reply(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(empty=True)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (reply.text, reply.finish, len(server.requests)) == ("", "stop", 1)


def test_a_reply_of_200_kb_comes_whole(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(size=200_000)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert (len(reply.text), reply.finish) == (200_000, "stop")
    assert reply.text[-16:] == "0123456789abcde\n"


@pytest.mark.parametrize("size", [5_001, 5_100, 200_000])
def test_a_reply_that_is_too_large_is_cut(
    api: Api, size: int, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(size=size)]) as server:
        reply = channel(server, api=api, max_reply_characters=5_000).ask(request_)
    assert (len(reply.text), reply.finish) == (5_000, "size")


def test_an_endless_stream_is_cut_by_size(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(endless=True)]) as server:
        reply = channel(server, api=api, max_reply_characters=10_000).ask(request_)
    assert (len(reply.text), reply.finish, len(server.requests)) == (10_000, "size", 1)


def test_an_endless_trickle_is_cut_by_time(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(endless=True, trickle_s=0.05)]) as server:
        reply = channel(server, api=api, timeout_s=0.7).ask(request_)
    assert (reply.text[:10], reply.finish, len(server.requests)) == ("and so on,", "time", 1)


def test_bytes_without_end_and_without_sense_are_not_kept(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with (
        StandIn([recording], [Fault(endless_line=True)]) as server,
        pytest.raises(ModelUnavailableError, match="more bytes came than any reply needs"),
    ):
        channel(server, api=api, max_reply_characters=1_000, retries=0).ask(request_)


def test_a_secret_that_is_echoed_is_redacted(
    api: Api, recording: Path, channel: Make, request_: Request, text: str, key: str
) -> None:
    with StandIn([recording], [Fault(echo_key=True)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert reply.text == f"{text}\nThe key was [redacted].\n"
    assert key not in repr(reply)


def test_a_secret_at_the_cut_is_redacted(
    api: Api,
    recording: Path,
    channel: Make,
    request_: Request,
    text: str,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xesmith.lm.stand_in._CHUNK_CHARACTERS", 5)
    said = f"{text}\nThe key was "
    with StandIn([recording], [Fault(echo_key=True)]) as server:
        lm = channel(server, api=api, max_reply_characters=len(said) + 12)
        cut_by_size = lm.ask(request_)
    assert (cut_by_size.text, cut_by_size.finish) == (f"{said}[redacted].\n", "stop")
    with StandIn([recording], [Fault(text=f"{said}{key}", cut=len(said) + 20)]) as server:
        cut_by_endpoint = channel(server, api=api).ask(request_)
    assert (cut_by_endpoint.text, cut_by_endpoint.finish) == (f"{said}[redacted]", "length")
    with StandIn([recording], [Fault(text=f"{said}{key}", endless=True)]) as server:
        lm = channel(server, api=api, max_reply_characters=len(said) + 12)
        endless = lm.ask(request_)
    assert (endless.text, endless.finish) == (f"{said}[redacted]an", "size")


def test_tokens_are_estimated_where_the_endpoint_does_not_count(
    api: Api, recording: Path, channel: Make, request_: Request
) -> None:
    with StandIn([recording], [Fault(no_usage=True)]) as server:
        reply = channel(server, api=api).ask(request_)
    assert reply.usage.estimated
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (25, 18)


def test_the_key_of_a_provider_is_not_sent_to_another_server(
    api: Api, recording: Path, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "words-that-are-no-secret")
    monkeypatch.setattr("xesmith.lm.redact._SECRET_NAME_PARTS", frozenset[str]())
    with StandIn([recording], [Fault(echo_key=True)]) as server:
        settings = LmSettings(model="openai/stand-in", base_url=server.url, api=api)
        reply = EndpointChannel(settings).ask(request_)
    assert reply.text.endswith("The key was none.\n")


def test_a_prompt_goes_out_without_secrets(
    api: Api, recording: Path, channel: Make, key: str
) -> None:
    asked = Request("fusion-1-1", (Message("user", f"request: fusion-1-1\n\n{key}"),))
    clean = Request("fusion-1-1", (Message("user", "request: fusion-1-1\n\n[redacted]"),))
    with StandIn([recording]) as server:
        for request in (asked, clean):
            channel(server, api=api).ask(request)
    first, second = server.requests
    assert first.digest == second.digest
