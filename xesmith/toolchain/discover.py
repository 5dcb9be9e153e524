"""Which toolchains there are on this machine, and the one that a caller means."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from xesmith.errors import ToolchainError, UsageError, nearest
from xesmith.toolchain import environment, layout, probe
from xesmith.toolchain.environment import Environment
from xesmith.toolchain.native import INSTALL_COMMAND, find_native
from xesmith.toolchain.pins import load_pins
from xesmith.toolchain.record import KINDS, Kind, NativeTools, Toolchain

_INSPECT_TIMEOUT_SECONDS = 60.0
Source = Literal["environment", "cache", "given"]


def find_toolchain(
    name: str | None = None, kind: Kind = "xpu", *, native: bool = True
) -> Toolchain:
    """The toolchain `name`, or the first of its kind; its tools have been seen to work.

    Args:
        name: a name or the start of one ("xpu-3.3.0b1", "xpu-3.3"), or the path of a Python
            interpreter whose environment holds a Triton; None takes XESMITH_TOOLCHAIN, else
            the current environment, then what was installed.
        kind: "xpu" or "cuda".
        native: an "xpu" toolchain without ocloc is an error; otherwise its `native` is None.

    Raises:
        ToolchainError: there is none, or it is broken; the remedy is the command that mends it.
        UsageError: there are toolchains, none of that name.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown toolchain kind '{kind}'", remedy=nearest(kind, KINDS))
    wanted = name or os.environ.get("XESMITH_TOOLCHAIN") or None
    toolchain = _from_python(wanted, kind) if wanted and os.sep in wanted else _named(wanted, kind)
    if kind == "cuda":
        return toolchain
    if toolchain.native is None:
        if native:
            raise ToolchainError(
                "no ocloc (Intel's native compiler) on this machine", remedy=INSTALL_COMMAND
            )
        return toolchain
    reason = native_fault(toolchain.native)
    if reason is not None:
        raise broken_native(toolchain.native, reason)
    return toolchain


def list_toolchains(kind: Kind | None = None) -> list[Toolchain]:
    """Every toolchain that can be found, the preferred one first. Nothing is probed.

    Raises:
        ToolchainError: an install is broken.
    """
    native = None if kind == "cuda" else find_native()
    found = [
        toolchain
        for source, look in _environments()
        for toolchain in _toolchains(look, source, native)
    ]
    return [toolchain for toolchain in found if kind in (None, toolchain.kind)]


@lru_cache(maxsize=8)
def _fault(ocloc: tuple[str, ...], tools: tuple[tuple[str, ...], ...], device: str) -> str | None:
    spirv_dis, spirv_val, iga64 = tools
    return probe.fault(NativeTools(ocloc, spirv_dis, spirv_val, iga64), device)


def native_fault(tools: NativeTools) -> str | None:
    """Why the native tools do not work; None where they do. Asked once in a process."""
    device = load_pins().native.newest_device
    if tools.source == "path" and not probe.knows_device(tools.ocloc, device):
        device = "tgllp"  # an old ocloc of the machine's own: usable, for older devices only
    return _fault(tools.ocloc, (tools.spirv_dis, tools.spirv_val, tools.iga64), device)


def forget() -> None:
    """Lets the next question about native tools be asked again in this process."""
    _fault.cache_clear()


def broken_native(tools: NativeTools, reason: str) -> ToolchainError:
    if tools.source == "cache":
        return layout.broken(Path(tools.ocloc[-1]), f"the installed tools are broken: {reason}")
    return ToolchainError(
        f"this machine's own tools are broken: {reason}",
        where=tools.ocloc[-1],
        remedy="reinstall the package that holds it, or take it off PATH and run "
        f"'{INSTALL_COMMAND}'",
    )


