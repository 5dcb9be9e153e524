"""Tools that compile: one configuration and its texts, predictions, progress, cancellation."""

from __future__ import annotations

import contextlib
import itertools
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

#: it can't write anywhere that the test can see, so it takes a name by which it is found
ENDLESS = """\
import ctypes
import triton

@triton.jit
def kernel():
    pass

ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)
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
    name = a_name()
    endless = tmp_path / "endless.py"
    endless.write_text(ENDLESS.format(name=name))

    async def conversation(client: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call("inspect", kernel=str(endless)))
            await begun(name)
            group.cancel_scope.cancel()
        with anyio.fail_after(60):  # the endless one would keep the server for 120 s
            return await client.value("findings", kernel=SOFTMAX)

    assert talk(conversation)["shapes"][0]["findings"]
    assert has_ended(name)


def test_a_call_that_waits_is_cancelled_before_it_begins(
    talk: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = a_name(), a_name()
    for name in (first, second):
        (tmp_path / f"{name}.py").write_text(ENDLESS.format(name=name))
    seen: list[bool] = []

    async def conversation(client: Any) -> Any:
        async def endless(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                await client.call("inspect", kernel=str(tmp_path / f"{name}.py"))

        scopes = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(endless, first, scopes[0])
            await begun(first)
            group.start_soon(endless, second, scopes[1])
            await client.value("devices")  # answered beside the work
            seen.append(runs(second))
            scopes[1].cancel()
            scopes[0].cancel()
        with anyio.fail_after(60):
            return await client.value("findings", kernel=SOFTMAX)

    assert talk(conversation)["shapes"][0]["findings"]
    assert seen == [False]
    assert not runs(second)


def test_a_signal_ends_a_server_at_work_and_its_workers(
    xesmith_command: list[str], tmp_path: Path
) -> None:
    name = a_name()
    endless = tmp_path / "endless.py"
    endless.write_text(ENDLESS.format(name=name))

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
            await begun(name)
            server.send_signal(signal.SIGTERM)
            with anyio.fail_after(30):
                return await server.wait()

    assert anyio.run(main) == 130
    assert has_ended(name)


_NAMES = itertools.count()


def a_name() -> str:
    """A process name that no other test has; the kernel keeps 15 characters."""
    return f"xs{os.getpid()}-{next(_NAMES)}"


def runs(name: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                return True
    return False


async def begun(name: str) -> None:
    with anyio.fail_after(60):
        while not runs(name):
            await anyio.sleep(0.05)


def has_ended(name: str) -> bool:
    """Whether a process ends before long: who reaps it may take a moment."""
    for _ in range(200):
        if not runs(name):
            return True
        time.sleep(0.05)
    return False
