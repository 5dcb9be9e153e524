"""`xesmith passes list | run | doc`: MLIR passes on Triton IR, of dumps and of kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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
from xesmith.cli.options import (
    FormatOption,
    SpecOption,
    TargetOption,
    ToolchainOption,
    VariantOption,
    chosen_format,
)
from xesmith.errors import UsageError, nearest

if TYPE_CHECKING:
    from xesmith.ghost.launch import Launch
    from xesmith.passes.pipeline import PassResult

_LEVELS = ("ttir", "ttgir")
_SEVERITIES = ("warning", "note")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="MLIR passes on Triton IR: list, run, doc.", no_args_is_help=True)
    group.command("list")(list_command)
    group.command("run")(run_command)
    group.command("doc")(doc_command)
    app.add_typer(group, name="passes", rich_help_panel=PANEL_KERNELS)


def list_command(as_json: JsonFlag = False) -> int:
    """Lists the passes."""
    from xesmith.passes.plugin import plugin_path
    from xesmith.passes.reference import pass_descriptions

    found = pass_descriptions()
    if as_json:
        passes = [{"name": item.name, "summary": item.summary} for item in found]
        print_json({"plugin": str(plugin_path()), "passes": passes})
    else:
        table(["pass", "does"], [[item.name, item.summary] for item in found])
        print("checks: all that are named xesmith-check-*")
        print(f"mlir-opt --load-pass-plugin={plugin_path()} takes them too")
    return EXIT_OK


def doc_command(
    name: Annotated[str | None, typer.Argument(help="A pass; none: all of them.")] = None,
) -> int:
    """Prints the reference of a pass: what it does, its options, IR before and after."""
    from xesmith.passes.reference import pass_description, reference_page

    print(reference_page().rstrip() if name is None else pass_description(name).text)
    return EXIT_OK


def run_command(
    pipeline: Annotated[
        str, typer.Argument(help="Passes with commas, as mlir-opt takes them; or: checks.")
    ],
    file: Annotated[Path, typer.Argument(help="A .ttir or .ttgir dump, or a kernel file.")],
    level: Annotated[
        str | None, typer.Option("--level", help="Of a kernel file: ttir or ttgir (default).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the IR here, in generic form.")
    ] = None,
    spec: SpecOption = None,
    variant: VariantOption = None,
    target: TargetOption = "bmg-g31",
    toolchain: ToolchainOption = None,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", help="Exit with 1 at findings this severe: warning|note."),
    ] = None,
    output_format: FormatOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Run passes on a dump, or on each launch of a kernel; print findings, report or IR.

    Of a kernel file, {launch} after a pass gives it the values and the grid of the launch.
    The IR goes to stdout where a pass may have changed it.
    """
    from xesmith.passes.dump import SUFFIXES, with_launch
    from xesmith.passes.pipeline import full_pipeline, run_pipeline

    shown_as = chosen_format(output_format, as_json)
    if fail_on is not None and fail_on not in _SEVERITIES:
        raise UsageError(f"unknown severity '{fail_on}'", remedy=nearest(fail_on, _SEVERITIES))
    if level is not None and level not in _LEVELS:
        raise UsageError(f"unknown level '{level}'", remedy=nearest(level, _LEVELS))
    if file.suffix not in (*SUFFIXES, ".py"):
        raise UsageError(
            "neither a dump nor a kernel file",
            where=str(file),
            remedy=f"name a file that ends in {', '.join(SUFFIXES)} or .py",
        )
    if file.suffix != ".py":
        if level is not None or spec is not None or variant is not None:
            raise UsageError("a dump has its level", remedy="leave out --level, --spec, --variant")
        if "{launch}" in pipeline:
            raise UsageError("a dump has no launch", remedy="write values=... and grid=...")
    shows_ir = output is None and _may_change(full_pipeline(pipeline))
    results: list[tuple[str, PassResult]] = []
    with progress(quiet=True):
        for title, text, launch in _modules(
            file, level or "ttgir", spec, variant, target, toolchain
        ):
            given = pipeline if launch is None else with_launch(pipeline, launch)
            keep = shows_ir or shown_as == "json" or output is not None
            results.append((title, run_pipeline(text, given, keep_text=keep)))
    if not results:
        print(f"no {level or 'ttgir'} of a launch of {file}", file=sys.stderr)
        return EXIT_INPUT_KERNEL
    if output is not None:
        if len(results) > 1:
            raise UsageError(
                f"{len(results)} launches for one file", remedy="use --json, which holds them all"
            )
        output.write_text(results[0][1].text, "utf-8")
    if shown_as == "json":
        print_json({"modules": [{"name": title, **asdict(result)} for title, result in results]})
    elif shown_as == "sarif":
        print_json(_sarif(results, file))
    else:
        for title, result in results:
            _show(title, result, file, shows_ir=shows_ir)
    found = [finding["severity"] for _, result in results for finding in result.findings]
    if fail_on is not None and set(found) & set(_SEVERITIES[: _SEVERITIES.index(fail_on) + 1]):
        return EXIT_NO_IMPROVEMENT
    return EXIT_OK


