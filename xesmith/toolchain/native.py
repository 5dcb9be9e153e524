"""Finding the native tools: named by the user, on PATH, or installed under the cache folder."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from xesmith.errors import ToolchainError
from xesmith.toolchain import layout, probe
from xesmith.toolchain.pins import load_pins
from xesmith.toolchain.record import NativeTools

INSTALL_COMMAND = "xesmith toolchain install xpu"
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")


def find_native(root: Path | None = None) -> NativeTools | None:
    """The native tools that this machine offers, None where there is no ocloc.

    In order: XESMITH_OCLOC; ocloc on PATH, unless it is too old for the newest device and the
    cache has a newer one; the cache. Tools that are not on PATH are taken from the cache.

    Raises:
        ToolchainError: XESMITH_OCLOC names nothing that runs, or the install is broken.
    """
    cached = installed_native(root or layout.toolchain_root())
    given = os.environ.get("XESMITH_OCLOC")
    if given:
        if shutil.which(given) is None:
            raise ToolchainError(
                "XESMITH_OCLOC names no executable file",
                where=given,
                remedy=f"correct or unset it; '{INSTALL_COMMAND}' installs one",
            )
        return _completed(on_path(given), cached)
    own = _ocloc_on_path()
    if own is None:
        return cached
    if cached is not None and not probe.knows_device((own,), load_pins().native.newest_device):
        return cached
    return _completed(on_path(own), cached)


def _ocloc_on_path() -> str | None:
    """`ocloc`, else the newest `ocloc-VERSION`: not every distribution links the plain name."""
    plain = shutil.which("ocloc")
    if plain is not None:
        return plain
    found = {
        tuple(int(part) for part in path.name[len("ocloc-") :].split(".")): str(path)
        for folder in os.get_exec_path()
        for path in Path(folder).glob("ocloc-*")
        if re.fullmatch(r"ocloc-\d+(\.\d+)*", path.name) and os.access(path, os.X_OK)
    }
    return found[max(found)] if found else None


def on_path(ocloc: str) -> NativeTools:
    """The machine's own tools around the given ocloc."""

    def command(name: str) -> tuple[str, ...]:
        found = shutil.which(name)
        return (found,) if found else ()

    spirv_dis = command("spirv-dis")
    versions = {
        "ocloc": probe.ocloc_version((ocloc,)),
        "spirv-tools": probe.spirv_tools_version(spirv_dis) if spirv_dis else None,
    }
    return NativeTools(
        ocloc=(ocloc,),
        spirv_dis=spirv_dis,
        spirv_val=command("spirv-val"),
        iga64=command("iga64"),
        versions={name: version for name, version in versions.items() if version},
        source="path",
    )


def installed_native(root: Path) -> NativeTools | None:
    """The tools under the cache folder, None where none were installed.

    Raises:
        ToolchainError: they were installed, but files are missing or of another size.
    """
    folder = layout.installed(root, layout.NATIVE)
    if folder is None:
        return None
    manifest = layout.read_manifest(folder)
    try:
        files = cast(dict[str, int], manifest["files"])
        versions = cast(dict[str, str], manifest["versions"])
        for name, size in files.items():
            path = folder / name
            if not path.is_file():
                raise layout.broken(path, "a file of the installed native tools is missing")
            if path.stat().st_size != size:
                raise layout.broken(
                    path, f"a file of the installed native tools is not its {size} bytes"
                )
        return replace(unpacked(folder), versions=dict(versions))
    except (KeyError, TypeError, AttributeError) as error:
        raise layout.broken(
            folder / layout.MANIFEST, "the install's manifest lacks what it must hold"
        ) from error


def unpacked(prefix: Path) -> NativeTools:
    """The tools in a prefix into which Debian's packages were unpacked.

    They run through the loader and C library of the same prefix, so the machine's own may be
    older.

    Raises:
        ToolchainError: a tool is not there.
    """
    libraries = prefix / _LIBRARIES
    runner = (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries))

    def command(pattern: str) -> tuple[str, ...]:
        found = sorted((prefix / "usr" / "bin").glob(pattern))
        if not found:
            raise layout.broken(prefix / "usr" / "bin" / pattern, "a native tool is missing")
        return (*runner, str(found[-1]))

    return NativeTools(
        ocloc=command("ocloc-*"),
        spirv_dis=command("spirv-dis"),
        spirv_val=command("spirv-val"),
        iga64=command("iga64"),
        source="cache",
    )


def describe(prefix: Path, packages: dict[str, str]) -> dict[str, Any]:
    """The manifest of an unpacked prefix: its versions and the sizes of what must be there."""
    tools = unpacked(prefix)
    igc = packages.get("libigc2", "")
    versions = {
        "ocloc": probe.ocloc_version(tools.ocloc) or "unknown",
        "igc": re.sub(r"-[^-]*$", "", igc) or "unknown",
        "spirv-tools": probe.spirv_tools_version(tools.spirv_dis) or "unknown",
    }
    folders = (prefix / "usr" / "bin", prefix / _LIBRARIES)
    files = {
        str(path.relative_to(prefix)): path.stat().st_size
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
    return {"versions": versions, "packages": packages, "files": files}


def _completed(tools: NativeTools, cached: NativeTools | None) -> NativeTools:
    """`tools` with what PATH lacks taken from the installed ones."""
    if cached is None:
        return tools
    versions = dict(tools.versions)
    if not tools.spirv_dis and "spirv-tools" in cached.versions:
        versions["spirv-tools"] = cached.versions["spirv-tools"]
    return replace(
        tools,
        spirv_dis=tools.spirv_dis or cached.spirv_dis,
        spirv_val=tools.spirv_val or cached.spirv_val,
        iga64=tools.iga64 or cached.iga64,
        versions=versions,
    )
