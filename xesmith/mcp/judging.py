"""Tools that ask the compiler and the interpreter: inspect, findings, lower, predict, verify."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from xesmith.cascade import syntax
from xesmith.cascade.correctness import Reference, find_reference
from xesmith.cascade.examine import Examination, examine
from xesmith.cascade.performance import predicted_seconds
from xesmith.cascade.record import LevelResult, Verdict
from xesmith.contracts import Number
from xesmith.engine.judge import verdict
from xesmith.engine.problem import Problem
from xesmith.engine.session import Session
from xesmith.errors import UsageError, nearest
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan, Options, render
from xesmith.ledger import Trial
from xesmith.lowering.record import GhostRun, Lowering
from xesmith.mcp.asks import CandidateAsk, KernelAsk
from xesmith.mcp.launches import ShapeAnswer, changes, shape_answer
from xesmith.mcp.levels import LevelAnswer, cited_lines, level_answers
from xesmith.mcp.run import Run
from xesmith.mcp.text import microseconds, short
from xesmith.mcp.tool import Answer, Ask, Say, Tool
from xesmith.mcp.workbench import Workbench
from xesmith.stage_contract import Stage, load_stages

_EXCERPT_LINES = 400
_EXCERPT_CHARACTERS = 16_000

#: what a trial is filed under that was held to no stage's promises
NO_STAGE = "verify"

NotMeasured = Literal["not measured"]
_NOT_MEASURED: NotMeasured = "not measured"

# -- inspect and findings -------------------------------------------------------------------------


class InspectAsk(KernelAsk):
    detail: bool = Field(
        default=False, description="All values, the accesses and the busiest lines of each launch."
    )


class FindingsAsk(KernelAsk):
    pass


class InspectAnswer(Answer):
    kernel: str
    device: str
    compiler: str | None
    native_compiler: str | None
    measured: NotMeasured = Field(description="All times are predictions of a static model.")
    shapes: list[ShapeAnswer]


def inspect(ask: InspectAsk, bench: Workbench, say: Say) -> InspectAnswer:
    return _seen(ask, bench, say, launches=True, detail=ask.detail)


def findings(ask: FindingsAsk, bench: Workbench, say: Say) -> InspectAnswer:
    return _seen(ask, bench, say, launches=False, detail=False)


def _seen(
    ask: KernelAsk, bench: Workbench, say: Say, *, launches: bool, detail: bool
) -> InspectAnswer:
    problem = ask.problem()
    session = bench.session(ask.target)
    say(f"lowering {problem.name} for {session.device.title}")
    (examined,) = session.examine(problem, [problem.source])
    shapes = [
        shape_answer(name, item, problem.source, launches=launches, findings=True, detail=detail)
        for name, item in examined.items()
    ]
    return InspectAnswer(**_told(ask, session), measured=_NOT_MEASURED, shapes=shapes)


def _told(ask: KernelAsk, session: Session) -> dict[str, Any]:
    """What was asked about, and what answers."""
    description = session.description
    return {
        "kernel": ask.kernel,
        "device": session.device.name,
        "compiler": description["compiler"],
        "native_compiler": description["native_compiler"],
    }


# -- lower ----------------------------------------------------------------------------------------

LevelName = Literal["none", "ttir", "ttgir", "llir", "spirv", "asm", "ptx"]
_FILES: dict[str, str] = {"spirv": "spirv_text"}


class Configuration(Ask):
    """Another configuration of one of the file's kernels, at one shape."""

    kernel: str = Field(description="Name of the kernel.")
    metas: dict[str, bool | int | float | str | None] = Field(
        default_factory=dict, description="Meta-parameters, as {'BLOCK_M': 128}."
    )
    options: dict[str, int | str] = Field(
        default_factory=dict, description="num_warps, num_stages, grf_mode."
    )
    grid: list[int | str] | None = Field(
        default=None,
        description="The grid, numbers or expressions over the kernel's parameters; default: the "
        "one that the file launches.",
    )


