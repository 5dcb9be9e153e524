"""The trace folder, as many processes and threads write it at once.

    index.jsonl                 one line per event, appended
    kernels/<name>-<hash>/      one per compiled kernel and configuration
        kernel.ttir, ...        the levels, named as in a lowering's folder
        before.generic.ttir     TTIR before the transform, where one changed it
        lowering.json           launch, metadata, seconds; what `xesmith trace` reads
        functions.json          the kernel's text and its callees', with their lines

A kernel's folder is made under another name and renamed: it is whole or not there, and of two
processes that compile the same kernel one wins, which alone appends the line.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

INDEX = "index.jsonl"
KERNELS = "kernels"
LOWERING = "lowering.json"
FUNCTIONS = "functions.json"
BEFORE = "before.generic.ttir"

#: a level larger than this is named, not kept
LARGEST_LEVEL_BYTES = 64 << 20
_LARGEST_LINE_BYTES = 64 << 10
_NAME_CHARACTERS = 80


class TraceFolder:
    """Writes into a trace folder.

    Args:
        path: is made where it is not there.
        limit_bytes: when the kernels recorded take this much, no further one is.

    Raises:
        OSError: the folder cannot be made or written.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._read_bytes = 0  # of the index
        self._total_bytes = 0  # of the kernels in what was read of it
        self.is_full = False
        (path / KERNELS).mkdir(parents=True, exist_ok=True)
        with (path / INDEX).open("ab"):
            pass

    def renew_lock(self) -> None:
        """For a forked child: the lock may be held by a thread that it does not have."""
        self._lock = threading.Lock()

    def wants(self, name: str, hash_: str) -> bool:
        """Whether this kernel is to be recorded; asked by one thread, it is answered once."""
        folder = folder_name(name, hash_)
        with self._lock:
            if folder in self._seen:
                return False
            self._seen.add(folder)
        return not (self.path / KERNELS / folder).exists()

    def has_room(self) -> bool:
        """Whether the trace is below its limit, by what all processes have written."""
        with self._lock, (self.path / INDEX).open("rb") as index:
            index.seek(self._read_bytes)
            data = index.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            self._total_bytes += sum(int(e.get("bytes") or 0) for e in events(whole))
            return self._total_bytes < self._limit_bytes

    def add(self, name: str, hash_: str, fill: Callable[[Path], Mapping[str, Any]]) -> bool:
        """Lets `fill` write a kernel's folder and appends the line that it returns.

        Returns:
            False where another process was first.
        """
        kernels = self.path / KERNELS
        final = folder_name(name, hash_)
        work = kernels / f".{final}.{os.getpid()}-{threading.get_ident()}"
        work.mkdir()
        try:
            line = fill(work)
            size = sum(item.stat().st_size for item in work.iterdir())
            try:
                work.rename(kernels / final)
            except OSError:
                if (kernels / final).is_dir():
                    return False
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self.append({"event": "kernel", "folder": final, "hash": hash_, "bytes": size, **line})
        return True

    def append(self, event: Mapping[str, Any]) -> None:
        """Appends one line to the index, whole."""
        full = {**event, "pid": os.getpid(), "unix_seconds": round(time.time(), 3)}
        line = json.dumps(full).encode()[:_LARGEST_LINE_BYTES] + b"\n"
        index = os.open(self.path / INDEX, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # Appending is atomic on a local disk; the lock is for file systems over a network.
            with contextlib.suppress(OSError):
                fcntl.flock(index, fcntl.LOCK_EX)
            if os.write(index, line) != len(line):  # a full disk: the next line stays whole
                os.write(index, b"\n")
        finally:
            os.close(index)


def folder_name(name: str, hash_: str) -> str:
    """The name of a kernel's folder: readable, and one per hash."""
    readable = re.sub(r"\W+", "_", name).strip("_")[:_NAME_CHARACTERS] or "kernel"
    return f"{readable}-{hash_[:16]}"


def events(data: bytes) -> list[dict[str, Any]]:
    """The whole lines of an index; one that a full disk cut off is left out."""
    found: list[dict[str, Any]] = []
    for line in data.splitlines():
        try:
            event: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            found.append(cast("dict[str, Any]", event))
    return found
