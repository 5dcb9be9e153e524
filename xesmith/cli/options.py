"""Options that several commands share, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
