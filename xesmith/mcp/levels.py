"""What the levels of the cascade said, as tools answer it."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from pydantic import Field

from xesmith.cascade.record import Status, Verdict
from xesmith.mcp.text import first, short
from xesmith.mcp.tool import Answer

_MESSAGES = 6
_MESSAGES_IN_DETAIL = 40
_FACTS_CHARACTERS = 12_000
_LINES = 12


class LevelAnswer(Answer):
    level: Literal["syntax", "structure", "lowering", "correctness", "performance"]
    status: Status
    messages: list[str] = Field(default_factory=list[str])
    more: int = Field(default=0, description="Further messages; detail shows them.")
    facts: dict[str, Any] | None = Field(
        default=None, description="What the level rests on; only with detail."
    )


def level_answers(verdict: Verdict, *, detail: bool) -> list[LevelAnswer]:
    """The levels in the cascade's order."""
    found: list[LevelAnswer] = []
    for result in verdict.levels:
        messages, more = first(result.messages, _MESSAGES_IN_DETAIL if detail else _MESSAGES)
        found.append(
            LevelAnswer(
                level=result.level,
                status=result.status,
                messages=[short(message) for message in messages],
                more=more,
                facts=_bounded(dict(result.facts)) if detail else None,
            )
        )
    return found


def cited_lines(verdict: Verdict, text: str) -> dict[int, str]:
    """The lines of the candidate's file that the levels name, by their numbers."""
    lines = text.splitlines()
    # The level "syntax" counts in the kernels as they were given.
    told = " ".join(m for r in verdict.levels if r.level != "syntax" for m in r.messages)
    numbers = sorted({int(number) for number in re.findall(r"\bline (\d{1,6})\b", told)})
    known = [number for number in numbers if 1 <= number <= len(lines)]
    return {number: short(lines[number - 1], 160) for number in known[:_LINES]}


def _bounded(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, less those that are too long to answer."""
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    characters = 0
    for name, value in facts.items():
        size = len(json.dumps(value, default=str))
        if characters + size > _FACTS_CHARACTERS:
            left_out.append(name)
            continue
        characters += size
        kept[name] = value
    return {**kept, "left_out": left_out} if left_out else kept
