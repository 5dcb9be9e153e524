"""Where the plugin is found, what is said where it is not, and that its reference is current."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.lowering.text_filter import TransformError, run_filter
from xesmith.passes import plugin
from xesmith.passes.apply import pass_command
from xesmith.passes.reference import pass_descriptions, reference_page

pytestmark = pytest.mark.mlir


def test_the_reference_page_is_current(repository: Path) -> None:
    page = (repository / "docs" / "passes-reference.md").read_text("utf-8")
    assert page == reference_page(), "make passes-reference"


def test_each_description_shows_ir_before_and_after() -> None:
    for item in pass_descriptions():
        assert "Before" in item.text, item.name
        assert "After" in item.text, item.name
        assert "```mlir" in item.text, item.name


def test_the_plugin_is_newer_than_its_sources(repository: Path) -> None:
    """Else these tests tell of an older one."""
    built = plugin.plugin_path().stat().st_mtime
    sources = [p for p in (repository / "passes").rglob("*") if p.suffix in (".cpp", ".h")]
    assert sources
    assert [str(p) for p in sources if p.stat().st_mtime > built] == []


def test_a_plugin_that_was_not_built_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(plugin.VARIABLE, raising=False)
    monkeypatch.setattr(plugin, "_BUILD", tmp_path)
    monkeypatch.setattr(plugin, "_HERE", tmp_path)
    with pytest.raises(ToolchainError, match="not built") as caught:
        plugin.plugin_path()
    assert "make passes" in (caught.value.remedy or "")


def test_a_variable_that_names_no_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(plugin.VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(ToolchainError, match="names no file"):
        plugin.plugin_path()


def test_a_file_that_is_no_plugin_is_an_error(tmp_path: Path) -> None:
    """In a process of its own: a plugin is loaded once."""
    (tmp_path / "broken.so").write_text("no library")
    script = (
        "from xesmith.passes.plugin import load_plugin\n"
        "from xesmith.errors import ToolchainError\n"
        "try:\n    load_plugin()\nexcept ToolchainError as error:\n    print(error.what)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"XESMITH_PASSES": str(tmp_path / "broken.so"), "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.startswith("the MLIR passes do not load"), done.stderr


def test_bindings_of_another_version_are_refused() -> None:
    """In a process of its own: a plugin is loaded once."""
    script = (
        "import importlib.metadata\n"
        "importlib.metadata.version = lambda name: '23.0.0.1'\n"
        "from xesmith.passes.plugin import load_plugin\n"
        "from xesmith.errors import ToolchainError\n"
        "try:\n    load_plugin()\nexcept ToolchainError as error:\n    print(error.what)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"XESMITH_PASSES": str(plugin.plugin_path()), "PYTHONPATH": ":".join(sys.path)},
    )
    assert "built for MLIR 22.1.8, the bindings are 23.0.0.1" in done.stdout, done.stderr


def test_bindings_that_know_no_dialect_are_refused() -> None:
    """Their analyses fold no constant and find nothing, without an error."""
    script = (
        "import sys\n"
        "sys.modules['mlir._mlir_libs._mlirRegisterEverything'] = None\n"
        "from xesmith.passes.mlir import bindings\n"
        "from xesmith.errors import ToolchainError\n"
        "try:\n    bindings().context(0)\nexcept ToolchainError as error:\n    print(error.what)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("the MLIR Python bindings know no dialect"), done.stderr


def test_without_a_compiler_configuring_fails(repository: Path, tmp_path: Path) -> None:
    """A wheel without the passes would read no IR."""
    done = subprocess.run(
        ["cmake", "-S", str(repository), "-B", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "CXX": "/nowhere/g++"},
    )
    assert done.returncode != 0
    assert "XeSmithPasses.so cannot be built: no C++ compiler" in done.stderr


def test_a_process_without_our_environment_runs_the_same_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker's environment is scrubbed: what names the plugin here must reach it."""
    other = tmp_path / plugin.PLUGIN
    other.write_bytes(plugin.plugin_path().read_bytes())
    monkeypatch.setenv(plugin.VARIABLE, str(other))
    command = pass_command()
    module = '"builtin.module"() ({^bb0:}) : () -> ()'
    assert run_filter([*command, "xesmith-exp2"], module).startswith('"builtin.module"()')
    monkeypatch.delenv(plugin.VARIABLE)
    other.unlink()
    with pytest.raises(TransformError, match="names no file"):
        run_filter([*command, "xesmith-exp2"], module)
