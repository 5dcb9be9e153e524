"""Tools that compile: one configuration and its texts, predictions, progress, cancellation."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

SOFTMAX = "bench/problems/softmax/kernel.py"

ENDLESS = """\
import os
from pathlib import Path
import triton

@triton.jit
def kernel():
    pass

Path({note!r}).write_text(str(os.getpid()))
while True:
    pass
"""


def test_one_configuration_is_lowered_and_its_text_read(talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> list[Any]:
        wide = {"kernel": "softmax_kernel", "options": {"num_warps": 16}}
        asked = {"kernel": SOFTMAX, "configuration": wide, "lines": 3}
        return [
            await client.value("lower", **asked, level="asm", find="math.exp"),
            await client.value("lower", **asked, level="ttgir", first_line=2),
            await client.value("lower", kernel=SOFTMAX),
            await client.call("lower", **asked, level="ptx"),
            await client.call("lower", **asked, level="asm", find="no such text"),
            await client.call("lower", kernel=SOFTMAX, shape="bench-gpu[1]"),
            await client.call("lower", **{**asked, "configuration": {**wide, "metas": {"B": 1}}}),
            await client.call("lower", **{**asked, "configuration": {"kernel": "softmax"}}),
        ]

    asm, ttgir, plain, ptx, absent, shape, meta, kernel = talk(conversation)
    (launch,) = asm["shape"]["launches"]
    assert launch["configuration"]["num_warps"] == 16
    assert launch["configuration"]["BLOCK_SIZE"] == 4096
    assert launch["grid"] == [8192, 1, 1]
    assert asm["excerpt"]["level"] == "asm"
    first = asm["excerpt"]["text"].splitlines()
    assert "math.exp" in first[0]
    assert len(first) == 3
    assert asm["excerpt"]["total_lines"] > 100
    assert ttgir["excerpt"]["first_line"] == 2
    assert plain["shape"]["launches"][0]["configuration"]["num_warps"] == 4
    assert "excerpt" not in plain
    assert ptx.is_error
    assert "there are: ttir, ttgir, llir, spirv, asm" in ptx.text
    assert "no line of asm holds 'no such text'" in absent.text
    assert "did you mean 'bench-gpu[0]'?" in shape.text
    assert "configuration.metas: unknown name 'B'" in meta.text
    assert "did you mean 'softmax_kernel'?" in kernel.text


def test_a_prediction_names_its_bound_and_is_no_measurement(talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> Any:
        return await client.call("predict", kernel=SOFTMAX, target="b70")

    answer = talk(conversation)
    (shape,) = answer.value["shapes"]
    assert answer.value["measured"] == "not measured"
    assert "speed" not in answer.text
    assert shape["bound_by"] == ["memory"]
    # 2 x 64 MiB at 608 GB/s
    assert shape["parts_us"]["memory"] == pytest.approx(220.75, abs=0.01)
    assert shape["predicted_us"] >= shape["parts_us"]["memory"]


def test_findings_are_those_of_inspect_without_the_launches(talk: Callable[..., Any]) -> None:
    async def conversation(client: Any) -> tuple[Any, Any]:
        whole = await client.value("inspect", kernel=SOFTMAX, detail=True)
        return whole, await client.value("findings", kernel=SOFTMAX)

    whole, findings = talk(conversation)
    assert findings["shapes"][0]["findings"] == whole["shapes"][0]["findings"]
    assert "launches" not in findings["shapes"][0]
    needless = findings["shapes"][0]["findings"][0]
    assert (needless["kind"], needless["line"]) == ("needless-mask", 21)
    assert needless["source"].startswith("x = tl.load(")
    assert needless["remedy"]
    (launch,) = whole["shapes"][0]["launches"]
    assert {access["op"] for access in launch["accesses"]} == {"load", "store"}
    assert launch["busiest_lines"]


def test_a_cancelled_call_ends_its_work_and_the_server_goes_on(
    talk: Callable[..., Any], tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    endless = tmp_path / "endless.py"
    endless.write_text(ENDLESS.format(note=str(note)))

    async def conversation(client: Any) -> tuple[int, Any]:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call("inspect", kernel=str(endless)))
            while not note.exists() or not note.read_text():
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        with anyio.fail_after(60):  # the endless one would keep the server for 120 s
            return int(note.read_text()), await client.value("findings", kernel=SOFTMAX)

    worker, after = talk(conversation)
    assert after["shapes"][0]["findings"]
    assert has_ended(worker)


def test_a_call_that_waits_is_cancelled_before_it_begins(
    talk: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for note in (first, second):
        note.with_suffix(".py").write_text(ENDLESS.format(note=str(note)))

    async def conversation(client: Any) -> Any:
        async def endless(note: Path, scope: anyio.CancelScope) -> None:
            with scope:
                await client.call("inspect", kernel=str(note.with_suffix(".py")))

        scopes = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(endless, first, scopes[0])
            while not first.exists():
                await anyio.sleep(0.05)
            group.start_soon(endless, second, scopes[1])
            await client.value("devices")  # answered beside the work
            scopes[1].cancel()
            scopes[0].cancel()
        with anyio.fail_after(60):
            return await client.value("findings", kernel=SOFTMAX)

    assert talk(conversation)["shapes"][0]["findings"]
    assert not second.exists()


def test_a_signal_ends_a_server_at_work_and_its_workers(
    xesmith_command: list[str], tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    endless = tmp_path / "endless.py"
    endless.write_text(ENDLESS.format(note=str(note)))

    async def main() -> int:
        command = [*xesmith_command, "mcp"]
        async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as server:
            assert server.stdin is not None
            client = '{"name": "raw", "version": "1"}'
            params = f'{{"protocolVersion":"2025-06-18","capabilities":{{}},"clientInfo":{client}}}'
            call = f'{{"name": "inspect", "arguments": {{"kernel": "{endless}"}}}}'
            for message in (
                f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}',
                '{"jsonrpc":"2.0","method":"notifications/initialized"}',
                f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{call}}}',
            ):
                await server.stdin.send(message.encode() + b"\n")
            while not note.exists() or not note.read_text():
                await anyio.sleep(0.05)
            server.send_signal(signal.SIGTERM)
            with anyio.fail_after(30):
                return await server.wait()

    assert anyio.run(main) == 130
    assert has_ended(int(note.read_text()))


def has_ended(pid: int) -> bool:
    """Whether a process ends by itself before long: who reaps it may take a moment."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
