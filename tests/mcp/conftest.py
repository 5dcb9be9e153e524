"""A client of the SDK that talks to `xesmith mcp` over real stdio."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

_T = TypeVar("_T")


@dataclass
class Answered:
    """A tool's answer: its structured value, its text, and the steps that were reported."""

    value: Any
    text: str
    is_error: bool
    steps: list[str] = field(default_factory=list)


@dataclass
class Talk:
    client: Client

    async def call(self, tool: str, **arguments: Any) -> Answered:
        steps: list[str] = []

        async def step(_: float, __: float | None, message: str | None) -> None:
            steps.append(message or "")

        result = await self.client.call_tool(tool, arguments, progress_callback=step)
        text = "".join(getattr(block, "text", "") for block in result.content)
        return Answered(result.structured_content, text, result.is_error, steps)

    async def value(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that must not fail."""
        answered = await self.call(tool, **arguments)
        assert not answered.is_error, answered.text
        return answered.value


Talking = Callable[[Callable[[Talk], Awaitable[_T]]], _T]


@pytest.fixture
def talk(repository: Path) -> Callable[..., Any]:
    """Holds one conversation with a server of its own."""

    def hold(conversation: Callable[[Talk], Awaitable[_T]], **environment: str) -> _T:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "xesmith.cli.app", "mcp"],
            cwd=repository,
            env={**os.environ, **environment},
        )

        async def main() -> _T:
            with anyio.fail_after(240):
                async with Client(server) as client:
                    return await conversation(Talk(client))

        return anyio.run(main)

    return hold
