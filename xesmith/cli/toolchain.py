"""`xesmith toolchain list | install | remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from xesmith.cli.common import PANEL_MACHINE, JsonFlag, print_json, progress, table


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The compilers that lower kernels: list, install, remove.", no_args_is_help=True
    )
    group.command("list")(list_command)
    group.command("install")(install_command)
    group.command("remove")(remove_command)
    app.add_typer(group, name="toolchain", rich_help_panel=PANEL_MACHINE)


def list_command(as_json: JsonFlag = False) -> None:
    """Lists the toolchains of this machine, the preferred one first."""
    from xesmith.toolchain import list_toolchains

    found = list_toolchains()
    if as_json:
        print_json([toolchain.to_json() for toolchain in found])
        return
    if not found:
        print("no toolchain on this machine; 'xesmith toolchain install xpu' installs one")
        return
    rows: list[list[str]] = []
    for toolchain in found:
        native = toolchain.native
        tools = "-" if native is None else " ".join(f"{k} {v}" for k, v in native.versions.items())
        triton = f"{toolchain.triton_distribution} {toolchain.triton_version}"
        where = f"{toolchain.python} ({toolchain.source})"
        rows.append([toolchain.name, triton, toolchain.torch_version or "-", tools, where])
    table(["name", "triton", "torch", "native tools", "python"], rows)


def install_command(
    name: Annotated[str, typer.Argument(help="xpu, or the name of a pinned release.")],
    force: Annotated[
        bool, typer.Option("--force", help="Build it anew, also where one is there.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Installs the offline Intel compiler under the user's cache folder."""
    from xesmith.toolchain.install import install

    with progress(quiet=as_json) as shown:
        done = install(name, shown.say, force=force)
    if as_json:
        print_json({"toolchain": done.toolchain.to_json(), "made": list(done.made)})
        return
    native = done.toolchain.native
    tools = (
        "" if native is None else ", " + ", ".join(f"{k} {v}" for k, v in native.versions.items())
    )
    state = "installed" if done.made else "already here"
    print(f"{done.toolchain.name}: {state} ({done.toolchain.python}{tools})")


def remove_command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Installs to remove; all of them when left out.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Removes what was installed under the user's cache folder."""
    from xesmith.toolchain.install import uninstall

    with progress(quiet=as_json) as shown:
        removed = uninstall(names or [], shown.say)
    if as_json:
        print_json({"removed": removed})
    else:
        print(f"removed: {', '.join(removed) or 'nothing was installed'}")
