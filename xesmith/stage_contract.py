"""The noun Stage: the machine-readable contract in llm_stages/<stage>/STAGE.md.

The YAML front matter is the contract, the body is what a model is told. A stage is added or
changed by editing its file alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from xesmith.assets import asset_folder
from xesmith.contract_names import parse_promise
from xesmith.errors import UsageError, nearest
from xesmith.findings.record import KINDS
from xesmith.pass_plan import PassEntry, PassPlan
from xesmith.stage_order import ancestors, nearest_order

#: what a stage may say that it leaves as it was, and the condition that this adds. Without one it
#: holds for every candidate of every stage: the cascade refuses other signatures (syntax), outputs
#: and dtypes (correctness).
KEEPS: dict[str, str | None] = {
    "outputs": None,
    "signature": None,
    "dtypes": None,
    "launches": "after.program.launches == before.program.launches",
}

#: no names for a stage: a run's ledger has other things under them
RESERVED = ("baseline", "final", "planner", "verify", "xesmith")


class Promises(BaseModel):
    """Conditions over before/after evidence: on every device, and per kind of device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    any: tuple[str, ...] = ()
    xpu: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()

    def on(self, kind: Literal["xpu", "cuda"]) -> tuple[str, ...]:
        """The conditions that a candidate for such a device must meet."""
        return self.any + (self.xpu if kind == "xpu" else self.cuda)


class StagePass(BaseModel):
    """What the proposer "passes" may try at a stage: a pipeline on the TTIR, switches of the
    backend, or both. `rounds`: results may differ in the last bits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pipeline: str = ""
    switches: dict[str, str] = Field(default_factory=dict[str, str])
    backend: Literal["xpu", "cuda"] | None = None
    rounds: bool = False

    @model_validator(mode="after")
    def _is_an_entry(self) -> StagePass:
        try:
            self.entry("kernel", "xpu")
        except UsageError as error:
            raise ValueError(f"{error.what} | {error.remedy or ''}") from error
        return self

    def entry(self, kernel: str, backend: str, reason: str = "") -> PassEntry:
        """What it is for a kernel: a plan's entry for all launches."""
        given = {**self.model_dump(), "kernel": kernel, "backend": backend, "reason": reason}
        (entry,) = PassPlan.of_entries([given]).entries
        return entry

    def __str__(self) -> str:
        switches = [f"{name}={value}" for name, value in self.switches.items()]
        return " ".join([*([self.pipeline] if self.pipeline else []), *switches])


