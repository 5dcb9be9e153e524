"""What MLIR leaves out of a text without a word: properties that its operations do not have.

An operation that MLIR does not know keeps all that stands there. Of one that it knows, as those
of arith, a property of a newer release is skipped by the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: an operation of a dialect that stock MLIR may know, up to its properties
_HEAD = re.compile(
    r'"((?!tt\.|ttg\.|ttig\.|triton)[a-z_]\w*\.[\w.]+)"\([^()]*\)(?:\[[^\]]*\])? <\{'
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<>\[\]{}(),]')
_OPENING = frozenset("<[{(")


@dataclass(frozen=True)
class LostProperty:
    """`text`: in words. `place`: line and column of its first place in the text, "4:17"."""

    text: str
    place: str


def lost_property(before: str, after: str) -> LostProperty | None:
    """A property that operations have more often in `before` than in `after`."""
    had, have = _properties(before), _properties(after)
    for (operation, name), offsets in had.items():
        if len(offsets) > len(have.get((operation, name), ())):
            line = before.count("\n", 0, offsets[0]) + 1
            column = offsets[0] - before.rfind("\n", 0, offsets[0])
            return LostProperty(f"the property '{name}' of {operation}", f"{line}:{column}")
    return None


def _properties(text: str) -> dict[tuple[str, str], list[int]]:
    """Where in a text in generic form each (operation, property) stands."""
    found: dict[tuple[str, str], list[int]] = {}
    for head in _HEAD.finditer(text):
        depth, start = 0, head.end()
        for token in _TOKEN.finditer(text, head.end()):
            what = token.group()
            if what in _OPENING:
                depth += 1
            elif depth == 0 and what in (",", "}"):
                written = text[start : token.start()]
                name = written.partition("=")[0].strip()
                blank = len(written) - len(written.lstrip())
                found.setdefault((head.group(1), name), []).append(start + blank)
                start = token.end()
                if what == "}":
                    break
            elif what in (">", "]", "}", ")"):
                depth -= 1
    return found
