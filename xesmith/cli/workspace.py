"""`xesmith workspace`: a folder in which a coding agent works on one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xesmith.cli.common import EXIT_OK, PANEL_KERNELS, JsonFlag, print_json
from xesmith.cli.options import (
    ReferenceOption,
    SpecOption,
    StageFolderOption,
    TargetOption,
    VariantOption,
)


def register(app: typer.Typer) -> None:
    app.command("workspace", rich_help_panel=PANEL_KERNELS)(workspace)


def workspace(
    folder: Annotated[Path, typer.Argument(help="The folder; made where it is missing.")],
    kernel: Annotated[
        Path, typer.Option("--kernel", help="A kernel file with Model and get_inputs.")
    ],
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    target: TargetOption = "bmg-g31",
    stage_folder: StageFolderOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that are there already.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Set up a folder for a coding agent: kernel, spec, skills, commands."""
    from xesmith.cascade.correctness import find_reference
    from xesmith.device import load_device
    from xesmith.engine.problem import load_problem
    from xesmith.stage_contract import load_stages
    from xesmith.workspace import workspace_files, write_workspace

    problem = load_problem(kernel, spec, variant)
    problem.require_model()
    judged_by = find_reference(problem.program(), reference)
    stages = load_stages(extra=tuple(stage_folder or ()))
    files = workspace_files(problem, judged_by, load_device(target), stages)
    write_workspace(folder, files, force=force)
    if as_json:
        print_json({"folder": str(folder), "files": list(files)})
    else:
        print(f"{folder}: {len(files)} files; begin with AGENTS.md")
    return EXIT_OK
