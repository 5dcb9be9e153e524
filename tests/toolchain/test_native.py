"""Native tools: the machine's own, the installed ones, and broken ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.toolchain import discover, layout, native, probe
from xesmith.toolchain.record import NativeTools

pytestmark = pytest.mark.intel

FORCE = "xesmith toolchain install xpu --force"
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# What an ocloc of 2023 does: no --version, the query writes a file, no Xe2.
OLD_OCLOC = """\
case "$1 $2" in
  "query OCL_DRIVER_VERSION") echo 23.43.027642 > OCL_DRIVER_VERSION ;;
  "ids bmg-g31") echo "Error: Unknown acronym bmg-g31." >&2; exit 226 ;;
  *) exit 1 ;;
esac"""


def test_there_is_none_on_a_bare_machine(root: Path, bare_path: Path) -> None:
    assert native.find_native() is None
    assert bare_path.is_dir()
    with pytest.raises(ToolchainError, match="no ocloc") as caught:
        discover.find_toolchain(None, "xpu")
    assert caught.value.remedy == "xesmith toolchain install xpu"
    assert discover.find_toolchain(None, "xpu", native=False).native is None


def test_the_installed_tools_work(installed: Path, newest_device: str) -> None:
    tools = native.installed_native(layout.toolchain_root())
    assert tools is not None
    assert tools.source == "cache"
    assert set(tools.versions) == {"ocloc", "igc", "spirv-tools"}
    assert probe.fault(tools, newest_device) is None
    assert probe.ocloc_version(tools.ocloc) == tools.versions["ocloc"]
    assert str(installed) in tools.ocloc[-1]


def test_a_probe_of_an_unknown_device_says_so(installed: Path) -> None:
    tools = native.installed_native(layout.toolchain_root())
    assert tools is not None
    assert installed.is_dir()
    assert "cannot compile for no-such-gpu" in str(probe.fault(tools, "no-such-gpu"))


@pytest.mark.parametrize("name", [f"{LIBRARIES}/libocloc.so", "usr/bin/spirv-dis"])
def test_a_missing_file_is_named(installed: Path, name: str) -> None:
    (installed / name).unlink()
    with pytest.raises(ToolchainError, match="missing") as caught:
        discover.find_toolchain(None, "xpu")
    assert caught.value.where is not None
    assert caught.value.where.endswith(name)
    assert caught.value.remedy == FORCE


def test_a_truncated_library_is_named(installed: Path) -> None:
    path = installed / LIBRARIES / "libstdc++.so.6"
    real = path.resolve()
    data = real.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ToolchainError, match="is not its") as caught:
        discover.find_toolchain(None, "xpu")
    assert caught.value.remedy == FORCE


def test_damage_that_no_size_shows_is_found_by_compiling(installed: Path) -> None:
    """A library overwritten with zeros has the right size; only running shows it."""
    path = installed / LIBRARIES / "libz.so.1"
    size = path.stat().st_size
    path.unlink()
    path.write_bytes(b"\0" * size)
    with pytest.raises(ToolchainError, match="broken: ocloc cannot compile") as caught:
        discover.find_toolchain(None, "xpu")
    assert caught.value.remedy == FORCE


@pytest.mark.parametrize("data", [{}, {"files": 3, "versions": {}}, {"files": {"a": 1}}])
def test_a_manifest_without_its_content_is_broken(installed: Path, data: object) -> None:
    (installed / layout.MANIFEST).write_text(json.dumps(data))
    with pytest.raises(ToolchainError) as caught:
        native.find_native()
    assert caught.value.remedy == FORCE


def wrapper(tools: NativeTools) -> str:
    return f'exec {" ".join(tools.ocloc)} "$@"'


def test_a_machines_own_ocloc_is_preferred(
    installed: Path, script: Callable[[str, str], Path]
) -> None:
    cached = native.installed_native(layout.toolchain_root())
    assert cached is not None
    own = script("ocloc", wrapper(cached))
    tools = native.find_native()
    assert tools is not None
    assert tools.source == "path"
    assert tools.ocloc == (str(own),)
    assert tools.versions["ocloc"] == cached.versions["ocloc"]
    # What PATH lacks comes from the install.
    assert str(installed) in tools.spirv_dis[-1]
    assert discover.native_fault(tools) is None


def test_one_too_old_for_the_newest_device_gives_way_to_the_installed(
    installed: Path, script: Callable[[str, str], Path]
) -> None:
    script("ocloc", OLD_OCLOC)
    tools = native.find_native()
    assert tools is not None
    assert tools.source == "cache"
    assert str(installed) in tools.ocloc[-1]


def test_an_old_one_alone_is_used_and_its_version_read(
    root: Path, script: Callable[[str, str], Path]
) -> None:
    own = script("ocloc", f"PATH=/usr/bin:/bin\n{OLD_OCLOC}")
    tools = native.find_native()
    assert not root.exists()
    assert tools is not None
    assert tools.ocloc == (str(own),)
    assert tools.versions == {"ocloc": "23.43.027642"}
    assert tools.spirv_dis == ()


def test_the_newest_of_versioned_names_is_found(
    root: Path, script: Callable[[str, str], Path]
) -> None:
    """Compute runtimes since 24.39 install ocloc-VERSION; the plain name is up to packagers."""
    script("ocloc-25.9.1", "echo 25.9.1")
    newest = script("ocloc-25.40.1", "echo 25.40.1")
    script("ocloc-extra", "exit 1")
    tools = native.find_native()
    assert not root.exists()
    assert tools is not None
    assert tools.ocloc == (str(newest),)


def test_xesmith_ocloc_is_obeyed(
    root: Path, script: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    script("ocloc", OLD_OCLOC)
    mine = script("my-ocloc", "echo 99.1.2")
    monkeypatch.setenv("XESMITH_OCLOC", str(mine))
    tools = native.find_native()
    assert not root.exists()
    assert tools is not None
    assert tools.ocloc == (str(mine),)
    assert tools.versions["ocloc"] == "99.1.2"


def test_a_wrong_xesmith_ocloc_is_an_error(
    root: Path, bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XESMITH_OCLOC", str(bare_path / "nothing"))
    with pytest.raises(ToolchainError, match="XESMITH_OCLOC") as caught:
        native.find_native(root)
    assert caught.value.where == str(bare_path / "nothing")


def test_a_broken_ocloc_of_the_machine_is_said_to_be_its_own(
    root: Path, script: Callable[[str, str], Path]
) -> None:
    script("ocloc", 'echo "error while loading shared libraries: libigc.so.2" >&2; exit 127')
    with pytest.raises(ToolchainError, match=r"this machine's own.*libigc\.so\.2") as caught:
        discover.find_toolchain(None, "xpu")
    assert not root.exists()
    assert "PATH" in str(caught.value.remedy)


def test_a_compiler_that_writes_no_binary_is_found_out(
    root: Path, script: Callable[[str, str], Path], newest_device: str
) -> None:
    """ocloc can end with 0 and leave nothing behind."""
    tools = NativeTools(ocloc=(str(script("ocloc", "exit 0")),))
    assert not root.exists()
    assert "wrote no device binary" in str(probe.fault(tools, newest_device))


def test_the_probe_is_valid_spirv(toolchain_tools: NativeTools, tmp_path: Path) -> None:
    (tmp_path / "probe.spv").write_bytes(probe.PROBE_SPIRV)
    assert probe.ask([*toolchain_tools.spirv_val, "probe.spv"], folder=tmp_path).ok
    text = probe.ask([*toolchain_tools.spirv_dis, "probe.spv"], folder=tmp_path).output
    assert 'OpEntryPoint Kernel %1 "probe"' in text


@pytest.fixture
def toolchain_tools() -> NativeTools:
    tools = native.find_native()
    assert tools is not None
    assert shutil.which(tools.ocloc[0])
    return tools
