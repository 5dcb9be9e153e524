"""What MLIR leaves out of a text without a word: properties that its operations do not have.

An operation that MLIR does not know keeps all that stands there. Of one that it knows, as those
of arith, a property of a newer release is skipped by the parser.
"""

from __future__ import annotations

import re
from collections import Counter

#: an operation of a dialect that stock MLIR may know, up to its properties
_HEAD = re.compile(
    r'"((?!tt\.|ttg\.|ttig\.|triton)[a-z_]\w*\.[\w.]+)"\([^()]*\)(?:\[[^\]]*\])? <\{'
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>\[\]{}(),]')
_OPENING = frozenset("<[{(")


def lost_property(before: str, after: str) -> str | None:
    """A property that some operation has in `before` and none has in `after`, in words."""
    lost = _properties(before) - _properties(after)
    return next((f"the property '{name}' of {operation}" for operation, name in lost), None)


def _properties(text: str) -> Counter[tuple[str, str]]:
    """How often each (operation, property) stands in a text in generic form."""
    found: Counter[tuple[str, str]] = Counter()
    for head in _HEAD.finditer(text):
        depth, start = 0, head.end()
        for token in _TOKEN.finditer(text, head.end()):
            what = token.group()
            if what in _OPENING:
                depth += 1
            elif depth == 0 and what in (",", "}"):
                name = text[start : token.start()].partition("=")[0].strip()
                found[head.group(1), name] += 1
                start = token.end()
                if what == "}":
                    break
            elif what in (">", "]", "}", ")"):
                depth -= 1
    return found
