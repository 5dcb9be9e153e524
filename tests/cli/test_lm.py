"""`xesmith lm`: check, show, serve; what Ctrl-C does while a model is silent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xesmith.cli import app
from xesmith.lm.stand_in import Fault, StandIn

KEY = "sk-a-key-that-no-one-may-see-0123456789"


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.yaml"
    config.touch(mode=0o600)
    monkeypatch.setenv("XESMITH_CONFIG", str(config))
    monkeypatch.setenv("XESMITH_LM_API_KEY", KEY)


def flags(server: StandIn, *more: str) -> list[str]:
    return ["--lm", "openai/stand-in", "--lm-base", server.url, *more]


def test_check_says_what_the_endpoint_is(capsys: pytest.CaptureFixture[str]) -> None:
    with StandIn((), [Fault(text="ready")]) as server:
        assert app.run(["lm", "check", *flags(server)]) == 0
    out, err = capsys.readouterr()
    assert "openai/stand-in" in out
    assert f"{server.url} (chat)" in out
    assert "not known" in out  # the price
    assert "ready (finish: stop)" in out
    assert "asking openai/stand-in" in err
    assert KEY not in out + err


def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with StandIn((), [Fault(echo_key=True)]) as server:
        assert app.run(["lm", "check", "--json", *flags(server, "--lm-api", "responses")]) == 0
    out, err = capsys.readouterr()
    facts = json.loads(out)
    assert (facts["api"], facts["model"], err) == ("responses", "openai/stand-in", "")
    assert (facts["tokens_estimated"], facts["cost_usd"]) == (False, None)
    assert facts["reply"] == "ready\nThe key was [redacted].\n"


def test_check_of_an_endpoint_that_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with StandIn((), [Fault(status=401)]) as server:
        assert app.run(["lm", "check", *flags(server)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "the model's endpoint refuses" in err
    assert "XESMITH_LM_API_KEY" in err
    assert "Traceback" not in err


def test_check_of_a_server_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StandIn() as server:
        gone = flags(server)
    monkeypatch.setenv("XESMITH_LM_RETRIES", "0")
    assert app.run(["lm", "check", *gone]) == 3
    assert "the model gave no reply" in capsys.readouterr().err


def test_a_model_without_a_provider_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["lm", "check", "--lm", "stand-in", "--lm-base", "http://127.0.0.1:9/v1"]) == 3
    assert "--lm openai/stand-in" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "show"])
def test_without_a_model(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["lm", command]) == 2
    assert "no model is given" in capsys.readouterr().err


def test_an_unknown_kind_of_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["lm", "show", "--lm", "a/b", "--lm-api", "response"]) == 2
    assert "did you mean 'responses'?" in capsys.readouterr().err


def test_show_never_shows_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lm", "show", "--lm", "a/b", "--budget-tokens", "2000"]
    assert app.run(arguments) == 0
    out, _ = capsys.readouterr()
    assert "--budget-tokens" in out
    assert KEY not in out
    assert app.run([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["key"] == "set"
    assert (shown["sources"]["key"], shown["sources"]["model"]) == ("XESMITH_LM_API_KEY", "--lm")
    assert (shown["sources"]["retries"], shown["settings"]["retries"]) == ("default", 3)
    assert KEY not in json.dumps(shown)


def test_serve_answers_until_it_is_interrupted(tmp_path: Path, xesmith_command: list[str]) -> None:
    recording, faults, log = tmp_path / "recording", tmp_path / "faults.yaml", tmp_path / "log"
    recording.mkdir()
    (recording / "check.reply.md").write_text("ready")
    faults.write_text("- {status: 500}\n")
    command = [*xesmith_command, "lm", "serve", str(recording), "--json"]
    command += ["--faults", str(faults), "--log", str(log)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        lines = [served.stdout.readline()]
        while lines[-1].rstrip() not in {"}", ""}:
            lines.append(served.stdout.readline())
        said = json.loads("".join(lines))
        asked = ["lm", "check", "--json", "--lm", "openai/stand-in", "--lm-base", said["url"]]
        assert app.run(asked) == 0
        served.send_signal(signal.SIGINT)
        _, err = served.communicate(timeout=20)
    assert (served.returncode, said["stand_in"]) == (0, True)
    assert err == "2 requests served\n"
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [("- {statu: 1}", "unknown fault"), ("- [", "not YAML"), (None, "cannot be read")],
)
def test_serve_refuses_a_wrong_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, what: str
) -> None:
    path = tmp_path / "faults.yaml"
    if text is not None:
        path.write_text(text)
    assert app.run(["lm", "serve", "--faults", str(path)]) == 2
    assert what in capsys.readouterr().err


def test_ctrl_c_ends_a_request_that_hangs(xesmith_command: list[str]) -> None:
    """The server is silent for a minute; SIGINT ends the command long before."""
    with StandIn((), [Fault(hang_s=60)]) as server:
        command = [*xesmith_command, "lm", "check", *flags(server)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as asking:
            ends = time.monotonic() + 60
            while not server.requests and time.monotonic() < ends:
                time.sleep(0.05)
            assert len(server.requests) == 1
            asking.send_signal(signal.SIGINT)
            out, err = asking.communicate(timeout=15)
    assert (asking.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err


def test_the_options_cost_no_heavy_import() -> None:
    script = (
        "import sys, xesmith.cli.lm\n"
        "print([n for n in ('litellm', 'pydantic', 'yaml', 'xesmith.lm') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_nobody_but_the_endpoint_is_reached() -> None:
    """Neither LiteLLM's import nor a request fetches a price list or reports anything."""
    script = (
        "import sys\n"
        "reached = []\n"
        "def hook(event, arguments):\n"
        "    if event in {'socket.connect', 'socket.getaddrinfo', 'socket.sendto'}:\n"
        "        reached.append(arguments[1][0] if event == 'socket.connect' else arguments[0])\n"
        "sys.addaudithook(hook)\n"
        "from xesmith.cli import app\n"
        "code = app.run(sys.argv[1:])\n"
        "print(code, 'litellm' in sys.modules, sorted(set(map(str, reached))))"
    )
    environment = {name: v for name, v in os.environ.items() if not name.startswith("LITELLM_")}
    with StandIn((), [Fault(text="ready")]) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, "lm", "check", *flags(server)],
            capture_output=True,
            text=True,
            env=environment,
        )
    assert done.stdout.splitlines()[-1] == "0 True ['127.0.0.1']", done.stderr
