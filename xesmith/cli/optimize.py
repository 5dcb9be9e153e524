"""`xesmith optimize`: stage after stage, from a correct kernel to a better one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xesmith.cli.common import (
    EXIT_ENVIRONMENT,
    EXIT_NO_IMPROVEMENT,
    EXIT_OK,
    PANEL_KERNELS,
    JsonFlag,
    print_json,
    progress,
)
from xesmith.cli.lm import (
    MODEL_PANEL,
    BudgetSecondsOption,
    BudgetTokensOption,
    BudgetUsdOption,
    LmApiOption,
    LmBaseOption,
    LmOption,
    LmTimeoutOption,
    lm_overrides,
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
from xesmith.errors import UsageError

if TYPE_CHECKING:
    from xesmith.engine.optimize import Result
    from xesmith.report.model import Report


def register(app: typer.Typer) -> None:
    app.command("optimize", rich_help_panel=PANEL_KERNELS)(optimize)


def optimize(
    kernel: Annotated[Path, typer.Argument(help="A kernel file with Model and get_inputs.")],
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    target: TargetOption = "bmg-g31",
    toolchain: ToolchainOption = None,
    stages: Annotated[
        str | None, typer.Option("--stages", help="Comma-separated stages; default: all.")
    ] = None,
    stage_folder: StageFolderOption = None,
    proposer: Annotated[
        str,
        typer.Option(
            "--proposer",
            help="Who proposes, in this order: rules, passes, lm, exchange:DIR, replay:DIR. "
            "What passes change stands in passes.json, and needs xesmith's hook to be applied.",
        ),
    ] = "rules",
    planner: Annotated[
        str,
        typer.Option("--planner", help="Who orders the stages: contracts, or model (made legal)."),
    ] = "contracts",
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder; default: xesmith-runs/<new>.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out where it stopped.")
    ] = False,
    timeout: TimeoutOption = 120.0,
    lm: LmOption = None,
    lm_base: LmBaseOption = None,
    lm_api: LmApiOption = None,
    lm_timeout: LmTimeoutOption = None,
    budget_tokens: BudgetTokensOption = None,
    budget_usd: BudgetUsdOption = None,
    budget_seconds: BudgetSecondsOption = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            rich_help_panel=MODEL_PANEL,
            help="Most tries of a model per stage, up to the stage's own limit.",
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            min=1,
            max=16,
            rich_help_panel=MODEL_PANEL,
            help="Answers of a model per try.",
        ),
    ] = 1,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            rich_help_panel=MODEL_PANEL,
            help="Keep every exchange with the endpoint in this folder.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            rich_help_panel=MODEL_PANEL,
            help="Seconds to wait for a reply in an exchange folder; 0: stop.",
        ),
    ] = 0.0,
    withhold_evidence: Annotated[
        bool,
        typer.Option(
            "--withhold-evidence",
            rich_help_panel=MODEL_PANEL,
            help="Keep the compiler's facts from the model, to learn what they are worth.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Make a kernel faster: the compiler, then PyTorch, judge every candidate."""
    from contextlib import ExitStack

    from xesmith.cascade.correctness import find_reference
    from xesmith.engine.channels import ChannelOptions
    from xesmith.engine.judge import Judge
    from xesmith.engine.model_at_work import ModelOptions
    from xesmith.engine.optimize import Optimizer
    from xesmith.engine.problem import load_problem
    from xesmith.engine.proposers import parse_proposers
    from xesmith.engine.run_folder import RunFolder, run_header
    from xesmith.engine.run_setup import RunSetup
    from xesmith.engine.session import Session
    from xesmith.lm.record import ModelError
    from xesmith.report.files import PASSES, write_results
    from xesmith.report.model import build
    from xesmith.report.terminal import show
    from xesmith.stage_contract import load_stages

    setup = RunSetup(
        stages=load_stages(extra=tuple(stage_folder or ())),
        wanted=None if stages is None else [name.strip() for name in stages.split(",")],
        planner=planner,
        proposers=parse_proposers(proposer),
        channels=ChannelOptions(
            lm_overrides(
                *(lm, lm_base, lm_api, lm_timeout, budget_tokens, budget_usd, budget_seconds)
            ),
            record=record,
            wait_s=wait,
        ),
        model=ModelOptions(iterations, samples, withheld=withhold_evidence),
    )
    setup.check()
    problem = load_problem(kernel, spec, variant)
    problem.require_model()
    judged_by = find_reference(problem.program(), reference)
    if resume and out is None:
        raise UsageError("--resume needs the run folder", remedy="give it with --out DIR")
    with (
        progress(quiet=as_json) as shown,
        Session(target, toolchain=toolchain, timeout_s=timeout) as session,
    ):
        header = {**run_header(problem, judged_by, session), **setup.header()}
        name = f"{problem.name}-{session.device.name}-{datetime.now():%Y%m%d-%H%M%S}"
        folder = out or Path("xesmith-runs") / name
        with RunFolder.open(folder, header, resume=resume) as run, ExitStack() as open_run:
            shown.say(f"run folder {folder}")
            measurer = open_run.enter_context(session.measuring(shown.say))
            judge = Judge(session, problem, judged_by, shown.say, measurer)
            order, make_proposers = setup.begin(judge, run.ledger, shown.say)
            optimizer = Optimizer(judge, order, make_proposers, run.ledger, shown.say)
            try:
                result = optimizer.run()
            except KeyboardInterrupt:
                shown.say(f"interrupted; go on with --resume --out {folder}")
                raise
            except ModelError:
                shown.say(
                    f"nothing is lost: go on with --resume --out {folder}; "
                    f"xesmith report {folder} shows how far it came"
                )
                raise
            report = build(run.ledger)
            files = write_results(run, result, report)
    if as_json:
        print_json(_as_json(result, report, files))
    else:
        show(report)
        for name, path in files.items():
            print(f"  {name}: {path}")
        if PASSES in files:
            print("the passes are no part of the kernel's file; a program gets them by")
            print(f"  python -m xesmith.hook --passes {files[PASSES]} PROGRAM.py")
    if result.unreached is not None and not as_json:
        print(f"the model could not be asked: {result.unreached}")
    if result.improved:
        return EXIT_OK
    return EXIT_NO_IMPROVEMENT if result.unreached is None else EXIT_ENVIRONMENT


def _as_json(result: Result, report: Report, files: dict[str, Path]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "improved": result.improved,
        "verdict": report.verdict,
        "measured": report.measured,
        "measurements": list(report.measurements),
        "predicted_seconds": {
            "before": result.baseline.trial.predicted_seconds,
            "after": result.final.trial.predicted_seconds,
        },
        "session": report.header["session"],
        "reference": report.header["reference"],
        "stages": [asdict(outcome) for outcome in result.outcomes],
        "model_unreached": result.unreached,
        "models": [asdict(row) for row in report.spending],
        "before": result.baseline.trial.summary,
        "after": result.final.trial.summary,
        "files": {name: str(path) for name, path in files.items()},
    }
