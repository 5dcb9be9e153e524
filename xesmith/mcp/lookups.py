"""Tools that only read what is there: devices, stages, knowledge, and the trials of a run."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from xesmith.assets import asset_folder
from xesmith.cascade.record import Verdict
from xesmith.device import FACTS, device_names, load_device
from xesmith.errors import UsageError, nearest
from xesmith.knowledge import Entry, load_knowledge
from xesmith.launch_plan import LaunchPlan
from xesmith.ledger import BASELINE, Ledger, Trial
from xesmith.mcp.levels import LevelAnswer, level_answers
from xesmith.mcp.run import best_trial, find_trial, opened_ledger
from xesmith.mcp.text import microseconds, short
from xesmith.mcp.tool import Answer, Ask, Say, Tool
from xesmith.mcp.workbench import Workbench
from xesmith.stage_contract import Stage, load_stages

_KNOWLEDGE_CHARACTERS = 8000
_TRIALS = 200
_SOURCE_CHARACTERS = 40_000

# -- devices --------------------------------------------------------------------------------------


class DevicesAsk(Ask):
    name: str | None = Field(default=None, description="One device, with all its facts.")


class DeviceLine(Answer):
    name: str
    title: str
    backend: Literal["xpu", "cuda"]


class FactAnswer(Answer):
    value: str
    meaning: str
    source: str


class DevicesAnswer(Answer):
    devices: list[DeviceLine]
    facts: dict[str, FactAnswer] = Field(
        default_factory=dict, description="Of the one that was asked for; unknown ones are absent."
    )


def devices(ask: DevicesAsk, _: Workbench, __: Say) -> DevicesAnswer:
    names = device_names() if ask.name is None else (ask.name,)
    found = [load_device(name) for name in names]
    facts: dict[str, FactAnswer] = {}
    if ask.name is not None:
        facts = {
            name: FactAnswer(value=str(fact.value), meaning=FACTS[name][1], source=fact.source)
            for name, fact in found[0].facts.items()
        }
    lines = [DeviceLine(name=d.name, title=d.title, backend=d.kind) for d in found]
    return DevicesAnswer(devices=lines, facts=facts)


# -- stages ---------------------------------------------------------------------------------------


class StagesAsk(Ask):
    name: str | None = Field(default=None, description="One stage, with its whole contract.")


class StageLine(Answer):
    name: str
    description: str
    after: list[str] = Field(description="Stages that come before it where they apply.")
    triggers: list[str] = Field(description="Kinds of findings that call for it; none: always.")


class Contract(Answer):
    promises: dict[str, list[str]] = Field(
        description="By device kind ('any' for all): what must hold of the evidence before and "
        "after, at every shape whose code changes."
    )
    keeps: list[str]
    must_improve: bool = Field(description="The predicted time must be lower, not just no higher.")
    knowledge: list[str] = Field(description="Patterns of the knowledge ids that it is told.")
    body: str = Field(description="What the stage is for, what counts as done, what never to do.")


class StagesAnswer(Answer):
    stages: list[StageLine]
    contract: Contract | None = None


def stages(ask: StagesAsk, _: Workbench, __: Say) -> StagesAnswer:
    known = load_stages()
    if ask.name is None:
        return StagesAnswer(stages=[_stage_line(stage) for stage in known.values()])
    if ask.name not in known:
        raise UsageError(f"unknown stage '{ask.name}'", remedy=nearest(ask.name, known))
    stage = known[ask.name]
    promises = {kind: list(held) for kind, held in stage.promises.model_dump().items() if held}
    contract = Contract(
        promises=promises,
        keeps=list(stage.keeps),
        must_improve=stage.improves,
        knowledge=list(stage.knowledge),
        body=stage.body.strip(),
    )
    return StagesAnswer(stages=[_stage_line(stage)], contract=contract)


def _stage_line(stage: Stage) -> StageLine:
    return StageLine(
        name=stage.name,
        description=stage.description,
        after=list(stage.after),
        triggers=list(stage.triggers),
    )


# -- guide ----------------------------------------------------------------------------------------


class GuideAsk(Ask):
    schema_too: bool = Field(default=False, description="Also the JSON schema of a launch plan.")


class GuideAnswer(Answer):
    text: str
    plan_schema: str | None = None


_GUIDE = """\
In the tools verify, predict and lower the python block is the argument `kernels`, the json block
the argument `plan`, and NOTE the argument `note`. All three are about the baseline file: a launch
plan is always the whole one, also when `parent` names an earlier trial.