class LowerAsk(CandidateAsk):
    shape: str | None = Field(
        default=None, description="Name of the shape, as inspect has it; default: the first."
    )
    configuration: Configuration | None = Field(
        default=None, description="Of the baseline; for a candidate put it into its plan."
    )
    level: LevelName = Field(default="none", description="Also an excerpt of this level's text.")
    launch: int = Field(default=1, ge=1, description="Which launch the excerpt is of.")
    find: str | None = Field(
        default=None, description="Start the excerpt at the first line that holds this text."
    )
    first_line: int = Field(default=1, ge=1, description="Or at this line, from 1.")
    lines: int = Field(default=80, ge=1, le=_EXCERPT_LINES)
    detail: bool = False


class Excerpt(Answer):
    level: LevelName
    kernel: str
    first_line: int
    total_lines: int
    text: str


class LowerAnswer(Answer):
    kernel: str
    device: str
    compiler: str | None
    native_compiler: str | None
    measured: NotMeasured
    shape: ShapeAnswer
    excerpt: Excerpt | None = None


def lower(ask: LowerAsk, bench: Workbench, say: Say) -> LowerAnswer:
    problem = ask.problem()
    candidate = ask.checked_text(problem)
    names = list(problem.programs())
    shape = names[0] if ask.shape is None else ask.shape
    if shape not in names:
        raise UsageError(f"unknown shape '{shape}'", where="shape", remedy=nearest(shape, names))
    session = bench.session(ask.target)
    text = problem.source if candidate is None else candidate
    if ask.configuration is not None:
        if candidate is not None:
            raise UsageError(
                "a configuration goes with the baseline",
                where="configuration",
                remedy="put metas, options and grid into the candidate's plan",
            )
        text = _configured(ask.configuration, problem, shape, session)
    say(f"lowering {problem.name} at {shape} for {session.device.title}")
    run = session.lowerer.run(problem.programs(text)[shape])
    item = examine(run, session.device, variant=shape)
    return LowerAnswer(
        **_told(ask, session),
        measured=_NOT_MEASURED,
        shape=shape_answer(shape, item, text, launches=True, findings=True, detail=ask.detail),
        excerpt=None if ask.level == "none" else _excerpt(ask, run),
    )


def _configured(wanted: Configuration, problem: Problem, shape: str, session: Session) -> str:
    """The baseline with a launch plan that launches one kernel otherwise.

    Raises:
        UsageError: no such kernel, or its grid must be given.
        PlanError: an option or meta-parameter that there is not, or a value out of range.
    """
    kernel_file = KernelFile.parse(problem.source, problem.path)
    _check_names(wanted, kernel_file)
    grid = wanted.grid or _captured_grid(wanted.kernel, problem, shape, session)
    launch = {
        "kernel": wanted.kernel,
        "grid": grid,
        "metas": wanted.metas,
        "options": wanted.options,
    }
    rebinding = {"name": wanted.kernel, "alternatives": [{"launches": [launch]}]}
    plan = LaunchPlan.from_data({"rebindings": [rebinding]}, "configuration")
    return render(kernel_file, plan=plan)


def _captured_grid(kernel: str, problem: Problem, shape: str, session: Session) -> list[int]:
    """The grid that the file launches a kernel with at a shape."""
    run = session.lowerer.run(problem.programs()[shape], native=False)
    grids = {x.launch.grid for x in run.lowerings if x.launch.kernel == kernel}
    if len(grids) != 1:
        raise UsageError(
            f"'{kernel}' is launched with {len(grids)} grids at {shape}",
            where="configuration.grid",
            remedy="give the grid"
            if grids
            else nearest(kernel, {x.launch.kernel for x in run.lowerings}),
        )
    return list(grids.pop())


