"""What holds of every tool: the listing, errors with a remedy, stdout, the end of the server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

SOFTMAX = "bench/problems/softmax/kernel.py"
TOOLS = {
    *("devices", "stages", "guide", "knowledge_search", "trials", "best"),
    *("inspect", "findings", "lower", "predict", "verify"),
}


def test_every_tool_is_typed_and_described_in_little_text(talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> list[Any]:
        return (await client.client.list_tools()).tools

    listed = talk(conversation)
    assert {tool.name for tool in listed} == TOOLS
    for tool in listed:
        assert 0 < len(tool.description) < 400
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.read_only_hint is (tool.name not in ("verify", "best"))
    assert sum(len(tool.model_dump_json()) for tool in listed) < 45_000


#: (tool, arguments, what the error says, what its remedy says)
MISTAKES: list[tuple[str, dict[str, Any], str, str]] = [
    ("inspect", {"kernel": "bench/none.py"}, "bench/none.py: no such file", "give a Python file"),
    (
        "inspect",
        {"kernel": SOFTMAX, "target": "bmg-g32"},
        "unknown device 'bmg-g32'",
        "did you mean 'bmg-g31'?",
    ),
    ("inspect", {"kernel": SOFTMAX, "tagret": "b70"}, "unknown argument 'tagret'", "'target'?"),
    ("inspect", {}, "kernel: Field required", "input schema"),
    ("inspekt", {}, "unknown tool 'inspekt'", "did you mean 'inspect'?"),
    ("stages", {"name": "discovry"}, "unknown stage 'discovry'", "did you mean 'discovery'?"),
    ("devices", {"name": "b71"}, "unknown device 'b71'", "did you mean"),
    ("knowledge_search", {"finding": "spil"}, "unknown finding kind 'spil'", "'spill'?"),
    ("trials", {"run": "/nowhere"}, "there is no ledger here", "earlier run"),
    ("verify", {"kernel": SOFTMAX}, "there is no candidate", "kernels and plan"),
    ("verify", {"kernel": SOFTMAX, "kernels": "", "stage": "x"}, "unknown stage 'x'", "known:"),
    (
        "verify",
        {"kernel": SOFTMAX, "candidate": SOFTMAX, "plan": {}},
        "the candidate is given twice",
        "either candidate, or kernels and plan",
    ),
    ("verify", {"kernel": SOFTMAX, "plan": {}, "parent": 1}, "a parent is a trial", "give run"),
    (
        "verify",
        {"kernel": SOFTMAX, "kernels": "def softmax(x):\n    return x\n"},
        "only kernels and plain constants are taken, not function 'softmax'",
        "see guide",
    ),
    (
        "verify",
        {"kernel": SOFTMAX, "kernels": "@triton.jit\ndef softmax_kernel(:\n"},
        "line 2 of the code: syntax error",
        "see guide",
    ),
    (
        "verify",
        {"kernel": SOFTMAX, "plan": {"rebindings": [{"nam": "softmax_kernel"}]}},
        "plan: unknown field 'rebindings[0].nam'",
        "did you mean 'name'?",
    ),
    (
        "predict",
        {"kernel": SOFTMAX, "plan": '{"rebindings": [{"nam": "softmax_kernel"}]}'},
        "plan: unknown field 'rebindings[0].nam'",
        "did you mean 'name'?",
    ),
    (
        "lower",
        {"kernel": SOFTMAX, "candidate": "bench/problems/softmax/reference.py"},
        "the candidate is refused by syntax",
        "change kernels only",
    ),
]


def test_mistakes_are_tool_errors_with_a_remedy(talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> list[Any]:
        return [await client.call(tool, **arguments) for tool, arguments, *_ in MISTAKES]

    for (tool, arguments, what, remedy), answer in zip(MISTAKES, talk(conversation), strict=True):
        assert answer.is_error, (tool, arguments)
        assert what in answer.text
        assert f"\n  remedy: {answer.value['remedy']}" in answer.text
        assert remedy in answer.value["remedy"]
        assert "Traceback" not in answer.text


def test_stdout_holds_nothing_but_the_protocol(xesmith_command: list[str]) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}}
    client["clientInfo"] = {"name": "raw", "version": "1"}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "stages", "arguments": {"name": "discovery"}},
        },
    ]
    server = subprocess.Popen(
        [*xesmith_command, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    answers: list[Any] = []
    server.stdin.write("this is no JSON\n")
    for message in asked:
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        if "id" in message:
            while not answers or answers[-1].get("id") != message["id"]:
                answers.append(json.loads(server.stdout.readline()))
    rest, _ = server.communicate(timeout=60)
    assert server.returncode == 0
    assert [json.loads(line)["jsonrpc"] for line in rest.splitlines()] == []
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"}
    assert answers[-1]["result"]["structuredContent"]["stages"][0]["name"] == "discovery"


def test_a_missing_package_is_one_error_that_names_the_extra() -> None:
    script = "import sys; sys.modules['mcp'] = None\n"
    script += "from xesmith.cli.app import run; sys.exit(run(['mcp']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: the Python package 'mcp' is missing or older than 2.3",
        "  where: xesmith mcp",
        '  remedy: pip install "xesmith[mcp]"',
    ]


def test_the_server_is_not_imported_for_the_other_commands() -> None:
    script = "import sys\nfrom xesmith.cli.app import run\nrun(['--help'])\n"
    script += "assert not {'mcp', 'anyio', 'pydantic'} & set(sys.modules), sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "mcp" in done.stdout


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server(xesmith_command: list[str], ending: signal.Signals) -> None:
    with subprocess.Popen(
        [*xesmith_command, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"this is no JSON\n")  # answered when the server is up
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(ending)
        assert server.wait(timeout=30) == 130