"""


def guide(ask: GuideAsk, _: Workbench, __: Say) -> GuideAnswer:
    told = (asset_folder("llm_stages") / "REPLY.md").read_text(encoding="utf-8")
    schema = json.dumps(LaunchPlan.model_json_schema()) if ask.schema_too else None
    return GuideAnswer(text=_GUIDE + told.strip(), plan_schema=schema)


# -- knowledge ------------------------------------------------------------------------------------


class KnowledgeAsk(Ask):
    query: str = Field(default="", max_length=400, description="Words; the best matches first.")
    finding: str | None = Field(default=None, description="Only what explains or mends this kind.")
    stage: str | None = Field(default=None, description="Only what this stage is told.")
    target: str | None = Field(default=None, description="Only what holds for this device.")
    limit: int = Field(default=5, ge=1, le=50)


class EntryAnswer(Answer):
    id: str
    kind: Literal["constraint", "pattern"]
    statement: str
    source: str
    compilers: dict[str, str] = Field(default_factory=dict, description="Versions it holds for.")
    before: str | None = None
    after: str | None = None


class KnowledgeAnswer(Answer):
    entries: list[EntryAnswer]
    more: int = Field(default=0, description="Further matches that were left out.")


def knowledge_search(ask: KnowledgeAsk, _: Workbench, __: Say) -> KnowledgeAnswer:
    known = load_stages()
    if ask.stage is not None and ask.stage not in known:
        raise UsageError(f"unknown stage '{ask.stage}'", remedy=nearest(ask.stage, known))
    found = load_knowledge().search(
        ask.query,
        stage=None if ask.stage is None else known[ask.stage],
        device=None if ask.target is None else load_device(ask.target),
        finding=ask.finding,
    )
    chosen: list[EntryAnswer] = []
    characters = 0
    for entry in found[: ask.limit]:
        characters += len(entry.text())
        if characters > _KNOWLEDGE_CHARACTERS and chosen:
            break  # entries are never cut
        chosen.append(_entry_answer(entry))
    return KnowledgeAnswer(entries=chosen, more=len(found) - len(chosen))


def _entry_answer(entry: Entry) -> EntryAnswer:
    return EntryAnswer(
        id=entry.id,
        kind=entry.kind,
        statement=" ".join(entry.statement.split()),
        source=entry.source,
        compilers=dict(entry.applies.compilers),
        before=entry.before,
        after=entry.after,
    )


# -- trials ---------------------------------------------------------------------------------------


class TrialsAsk(Ask):
    run: str = Field(description="Run folder of verify, or of xesmith optimize.")
    trial: int | None = Field(default=None, description="One trial, with what each level said.")


class TrialLine(Answer):
    id: int
    parent: int | None = None
    stage: str
    proposer: str
    note: str
    verdict: Literal["accepted", "refused", "not read"]
    refused_by: str | None = None
    reason: str | None = None
    predicted_us: float | None = None


class TrialsAnswer(Answer):
    kernel: str
    target: str
    trials: list[TrialLine] = Field(description="In the order in which they were judged.")
    more: int = Field(default=0, description="Earlier trials that were left out.")
    best: int | None = Field(default=None, description="The best accepted trial.")
    levels: list[LevelAnswer] = Field(default_factory=list[LevelAnswer])


def trials(ask: TrialsAsk, _: Workbench, __: Say) -> TrialsAnswer:
    with opened_ledger(ask.run) as ledger:
        all_of_them = ledger.trials()
        shown = all_of_them[-_TRIALS:]
        levels: list[LevelAnswer] = []
        if ask.trial is not None:
            shown = [find_trial(ledger, ask.trial)]
            levels = level_answers(Verdict.from_json(shown[0].verdict), detail=True)
        best = best_trial(ledger)
        header = ledger.header
    return TrialsAnswer(
        kernel=header["kernel"],
        target=header["session"]["device"],
        trials=[_trial_line(trial) for trial in shown],
        more=0 if ask.trial is not None else len(all_of_them) - len(shown),
        best=None if best is None else best.id,
        levels=levels,
    )


def _trial_line(trial: Trial) -> TrialLine:
    judged = Verdict.from_json(trial.verdict)
    refused = judged.refused_by
    unread = judged.not_read
    against = refused or (unread[0] if unread else None)
    reason = against.messages[0] if against is not None and against.messages else None
    assert trial.id is not None
    return TrialLine(
        id=trial.id,
        parent=trial.parent,
        stage=trial.stage,
        proposer=trial.proposer,
        note=short(trial.note, 160),
        verdict="accepted" if trial.accepted else "refused" if refused else "not read",
        refused_by=None if against is None else against.level,
        reason=None if reason is None else short(reason, 240),
        predicted_us=microseconds(trial.predicted_seconds),
    )


# -- best -----------------------------------------------------------------------------------------


class BestAsk(Ask):
    run: str = Field(description="Run folder of verify, or of xesmith optimize.")
    write_to: str | None = Field(
        default=None, description="A new *.py file to write it to; else its text is answered."
    )
    overwrite: bool = Field(
        default=False, description="Let write_to be a file that is there; never the baseline."
    )


class BestAnswer(Answer):
    trial: int
    stage: str
    note: str
    predicted_us_before: float | None
    predicted_us_after: float | None
    measured: Literal["not measured"] = Field(description="Both times are predictions.")
    written: str | None = None
    text: str | None = None
    passes: str | None = None  # the plan (passes.json) that the result is only with


def best(ask: BestAsk, _: Workbench, __: Say) -> BestAnswer:
    with opened_ledger(ask.run) as ledger:
        trial = best_trial(ledger)
        if trial is None or trial.id is None:
            raise UsageError(
                "no candidate of this run was accepted",
                where=ask.run,
                remedy="the baseline is the best file; see trials for why others were refused",
            )
        text = ledger.get(trial.source)
        baseline = next((t for t in ledger.trials() if t.stage == BASELINE), None)
        if ask.write_to is not None:
            _write(Path(ask.write_to).expanduser(), text, ledger, overwrite=ask.overwrite)
    if ask.write_to is None and len(text) > _SOURCE_CHARACTERS:
        raise UsageError(
            f"the file has {len(text)} characters, too many to answer",
            where=ask.run,
            remedy="give write_to, a path to write it to",
        )
    return BestAnswer(
        trial=trial.id,
        stage=trial.stage,
        note=short(trial.note, 160),
        predicted_us_before=None if baseline is None else microseconds(baseline.predicted_seconds),
        predicted_us_after=microseconds(trial.predicted_seconds),
        measured="not measured",
        written=ask.write_to,
        passes=trial.passes or None,
        text=text if ask.write_to is None else None,
    )


def _write(path: Path, text: str, ledger: Ledger, *, overwrite: bool) -> None:
    """Writes the file whole or not at all.

    Raises:
        UsageError: the path is the baseline's, there already, no *.py, or cannot be written.
    """
    header = ledger.header
    where = str(path)
    if path.suffix != ".py":
        raise UsageError("not a Python file", where=where, remedy="name a *.py file")
    if _is_baseline(path, header["kernel"], header["source"]):
        raise UsageError(
            "this is the baseline, which is never written over",
            where=where,
            remedy="name another file",
        )
    if path.exists() and not overwrite:
        raise UsageError(
            "the file is there already", where=where, remedy="name another, or set overwrite"
        )
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise UsageError(f"cannot be written: {error.strerror}", where=where) from error


def _is_baseline(path: Path, kernel: str, source: str) -> bool:
    """Whether the path leads to the file that was given, under whatever name."""
    with contextlib.suppress(OSError):
        if path.samefile(kernel):
            return True
    with contextlib.suppress(OSError):
        return path.read_bytes() == source.encode()
    return False


LOOKUPS: tuple[Tool, ...] = (
    Tool(
        "devices", "The GPUs that kernels can be compiled for.", DevicesAsk, DevicesAnswer, devices
    ),
    Tool(
        "stages",
        "The optimisation stages in order; with a name, what a candidate of it must promise.",
        StagesAsk,
        StagesAnswer,
        stages,
    ),
    Tool(
        "guide",
        "How a candidate is written: what kernels may hold, and the launch plan with an example.",
        GuideAsk,
        GuideAnswer,
        guide,
    ),
    Tool(
        "knowledge_search",
        "Constraints and patterns of Intel GPUs and compilers, each with its source.",
        KnowledgeAsk,
        KnowledgeAnswer,
        knowledge_search,
    ),
    Tool(
        "trials",
        "The trial tree of a run folder: parents, verdicts, what refused each, predicted times.",
        TrialsAsk,
        TrialsAnswer,
        trials,
    ),
    Tool(
        "best",
        "The best candidate of a run that every level accepted: its text, or written to a file.",
        BestAsk,
        BestAnswer,
        best,
        writes=True,
    ),
)
