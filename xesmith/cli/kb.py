"""`xesmith kb lint | search`: what is known about devices and compilers."""

from __future__ import annotations

from typing import Annotated

import typer

from xesmith.cli.common import (
    EXIT_NO_IMPROVEMENT,
    EXIT_OK,
    PANEL_PROJECT,
    JsonFlag,
    print_json,
)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="What is known about devices and compilers: lint, search.", no_args_is_help=True
    )
    group.command("lint")(lint_command)
    group.command("search")(search_command)
    app.add_typer(group, name="kb", rich_help_panel=PANEL_PROJECT)


def lint_command(as_json: JsonFlag = False) -> int:
    """Checks every knowledge entry, and that stages select entries that are there."""
    from xesmith.errors import UsageError
    from xesmith.knowledge import lint
    from xesmith.stage_contract import load_stages

    try:
        stages = load_stages()
        faults = [*lint(stages.values())]
    except UsageError as error:  # a faulty stage or device file
        stages, faults = {}, [error]
    if as_json:
        print_json({"faults": [fault.to_json() for fault in faults], "stages": list(stages)})
    elif faults:
        print("\n".join(str(fault) for fault in faults))
    else:
        print(f"no fault in the knowledge entries and in what {len(stages)} stages select")
    return EXIT_NO_IMPROVEMENT if faults else EXIT_OK


def search_command(
    words: Annotated[
        list[str] | None, typer.Argument(help="Words, or how they begin; none: all entries.")
    ] = None,
    stage: Annotated[str | None, typer.Option("--stage", help="What this stage is told.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="What holds on this device.")
    ] = None,
    finding: Annotated[
        str | None, typer.Option("--finding", help="What explains or mends this kind of finding.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Finds knowledge entries, those that hold most of the words first."""
    from xesmith.device import load_device
    from xesmith.errors import UsageError, nearest
    from xesmith.knowledge import load_knowledge
    from xesmith.stage_contract import load_stages

    contract = None
    if stage is not None:
        known = load_stages()
        if stage not in known:
            raise UsageError(f"unknown stage '{stage}'", remedy=nearest(stage, known))
        contract = known[stage]
    found = load_knowledge().search(
        " ".join(words or ()),
        stage=contract,
        device=None if target is None else load_device(target),
        finding=finding,
    )
    if as_json:
        print_json([entry.model_dump() for entry in found])
    elif found:
        print("\n\n".join(entry.text() for entry in found))
    else:
        print("no entry holds that; 'xesmith kb search' without words shows all")
    return EXIT_OK
