"""`xesmith verify`: one candidate against its baseline, through every level of the cascade."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xesmith.cli.common import (
    EXIT_NO_IMPROVEMENT,
    EXIT_OK,
    PANEL_KERNELS,
    JsonFlag,
    print_json,
    progress,
    table,
)
from xesmith.cli.options import (
    ReferenceOption,
    SpecOption,
    StageFolderOption,
    TargetOption,
    TimeoutOption,
    ToolchainOption,
    VariantOption,
)


def register(app: typer.Typer) -> None:
    app.command("verify", rich_help_panel=PANEL_KERNELS)(verify)


def verify(
    base: Annotated[Path, typer.Argument(help="The kernel file that is known to be right.")],
    candidate: Annotated[
        Path | None,
        typer.Argument(help="The file that claims to be better; with --passes: default BASE."),
    ] = None,
    passes: Annotated[
        Path | None,
        typer.Option("--passes", help="Plan of passes (passes.json) that goes with the candidate."),
    ] = None,
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    stage: Annotated[
        str | None, typer.Option("--stage", help="Hold the candidate to this stage's promises.")
    ] = None,
    stage_folder: StageFolderOption = None,
    target: TargetOption = "bmg-g31",
    toolchain: ToolchainOption = None,
    timeout: TimeoutOption = 120.0,
    as_json: JsonFlag = False,
) -> int:
    """Judge a candidate: syntax, structure, lowering, correctness, performance.

    Times are measured where the target is at hand, else predicted.
    """
    from xesmith.cascade.correctness import find_reference
    from xesmith.cascade.record import LEVELS
    from xesmith.engine.judge import Judge, verdict
    from xesmith.engine.problem import load_problem
    from xesmith.engine.session import Session
    from xesmith.errors import UsageError, nearest
    from xesmith.kernel_file import read_source
    from xesmith.pass_plan import NO_PASSES, read_plan
    from xesmith.stage_contract import load_stages

    stages = load_stages(extra=tuple(stage_folder or ()))
    if stage is not None and stage not in stages:
        raise UsageError(f"unknown stage '{stage}'", remedy=nearest(stage, stages))
    if candidate is None and passes is None:
        raise UsageError(
            "nothing is to be judged", remedy="name a candidate, a plan of passes, or both"
        )
    candidate = candidate or base
    plan = NO_PASSES if passes is None else read_plan(passes)
    problem = load_problem(base, spec, variant)
    problem.require_model()
    text = read_source(candidate)
    judged_by = find_reference(problem.program(), reference)
    with (
        progress(quiet=as_json) as shown,
        Session(target, toolchain=toolchain, timeout_s=timeout) as session,
        session.measuring(shown.say) as measurer,
    ):
        judge = Judge(session, problem, judged_by, shown.say, measurer)
        measured = judge.measures and not plan  # the timer runs sources, and knows no passes
        # Nothing of a candidate runs before its text is known to be a kernel's.
        levels = [judge.syntax(text)]
        if levels[0].status == "passed":
            baseline = judge.baseline()
            shown.say(f"lowering {candidate}")
            (after,) = session.examine(problem, [text], [plan])
            contract = stages[stage] if stage else None
            must_improve = contract.improves if contract else True
            levels = judge.static_levels(
                text,
                baseline.examinations,
                after,
                promises=contract.conditions(session.device.kind) if contract else (),
                must_improve=must_improve,
                predict=not measured,
            )
            # Slower code may still be right, and a user wants to know both; broken code cannot
            # run.
            if all(r.status == "passed" for r in levels if r.level in ("syntax", "structure")):
                shown.say("checking its results")
                result = judge.correctness(
                    text, baseline, examinations=after, wide=True, passes=plan
                )
                if measured and result.status == "passed":
                    result = judge.also_on_device(text, baseline, result)
                levels.append(result)
                if measured and result.status == "passed":
                    original = problem.source
                    levels.append(judge.performance(text, original, must_improve=must_improve))
        description = session.description
    judged = verdict(levels)
    if as_json:
        print_json({**description, "reference": str(judged_by), **judged.to_json()})
        return EXIT_OK if judged.accepted else EXIT_NO_IMPROVEMENT
    beside = "" if passes is None else f" with {passes}"
    rows: list[list[str]] = []
    for name in LEVELS:
        result = judged.level(name)
        status = "not run" if result is None else result.status.replace("_", " ")
        rows.append([name, status, "" if result is None else "\n".join(result.messages)])
    table(["level", "verdict", "what was seen"], rows, title=f"{candidate}{beside} against {base}")
    times = f"measured on {description['device_title']}" if measured else "predicted, not measured"
    print(f"reference: {judged_by}; times are {times}")
    print("accepted" if judged.accepted else "refused")
    return EXIT_OK if judged.accepted else EXIT_NO_IMPROVEMENT
