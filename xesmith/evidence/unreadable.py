"""The error of a reader: a level's file is there, but it is not what it should be."""

from __future__ import annotations

from xesmith.errors import XesmithError


class UnreadableLevelError(XesmithError):
    """A level's text is malformed, too large, or of a shape that the reader does not know."""
