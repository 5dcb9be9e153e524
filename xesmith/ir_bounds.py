"""What a text of MLIR must keep to so that MLIR's parser survives it.

The parser ends the process where brackets nest too deeply, a shape's size overflows 64 bits, or an
operation is said to have billions of results. Standard library only: this also runs inside a
user's Triton process.
"""

from __future__ import annotations

import math
import re
from itertools import accumulate

MAX_TEXT_BYTES = 64 << 20
MAX_NESTING = 256

_MAX_ELEMENTS = 1 << 40
#: strings and arrows: what stands in them nests nothing
_NO_BRACKETS = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|->')
_STEPS = [(byte in b"<[{(") - (byte in b">]})") for byte in range(256)]
_OTHERS = bytes(byte for byte, step in enumerate(_STEPS) if step == 0)
_SHAPE = re.compile(r"<((?:\d+x)+)")
#: a place is made for each result up to a number that is used: `%0#99999`, `%0:99999 = `
_RESULT_NUMBER = re.compile(r"%[\w$.-]+\s*[#:]\s*\d{5,}")


def excess(text: str) -> str | None:
    """What of the text is beyond the parser's means, as a sentence; None where nothing is."""
    if len(text) > MAX_TEXT_BYTES:
        return f"IR text of {len(text)} B is over {MAX_TEXT_BYTES} B"
    # Every character of every level passes here, so no step is one of Python's.
    brackets = _NO_BRACKETS.sub(b"", text.encode("utf-8", "replace")).translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_NESTING:
        return f"IR text is nested deeper than {MAX_NESTING}"
    if (result := _RESULT_NUMBER.search(text)) is not None:
        return f"no operation has as many results: {result.group()[:100]}"
    for shape in set(_SHAPE.findall(text)):
        # By digits first: Python itself refuses to read a number of thousands of them.
        extents = shape[:-1].split("x")
        digits = sum(len(extent) for extent in extents)
        if digits > 64 or math.prod(int(extent) for extent in extents) > _MAX_ELEMENTS:
            return f"a shape of {shape[:-1][:100]} is no tile of a kernel"
    return None
