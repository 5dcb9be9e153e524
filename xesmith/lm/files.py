"""Files of exchanges: safe names, whole writes, bounded reads. Text is kept byte for byte."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path

from xesmith.errors import UsageError

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_MAX_LABEL_CHARACTERS = 120
_MAX_FILE_BYTES = 8_000_000
_BOM = "\ufeff"


def request_path(folder: Path, label: str) -> Path:
    return folder / f"{checked_label(label)}.request.md"


def reply_path(folder: Path, label: str) -> Path:
    return folder / f"{checked_label(label)}.reply.md"


def facts_path(folder: Path, label: str) -> Path:
    """Where model, finish, usage and seconds of a reply are kept."""
    return folder / f"{checked_label(label)}.reply.json"


def checked_label(label: str) -> str:
    """`label`, which is fit to be a file's name.

    Raises:
        UsageError: it is not: separators, a leading dot, "..", too long.
    """
    if len(label) > _MAX_LABEL_CHARACTERS or not _LABEL.fullmatch(label):
        raise UsageError(
            "a request's label holds letters, digits, '-', '_' and single dots alone",
            where=f"label {label[:_MAX_LABEL_CHARACTERS]!r}",
            remedy=f"give a label of at most {_MAX_LABEL_CHARACTERS} such characters",
        )
    return label


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that whoever reads it sees all of it or what was there before."""
    partial = path.with_name(f".writing-{os.getpid()}-{threading.get_ident()}-{path.name}")
    try:
        with partial.open("wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def read_text(path: Path) -> str:
    """The text of a file, newlines as they are, without a byte order mark.

    Raises:
        UsageError: it is larger than any exchange, or no UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(
            f"the file holds more than {_MAX_FILE_BYTES // 1_000_000} MB",
            where=str(path),
            remedy="write the reply alone: a note and the kernels",
        )
    try:
        return data.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the file is not UTF-8: byte {error.start} is wrong",
            where=str(path),
            remedy="save it as UTF-8",
        ) from None


def storable(text: str) -> str:
    """`text` as it is after writing and reading: no byte order mark, no lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").removeprefix(_BOM)


def first_difference(expected: str, actual: str) -> str:
    """Where two texts part, in words."""
    old, new = expected.splitlines(), actual.splitlines()
    for number, (a, b) in enumerate(zip(old, new, strict=False), start=1):
        if a != b:
            return f"line {number} is {_short(b)} and was {_short(a)}"
    if len(old) == len(new):
        return "the ends of the lines differ"
    number = min(len(old), len(new)) + 1
    if len(new) > len(old):
        return f"line {number} is new: {_short(new[number - 1])}"
    return f"line {number} is missing: {_short(old[number - 1])}"


def _short(line: str) -> str:
    return repr(line if len(line) <= 80 else line[:77] + "...")
