"""What an environment holds, read from metadata and from the files of the package."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError, UsageError
from xesmith.toolchain import discover, environment, layout
from xesmith.toolchain.environment import Environment
from xesmith.toolchain.pins import CompilerPin

HERE = Environment(
    python=sys.executable,
    python_version="3.11.7",
    torch="2.13.0+cpu",
    numpy="2.2.6",
    triton=None,
    intel=("triton-xpu", "3.3.0b1"),
    intel_files=True,
)


def site(folder: Path, distributions: dict[str, str], *, triton: str, intel: bool) -> Path:
    """A site folder with metadata for `distributions` and a package `triton`."""
    for name, version in distributions.items():
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    package = folder / "triton"
    (package / "backends" / "nvidia").mkdir(parents=True)
    (package / "__init__.py").write_text(f"'''doc'''\n__version__ = '{triton}'\n")
    if intel:
        (package / "backends" / "intel").mkdir()
        (package / "backends" / "intel" / "compiler.py").write_text("")
    return folder


def look_at(folder: Path) -> Environment:
    """Runs the script as discover does, with `folder` as the only site folder."""
    script = Path(environment.__file__)
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]); "
        "runpy.run_path(sys.argv[2], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder), str(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    return environment.from_json(done.stdout)


@pytest.mark.intel
def test_this_environment_holds_the_intel_compiler() -> None:
    look = environment.look()
    assert look.intel is not None
    assert look.intel[0] in environment.INTEL_DISTRIBUTIONS
    assert look.intel_files
    assert look.shadowed is None
    assert look.torch is not None
    assert discover.inspect_python(Path(sys.executable)) == look


def test_an_intel_triton_is_recognised(tmp_path: Path) -> None:
    names = {"triton-xpu": "3.3.0b1", "torch": "2.13.0+cpu"}
    look = look_at(site(tmp_path, names, triton="3.3.0", intel=True))
    assert (look.intel, look.intel_files, look.triton) == (("triton-xpu", "3.3.0b1"), True, None)
    assert look.torch == "2.13.0+cpu"


def test_pytorchs_own_name_for_it_too(tmp_path: Path) -> None:
    names = {"pytorch-triton-xpu": "3.5.0"}
    look = look_at(site(tmp_path, names, triton="3.5.0", intel=True))
    assert look.intel == ("pytorch-triton-xpu", "3.5.0")
    assert look.intel_files


def test_another_triton_over_it_is_seen(tmp_path: Path) -> None:
    names = {"triton-xpu": "3.3.0b1", "triton": "3.9.0"}
    look = look_at(site(tmp_path, names, triton="3.9.0", intel=True))
    assert not look.intel_files
    assert look.shadowed == "triton 3.9.0"


def test_a_triton_without_intels_backend_is_not_it(tmp_path: Path) -> None:
    names = {"triton-xpu": "3.3.0b1"}
    look = look_at(site(tmp_path, names, triton="3.3.0", intel=False))
    assert look.shadowed == "an incomplete install"


@pytest.mark.parametrize(
    ("triton", "numpy", "breaks"),
    [("3.3.0b1", "2.2.6", False), ("3.3.0b1", "2.4.0", True), ("3.8.0", "2.4.0", False)],
)
def test_a_numpy_too_new_for_the_interpreter(triton: str, numpy: str, breaks: bool) -> None:
    look = replace(HERE, intel=("triton-xpu", triton), numpy=numpy)
    assert look.numpy_breaks_interpreter == breaks


def found_in(monkeypatch: pytest.MonkeyPatch, *looks: Environment) -> None:
    monkeypatch.setattr(
        discover, "_environments", lambda: [("environment", look) for look in looks]
    )


@pytest.mark.intel
class TestNames:
    """Which toolchain a name means."""

    @pytest.mark.parametrize("name", [None, "xpu", "xpu-3.3", "xpu-3.3.0", "xpu-3.3.0b1"])
    def test_a_start_of_the_name_is_enough(
        self, monkeypatch: pytest.MonkeyPatch, name: str | None
    ) -> None:
        found_in(monkeypatch, HERE, replace(HERE, intel=("triton-xpu", "3.2.0b1")))
        assert discover.find_toolchain(name).name == "xpu-3.3.0b1"

    def test_numbers_are_not_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        older = replace(HERE, intel=("triton-xpu", "3.2.0b1"))
        found_in(monkeypatch, replace(HERE, intel=("triton-xpu", "3.20.0")), older)
        assert discover.find_toolchain("xpu-3.2").name == "xpu-3.2.0b1"

    def test_one_that_can_be_installed_says_how(
        self, monkeypatch: pytest.MonkeyPatch, older_pin: CompilerPin
    ) -> None:
        assert older_pin.version == "3.2.0b1"
        found_in(monkeypatch, HERE)
        with pytest.raises(ToolchainError) as caught:
            discover.find_toolchain("xpu-3.2")
        assert caught.value.remedy == "xesmith toolchain install xpu-3.2"

    def test_an_unknown_one_names_the_nearest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found_in(monkeypatch, HERE)
        with pytest.raises(UsageError) as caught:
            discover.find_toolchain("xpu-3.3.1")
        assert "did you mean 'xpu-3.3.0b1'?" in str(caught.value.remedy)

    def test_the_environment_variable_chooses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found_in(monkeypatch, HERE, replace(HERE, intel=("triton-xpu", "3.2.0b1")))
        monkeypatch.setenv("XESMITH_TOOLCHAIN", "xpu-3.2")
        assert discover.find_toolchain().name == "xpu-3.2.0b1"

    def test_a_path_is_an_interpreter(self) -> None:
        toolchain = discover.find_toolchain(sys.executable)
        assert toolchain.python == Path(sys.executable)
        assert toolchain.source == "given"

    def test_an_unknown_kind_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="rocm"):
            discover.find_toolchain(None, "rocm")  # pyright: ignore[reportArgumentType]


def test_upstream_triton_serves_cuda_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found_in(monkeypatch, replace(HERE, triton="3.9.0", intel=None, intel_files=False))
    toolchain = discover.find_toolchain(None, "cuda")
    assert (toolchain.name, toolchain.triton_distribution) == ("cuda-3.9.0", "triton")
    assert toolchain.native is None
    with pytest.raises(ToolchainError) as caught:
        discover.find_toolchain(None, "xpu")
    assert caught.value.remedy == "xesmith toolchain install xpu"


def test_without_torch_there_is_no_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    found_in(monkeypatch, replace(HERE, torch=None))
    with pytest.raises(ToolchainError, match="with torch"):
        discover.find_toolchain(None, "xpu")


def test_a_shadowed_compiler_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    shadowed = replace(HERE, triton="3.9.0", intel_files=False)
    found_in(monkeypatch, shadowed)
    monkeypatch.setattr(environment, "look", lambda: shadowed)
    with pytest.raises(ToolchainError, match=r"triton 3\.9\.0 lies over triton-xpu 3\.3\.0b1"):
        discover.find_toolchain(None, "xpu")


def test_an_interpreter_that_does_not_run(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(ToolchainError, match="does not run") as caught:
        discover.inspect_python(python)
    assert caught.value.where == str(python)


def test_the_record_is_plain_json() -> None:
    look = json.dumps(discover._toolchains(HERE, "environment", None)[0].to_json())
    assert json.loads(look)["name"] == "xpu-3.3.0b1"


def test_an_installed_clang_is_no_environment(root: Path) -> None:
    """`make triton-plugin` puts it beside the compilers; it holds no Python."""
    root.mkdir()
    folder = layout.new_folder(root, layout.CLANG)
    layout.write_manifest(folder, {})
    layout.publish(root, layout.CLANG, folder)
    assert layout.installed_names(root) == [layout.CLANG]
    assert all("clang" not in str(found.python) for found in discover.list_toolchains())
