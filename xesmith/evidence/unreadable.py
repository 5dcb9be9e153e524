"""The error of a reader: a level's file is there, but it is not what it should be."""

from __future__ import annotations

from xesmith.errors import XesmithError


class UnreadableLevelError(XesmithError):
    """A level's text is malformed, too large, or of a shape that the reader does not know."""


#: what a reader raises by itself on a text that it was not written for
NOT_UNDERSTOOD = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
