"""An environment of its own for a compiler: real venv and pip, on wheels made here."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.toolchain import python_env
from xesmith.toolchain.pins import CompilerPin

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
PIN = CompilerPin(
    kind="xpu",
    distribution="triton-xpu",
    version="3.3.0b1",
    pythons=(OWN,),
    requirements=("triton-xpu==3.3.0b1", "torch==2.13.0"),
)


def quiet(_: str) -> None:
    return


def make_wheel(
    folder: Path, name: str, version: str, files: dict[str, str], requires: str = ""
) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if requires:
        metadata += f"Requires-Dist: {requires}\n"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tag}
    record = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in {**content, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that pip looks for packages: an Intel Triton and a torch for CPU."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    intel = {
        "triton/__init__.py": "__version__ = '3.3.0'\n",
        "triton/backends/intel/compiler.py": "",
    }
    make_wheel(folder, "triton-xpu", "3.3.0b1", intel)
    make_wheel(folder, "torch", "2.13.0", {"torch/__init__.py": ""})
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_it_holds_what_was_pinned(wheels: Path, tmp_path: Path) -> None:
    assert wheels.is_dir()
    look = python_env.create(tmp_path / "env", PIN, quiet)
    assert look.intel == ("triton-xpu", "3.3.0b1")
    assert look.intel_files
    assert (look.torch, look.triton) == ("2.13.0", None)
    assert Path(look.python).is_relative_to(tmp_path / "env")


def test_a_torch_that_brings_its_own_triton_is_mended(wheels: Path, tmp_path: Path) -> None:
    """PyTorch's wheels for CUDA require `triton`, which overwrites the Intel one's files."""
    upstream = {"triton/__init__.py": "__version__ = '3.9.0'\n", "triton/language.py": ""}
    make_wheel(wheels, "triton", "3.9.0", upstream)
    make_wheel(wheels, "torch", "2.13.0", {"torch/__init__.py": ""}, "triton==3.9.0")
    said: list[str] = []
    look = python_env.create(tmp_path / "env", PIN, said.append)
    assert look.intel_files
    assert look.triton is None
    assert any("removing triton 3.9.0" in line for line in said)
    package = next((tmp_path / "env").glob("lib/python*/site-packages/triton"))
    assert not (package / "language.py").exists()
    assert (package / "__init__.py").read_text() == "__version__ = '3.3.0'\n"


def test_pips_own_reason_is_given(wheels: Path, tmp_path: Path) -> None:
    (wheels / "triton_xpu-3.3.0b1-py3-none-any.whl").unlink()
    with pytest.raises(ToolchainError, match=r"No matching distribution.*triton-xpu") as caught:
        python_env.create(tmp_path / "env", PIN, quiet)
    assert "again" in str(caught.value.remedy)


def test_this_interpreter_is_preferred(bare_path: Path) -> None:
    assert bare_path.is_dir()
    assert python_env.find_python([OWN, "3.10"]) == Path(sys.executable)


def test_one_that_is_on_path_but_does_not_run_is_passed_over(
    script: Callable[[str, str], Path],
) -> None:
    """A version manager's shim answers for versions that are not there."""
    script("python3.11", "echo 'version not installed' >&2; exit 127")
    good = script("python3.12", "exit 0")
    wanted = [version for version in ("3.11", "3.12") if version != OWN]
    if "3.12" in wanted:
        assert python_env.find_python(wanted) == good
    with pytest.raises(ToolchainError, match=r"no Python 3\.99 with venv"):
        python_env.find_python(["3.99"])
