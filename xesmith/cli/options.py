"""Options that several commands share, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xesmith.errors import UsageError, nearest

SpecOption = Annotated[
    Path | None,
    typer.Option("--spec", help="AI-bench spec; default: spec.yaml beside the kernel."),
]
VariantOption = Annotated[
    str | None, typer.Option("--variant", help="Variant of the spec; default: its own.")
]
ReferenceOption = Annotated[
    Path | None,
    typer.Option("--reference", help="PyTorch reference; default: reference.py beside the kernel."),
]
TargetOption = Annotated[str, typer.Option("--target", help="Device to compile for.")]
ToolchainOption = Annotated[
    str | None, typer.Option("--toolchain", help="Compiler to use; see `toolchain list`.")
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=1, help="Seconds for a candidate at one shape and level."),
]
StageFolderOption = Annotated[
    list[Path] | None,
    typer.Option("--stage-folder", help="Folder with further stages, <stage>/STAGE.md each."),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="text (default), json, or sarif (SARIF 2.1.0)."),
]
FORMATS = ("text", "json", "sarif")


def chosen_format(given: str | None, as_json: bool) -> str:
    """The format that --format or --json asks for.

    Raises:
        UsageError: there is no such format, or both ask for another.
    """
    if given is not None and given not in FORMATS:
        raise UsageError(f"unknown format '{given}'", remedy=nearest(given, FORMATS))
    if as_json and given not in (None, "json"):
        raise UsageError(f"--json and --format {given} contradict each other")
    return "json" if as_json else given or "text"