def _check_names(wanted: Configuration, kernel_file: KernelFile) -> None:
    known: tuple[tuple[str, Mapping[str, Any], Sequence[str]], ...] = (
        ("metas", wanted.metas, kernel_file.jit(wanted.kernel).parameter_names),
        ("options", wanted.options, tuple(Options.model_fields)),
    )
    for field, given, names in known:
        for name in given:
            if name not in names:
                raise UsageError(
                    f"unknown name '{name}'",
                    where=f"configuration.{field}",
                    remedy=nearest(name, names),
                )


def _excerpt(ask: LowerAsk, run: GhostRun) -> Excerpt:
    """Some lines of a level's text.

    Raises:
        UsageError: no such launch, a level that was not made, or a text that it does not hold.
    """
    if ask.launch > len(run.lowerings):
        raise UsageError(
            f"there is no launch {ask.launch}",
            where="launch",
            remedy=f"launches 1 to {len(run.lowerings)} are there",
        )
    lowering = run.lowerings[ask.launch - 1]
    lines = _level_lines(lowering, ask.level)
    start = ask.first_line
    if ask.find is not None:
        start = next((n for n, line in enumerate(lines, 1) if ask.find in line), 0)
        if not start:
            raise UsageError(
                f"no line of {ask.level} holds '{ask.find}'",
                where="find",
                remedy=f"leave it out to read the {len(lines)} lines from first_line",
            )
    text = "\n".join(lines[start - 1 : start - 1 + ask.lines])
    if len(text) > _EXCERPT_CHARACTERS:
        text = f"{text[:_EXCERPT_CHARACTERS]}\n... (cut at {_EXCERPT_CHARACTERS} characters)"
    return Excerpt(
        level=ask.level,
        kernel=lowering.launch.kernel,
        first_line=start,
        total_lines=len(lines),
        text=text,
    )


def _level_lines(lowering: Lowering, level: str) -> list[str]:
    name = _FILES.get(level, level)
    path = lowering.levels.get(name)
    if path is None:
        failure = lowering.failure
        why = lowering.not_read.get(name) or (failure.message if failure else "not made here")
        levels = ("ttir", "ttgir", "llir", "spirv", "asm", "ptx")
        there = [known for known in levels if _FILES.get(known, known) in lowering.levels]
        raise UsageError(
            f"{level} of '{lowering.launch.kernel}' is not there: {short(why)}",
            where="level",
            remedy=f"there are: {', '.join(there) or 'none'}",
        )
    return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()


# -- predict --------------------------------------------------------------------------------------


class PredictAsk(CandidateAsk):
    pass


class ShapePrediction(Answer):
    shape: str
    predicted_us: float | None = Field(description="Of all launches together.")
    bound_by: list[str] = Field(
        default_factory=list[str], description="What bounds each launch, in order."
    )
    parts_us: dict[str, float] = Field(
        default_factory=dict,
        description="Time that each resource alone would need, summed over the launches.",
    )
    why_not: str | None = None
    failure: str | None = None


class PredictAnswer(Answer):
    kernel: str
    device: str
    compiler: str | None
    native_compiler: str | None
    of: Literal["baseline", "candidate"]
    measured: NotMeasured = Field(
        description="Nothing was timed: a static model of the native code predicts."
    )
    shapes: list[ShapePrediction]


def predict(ask: PredictAsk, bench: Workbench, say: Say) -> PredictAnswer:
    problem = ask.problem()
    candidate = ask.checked_text(problem)
    session = bench.session(ask.target)
    say(f"lowering {problem.name} for {session.device.title}")
    text = problem.source if candidate is None else candidate
    (examined,) = session.examine(problem, [text])
    return PredictAnswer(
        **_told(ask, session),
        of="baseline" if candidate is None else "candidate",
        measured=_NOT_MEASURED,
        shapes=[_predicted(name, item) for name, item in examined.items()],
    )


