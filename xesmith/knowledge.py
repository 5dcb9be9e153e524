"""Knowledge entries: what holds on a device or compiler, where it was learnt, for which versions.

Entries are YAML files under knowledge/constraints (what must be) and knowledge/patterns (what
helps, with a before and an after). A stage's prompt gets whole entries, never cut ones.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from xesmith.assets import asset_folder
from xesmith.errors import UsageError, nearest
from xesmith.findings.record import KINDS
from xesmith.stage_contract import Stage

_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)")


class Applies(BaseModel):
    """Where an entry holds. Nothing given: everywhere.

    `compilers` maps a distribution to the versions, as ">=3.3,<3.8" in release numbers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: tuple[str, ...] = ()  # names, or the kinds "xpu" and "cuda"
    compilers: dict[str, str] = Field(default_factory=dict)

    @field_validator("compilers")
    @classmethod
    def _versions_are_readable(cls, compilers: dict[str, str]) -> dict[str, str]:
        for versions in compilers.values():
            for clause in versions.split(","):
                if not _CLAUSE.fullmatch(clause.strip()):
                    raise ValueError(f"'{clause}' is no version clause such as '>=3.3'")
        return compilers

    def to(self, device: str, kind: str, distribution: str, version: str) -> bool:
        """Whether an entry holds for this device and compiler."""
        if self.devices and device not in self.devices and kind not in self.devices:
            return False
        if not self.compilers:
            return True
        versions = self.compilers.get(distribution)
        return versions is not None and version_matches(version, versions)


class Entry(BaseModel):
    """One piece of knowledge; `id` is dotted, its first part groups entries for the stages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")
    kind: Literal["constraint", "pattern"]
    statement: str = Field(min_length=1)
    source: str = Field(min_length=1)
    applies: Applies = Applies()
    findings: tuple[str, ...] = ()  # the kinds that it explains or mends
    before: str | None = None
    after: str | None = None

    @field_validator("findings")
    @classmethod
    def _kinds_are_known(cls, findings: tuple[str, ...]) -> tuple[str, ...]:
        for kind in findings:
            if kind not in KINDS:
                raise ValueError(f"unknown finding kind '{kind}' | {nearest(kind, KINDS)}")
        return findings

    def text(self) -> str:
        """The entry as a prompt or a person reads it."""
        parts = [f"{self.id}: {self.statement.strip()}"]
        if self.before:
            parts.append(f"before:\n{self.before.rstrip()}")
        if self.after:
            parts.append(f"after:\n{self.after.rstrip()}")
        return "\n".join([*parts, f"(source: {self.source})"])


class Knowledge(BaseModel):
    """All entries by id."""

    model_config = ConfigDict(frozen=True)

    entries: tuple[Entry, ...]

    @cached_property
    def by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}

    def matching(self, patterns: Iterable[str]) -> tuple[Entry, ...]:
        """Entries whose id matches one of the patterns ("block_pointer.*")."""
        wanted = tuple(patterns)
        return tuple(e for e in self.entries if any(fnmatch.fnmatchcase(e.id, p) for p in wanted))

    def for_stage(
        self, stage: Stage, *, device: str, kind: str, distribution: str, version: str
    ) -> tuple[Entry, ...]:
        """What a stage is told on this device with this compiler."""
        return tuple(
            entry
            for entry in self.matching(stage.knowledge)
            if entry.applies.to(device, kind, distribution, version)
        )


def version_matches(version: str, clauses: str) -> bool:
    """Whether "3.3.0b1" fulfils ">=3.3,<3.8"; only release numbers count."""
    release = _release(version)
    for clause in clauses.split(","):
        match = _CLAUSE.fullmatch(clause.strip())
        if match is None:
            raise UsageError(f"'{clause}' is no version clause such as '>=3.3'")
        bound = _release(match[2])
        width = max(len(release), len(bound))
        left = release + (0,) * (width - len(release))
        right = bound + (0,) * (width - len(bound))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[match[1]]:
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def load_knowledge(folder: Path | None = None) -> Knowledge:
    """All entries under knowledge/.

    Raises:
        UsageError: a faulty file, or an id that two entries have.
    """
    root = folder or asset_folder("knowledge")
    entries: dict[str, Entry] = {}
    for kind in ("constraint", "pattern"):
        for path in sorted((root / f"{kind}s").glob("*.yaml")):
            for entry in _read(path, kind):
                if entry.id in entries:
                    raise UsageError(f"the id '{entry.id}' is taken twice", where=str(path))
                entries[entry.id] = entry
    return Knowledge(entries=tuple(entries.values()))


def _read(path: Path, kind: str) -> list[Entry]:
    try:
        loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read the entries: {error}", where=str(path)) from error
    if not isinstance(loaded, list):
        raise UsageError("a knowledge file is a list of entries", where=str(path))
    entries: list[Entry] = []
    for number, item in enumerate(cast("list[Any]", loaded)):
        where = f"{path}: entry {number + 1}"
        if not isinstance(item, dict):
            raise UsageError("an entry is a mapping", where=where)
        fields = {str(k): v for k, v in cast("dict[Any, Any]", item).items()}
        known = [name for name in Entry.model_fields if name != "kind"]
        for key in fields:
            if key not in known:
                raise UsageError(f"unknown field '{key}'", where=where, remedy=nearest(key, known))
        try:
            entries.append(Entry.model_validate({**fields, "kind": kind}))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            what, _, remedy = first["msg"].removeprefix("Value error, ").partition(" | ")
            raise UsageError(f"{place}: {what}", where=where, remedy=remedy or None) from error
    return entries
