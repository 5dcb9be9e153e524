"""Knowledge entries: what holds on a device or compiler, where it was learnt, for which versions.

Entries are YAML files under knowledge/constraints (what must be) and knowledge/patterns (what
helps, with a before and an after). A stage's prompt gets whole entries, never cut ones: what
does not fit into the budget is left out and named.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from xesmith.assets import asset_folder
from xesmith.device import Device, device_names
from xesmith.errors import UsageError, nearest
from xesmith.findings.record import KINDS
from xesmith.stage_contract import Stage
from xesmith.tokens import estimate_tokens

#: what `applies.compilers` may name
DISTRIBUTIONS = ("triton-xpu", "pytorch-triton-xpu", "triton")

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

    def on(self, device: str, kind: str) -> bool:
        """Whether an entry holds on this device, with some compiler."""
        return not self.devices or device in self.devices or kind in self.devices

    def to(self, device: str, kind: str, distribution: str, version: str) -> bool:
        """Whether an entry holds for this device and compiler."""
        if not self.on(device, kind):
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

    @property
    def tokens(self) -> int:
        """About how many tokens the text takes."""
        return estimate_tokens(self.text())


@dataclass(frozen=True)
class Chosen:
    """What a stage is told, in this order, and the ids that its budget had no room for."""

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()


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
        """All that a stage could be told on this device with this compiler."""
        return tuple(
            entry
            for entry in self.matching(stage.knowledge)
            if entry.applies.to(device, kind, distribution, version)
        )

    def choose(
        self,
        stage: Stage,
        findings: Collection[str],
        budget_tokens: int,
        *,
        device: str,
        kind: str,
        distribution: str,
        version: str,
    ) -> Chosen:
        """What a stage is told within a budget: whole entries, the most pertinent first.

        First those that speak of a kind among `findings`, then the others; of each, constraints
        and patterns in turn by id, so that neither crowds out the other. One that does not fit is
        left out, and smaller ones after it may still find room.
        """
        candidates = self.for_stage(
            stage, device=device, kind=kind, distribution=distribution, version=version
        )
        present = set(findings)
        called_for = [entry for entry in candidates if not present.isdisjoint(entry.findings)]
        others = [entry for entry in candidates if present.isdisjoint(entry.findings)]
        chosen: list[Entry] = []
        left_out: list[str] = []
        left = budget_tokens
        for entry in (*_in_turn(called_for), *_in_turn(others)):
            if entry.tokens <= left:
                chosen.append(entry)
                left -= entry.tokens
            else:
                left_out.append(entry.id)
        return Chosen(tuple(chosen), tuple(sorted(left_out)))

    def search(
        self,
        words: str = "",
        *,
        stage: Stage | None = None,
        device: Device | None = None,
        finding: str | None = None,
    ) -> tuple[Entry, ...]:
        """Entries that hold a word that begins as one of `words`, the best first.

        Those that hold more of the words come first, then those that hold them in the id or the
        findings, then constraints. Without words: all entries.

        Args:
            stage: only what this stage is told.
            device: only what holds on it, with some compiler.
            finding: only what explains or mends this kind.

        Raises:
            UsageError: an unknown kind (the nearest is offered).
        """
        if finding is not None and finding not in KINDS:
            raise UsageError(f"unknown finding kind '{finding}'", remedy=nearest(finding, KINDS))
        entries = [
            entry
            for entry in (self.entries if stage is None else self.matching(stage.knowledge))
            if (device is None or entry.applies.on(device.name, device.kind))
            and (finding is None or finding in entry.findings)
        ]
        wanted = set(_words(words))
        if not wanted:
            return tuple(sorted(entries, key=_rank))
        found: list[tuple[int, int, Entry]] = []
        for entry in entries:
            head = _words(f"{entry.id} {' '.join(entry.findings)}")
            everything = (*head, *_words(entry.text()))
            held = {w for w in wanted if any(word.startswith(w) for word in everything)}
            in_head = {w for w in held if any(word.startswith(w) for word in head)}
            if held:
                found.append((len(held), len(in_head), entry))
        found.sort(key=lambda item: (-item[0], -item[1], *_rank(item[2])))
        return tuple(entry for _, _, entry in found)


def _in_turn(entries: Iterable[Entry]) -> list[Entry]:
    """A constraint, a pattern, the next constraint and so on, each kind by id."""
    ranked = sorted(entries, key=_rank)
    constraints = [entry for entry in ranked if entry.kind == "constraint"]
    patterns = [entry for entry in ranked if entry.kind == "pattern"]
    pairs = itertools.zip_longest(constraints, patterns)
    return [entry for pair in pairs for entry in pair if entry is not None]


def _rank(entry: Entry) -> tuple[bool, str]:
    return entry.kind != "constraint", entry.id


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9]+", text.lower()))


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
    entries: list[Entry] = []
    for item in _read_all(folder or asset_folder("knowledge")):
        if isinstance(item, UsageError):
            raise item
        entries.append(item)
    return Knowledge(entries=tuple(entries))


def lint(stages: Iterable[Stage], folder: Path | None = None) -> tuple[UsageError, ...]:
    """Every fault of the entries, and of what stages select of them.

    Beyond what `load_knowledge` refuses: a device or compiler that does not exist, so that the
    entry would never be told, and a stage's pattern that matches no entry.
    """
    faults: list[UsageError] = []
    entries: list[Entry] = []
    devices = (*device_names(), "xpu", "cuda")
    for item in _read_all(folder or asset_folder("knowledge")):
        if isinstance(item, UsageError):
            faults.append(item)
            continue
        entries.append(item)
        faults += [
            UsageError(f"unknown {what} '{name}'", where=item.id, remedy=nearest(name, known))
            for what, names, known in (
                ("device", item.applies.devices, devices),
                ("compiler", item.applies.compilers, DISTRIBUTIONS),
            )
            for name in names
            if name not in known
        ]
    knowledge = Knowledge(entries=tuple(entries))
    faults += [
        UsageError(
            f"the pattern '{pattern}' matches no entry",
            where=f"{stage.path}: knowledge",
            remedy=nearest(pattern, {entry.id for entry in entries}),
        )
        for stage in stages
        for pattern in stage.knowledge
        if not knowledge.matching([pattern])
    ]
    return tuple(faults)


def _read_all(root: Path) -> Iterator[Entry | UsageError]:
    """The entries under `root`, and in the place of a faulty one its error."""
    taken: set[str] = set()
    for kind in ("constraint", "pattern"):
        for path in sorted((root / f"{kind}s").glob("*.yaml")):
            try:
                loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError) as error:
                yield UsageError(f"cannot read the entries: {error}", where=str(path))
                continue
            if not isinstance(loaded, list):
                yield UsageError("a knowledge file is a list of entries", where=str(path))
                continue
            for number, item in enumerate(cast("list[Any]", loaded)):
                where = f"{path}: entry {number + 1}"
                try:
                    entry = _read(item, kind, where)
                except UsageError as error:
                    yield error
                    continue
                if entry.id in taken:
                    yield UsageError(f"the id '{entry.id}' is taken twice", where=where)
                    continue
                taken.add(entry.id)
                yield entry


def _read(item: Any, kind: str, where: str) -> Entry:
    if not isinstance(item, dict):
        raise UsageError("an entry is a mapping", where=where)
    fields = {str(k): v for k, v in cast("dict[Any, Any]", item).items()}
    known = [name for name in Entry.model_fields if name != "kind"]
    for key in fields:
        if key not in known:
            raise UsageError(f"unknown field '{key}'", where=where, remedy=nearest(key, known))
    try:
        return Entry.model_validate({**fields, "kind": kind})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        what, _, remedy = first["msg"].removeprefix("Value error, ").partition(" | ")
        raise UsageError(f"{place}: {what}", where=where, remedy=remedy or None) from error
