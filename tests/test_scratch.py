"""Scratch folders go with their process, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from xesmith.scratch import ScratchFolder

HOLDER = """
import sys, time
from xesmith.scratch import ScratchFolder
folder = ScratchFolder("test")
(folder.path / "work").mkdir()
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def age(folder: Path) -> None:
    """Makes it look as if it had been made an hour ago."""
    then = time.time() - 3600
    os.utime(folder / ".in-use", (then, then))


def test_it_is_removed_with_all_that_is_in_it(temporary: Path) -> None:
    with ScratchFolder("test") as scratch:
        (scratch.path / "file").write_text("x")
        assert scratch.path.name.startswith("xesmith-test-")
    assert list(temporary.iterdir()) == []
    scratch.close()  # a second time does nothing


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_runs_is_not(
    temporary: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        age(left)
        with ScratchFolder("test"):
            assert left.is_dir()  # in use
        process.kill()
    with ScratchFolder("test"):
        assert not left.exists()


def test_other_folders_and_fresh_ones_stay(temporary: Path) -> None:
    other = temporary / "xesmith-notes"
    other.mkdir()
    (temporary / "xesmith-link").symlink_to(other)
    fresh = temporary / "xesmith-test-fresh"
    fresh.mkdir()
    (fresh / ".in-use").touch()  # its process is about to lock it
    with ScratchFolder("test"):
        pass
    assert {path.name for path in temporary.iterdir()} == {
        "xesmith-notes",
        "xesmith-link",
        "xesmith-test-fresh",
    }
