"""Installs are published in one step, and one at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.errors import ToolchainError
from xesmith.toolchain import layout


def quiet(_: str) -> None:
    return


def test_the_folder_follows_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XESMITH_TOOLCHAIN_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert layout.toolchain_root() == Path("/some/cache/xesmith/toolchains")
    monkeypatch.setenv("XESMITH_TOOLCHAIN_DIR", "/else/where")
    assert layout.toolchain_root() == Path("/else/where")


def test_publish_replaces_in_one_step_and_removes_the_old(tmp_path: Path) -> None:
    old = layout.new_folder(tmp_path, "native")
    layout.publish(tmp_path, "native", old)
    assert layout.installed(tmp_path, "native") == old
    new = layout.new_folder(tmp_path, "native")
    layout.publish(tmp_path, "native", new)
    assert layout.installed(tmp_path, "native") == new
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["native", new.name])


def test_a_folder_that_was_never_published_is_no_install(tmp_path: Path) -> None:
    layout.new_folder(tmp_path, "native")
    assert layout.installed(tmp_path, "native") is None
    assert layout.installed_names(tmp_path) == []


def test_sweep_leaves_installs_of_other_names(tmp_path: Path) -> None:
    kept = layout.new_folder(tmp_path, "xpu-3.3")
    layout.publish(tmp_path, "xpu-3.3", kept)
    left = layout.new_folder(tmp_path, "xpu-3")
    layout.publish(tmp_path, "native", layout.new_folder(tmp_path, "native"))
    layout.sweep(tmp_path, "xpu-3")
    assert not left.exists()
    assert layout.installed_names(tmp_path) == ["native", "xpu-3.3"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_wrong_manifest_names_the_mending_command(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ToolchainError) as caught:
        layout.read_manifest(tmp_path)
    assert caught.value.remedy == "xesmith toolchain install xpu --force"


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with (
        pytest.raises(ToolchainError, match="cannot be written") as caught,
        layout.locked(file / "toolchains", quiet),
    ):
        pass
    assert "XESMITH_TOOLCHAIN_DIR" in str(caught.value.remedy)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from xesmith.toolchain import layout\n"
        "with layout.locked(Path(sys.argv[1]), print):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(timeout=10)
    said: list[str] = []
    with layout.locked(tmp_path, said.append):
        pass
    assert said == []


def test_size_counts_files_not_links(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert 100_000 <= layout.size_bytes(tmp_path) < 200_000
