"""`xesmith mcp`: the tools of xesmith for a language model's client, over stdio."""

from __future__ import annotations

import typer

from xesmith.cli.common import EXIT_OK, PANEL_KERNELS
from xesmith.cli.options import TimeoutOption, ToolchainOption
from xesmith.errors import XesmithError


def register(app: typer.Typer) -> None:
    app.command("mcp", rich_help_panel=PANEL_KERNELS)(mcp)


def mcp(toolchain: ToolchainOption = None, timeout: TimeoutOption = 120.0) -> int:
    """Serve inspect, lower, verify and more as MCP tools on stdin and stdout."""
    try:
        from xesmith.mcp.server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise XesmithError(
            "the Python package 'mcp' is missing or older than 2.3",
            where="xesmith mcp",
            remedy='pip install "xesmith[mcp]"',
        ) from error
    serve(toolchain, timeout)
    return EXIT_OK