def _predicted(name: str, item: Examination) -> ShapePrediction:
    shown = shape_answer(name, item, "", launches=True, findings=False, detail=True)
    parts: dict[str, float] = {}
    for launch in shown.launches:
        for part, microseconds_of_it in launch.predicted_parts_us.items():
            parts[part] = round(parts.get(part, 0.0) + microseconds_of_it, 2)
    why = next((launch.why_not_predicted for launch in shown.launches), None)
    return ShapePrediction(
        shape=name,
        predicted_us=microseconds(predicted_seconds({name: item})),
        bound_by=[launch.bound_by for launch in shown.launches if launch.bound_by is not None],
        parts_us=parts,
        why_not=why,
        failure=shown.failure,
    )


# -- verify ---------------------------------------------------------------------------------------


class VerifyAsk(CandidateAsk):
    stage: str | None = Field(
        default=None, description="Hold the candidate to this stage's promises; see stages."
    )
    reference: str | None = Field(
        default=None, description="PyTorch reference; default: reference.py beside the kernel."
    )
    run: str | None = Field(
        default=None,
        description="Run folder that keeps the candidate as a trial; made where there is none.",
    )
    parent: int | None = Field(
        default=None,
        description="Accepted trial of the run that the candidate must beat; default: the "
        "baseline. Kernels and plan are still about the baseline file.",
    )
    note: str = Field(default="", max_length=400, description="What was done, in one line.")
    detail: bool = Field(default=False, description="All messages, facts and changed values.")


class Before(Answer):
    before: float | None
    after: float | None


class VerifyAnswer(Answer):
    accepted: bool
    refused_by: str | None = None
    levels: list[LevelAnswer]
    predicted_us: dict[str, Before] = Field(default_factory=dict, description="By shape.")
    measured: NotMeasured = Field(description="No device was used: times are predictions.")
    changed_values: dict[str, dict[str, list[Number | None]]] = Field(
        default_factory=dict, description="By shape and contract name: before, after."
    )
    cited_lines: dict[int, str] = Field(
        default_factory=dict[int, str],
        description="Lines of the candidate's whole file that the messages name.",
    )
    reference: str
    trial: int | None = Field(default=None, description="Its id in the run folder.")
    parent: int | None = None
    judged_before: bool = Field(
        default=False, description="The run has judged this very text; nothing was done again."
    )


@dataclass(frozen=True)
class _Case:
    """What a candidate is judged with."""

    problem: Problem
    reference: Reference
    stage: Stage | None
    text: str


def verify(ask: VerifyAsk, bench: Workbench, say: Say) -> VerifyAnswer:
    known = load_stages()
    if ask.stage is not None and ask.stage not in known:
        raise UsageError(f"unknown stage '{ask.stage}'", remedy=nearest(ask.stage, known))
    if ask.parent is not None and ask.run is None:
        raise UsageError(
            "a parent is a trial of a run", where="parent", remedy="give run, the run's folder"
        )
    problem = ask.problem()
    problem.require_model()
    reference = find_reference(
        problem.program(), None if ask.reference is None else Path(ask.reference)
    )
    text = ask.candidate_text(problem)
    if text is None:
        raise UsageError(
            "there is no candidate", where="candidate", remedy="give candidate, or kernels and plan"
        )
    case = _Case(problem, reference, None if ask.stage is None else known[ask.stage], text)
    if ask.run is None:
        return _judged(ask, case, bench, say, None)
    session = bench.session(ask.target)
    with Run.open(Path(ask.run).expanduser(), problem, reference, session) as run:
        return _judged(ask, case, bench, say, run)


