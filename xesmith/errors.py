"""The errors a user can meet: what failed, where, and how to mend it.

Every error that reaches the command line is one of these; anything else is a defect of
xesmith itself. The exit codes are part of the command line's contract (docs/01).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class XesmithError(Exception):
    """Base of all errors shown to a user.

    Args:
        what: one sentence, the cause.
        where: file, field, line or command that it concerns.
        remedy: what the user can do about it.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def to_json(self) -> dict[str, str | int | None]:
        return {
            "error": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "remedy": self.remedy,
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  remedy: {self.remedy}" if self.remedy else text


class UsageError(XesmithError):
    """A flag, name, file or field that the user gave is wrong."""

    exit_code: ClassVar[int] = 2


class ToolchainError(XesmithError):
    """A compiler or tool is missing, broken or of the wrong version."""

    exit_code: ClassVar[int] = 3


class InputKernelError(XesmithError):
    """The kernel that was given fails by itself: it cannot compile, launch or compute."""

    exit_code: ClassVar[int] = 4


def nearest(name: str, known: Iterable[str]) -> str:
    """A remedy sentence naming the nearest of `known`, then all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}known: {', '.join(names) or 'none'}"


class UnreadableLevelError(XesmithError):
    """A level's text is malformed, too large, or of a shape that its reader does not know."""


#: what a reader raises by itself on a text that it was not written for
NOT_UNDERSTOOD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
