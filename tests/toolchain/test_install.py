"""Real installs from the machine's own Debian mirror, into a folder of the test's own.

What `make` has downloaded is linked in first, so that little goes over the network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.toolchain import environment, install, layout, native
from xesmith.toolchain.pins import CompilerPin, load_pins

pytestmark = [pytest.mark.intel, pytest.mark.network]

COMMAND = [sys.executable, "-m", "xesmith.cli.app", "toolchain", "install", "xpu"]


@pytest.fixture
def downloads(tmp_path: Path, root: Path, real_native: Path) -> Path:
    """The verified downloads of the real install, under the test's root."""
    real = real_native.parent / layout.DOWNLOADS
    ours = root / layout.DOWNLOADS
    archives = ours / "cache" / "archives"
    archives.mkdir(parents=True)
    for path in (real / "cache" / "archives").glob("*.deb"):
        try:
            os.link(path, archives / path.name)
        except OSError:
            shutil.copy2(path, archives / path.name)
    shutil.copytree(real / "lists", ours / "lists")
    assert tmp_path in ours.parents
    return ours


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(step: str, process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if step in line:
            return
    raise AssertionError(f"the install ended without '{step}'")


def close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def folders(root: Path) -> list[Path]:
    return [path for path in root.glob("native.*") if path.is_dir() and not path.is_symlink()]


def test_killed_at_any_step_then_installed(root: Path, downloads: Path) -> None:
    """kill -9 while apt reads, and while packages are unpacked; no half state is ever found."""
    damaged = next((downloads / "cache" / "archives").glob("spirv-tools_*.deb"))
    size = damaged.stat().st_size
    damaged.unlink()  # not through the link: the real download stays as it is
    damaged.write_bytes(b"\0" * size)

    for step in ("reading", "unpacking"):
        process = start()
        wait_for(step, process)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        close(process)
        assert native.installed_native(root) is None
    assert damaged.read_bytes()[:4] != b"\0\0\0\0"  # it was downloaded anew, its hash was wrong

    # Left by the second kill, removed by the install that follows.
    assert len(folders(root)) == 1
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "downloading" not in done.stderr
    assert "installed" in done.stdout
    assert len(folders(root)) == 1
    tools = native.installed_native(root)
    assert tools is not None
    manifest = layout.read_manifest(folders(root)[0])
    assert set(load_pins().native.packages) <= set(manifest["packages"])
    assert all(len(digest) == 64 for digest in manifest["sha256"].values())
    assert manifest["versions"] == tools.versions


def test_two_at_once_make_one(root: Path, downloads: Path) -> None:
    assert downloads.is_dir()
    first = start()
    wait_for("reading", first)
    second = start()
    wait_for("waiting", second)
    outputs = [process.communicate(timeout=300)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert "installed" in outputs[0]
    assert "already here" in outputs[1]
    assert len(folders(root)) == 1


def test_a_second_install_does_nothing(installed: Path) -> None:
    said: list[str] = []
    done = install.install("xpu", said.append)
    assert (done.made, said) == ((), [])
    assert done.toolchain.native is not None
    assert str(installed) in done.toolchain.native.ocloc[-1]


def test_the_own_triton_is_used_where_it_serves(root: Path, older_pin: CompilerPin) -> None:
    name, pin = load_pins().compiler("xpu")
    assert environment.look().intel_files
    assert install._compiler_serves(root, name, pin, exact=False)
    assert not install._compiler_serves(root, "xpu-3.2", older_pin, exact=True)


def test_remove_takes_everything_away(installed: Path, root: Path) -> None:
    with pytest.raises(UsageError) as caught:
        install.uninstall(["nativ"], lambda _: None)
    assert "did you mean 'native'?" in str(caught.value.remedy)
    assert install.uninstall([], lambda _: None) == ["native"]
    assert not installed.exists()
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_remove_where_nothing_was_installed(root: Path) -> None:
    assert install.uninstall([], lambda _: None) == []
    assert not root.exists()
