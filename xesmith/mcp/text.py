"""Bounds of what a tool answers: a client's context is small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

MESSAGE_CHARACTERS = 600


def short(text: str, characters: int = MESSAGE_CHARACTERS) -> str:
    """The text in one line, cut with "..." where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[: characters - 3]}..."


def first(items: Sequence[_T], count: int) -> tuple[list[_T], int]:
    """The first `count` items, and how many more there are."""
    return list(items[:count]), max(0, len(items) - count)


def microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e6, 2)
