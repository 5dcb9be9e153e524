"""The wheel: it carries the package, the assets and the command."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with the backend of this environment.

    Its passes are not optimised, which takes half the time: what it carries is asked here.
    """
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    command += ["--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"]
    done = subprocess.run(
        [*command, "--no-index", "--quiet", "--wheel-dir", str(folder), str(repository)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("xesmith-*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("folder", ["llm_stages", "knowledge", "bench/problems", "third_party"])
def test_it_carries_every_asset_of_the_checkout(
    repository: Path, names: set[str], folder: str
) -> None:
    files = [p for p in (repository / folder).rglob("*") if p.is_file()]
    wanted = [p for p in files if "__pycache__" not in p.parts]
    assert wanted, f"{folder} holds nothing"
    assert {f"xesmith/assets/{p.relative_to(repository)}" for p in wanted} <= names


def test_it_carries_every_module(repository: Path, names: set[str]) -> None:
    package = repository / "xesmith"
    modules = {str(p.relative_to(repository)) for p in package.rglob("*.py")}
    assert modules <= names


def test_it_carries_the_mlir_passes_and_their_reference(names: set[str]) -> None:
    assert {"xesmith/passes/XeSmithPasses.so", "xesmith/passes/XeSmithPasses.md"} <= names


def test_it_carries_nothing_else_at_the_top(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"xesmith"}


def test_an_unpacked_wheel_finds_its_own_assets(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        # An editable install's finder would answer first.
        "sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        "from xesmith.assets import asset_folder\n"
        "from xesmith.toolchain.pins import load_pins\n"
        "print(asset_folder('third_party')); load_pins()\n"
        "from xesmith.device import load_device\n"
        "print(load_device('bmg-g31').name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    expected = [str(tmp_path / "xesmith" / "assets" / "third_party"), "bmg-g31"]
    assert done.stdout.split() == expected, done.stderr


def test_the_pins_name_every_dependency(repository: Path) -> None:
    """constraints.txt pins what pyproject.toml asks for, and names no place to get it from."""
    pins = (repository / "constraints.txt").read_text("utf-8")
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in pins.splitlines()}
    assert "//" not in pins
    for name in ("torch", "triton-xpu", "typer", "pydantic", "xtc-mlir-python-bindings", "ruff"):
        assert name in pinned
