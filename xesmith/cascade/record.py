"""The nouns LevelResult and Verdict: what each level of the cascade said of a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Level = Literal["syntax", "structure", "lowering", "correctness", "performance"]
Status = Literal["passed", "refused", "not_read", "not_run"]

#: in the order in which the cascade asks them
LEVELS: tuple[Level, ...] = ("syntax", "structure", "lowering", "correctness", "performance")


@dataclass(frozen=True)
class LevelResult:
    """One level's answer.

    "refused": the candidate is at fault. "not_read": the level could not be judged on this
    machine, which never counts as passed. "not_run": there was no need, since an earlier level
    already refused or another candidate is better; `messages` say which.
    `messages` are sentences for a person or a model; `facts` is JSON.
    """

    level: Level
    status: Status
    messages: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def to_json(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "status": self.status,
            "messages": list(self.messages),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LevelResult:
        return cls(
            level=data["level"],
            status=data["status"],
            messages=tuple(data["messages"]),
            facts=dict(data["facts"]),
        )


@dataclass(frozen=True)
class Verdict:
    """The levels' answers together; a level that nobody asked is missing from `levels`."""

    levels: tuple[LevelResult, ...]

    def __post_init__(self) -> None:
        names = [result.level for result in self.levels]
        if len(set(names)) != len(names):
            raise ValueError(f"a level answered twice: {names}")

    @property
    def accepted(self) -> bool:
        """Every level of the cascade was asked and passed."""
        passed = {result.level for result in self.levels if result.status == "passed"}
        return passed == set(LEVELS)

    @property
    def refused_by(self) -> LevelResult | None:
        """The first level that found the candidate at fault."""
        return next((r for r in self.levels if r.status == "refused"), None)

    @property
    def not_read(self) -> tuple[LevelResult, ...]:
        return tuple(r for r in self.levels if r.status == "not_read")

    def level(self, name: Level) -> LevelResult | None:
        return next((r for r in self.levels if r.level == name), None)

    def to_json(self) -> dict[str, Any]:
        return {"accepted": self.accepted, "levels": [r.to_json() for r in self.levels]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        return cls(tuple(LevelResult.from_json(item) for item in data["levels"]))
