"""The noun ScratchFolder: a temporary folder that does not outlive its process.

A process that is killed cannot clean up, so whoever makes the next scratch folder does: a
folder in use is locked by its process, and the system lets go of the lock however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_PREFIX = "xesmith-"
_LOCK = ".in-use"
#: a folder this young may belong to a process that has not locked it yet
_SETTLED_SECONDS = 60.0


class ScratchFolder:
    """A new folder under the system's temporary one. A context manager; `close` removes it.

    Args:
        purpose: part of its name, for whoever finds it.
    """

    def __init__(self, purpose: str) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
        self._lock: int | None = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> ScratchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove_abandoned(root: Path) -> None:
    """Removes this user's scratch folders whose process has ended."""
    with contextlib.suppress(OSError):
        for item in os.scandir(root):
            if item.name.startswith(_PREFIX) and _is_abandoned(item):
                shutil.rmtree(item.path, ignore_errors=True)


def _is_abandoned(folder: os.DirEntry[str]) -> bool:
    try:
        known = folder.stat(follow_symlinks=False)
        if not folder.is_dir(follow_symlinks=False) or known.st_uid != os.getuid():
            return False
        lock = os.open(Path(folder.path) / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False  # no scratch folder, or one that is just being made or removed
    try:
        if time.time() - os.fstat(lock).st_mtime < _SETTLED_SECONDS:
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
