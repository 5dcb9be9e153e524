"""The stand-in server: what it serves, its script of faults, its log."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from xesmith.errors import UsageError
from xesmith.lm.stand_in import Fault, StandIn, read_faults


def post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def chat(label: str = "fusion-1-1") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"request: {label}\n\nWell?"}]}


def test_it_says_that_it_is_a_stand_in(recording: Path, text: str) -> None:
    with StandIn([recording]) as server:
        status, reply = post(f"{server.url}/chat/completions", chat())
        with urllib.request.urlopen(f"{server.url}/models", timeout=10) as response:
            models = json.loads(response.read())
    assert (status, reply["model"], models["data"][0]["id"]) == (200, "stand-in", "stand-in")
    assert reply["choices"][0]["message"]["content"] == text
    assert reply["choices"][0]["finish_reason"] == "stop"


def test_the_responses_endpoint_answers_in_one_piece_too(recording: Path, text: str) -> None:
    body = {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "request: fusion-1-1"}]}
        ]
    }
    with StandIn([recording]) as server:
        status, reply = post(f"{server.url}/responses", body)
    assert (status, reply["status"]) == (200, "completed")
    assert reply["output"][0]["content"][0]["text"] == text


def test_recorded_facts_are_served(recording: Path) -> None:
    facts = {"finish": "length", "usage": {"prompt_tokens": 7, "completion_tokens": 9}}
    (recording / "fusion-1-1.reply.json").write_text(json.dumps(facts))
    with StandIn([recording]) as server:
        _, reply = post(f"{server.url}/chat/completions", chat())
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == 16


def test_the_first_folder_that_holds_a_reply_gives_it(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for label in ("fusion-1-1", "fusion-1-2"):
        (other / f"{label}.reply.md").write_text("other")
    with StandIn([recording, other]) as server:
        replies = [post(f"{server.url}/chat/completions", chat(f"fusion-1-{n}"))[1] for n in (1, 2)]
    texts = [reply["choices"][0]["message"]["content"] for reply in replies]
    assert (texts[0][:5], texts[1]) == ("NOTE:", "other")


@pytest.mark.parametrize("label", ["nothing-1-1", "../../etc/passwd", ""])
def test_an_unknown_label_is_an_error_of_the_request(recording: Path, label: str) -> None:
    with StandIn([recording]) as server:
        status, reply = post(f"{server.url}/chat/completions", chat(label))
    assert status == 400
    assert "the stand-in has no reply" in reply["error"]["message"]


def test_it_answers_what_a_check_asks_without_a_recording() -> None:
    with StandIn() as server:
        status, reply = post(f"{server.url}/chat/completions", chat("check"))
    assert (status, reply["choices"][0]["message"]["content"]) == (200, "ready")


def test_faults_come_in_order_or_by_label(recording: Path) -> None:
    (recording / "b.reply.md").write_text("b")
    faults = read_faults(
        [{"status": 500, "times": 2}, {"label": "b", "status": 429}, {}, {"text": "new"}], "faults"
    )
    with StandIn([recording], faults) as server:
        url = f"{server.url}/chat/completions"
        statuses = [post(url, chat(label))[0] for label in ("a", "b", "fusion-1-1", "b")]
        last = post(url, chat("fusion-1-1"))[1]
    assert statuses == [500, 429, 500, 200]
    assert last["choices"][0]["message"]["content"] == "new"
    assert [served.fault for served in server.requests] == [True] * 5


def test_the_log_counts_requests(recording: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with StandIn([recording], log=log) as server:
        for _ in range(2):
            post(f"{server.url}/chat/completions", {**chat(), "max_tokens": 9})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    digest = hashlib.sha256(json.dumps({**chat(), "max_tokens": 9}).encode()).hexdigest()
    assert [(line["number"], line["label"], line["digest"]) for line in lines] == [
        (1, "fusion-1-1", digest),
        (2, "fusion-1-1", digest),
    ]
    assert (server.count("fusion-1-1"), lines[0]["max_tokens"]) == (2, 9)


@pytest.mark.parametrize(
    ("data", "what", "hint"),
    [
        ({}, "a list of steps", ""),
        ([3], "a step is a mapping", ""),
        ([{"statu": 500}], "unknown fault 'statu'", "did you mean 'status'?"),
        ([{"status": "500"}], "'status' has a wrong value", ""),
        ([{"hang_s": -1}], "'hang_s' has a wrong value", ""),
        ([{"close": 1}], "'close' has a wrong value", ""),
        ([{"text": 1}], "'text' has a wrong value", ""),
    ],
)
def test_a_wrong_script_is_refused(data: object, what: str, hint: str) -> None:
    with pytest.raises(UsageError, match=what) as told:
        read_faults(data, "faults.yaml")
    assert hint in str(told.value.remedy)


def test_a_port_that_is_taken_is_refused() -> None:
    with StandIn() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(UsageError, match="the port cannot be used"):
            StandIn(port=port)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        StandIn([tmp_path / "none"])


def test_a_fault_is_none_by_default() -> None:
    assert read_faults([{}], "x") == [Fault()]
