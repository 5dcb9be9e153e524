"""Serves the tools over stdio with the official SDK.

The event loop runs in a thread of its own; the main thread does what needs the compiler (see
`xesmith.mcp.jobs`). While the SDK serves, it owns stdout: whatever else writes there lands on
stderr.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sqlite3
import sys
import threading
import traceback
from collections.abc import Mapping

import anyio.to_thread
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from xesmith import __version__
from xesmith.errors import UsageError, XesmithError, nearest
from xesmith.mcp.jobs import Jobs
from xesmith.mcp.judging import JUDGING
from xesmith.mcp.lookups import LOOKUPS
from xesmith.mcp.tool import Answer, Tool
from xesmith.mcp.workbench import Workbench

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*LOOKUPS, *JUDGING)}

INSTRUCTIONS = """\
Makes a correct Triton kernel faster on Intel GPUs; the offline compiler and PyTorch judge.
Begin with inspect, choose a stage with stages, read knowledge_search, then verify candidates with
a run folder; trials shows what was tried, best gives the best accepted file. Give a candidate as
jit functions of the baseline file (kernels), with a launch plan where another grid, tile or warp
count is needed; the rest of the file cannot be changed. Times are predicted, never measured."""


def serve(toolchain: str | None, timeout_s: float) -> None:
    """Serves one client on stdin and stdout until it closes them."""
    bench = Workbench(toolchain, timeout_s)
    jobs = Jobs(dropped=bench.close)
    failures: list[BaseException] = []

    def listen() -> None:
        try:
            asyncio.run(_listen(jobs, bench))
        except BaseException as error:
            failures.append(error)
        finally:
            jobs.end()

    listening = threading.Thread(target=listen, name="mcp", daemon=True)
    listening.start()
    try:
        jobs.run()
    except KeyboardInterrupt:
        # The listening thread waits for a line of stdin and cannot be interrupted.
        bench.close()
        sys.stderr.flush()
        os._exit(130)
    bench.close()
    listening.join()
    if failures:
        raise failures[0]


async def _listen(jobs: Jobs, bench: Workbench) -> None:
    server = _server(jobs, bench)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _server(jobs: Jobs, bench: Workbench) -> Server:
    async def list_tools(
        _: ServerRequestContext, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def call_tool(
        context: ServerRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            return _answered(await _called(jobs, bench, context, params))
        except XesmithError as error:
            return _failed(error)
        except (OSError, sqlite3.Error) as error:
            remedy = "give the folder rights and space, or name another"
            return _failed(XesmithError(f"a file cannot be used: {error}", remedy=remedy))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return _failed(
                XesmithError(
                    f"internal error: {type(error).__name__}: {error}",
                    remedy="this is a defect of xesmith; its stderr has the details",
                )
            )

    return Server(
        "xesmith",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _called(
    jobs: Jobs,
    bench: Workbench,
    context: ServerRequestContext,
    params: types.CallToolRequestParams,
) -> Answer:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise UsageError(f"unknown tool '{params.name}'", remedy=nearest(params.name, TOOLS))
    ask = tool.read(params.arguments or {})
    if not tool.compiles:
        return await anyio.to_thread.run_sync(functools.partial(tool.work, ask, bench, _silent))
    steps = 0

    async def report(step: str) -> None:
        nonlocal steps
        steps += 1
        await context.session.report_progress(steps, message=step)

    return await jobs.do(functools.partial(tool.work, ask, bench), report)


def _silent(_: str) -> None:
    """What is answered at once has no steps to tell."""


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.ask.model_json_schema(),
        output_schema=tool.answer.model_json_schema(mode="serialization"),
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes, destructive_hint=False, open_world_hint=False
        ),
    )


def _answered(answer: Answer) -> types.CallToolResult:
    value = answer.model_dump(mode="json", exclude_defaults=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(value, ensure_ascii=False))],
        structured_content=value,
    )


def _failed(error: XesmithError) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(error))],
        structured_content=error.to_json(),
        is_error=True,
    )
