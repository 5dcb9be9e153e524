"""The noun ProposerName: what `--proposer` says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xesmith.errors import UsageError, nearest

_KINDS = ("rules", "passes", "lm", "exchange", "replay")
_WITH_FOLDER = ("exchange", "replay")


@dataclass(frozen=True)
class ProposerName:
    """One of `--proposer rules,passes,lm,exchange:DIR,replay:DIR`."""

    kind: str
    folder: Path | None = None

    @property
    def is_model(self) -> bool:
        return self.kind not in ("rules", "passes")

    def __str__(self) -> str:
        return self.kind if self.folder is None else f"{self.kind}:{self.folder}"


def parse_proposers(text: str) -> tuple[ProposerName, ...]:
    """The proposers of a comma-separated list, in its order.

    Raises:
        UsageError: an unknown name (the nearest is offered), a folder that is missing or too much,
            the same twice, or none.
    """
    found: list[ProposerName] = []
    for part in (item.strip() for item in text.split(",")):
        kind, _, folder = part.partition(":")
        if kind not in _KINDS:
            raise UsageError(
                f"unknown proposer '{part}'", where="--proposer", remedy=nearest(kind, _KINDS)
            )
        if (kind in _WITH_FOLDER) != bool(folder):
            takes = "needs a folder" if kind in _WITH_FOLDER else "takes no folder"
            raise UsageError(
                f"the proposer '{kind}' {takes}",
                where="--proposer",
                remedy="rules, passes, lm, exchange:DIR or replay:DIR",
            )
        found.append(ProposerName(kind, Path(folder) if folder else None))
    if len({name.kind for name in found}) != len(found):
        raise UsageError("a proposer is named twice", where="--proposer", remedy="name it once")
    return tuple(found)