def _sarif(results: Sequence[tuple[str, PassResult]], file: Path) -> dict[str, Any]:
    from xesmith.report.sarif import result_of_pass, sarif_log

    return sarif_log(
        result_of_pass(finding, title, str(file))
        for title, result in results
        for finding in result.findings
    )


def _may_change(pipeline: str) -> bool:
    """Whether a pass other than a check or the report is among them."""
    import re

    names = re.findall(r"[\w-]+(?=[,{(\s)]|$)", re.sub(r"\{[^{}]*\}", "", pipeline))
    looks = ("xesmith-check-", "xesmith-report", "builtin", "module")
    return any(not name.startswith(looks) for name in names)


def _modules(
    file: Path,
    level: str,
    spec: Path | None,
    variant: str | None,
    target: str,
    toolchain: str | None,
) -> Iterator[tuple[str, str, Launch | None]]:
    """(title, generic text, launch) of a dump or of each launch of a kernel."""
    from xesmith.device import load_device
    from xesmith.passes.dump import read_dump

    device = load_device(target)
    if file.suffix != ".py":
        yield str(file), read_dump(file, device, toolchain), None
        return
    from xesmith.engine.problem import load_problem
    from xesmith.lowering import Lowerer
    from xesmith.toolchain import find_toolchain

    problem = load_problem(file, spec, variant)
    found = find_toolchain(toolchain, device.kind, native=False)
    with Lowerer(found, device) as lowerer:
        for shape, program in problem.programs().items():
            run = lowerer.run(program, native=False)
            if run.failure is not None:
                print(f"{shape}: the program fails: {run.failure.message}", file=sys.stderr)
            for lowering in run.lowerings:
                path = lowering.levels.get(f"{level}_generic")
                title = f"{lowering.launch.kernel} {shape}"
                if path is not None:
                    yield title, Path(path).read_text("utf-8"), lowering.launch
                else:
                    failure = lowering.failure
                    why = failure.message if failure else lowering.not_read.get(level, "not made")
                    print(f"{title}: no {level}: {why}", file=sys.stderr)


def _show(title: str, result: PassResult, file: Path, *, shows_ir: bool) -> None:
    # Where the IR goes to stdout it must be IR and nothing else.
    out = sys.stderr if shows_ir else sys.stdout
    if not shows_ir:
        print(title)
    for finding in result.findings:
        _show_finding(finding, out)
    for remark in result.remarks:
        print(f"{remark.severity}: {remark.message}", file=out)
    for function in result.report:
        _show_report(function, out)
    if shows_ir:
        print(result.text, end="" if result.text.endswith("\n") else "\n")
    elif not (result.findings or result.remarks or result.report):
        print("no findings")


def _show_finding(finding: dict[str, Any], out: Any) -> None:
    place = ":".join(str(finding[key]) for key in ("file", "line", "column") if key in finding)
    at = f"{place}: " if place else ""
    print(f"{at}{finding['severity']}[{finding['kind']}] {finding['message']}", file=out)
    if finding["why"]:
        print(f"    why: {finding['why']}", file=out)
    if finding["mend"]:
        print(f"    mend: {finding['mend']}", file=out)


def _show_report(function: dict[str, Any], out: Any) -> None:
    print(f"{function.get('name', 'kernel')}:", file=out)
    for key in ("flop_per_program", "bytes_loaded_per_program", "bytes_stored_per_program"):
        total = function.get(f"{key}_total")
        equals = "" if total is None or str(total) == function[key] else f" = {total}"
        print(f"  {key}: {function[key]}{equals}", file=out)
    if "flop_per_byte" in function:
        print(f"  flop_per_byte: {function['flop_per_byte']:.4g}", file=out)
    for key in ("loads", "stores"):
        kinds = ", ".join(f"{count} {kind}" for kind, count in function[key].items())
        print(f"  {key}: {kinds or 'none'}", file=out)
    for dot in function["dots"]:
        line = f" line {dot['line']}" if "line" in dot else ""
        print(f"  dot{line}: {dot['a']} x {dot['b']} -> {dot['result']}", file=out)
    for loop in function["loops"]:
        line = f" line {loop['line']}" if "line" in loop else ""
        print(
            f"  loop{line}: {loop.get('trips', 'unknown')} iterations of "
            f"{loop['flop_per_iteration']} FLOP and {loop['bytes_per_iteration']} B",
            file=out,
        )
