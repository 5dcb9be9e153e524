"""The content-addressed cache of ghost runs with all their level files.

One folder per entry, named by the hash of everything that its result depends on; it appears
by one rename, and an entry that is not whole counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from xesmith.lowering.record import GhostRun, Lowering

FOLDER_VARIABLE = "XESMITH_CACHE_DIR"
DEFAULT_BOUND_BYTES = 4 << 30

_RECORD = "run.json"
_WORK = "work"
_STAMP = "evicted"
_BETWEEN_EVICTIONS_SECONDS = 3600.0

#: attempts against other processes that store the same key at the same time
_RENAMES = 32
_ABANDONED_SECONDS = 86400.0
#: an entry that was read this recently may still be in use
_IN_USE_SECONDS = 3600.0


class LoweringCache:
    """GhostRuns by key, under `folder` (XESMITH_CACHE_DIR, else the user's cache folder).

    Args:
        bound_bytes: `evict` removes the entries that were longest not read above this.
    """

    def __init__(
        self, folder: Path | None = None, *, bound_bytes: int = DEFAULT_BOUND_BYTES
    ) -> None:
        self.folder = folder or cache_folder() / "lowerings"
        self._bound_bytes = bound_bytes

    def get(self, key: str) -> GhostRun | None:
        """The run stored under `key`; None when there is none, or none that is whole."""
        entry = self.folder / key
        record = entry / _RECORD
        try:
            stored = json.loads(record.read_bytes())
            for name, size in stored["sizes"].items():
                if os.stat(entry / name).st_size != size:
                    raise ValueError(name)
            run = GhostRun.from_json(stored["run"])
            dependencies: dict[str, str] = stored["dependencies"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            shutil.rmtree(entry, ignore_errors=True)
            return None
        if any(_file_hash(path) != known for path, known in dependencies.items()):
            return None
        with contextlib.suppress(OSError):
            os.utime(record)
        return _moved(run, entry, cached=True)

    def new_folder(self) -> Path:
        """A folder on the cache's own file system, to be given to `put`."""
        work = self.folder / _WORK
        work.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=work))

    def put(self, key: str, run: GhostRun, folder: Path, dependencies: Sequence[str]) -> GhostRun:
        """Moves `folder`, which holds the level files of `run`, into the cache.

        Returns:
            The run with its files' new paths.
        """
        relative = _relative(run, folder)
        names = {path for item in relative.lowerings for path in item.levels.values()}
        for path in folder.rglob("*"):
            if path.is_file() and str(path.relative_to(folder)) not in names:
                path.unlink()
        sizes = {name: (folder / name).stat().st_size for name in sorted(names)}
        record = {
            "run": relative.to_json(),
            "sizes": sizes,
            "dependencies": {path: _file_hash(Path(path)) for path in dependencies},
        }
        (folder / _RECORD).write_text(json.dumps(record))
        entry = self.folder / key
        _replace_folder(folder, entry)
        return _moved(relative, entry, cached=False)

    def evict_at_times(self) -> None:
        """`evict`, unless it was done within the last hour: it looks at every entry."""
        stamp = self.folder / _STAMP
        try:
            if time.time() - stamp.stat().st_mtime < _BETWEEN_EVICTIONS_SECONDS:
                return
        except OSError:
            if not self.folder.is_dir():
                return
        with contextlib.suppress(OSError):
            stamp.touch()
            self.evict()

    def evict(self) -> int:
        """Removes what was longest not read until the bound is met; bytes removed.

        Folders that a process left behind unfinished go after a day.
        """
        with contextlib.suppress(OSError):
            for item in os.scandir(self.folder / _WORK):
                if time.time() - item.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(item.path, ignore_errors=True)
        entries: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for item in os.scandir(self.folder):
                with contextlib.suppress(OSError, ValueError, KeyError):
                    record = Path(item.path) / _RECORD
                    entries.append((record.stat().st_mtime, _entry_bytes(record), Path(item.path)))
        excess = sum(size for _, size, _ in entries) - self._bound_bytes
        removed = 0
        for read_at, size, path in sorted(entries):
            if removed >= excess or time.time() - read_at < _IN_USE_SECONDS:
                break
            shutil.rmtree(path, ignore_errors=True)
            removed += size
        return removed


def cache_folder() -> Path:
    """The folder of all caches of xesmith."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path(platformdirs.user_cache_dir("xesmith"))


def cache_key(parts: Mapping[str, Any]) -> str:
    """The hash of `parts` (JSON) and of the code that lowers."""
    text = json.dumps([parts, code_version()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_version() -> str:
    """The hash of the modules that a stored run depends on."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder in ("ghost", "lowering", "worker"):
        for path in sorted((package / folder).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _moved(relative: GhostRun, entry: Path, *, cached: bool) -> GhostRun:
    def moved(item: Lowering) -> Lowering:
        levels = {level: str(entry / path) for level, path in item.levels.items()}
        return replace(item, levels=levels, cached=cached)

    return replace(relative, lowerings=tuple(moved(item) for item in relative.lowerings))


def _replace_folder(folder: Path, entry: Path) -> None:
    """Renames `folder` to `entry`. What stands there (another process stored the same, or with
    other dependencies) is moved aside first: a folder cannot be renamed over a full one."""
    for _ in range(_RENAMES):
        with contextlib.suppress(OSError):
            os.rename(folder, entry)
            return
        aside = Path(tempfile.mkdtemp(dir=entry.parent))
        with contextlib.suppress(FileNotFoundError):  # the other process has moved it as well
            os.rename(entry, aside / entry.name)
        shutil.rmtree(aside, ignore_errors=True)
    os.rename(folder, entry)


def _relative(run: GhostRun, folder: Path) -> GhostRun:
    def relative(item: Lowering) -> Lowering:
        levels = {level: os.path.relpath(path, folder) for level, path in item.levels.items()}
        return replace(item, levels=levels)

    return replace(run, lowerings=tuple(relative(item) for item in run.lowerings))


def _file_hash(path: Path | str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "absent"


def _entry_bytes(record: Path) -> int:
    return record.stat().st_size + sum(json.loads(record.read_bytes())["sizes"].values())
