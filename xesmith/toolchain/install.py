"""Installing toolchains under the user's cache folder, and removing them."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from xesmith.errors import ToolchainError, UsageError, nearest
from xesmith.toolchain import debian, environment, layout, native, probe, python_env
from xesmith.toolchain.discover import find_toolchain, native_fault
from xesmith.toolchain.layout import Say
from xesmith.toolchain.pins import CompilerPin, load_pins
from xesmith.toolchain.record import NativeTools, Toolchain


@dataclass(frozen=True)
class Installed:
    """What an install did: `made` names the installs that it built, empty where all was there."""

    toolchain: Toolchain
    made: tuple[str, ...]


def install(name: str, say: Say, *, force: bool = False) -> Installed:
    """Makes sure that the toolchain `name` is on this machine.

    The current environment's Triton and an ocloc on PATH are used where they serve; the rest
    is installed. With `force` what was installed before is built anew (from the downloads that
    are there, where their hashes are right).

    Args:
        name: a kind ("xpu": its default) or a pin of third_party/toolchains.yaml ("xpu-3.2").
        say: told each step, one line each.

    Raises:
        UsageError: no such toolchain.
        ToolchainError: it cannot be installed here.
    """
    pin_name, pin = load_pins().compiler(name)
    exact = name in load_pins().compilers
    root = layout.toolchain_root()
    made: list[str] = []
    with layout.locked(root, say):
        if force or not _native_serves(root):
            _install_native(root, say)
            made.append(layout.NATIVE)
        again = force and layout.installed(root, pin_name) is not None
        if again or not _compiler_serves(root, pin_name, pin, exact):
            _install_compiler(root, pin_name, pin, say)
            made.append(pin_name)
    wanted = f"{pin.kind}-{pin.version}" if exact else None
    return Installed(find_toolchain(wanted, pin.kind), tuple(made))


def uninstall(names: list[str], say: Say) -> list[str]:
    """Removes the named installs, or everything with the downloads where none is named.

    Raises:
        UsageError: one of them is not installed.
    """
    root = layout.toolchain_root()
    if not root.is_dir():
        return []
    with layout.locked(root, say):
        present = layout.installed_names(root)
        for name in names:
            if name not in present:
                raise UsageError(f"no install '{name}'", remedy=nearest(name, present))
        for name in names or present:
            layout.remove(root, name)
        if not names:
            shutil.rmtree(root / layout.DOWNLOADS, ignore_errors=True)
        return names or present


def _native_serves(root: Path) -> bool:
    """Whether working native tools for the newest device are here already."""
    try:
        tools = native.find_native(root)
    except ToolchainError:
        return False
    if tools is None or not tools.spirv_dis or not tools.spirv_val:
        return False
    newest = load_pins().native.newest_device
    return probe.knows_device(tools.ocloc, newest) and native_fault(tools) is None


def _install_native(root: Path, say: Say) -> None:
    archives = debian.fetch(root / layout.DOWNLOADS, say)
    folder = layout.new_folder(root, layout.NATIVE)
    try:
        say("unpacking")
        debian.unpack(archives, folder)
        packages = {archive.package: archive.version for archive, _ in archives}
        manifest = native.describe(folder, packages)
        _require_working(native.unpacked(folder))
        manifest["sha256"] = {archive.file: archive.sha256 for archive, _ in archives}
        manifest["installed_at"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        layout.write_manifest(folder, manifest)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    layout.publish(root, layout.NATIVE, folder)


def _require_working(tools: NativeTools) -> None:
    reason = probe.fault(tools, load_pins().native.newest_device)
    if reason is not None:
        raise ToolchainError(
            f"the tools that were just unpacked do not work here: {reason}",
            where=tools.ocloc[-1],
            remedy="report this with the output of 'xesmith doctor --json'",
        )


def _compiler_serves(root: Path, name: str, pin: CompilerPin, exact: bool) -> bool:
    """Whether a Triton of this kind (of this very release, if `exact`) is here already."""
    here = environment.look()
    usable = here.torch and here.intel_files and not here.numpy_breaks_interpreter
    if usable and here.intel is not None and (not exact or here.intel[1] == pin.version):
        return True
    try:
        folder = layout.installed(root, name)
        if folder is None:
            return False
        layout.read_manifest(folder)
        look = python_env.inspect_python(folder / "bin" / "python")
    except ToolchainError:
        return False
    return look.torch is not None and look.intel_files


def _install_compiler(root: Path, name: str, pin: CompilerPin, say: Say) -> None:
    folder = layout.new_folder(root, name)
    try:
        look = python_env.create(folder, pin, say)
        if look.torch is None or not look.intel_files:
            raise ToolchainError(
                f"pip ended well, but the environment holds no working {pin.distribution}",
                where=str(folder),
                remedy="run this command again with --force",
            )
        stamp = datetime.now(timezone.utc).isoformat(timespec="seconds")
        layout.write_manifest(
            folder,
            {
                "environment": asdict(replace(look)),
                "requirements": list(pin.requirements),
                "installed_at": stamp,
            },
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    layout.publish(root, name, folder)