def _judged(
    ask: VerifyAsk, case: _Case, bench: Workbench, say: Say, run: Run | None
) -> VerifyAnswer:
    text, stage = case.text, case.stage
    levels = [syntax.check(text, KernelFile.parse(case.problem.source, case.problem.path))]
    if levels[0].status != "passed" and run is None:
        return _answer(ask, case, verdict(levels), {}, {}, None)
    judge, baseline = bench.judged(case.problem, case.reference, ask.target, say)
    before, parent = baseline.examinations, None
    if run is not None:
        parent = run.baseline(case.problem, baseline)
        if ask.parent is not None and ask.parent != parent.id:
            parent, built_on = run.parent(ask.parent)
            (before,) = judge.session.examine(case.problem, [built_on])
        filed = ask.stage or NO_STAGE
        if (seen := run.known(filed, text, parent)) is not None:
            say("the run has judged this text already")
            judged = Verdict.from_json(seen.verdict)
            return _answer(ask, case, judged, {}, {}, seen, judged_before=True)
    started = time.monotonic()
    after: Mapping[str, Examination] = {}
    if levels[0].status == "passed":
        say("lowering the candidate")
        (after,) = judge.session.examine(case.problem, [text])
        levels = judge.static_levels(
            text,
            before,
            after,
            promises=() if stage is None else stage.conditions(judge.session.device.kind),
            must_improve=stage is None or stage.improves,
        )
        if all(level.status == "passed" for level in levels):
            say("checking the candidate's results")
            levels.append(judge.correctness(text, baseline, examinations=after, wide=True))
        else:
            reason = "an earlier question was answered against the candidate"
            levels.append(LevelResult("correctness", "not_run", (reason,)))
    judged = verdict(levels)
    trial = None
    if run is not None:
        assert parent is not None
        note = short(ask.note, 200) or "no note"
        seconds = time.monotonic() - started
        trial = run.add(ask.stage or NO_STAGE, note, text, parent, judged, after, seconds)
    return _answer(ask, case, judged, before, after, trial)


def _answer(
    ask: VerifyAsk,
    case: _Case,
    judged: Verdict,
    before: Mapping[str, Examination],
    after: Mapping[str, Examination],
    trial: Trial | None,
    *,
    judged_before: bool = False,
) -> VerifyAnswer:
    refused = judged.refused_by
    performance = judged.level("performance")
    facts: Mapping[str, Any] = {} if performance is None else performance.facts
    predicted: dict[str, dict[str, float | None]] = facts.get("predicted_seconds", {})
    return VerifyAnswer(
        accepted=judged.accepted,
        refused_by=None if refused is None else refused.level,
        levels=level_answers(judged, detail=ask.detail),
        predicted_us={
            shape: Before(before=microseconds(p["before"]), after=microseconds(p["after"]))
            for shape, p in predicted.items()
        },
        measured=_NOT_MEASURED,
        changed_values=changes(before, after, detail=ask.detail),
        cited_lines=cited_lines(judged, case.text),
        reference=str(case.reference),
        trial=None if trial is None else trial.id,
        parent=None if trial is None else trial.parent,
        judged_before=judged_before,
    )


JUDGING: tuple[Tool, ...] = (
    Tool(
        "inspect",
        "Compiles a kernel file and shows, by shape and launch, what the native code holds, the "
        "predicted time and its bound, and the findings by line with reason and remedy.",
        InspectAsk,
        InspectAnswer,
        inspect,
        compiles=True,
    ),
    Tool(
        "findings",
        "As inspect, the findings alone.",
        FindingsAsk,
        InspectAnswer,
        findings,
        compiles=True,
    ),
    Tool(
        "lower",
        "Compiles one shape of the baseline, of one configuration of it, or of a candidate, and "
        "shows what came of it; with level, an excerpt of ttir, ttgir, llir, spirv or asm. "
        "Nothing is judged.",
        LowerAsk,
        LowerAnswer,
        lower,
        compiles=True,
    ),
    Tool(
        "predict",
        "The predicted time at each shape and what bounds it, of the baseline or a candidate. A "
        "static prediction, not measured.",
        PredictAsk,
        PredictAnswer,
        predict,
        compiles=True,
    ),
    Tool(
        "verify",
        "Judges a candidate: syntax, structure, lowering (the stage's promises), performance "
        "(predicted), correctness (against PyTorch). Stops at the first refusal and says why. "
        "With run it becomes a trial of that folder.",
        VerifyAsk,
        VerifyAnswer,
        verify,
        compiles=True,
        writes=True,
    ),
)
