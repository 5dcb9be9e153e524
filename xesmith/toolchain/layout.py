"""Where installed toolchains lie, and how an install is published without a half state.

Under the root, every install is built in a folder of its own with a unique name, and a
symbolic link of the install's name is moved to it in one step at the end. What a killed
install leaves behind is a folder that no link names; the next install removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, cast

import platformdirs

from xesmith.errors import ToolchainError

MANIFEST = "manifest.json"
NATIVE = "native"
CLANG = "clang-23"
DOWNLOADS = "downloads"

_LOCK_WAIT_SECONDS = 1800.0
_LOCK_POLL_SECONDS = 0.2

Say = Callable[[str], None]


def cache_folder() -> Path:
    """The user's cache folder for everything that xesmith can make again."""
    return Path(platformdirs.user_cache_dir("xesmith", appauthor=False))


def toolchain_root() -> Path:
    """Where toolchains are installed: XESMITH_TOOLCHAIN_DIR, else under the cache folder."""
    given = os.environ.get("XESMITH_TOOLCHAIN_DIR")
    return Path(given).expanduser().resolve() if given else cache_folder() / "toolchains"


def installed(root: Path, name: str) -> Path | None:
    """The folder of the install `name`, or None where there is none."""
    link = root / name
    return link.resolve() if link.is_symlink() and link.is_dir() else None


def installed_names(root: Path) -> list[str]:
    if not root.is_dir():
        return []
    return sorted(p.name for p in root.iterdir() if p.is_symlink() and p.is_dir())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an install.

    Raises:
        ToolchainError: it is missing, not JSON or not an object: the install is broken.
    """
    path = folder / MANIFEST
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise broken(path, f"the install's manifest cannot be read ({error})") from error
    if not isinstance(data, dict):
        raise broken(path, "the install's manifest is not an object")
    return cast(dict[str, Any], data)


def write_manifest(folder: Path, data: dict[str, Any]) -> None:
    (folder / MANIFEST).write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", "utf-8")


def broken(where: Path, what: str) -> ToolchainError:
    """The error for an install that is there but does not work."""
    return ToolchainError(what, where=str(where), remedy="xesmith toolchain install xpu --force")


@contextlib.contextmanager
def locked(root: Path, say: Say) -> Generator[None, None, None]:
    """Holds the only right to change `root`; the kernel frees it if this process dies."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / ".lock").open("w")
    except OSError as error:
        raise ToolchainError(
            f"the toolchain folder cannot be written ({error.strerror})",
            where=str(root),
            remedy="set XESMITH_TOOLCHAIN_DIR to a folder that you can write to",
        ) from error
    with lock:
        if not _try_lock(lock):
            say("another install is running; waiting for it")
            deadline = time.monotonic() + _LOCK_WAIT_SECONDS
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise ToolchainError(
                        f"another install has held the lock for {_LOCK_WAIT_SECONDS / 60:.0f} min",
                        where=lock.name,
                        remedy="end that install, then run this command again",
                    )
                time.sleep(_LOCK_POLL_SECONDS)
        yield


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def new_folder(root: Path, name: str) -> Path:
    """An empty folder in which the install `name` is built."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    folder = Path(tempfile.mkdtemp(prefix=f"{name}.{stamp}.", dir=root))
    folder.chmod(0o755)  # candidates may run as another user
    return folder


def publish(root: Path, name: str, folder: Path) -> None:
    """Makes `folder` the install `name` in one step, then removes what it replaces."""
    link = root / f".{name}.link"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name, target_is_directory=True)
    link.replace(root / name)
    sweep(root, name)


def sweep(root: Path, name: str) -> None:
    """Removes the folders of `name` that its link does not point at. Call it locked."""
    current = installed(root, name)
    built = re.compile(rf"{re.escape(name)}\.\d{{8}}T\d{{6}}\.\w+")
    for folder in list(root.iterdir()):
        if built.fullmatch(folder.name) and folder.resolve() != current:
            shutil.rmtree(folder, ignore_errors=True)


def remove(root: Path, name: str) -> None:
    """Removes the install `name`. Call it locked."""
    (root / name).unlink(missing_ok=True)
    sweep(root, name)


def size_bytes(folder: Path) -> int:
    """Bytes on disk of the regular files below `folder`; links are not followed."""
    total = 0
    for base, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(base, file))
                total += status.st_blocks * 512
    return total