def inspect_python(python: Path) -> Environment:
    """What the environment of another interpreter holds.

    Raises:
        ToolchainError: it does not run.
    """
    script = Path(environment.__file__)
    try:
        done = subprocess.run(
            [str(python), "-I", str(script)],
            capture_output=True,
            text=True,
            timeout=_INSPECT_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        return environment.from_json(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise ToolchainError(
            f"this Python interpreter does not run ({error})",
            where=str(python),
            remedy="name another, or run 'xesmith toolchain install xpu --force'",
        ) from error


def _environments() -> list[tuple[Source, Environment]]:
    found: list[tuple[Source, Environment]] = [("environment", environment.look())]
    given = os.environ.get("XESMITH_TOOLCHAIN_PYTHON")
    if given:
        found.insert(0, ("given", inspect_python(Path(given))))
    root = layout.toolchain_root()
    for name in reversed(layout.installed_names(root)):
        if name not in (layout.NATIVE, layout.CLANG):
            folder = root / name
            layout.read_manifest(folder)
            found.append(("cache", inspect_python(folder / "bin" / "python")))
    return found


def _toolchains(look: Environment, source: Source, native: NativeTools | None) -> list[Toolchain]:
    """The toolchains of one environment; one without torch cannot run a program."""
    if look.torch is None:
        return []
    found: list[Toolchain] = []
    if look.intel is not None and look.intel_files:
        distribution, version = look.intel
        found.append(
            Toolchain(
                name=f"xpu-{version.partition('+')[0]}",
                kind="xpu",
                python=Path(look.python),
                triton_version=version,
                triton_distribution=distribution,
                native=native,
                torch_version=look.torch,
                source=source,
            )
        )
    if look.triton is not None and not look.intel_files:
        found.append(
            Toolchain(
                name=f"cuda-{look.triton.partition('+')[0]}",
                kind="cuda",
                python=Path(look.python),
                triton_version=look.triton,
                triton_distribution="triton",
                native=None,
                torch_version=look.torch,
                source=source,
            )
        )
    return found


def _named(wanted: str | None, kind: Kind) -> Toolchain:
    found = list_toolchains(kind)
    if not found:
        raise _none(kind)
    if wanted is None or wanted == kind:
        return found[0]
    for toolchain in found:
        if toolchain.name == wanted:
            return toolchain
    for toolchain in found:
        if re.match(rf"{re.escape(wanted)}(?!\d)", toolchain.name):
            return toolchain
    installable = load_pins().compilers
    if wanted in installable:
        raise ToolchainError(
            f"the toolchain '{wanted}' is not installed",
            remedy=f"xesmith toolchain install {wanted}",
        )
    raise UsageError(
        f"no toolchain '{wanted}' of kind {kind}",
        remedy=nearest(wanted, {toolchain.name for toolchain in found}),
    )


def _from_python(path: str, kind: Kind) -> Toolchain:
    if shutil.which(path) is None:
        raise UsageError("the toolchain names no Python interpreter", where=path)
    look = inspect_python(Path(path))
    for toolchain in _toolchains(look, "given", None if kind == "cuda" else find_native()):
        if toolchain.kind == kind:
            return toolchain
    raise ToolchainError(
        f"its environment holds no Triton of kind {kind} with torch",
        where=path,
        remedy=INSTALL_COMMAND if kind == "xpu" else f"{path} -m pip install torch triton",
    )


def _none(kind: Kind) -> ToolchainError:
    if kind == "cuda":
        return ToolchainError(
            "no CUDA Triton with torch in this environment",
            # Not into this one: both Tritons are the module "triton", the last one wins.
            remedy="python3 -m venv cuda && cuda/bin/python -m pip install torch triton, "
            "then --toolchain cuda/bin/python",
        )
    look = environment.look()
    if look.shadowed is not None:
        return ToolchainError(
            f"{look.shadowed} lies over {' '.join(cast(tuple[str, str], look.intel))} "
            "in this environment",
            where=sys.prefix,
            remedy=f"{INSTALL_COMMAND} (gives it an environment of its own)",
        )
    return ToolchainError(
        "no Intel Triton compiler with torch on this machine", remedy=INSTALL_COMMAND
    )
