"""A toolchain folder of the test's own, filled from the installed one without copying it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.toolchain import discover, layout, pins


@pytest.fixture(autouse=True)
def _ask_again() -> None:
    """What was learnt about tools in another test does not hold in this one."""
    discover.forget()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty toolchain folder, used by everything in this process and its children."""
    folder = tmp_path / "toolchains"
    monkeypatch.setenv("XESMITH_TOOLCHAIN_DIR", str(folder))
    return folder


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that alone is PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def script(bare_path: Path) -> Callable[[str, str], Path]:
    """Puts an executable shell script on the bare PATH."""

    def write(name: str, body: str) -> Path:
        path = bare_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture(scope="session")
def real_native() -> Path:
    """The folder of the native tools that `make` has installed."""
    folder = layout.installed(layout.toolchain_root(), layout.NATIVE)
    assert folder is not None, "run 'xesmith toolchain install xpu' first"
    return folder


@pytest.fixture
def installed(root: Path, real_native: Path) -> Path:
    """The native tools under `root`: links to the real files, except what a test will change."""
    root.mkdir()
    folder = layout.new_folder(root, layout.NATIVE)
    for name in ("usr/bin", "usr/lib/x86_64-linux-gnu"):
        (folder / name).mkdir(parents=True)
        for path in (real_native / name).iterdir():
            if path.is_file() or path.is_symlink():
                shutil.copy2(path, folder / name, follow_symlinks=False) if (
                    path.is_symlink() or path.stat().st_size < 1 << 20
                ) else os.symlink(path, folder / name / path.name)
    shutil.copy2(real_native / layout.MANIFEST, folder)
    layout.publish(root, layout.NATIVE, folder)
    return folder


@pytest.fixture
def older_pin(monkeypatch: pytest.MonkeyPatch) -> pins.CompilerPin:
    """A second release that can be installed, "xpu-3.2"."""
    real = pins.load_pins()
    name, default = real.compiler("xpu")
    older = default.model_copy(update={"version": "3.2.0b1"})
    both = real.model_copy(update={"compilers": {name: default, "xpu-3.2": older}})
    monkeypatch.setattr(discover, "load_pins", lambda: both)
    return older


@pytest.fixture
def newest_device() -> str:
    return pins.load_pins().native.newest_device
