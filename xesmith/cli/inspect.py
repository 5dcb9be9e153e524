"""`xesmith inspect`: what the compiler makes of a kernel, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xesmith.cli.common import (
    EXIT_INPUT_KERNEL,
    EXIT_NO_IMPROVEMENT,
    EXIT_OK,
    PANEL_KERNELS,
    JsonFlag,
    print_json,
    progress,
    table,
)
from xesmith.cli.findings_text import show_finding
from xesmith.cli.options import (
    SpecOption,
    TargetOption,
    ToolchainOption,
    VariantOption,
)
from xesmith.errors import UsageError, nearest

if TYPE_CHECKING:
    from xesmith.cascade.examine import Examination
    from xesmith.engine.problem import Problem
    from xesmith.evidence.record import Evidence

#: of a launch's options, those that a configuration names
_OPTIONS = ("num_warps", "num_stages", "grf_mode")
_SEVERITIES = ("error", "warning", "note")


def register(app: typer.Typer) -> None:
    app.command("inspect", rich_help_panel=PANEL_KERNELS)(inspect)


def inspect(
    kernel: Annotated[
        Path, typer.Argument(help="A kernel file, or any script that launches Triton kernels.")
    ],
    spec: SpecOption = None,
    variant: VariantOption = None,
    target: TargetOption = "bmg-g31",
    toolchain: ToolchainOption = None,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", help="Exit with 1 at findings this severe: error|warning|note."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the compiler's evidence of every launch, and the findings with their lines."""
    from xesmith.engine.problem import load_problem
    from xesmith.engine.session import Session

    if fail_on is not None and fail_on not in _SEVERITIES:
        raise UsageError(f"unknown severity '{fail_on}'", remedy=nearest(fail_on, _SEVERITIES))
    problem = load_problem(kernel, spec, variant)
    with progress(quiet=as_json) as shown, Session(target, toolchain=toolchain) as session:
        shown.say(f"lowering {problem.name} for {session.device.title}")
        (examined,) = session.examine(problem, [problem.source])
        description = session.description
    if as_json:
        print_json(
            {
                "kernel": str(kernel),
                **description,
                "shapes": {name: _as_json(item) for name, item in examined.items()},
            }
        )
    else:
        print(f"{problem.name} on {description['device_title']} ({description['device']})")
        print(f"compiled by {description['compiler']}, ocloc {description['native_compiler']}")
        for name, item in examined.items():
            _show(name, item, problem)
    if any(item.first_failure or not item.evidence for item in examined.values()):
        return EXIT_INPUT_KERNEL
    if fail_on is not None:
        bad = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        if any(f.severity in bad for item in examined.values() for f in item.findings):
            return EXIT_NO_IMPROVEMENT
    return EXIT_OK


def _as_json(item: Examination) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "evidence": [evidence.model_dump(mode="json") for evidence in item.evidence],
        "findings": [finding.model_dump(mode="json") for finding in item.findings],
        "failure": None if item.failure is None else asdict(item.failure),
    }


def _show(name: str, item: Examination, problem: Problem) -> None:
    declared = problem.constexprs
    print()
    several = len(item.evidence) > 1
    rows = [
        [*([str(number)] if several else []), *_row(evidence, declared.get(evidence.kernel))]
        for number, evidence in enumerate(item.evidence, 1)
    ]
    columns = [*(["#"] if several else []), "launch", "grid", "configuration", *_COLUMNS]
    if rows:
        table(columns, rows, title=f"{name}: {len(rows)} launch{'es' if len(rows) > 1 else ''}")
    if item.failure is not None:
        at = f"line {item.failure.line}: " if item.failure.line else ""
        print(f"the program fails: {at}{item.failure.message}")
    if not item.evidence and item.failure is None:
        print(f"{name}: no Triton kernel is launched")
    for text in _remarks(item.evidence):
        print(text)
    files = {evidence.kernel: evidence.launch["file"] for evidence in item.evidence}
    numbers = {e.launch["index"]: n for n, e in enumerate(item.evidence, 1)} if several else {}
    if item.findings and several:
        print("(#n: the first launch above that a finding is about)")
    for severity in _SEVERITIES:
        for finding in item.findings:
            if finding.severity == severity:
                number = numbers.get(finding.launch_index)
                lines = _lines_of(files.get(finding.kernel), problem)
                show_finding(finding, lines, () if number is None else (number,))
    if item.evidence and not item.findings:
        print("no findings")


def _remarks(items: Sequence[Evidence]) -> list[str]:
    """What was done to lower the launches, and which levels could not be read, each once."""
    remarks: dict[str, None] = {}
    for evidence in items:
        for note in evidence.notes:
            remarks[f"{evidence.kernel}: {note}"] = None
        if evidence.failure is None:
            for level, why in evidence.not_read.items():
                remarks[f"{evidence.kernel}: {level} not read: {why}"] = None
            prediction = evidence.derived.prediction if evidence.derived else None
            if prediction is not None and prediction.why_not is not None:
                remarks[f"{evidence.kernel}: not predicted: {prediction.why_not}"] = None
    return list(remarks)


def _lines_of(file: str | None, problem: Problem) -> list[str]:
    """The lines of the file that defines a kernel: a script may import it from another."""
    if file is None or Path(file) == problem.path:
        return problem.source.splitlines()
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):  # the kernel was made of text that is in no file
        return []


_COLUMNS = (
    "2D loads in loop",
    "dpas/instr in loop",
    "SLM B",
    "SLM msgs in loop",
    "GRF",
    "spill B/thread (B/lane)",
    "threads/XVE",
    "predicted us",
)


def _row(evidence: Evidence, declared: frozenset[str] | None) -> list[str]:
    """`declared`: the kernel's constexpr parameters; others are there since Triton specialises
    on a value of 1."""
    launch, native, derived = evidence.launch, evidence.native, evidence.derived
    configuration = {
        **{k: v for k, v in launch["constexprs"].items() if declared is None or k in declared},
        **{k: v for k, v in launch["options"].items() if k in _OPTIONS},
    }
    head = [
        evidence.kernel,
        "x".join(str(n) for n in launch["grid"]),
        " ".join(f"{k}={v}" for k, v in configuration.items()),
    ]
    if native is None:
        why = evidence.not_read.get("native", "not read")
        return [*head, *(["not read"] * (len(_COLUMNS) - 1)), why[:40]]
    main = native.main
    in_loop = (
        ["no loop"] * 3
        if main is None
        else [str(main.loads_2d), f"{main.dpas}/{main.instructions}", str(main.slm_messages)]
    )
    prediction = derived.prediction if derived else None
    occupancy = derived.occupancy if derived else None
    return [
        *head,
        in_loop[0],
        in_loop[1],
        str(native.slm_bytes),
        in_loop[2],
        str(native.grf_count),
        f"{native.spill_bytes_per_thread} ({native.spill_bytes_per_lane:g})",
        "-" if occupancy is None else str(occupancy.threads_per_xve),
        "not predicted"
        if prediction is None or prediction.seconds is None
        else f"{prediction.seconds * 1e6:.1f}",
    ]