class Stage(BaseModel):
    """One stage. `triggers` are kinds of findings; none means that it always applies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)
    description: str = Field(min_length=1, max_length=1024)
    after: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    promises: Promises = Promises()
    keeps: tuple[str, ...] = ("outputs",)
    improves: bool = True  # False: it is enough that the predicted time does not grow
    knowledge: tuple[str, ...] = ()  # patterns over ids of knowledge entries
    passes: tuple[StagePass, ...] = ()
    iterations: int = Field(default=5, ge=0, le=100)
    body: str = ""
    path: str = ""

    @model_validator(mode="after")
    def _names_are_known(self) -> Stage:
        if self.name in RESERVED:
            raise ValueError(
                f"no stage can be called '{self.name}': a run's ledger has something else under "
                "that name | give the stage another name, and its folder too"
            )
        for kind in self.triggers:
            if kind not in KINDS:
                raise ValueError(f"unknown finding kind '{kind}' | {nearest(kind, KINDS)}")
        for kept in self.keeps:
            if kept not in KEEPS:
                raise ValueError(f"unknown value '{kept}' in keeps | {nearest(kept, KEEPS)}")
        return self

    def applies(self, finding_kinds: Iterable[str]) -> bool:
        """Whether any of these findings calls for the stage."""
        return not self.triggers or not set(self.triggers).isdisjoint(finding_kinds)

    def conditions(self, kind: Literal["xpu", "cuda"]) -> tuple[str, ...]:
        """What a candidate for such a device must meet: the promises, and what `keeps` adds."""
        kept = tuple(condition for name in self.keeps if (condition := KEEPS[name]))
        return self.promises.on(kind) + kept

    @property
    def skill_name(self) -> str:
        """The stage's name as an Agent Skill's: those have hyphens and no underscore."""
        return re.sub("_+", "-", self.name).strip("-")

    def as_agent_skill(self) -> str:
        """The stage as a SKILL.md, for a folder named `skill_name`.

        Agent Skills know only name, description and a metadata of plain texts, so the contract
        moves there.
        """
        passes = [item.model_dump(exclude_defaults=True) for item in self.passes]
        contract = {
            "stage": self.name,
            "after": ", ".join(self.after),
            "triggers": ", ".join(self.triggers),
            **{
                f"promises-{device}": "; ".join(promises)
                for device, promises in self.promises.model_dump().items()
            },
            "keeps": ", ".join(self.keeps),
            "improves": "yes" if self.improves else "no",
            "knowledge": ", ".join(self.knowledge),
            "passes": json.dumps(passes) if passes else "",
            "iterations": str(self.iterations),
        }
        front = {
            "name": self.skill_name,
            "description": self.description,
            "metadata": {key: value for key, value in contract.items() if value},
        }
        text = yaml.safe_dump(front, sort_keys=False, width=1000)
        return f"---\n{text}---\n{self.body}"


def read_stage(path: Path) -> Stage:
    """Read and check one STAGE.md.

    Raises:
        UsageError: no front matter, an unknown field, finding kind or contract name (the
            nearest is offered), or a name that differs from the folder's.
    """
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the stage: {error}", where=where) from error
    front, body = _split(text, where)
    known = [name for name in Stage.model_fields if name not in ("body", "path")]
    for key in front:
        if key not in known:
            raise UsageError(f"unknown field '{key}'", where=where, remedy=nearest(key, known))
    promises: Any = front.get("promises") or {}
    if isinstance(promises, dict):
        for key in cast("dict[str, Any]", promises):
            if key not in Promises.model_fields:
                raise UsageError(
                    f"unknown field 'promises.{key}'",
                    where=where,
                    remedy=nearest(key, Promises.model_fields),
                )
    try:
        stage = Stage.model_validate({**front, "body": body, "path": where})
    except ValidationError as error:
        raise _usage_error(error, where) from error
    if stage.name != path.parent.name:
        raise UsageError(
            f"the stage is named '{stage.name}' and its folder '{path.parent.name}'",
            where=where,
            remedy="give both the same name",
        )
    for promise in (*stage.promises.any, *stage.promises.xpu, *stage.promises.cuda):
        parse_promise(promise, where=where)
    return stage


def _split(text: str, where: str) -> tuple[dict[str, Any], str]:
    if not text.startswith("---\n") or "\n---\n" not in text[4:]:
        raise UsageError(
            "the file has no front matter",
            where=where,
            remedy="begin it with '---', the YAML contract, and '---' on lines of their own",
        )
    front_text, body = text[4:].split("\n---\n", 1)
    try:
        front: Any = yaml.safe_load(front_text)
    except yaml.YAMLError as error:
        raise UsageError(f"the front matter is no YAML: {error}", where=where) from error
    if not isinstance(front, dict):
        raise UsageError("the front matter is no mapping", where=where)
    return {str(k): v for k, v in cast("dict[Any, Any]", front).items()}, body


def _usage_error(error: ValidationError, where: str) -> UsageError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    what, _, remedy = first["msg"].removeprefix("Value error, ").partition(" | ")
    return UsageError(f"{place}: {what}" if place else what, where=where, remedy=remedy or None)


def load_stages(folder: Path | None = None, extra: Sequence[Path] = ()) -> dict[str, Stage]:
    """All stages by name, in a legal order (each after those it names in `after`).

    `extra` are further folders that hold <stage>/STAGE.md; their stages may name all others.

    Raises:
        UsageError: a folder without stages, a faulty file, a name that two stages have, an
            unknown stage in `after`, or a cycle.
    """
    by_name: dict[str, Stage] = {}
    for root in (folder or asset_folder("llm_stages"), *extra):
        paths = sorted(root.glob("*/STAGE.md"))
        if not paths:
            raise UsageError("no stage found", where=str(root), remedy="add <stage>/STAGE.md")
        for stage in map(read_stage, paths):
            if (other := by_name.setdefault(stage.name, stage)) is not stage:
                raise UsageError(
                    f"the stage '{stage.name}' is there twice",
                    where=f"{stage.path} and {other.path}",
                    remedy="give one of them another name, and its folder too",
                )
    _check_edges(by_name)
    names = legal_order(sorted(by_name.values(), key=lambda stage: stage.name))
    return {name: by_name[name] for name in names}


def legal_order(stages: Iterable[Stage], wanted: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names in `wanted` (all, when None) in the nearest order that breaks no edge.

    Edges hold through stages that are not among `wanted`.

    Raises:
        UsageError: an unknown name (the nearest is offered).
    """
    by_name = {stage.name: stage for stage in stages}
    names = list(by_name) if wanted is None else list(dict.fromkeys(wanted))
    for name in names:
        if name not in by_name:
            raise UsageError(f"unknown stage '{name}'", remedy=nearest(name, by_name))
    return nearest_order(names, ancestors_of(by_name.values()))


def ancestors_of(stages: Iterable[Stage]) -> Mapping[str, frozenset[str]]:
    """By stage: all that must come before it, also through others."""
    return ancestors(tuple((stage.name, stage.after) for stage in stages))


def _check_edges(by_name: Mapping[str, Stage]) -> None:
    before = ancestors_of(by_name.values())
    for stage in by_name.values():
        for name in stage.after:
            if name not in by_name:
                raise UsageError(
                    f"unknown stage '{name}' in `after`",
                    where=stage.path,
                    remedy=nearest(name, by_name),
                )
        if stage.name in before[stage.name]:
            raise UsageError(
                f"the stage '{stage.name}' waits for itself",
                where=stage.path,
                remedy="remove an entry of `after`",
            )
