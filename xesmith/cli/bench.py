"""`xesmith bench`: measured times, checks of problems, bundles for another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperGroup

from xesmith.cli.common import (
    EXIT_NO_IMPROVEMENT,
    EXIT_OK,
    PANEL_PROJECT,
    JsonFlag,
    print_json,
    progress,
    table,
)
from xesmith.cli.options import ReferenceOption, SpecOption, ToolchainOption, VariantOption

if TYPE_CHECKING:
    from xesmith.timing.contest import Outcome

_TIME = "time"

KernelsArgument = Annotated[
    list[str],
    typer.Argument(help="Kernel files, or names of problems of bench/problems."),
]


class _Group(TyperGroup):
    """`bench KERNEL...` is `bench time KERNEL...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [_TIME, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=_Group,
        help="Measured times: bench KERNEL... [--against eager,compile,baseline,library]; "
        "check-problem, export-bundle, import, roofline, dispatch.",
        no_args_is_help=True,
    )
    group.command(_TIME)(time_command)
    group.command("check-problem")(check_command)
    group.command("export-bundle")(export_command)
    group.command("import")(import_command)
    group.command("roofline")(roofline_command)
    group.command("dispatch")(dispatch_command)
    app.add_typer(group, name="bench", rich_help_panel=PANEL_PROJECT)


def time_command(
    kernels: KernelsArgument,
    against: Annotated[
        str, typer.Option("--against", help="Of eager, compile, baseline, library: a list.")
    ] = "eager,compile,baseline,library",
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    toolchain: ToolchainOption = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="cuda, xpu or cpu; default: the GPU at hand, else cpu."),
    ] = None,
    smallest_effect: Annotated[
        float,
        typer.Option("--smallest-effect", min=0.0, help="Relative change that matters."),
    ] = 0.02,
    stop: Annotated[
        str, typer.Option("--stop", help="Stop by: error (of the median) or entropy.")
    ] = "error",
    goal: Annotated[
        float, typer.Option("--goal", min=1e-6, help="Relative error of the median to stop at.")
    ] = 0.0025,
    least_seconds: Annotated[
        float, typer.Option("--min-seconds", min=0.0, help="Time each shape at least so long.")
    ] = 0.0,
    most_seconds: Annotated[
        float, typer.Option("--max-seconds", min=1.0, help="Time each shape at most so long.")
    ] = 20.0,
    seed: Annotated[int | None, typer.Option("--seed", help="Of inputs; default: random.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write AI-bench's columns, and more, to this file.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Stands in every row of the --csv.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the whole record (result.json) to a folder.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Time kernels at every shape of their specs, interleaved with what they are held against."""
    from xesmith.engine.entries import kernel_path, load_entry
    from xesmith.errors import UsageError, nearest
    from xesmith.timing.contest import AGAINST, Options
    from xesmith.timing.run_bundle import (
        RESULT,
        device_at_hand,
        open_timer,
        result,
        time_entries,
        write_json,
    )
    from xesmith.timing.statistics import StopRule
    from xesmith.toolchain import find_toolchain

    opponents = tuple(name.strip() for name in against.split(",") if name.strip())
    for name in opponents:
        if name not in AGAINST:
            raise UsageError(f"unknown opponent '{name}'", remedy=nearest(name, AGAINST))
    for name, value, known in (
        ("--stop", stop, ("error", "entropy")),
        ("--device", device or "cpu", ("cuda", "xpu", "cpu")),
    ):
        if value not in known:
            raise UsageError(f"{name} {value}", remedy=nearest(value, known))
    entries = [load_entry(kernel_path(name), spec, variant, reference) for name in kernels]
    rule = StopRule(
        by=cast("Literal['error', 'entropy']", stop),
        goal=goal,
        least_seconds=least_seconds,
        most_seconds=max(most_seconds, least_seconds),
    )
    options = Options(opponents, smallest_effect, rule, seed=seed)
    python = find_toolchain(toolchain, "cuda" if device == "cuda" else "xpu", native=False).python
    with progress(quiet=as_json) as shown, open_timer(python, device) as timer:
        known_device = device_at_hand(timer.device)

        def record(outcomes: list[Outcome]) -> dict[str, Any]:
            return result(None, timer, known_device, options, outcomes)

        def keep(outcomes: list[Outcome]) -> None:
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                write_json(out / RESULT, record(outcomes))

        outcomes = time_entries(timer, known_device, entries, options, say=shown.say, keep=keep)
        whole = record(outcomes)
    if csv is not None:
        from xesmith.timing.csv_table import write_csv

        write_csv(csv, outcomes, whole["machine"], note)
    if as_json:
        print_json(whole)
    else:
        _print_result(whole["machine"], outcomes)
    return EXIT_OK if all(_went_well(outcome) for outcome in outcomes) else EXIT_NO_IMPROVEMENT


def _went_well(outcome: Outcome) -> bool:
    if outcome.errors or outcome.measurement is None:
        return False
    return outcome.measurement.programs["kernel"].failure is None


def _print_result(machine: dict[str, Any], outcomes: list[Outcome]) -> None:
    from xesmith.timing.contest import summary

    rows: list[list[str]] = []
    for outcome in outcomes:
        if outcome.measurement is None:
            continue
        for name, timed in outcome.measurement.programs.items():
            judgement = outcome.again if name == "kernel again" else outcome.judgements.get(name)
            share = outcome.fractions.get(name)
            rows.append(
                [
                    f"{outcome.problem} {outcome.shape.label}",
                    name,
                    f"{timed.seconds * 1e6:.1f} us" if timed.rounds else timed.failure or "-",
                    "-" if share is None else f"{share:.0%}",
                    "" if judgement is None else str(judgement),
                ]
            )
    title = f"median cold times on {machine['name']} ({machine['kind']})"
    table(["shape", "program", "time", "of roof", "the kernel against it"], rows, title=title)
    for name, found in summary(outcomes).items():
        print(
            f"against {name}: median {found['median']:.3f}x, geometric mean "
            f"{found['geometric_mean']:.3f}x, worst {found['worst']:.3f}x at {found['worst_at']}"
        )
    for outcome in outcomes:
        for text in outcome.errors:
            print(f"error: {outcome.problem} {outcome.shape.label}: {text}")
        if (library := outcome.judgements.get("library")) and library.verdict == "SLOWER":
            print(f"{outcome.problem} {outcome.shape.label}: {outcome.library} is faster: keep it")
    if machine["kind"] == "cpu":
        print("timed on this machine's CPU: says nothing of a GPU")


def check_command(
    problems: Annotated[
        list[str], typer.Argument(help="Kernel files or names of problems; their references run.")
    ],
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    toolchain: ToolchainOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Refuse problems whose output is constant, near zero, or independent of what goes in."""
    from xesmith.engine.entries import check, kernel_path
    from xesmith.timing.problem_checks import checking_pool
    from xesmith.toolchain import find_toolchain

    python = find_toolchain(toolchain, native=False).python
    with checking_pool(python) as pool:
        found = {n: check(pool, kernel_path(n), spec, variant, reference) for n in problems}
    if as_json:
        print_json(
            {
                name: {"passed": not item.faults, "faults": item.faults, "asked": item.asked}
                for name, item in found.items()
            }
        )
    else:
        for name, item in found.items():
            if not item.faults:
                print(f"{name}: passed; the output depends on {', '.join(item.asked)}")
            for fault in item.faults:
                print(f"{name}: refused: {fault}")
    refused = any(item.faults for item in found.values())
    return EXIT_NO_IMPROVEMENT if refused else EXIT_OK


def export_command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(help="Kernel files or names of problems; default: all problems."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The bundle.")] = Path("bundle.tar.gz"),
    variant: VariantOption = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Lower for this device, and note the evidence.")
    ] = None,
    toolchain: ToolchainOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Pack kernels, specs, digests of their lowered code and the harness for another machine."""
    from xesmith.bench import problem_names
    from xesmith.engine.entries import kernel_path, load_entry, with_evidence
    from xesmith.timing.bundle import write_bundle

    paths = [kernel_path(name) for name in kernels or problem_names()]
    entries = [load_entry(path, variant=variant) for path in paths]
    evidence = None
    if target is not None:
        with progress(quiet=as_json) as shown:
            entries, evidence = with_evidence(paths, entries, variant, target, toolchain, shown.say)
    bundle = write_bundle(out, entries, target=target, evidence=evidence)
    if as_json:
        print_json(
            {
                "path": str(out),
                "digest": bundle.digest,
                "harness_digest": bundle.harness_digest,
                "entries": {entry.name: entry.digest for entry in entries},
            }
        )
    else:
        print(f"{out}: {len(entries)} problems, digest {bundle.digest[:16]}")
        print(f"time it there: python -m xesmith.timing.run_bundle {out.name} --out DIR")
        print("and take the result back: xesmith bench import DIR/result.json")
    return EXIT_OK


def import_command(
    result: Annotated[Path, typer.Argument(help="The result.json of xesmith.timing.run_bundle.")],
    bundle: Annotated[Path, typer.Option("--bundle", help="The bundle that it was timed from.")],
    out: Annotated[Path, typer.Option("--out", help="Where the one record is written.")],
    as_json: JsonFlag = False,
) -> int:
    """Take back what another machine measured, if it belongs to the bundle."""
    from xesmith.timing.bundle import read_bundle
    from xesmith.timing.imported import check_provenance, one_record, read_result
    from xesmith.timing.run_bundle import write_json

    found, origin = read_result(result), read_bundle(bundle)
    check_provenance(found, origin)
    record = one_record(found, origin)
    write_json(out, record)
    if as_json:
        print_json(record)
        return EXIT_OK
    print(f"{out}: {len(found['outcomes'])} shapes timed on {found['machine']['name']}")
    print(f"evidence: {record['bundle']['evidence']}")
    print(f"levels not read there: {', '.join(found['levels_not_read'])}")
    return EXIT_OK


def roofline_command(
    result: Annotated[Path, typer.Argument(help="A result.json, or an imported record.")],
    out: Annotated[Path, typer.Option("--out", help="The SVG.")] = Path("roofline.svg"),
    target: Annotated[
        str | None, typer.Option("--target", help="Device file; default: the one it was timed on.")
    ] = None,
) -> int:
    """Plot a run against the roof of its device; a point above it is an error."""
    from xesmith.device import load_device
    from xesmith.errors import UsageError
    from xesmith.timing.imported import read_result
    from xesmith.timing.roofline import points, svg

    found = read_result(result)
    name = target or found["device_file"]
    if name is None:
        raise UsageError(
            "no device file fits what it was timed on",
            where=str(result),
            remedy="name one with --target",
        )
    try:
        text = svg(found, load_device(name))
    except ValueError as error:
        raise UsageError(str(error), where=str(result)) from error
    out.write_text(text)
    above = [point for point in points(found) if point.above]
    for point in above:
        print(f"error: {point.label}, {point.program}: above the roof")
    print(out)
    return EXIT_NO_IMPROVEMENT if above else EXIT_OK


def dispatch_command(
    result: Annotated[Path, typer.Argument(help="A result.json, or an imported record.")],
    kernel: Annotated[
        str, typer.Argument(help="The kernel file that it timed, or a problem's name.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The kernel file with the table.")],
    spec: SpecOption = None,
    variant: VariantOption = None,
    reference: ReferenceOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Call the vendor's library at the shapes where it was measured faster than the kernel."""
    from xesmith.engine.entries import kernel_path, load_entry
    from xesmith.errors import UsageError
    from xesmith.timing.imported import read_result
    from xesmith.timing.library_dispatch import NoDispatchError, choices_of, with_library

    path, found = kernel_path(kernel), read_result(result)
    if out.resolve() == path.resolve():
        raise UsageError("--out is the kernel itself", remedy="name another file")
    entry = load_entry(path, spec, variant, reference)
    try:
        choices = choices_of(entry, found["outcomes"])
        text = with_library(entry, choices, found["machine"], found["date"])
    except NoDispatchError as error:
        if as_json:
            print_json({"path": None, "reason": str(error), "shapes": {}})
        else:
            print(f"nothing written: {error}")
        return EXIT_NO_IMPROVEMENT
    out.write_text(text, "utf-8")
    if as_json:
        shapes = {choice.shape.label: choice.ratio for choice in choices}
        print_json({"path": str(out), "reason": None, "shapes": shapes})
        return EXIT_OK
    for choice in choices:
        print(f"{choice.shape.label}: {entry.library}; the kernel is {choice.ratio} as fast")
    print(out)
    return EXIT_OK
