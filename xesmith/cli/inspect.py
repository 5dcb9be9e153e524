"""`xesmith inspect`: what the compiler makes of a kernel, and what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
    FormatOption,
    SpecOption,
    ToolchainOption,
    VariantOption,
    chosen_format,
)
from xesmith.errors import ToolchainError, UsageError, nearest

if TYPE_CHECKING:
    from xesmith.cascade.examine import Examination
    from xesmith.engine.problem import Problem
    from xesmith.evidence.record import Evidence, Native, Spirv

#: of a launch's options, those that a configuration names
_OPTIONS = ("num_warps", "num_stages", "grf_mode")
_SEVERITIES = ("error", "warning", "note")
_DEFAULT_DEVICE = "bmg-g31"


def register(app: typer.Typer) -> None:
    app.command("inspect", rich_help_panel=PANEL_KERNELS)(inspect)


def inspect(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="A kernel file, or any script that launches Triton kernels; or dumps of one "
            "kernel at any levels (TTIR, TTGIR, SPIR-V, zebin, .asm, PTX), or their folder."
        ),
    ],
    spec: SpecOption = None,
    variant: VariantOption = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Device; default: bmg-g31, or what dumps were made for."),
    ] = None,
    toolchain: ToolchainOption = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="Of dumps with several kernels: which one.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", help="Of dumps: NAME=VALUE, a number that the launch passes."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="Of dumps: X[,Y[,Z]], the launch's programs.")
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Of dumps: build native code of the SPIR-V here.")
    ] = False,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", help="Exit with 1 at findings this severe: error|warning|note."),
    ] = None,
    output_format: FormatOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the compiler's evidence of every launch, or of dumps, and findings by their lines."""
    from xesmith.lowering.dumps import is_dump

    shown_as = chosen_format(output_format, as_json)
    if fail_on is not None and fail_on not in _SEVERITIES:
        raise UsageError(f"unknown severity '{fail_on}'", remedy=nearest(fail_on, _SEVERITIES))
    if len(files) > 1 or is_dump(files[0]):
        if spec is not None or variant is not None:
            raise UsageError("dumps have no spec", remedy="leave out --spec and --variant")
        report = _examine_dumps(files, target, toolchain, kernel, arg or (), grid, native, shown_as)
    else:
        if kernel is not None or arg or grid is not None or native:
            raise UsageError(
                "--kernel, --arg, --grid and --native are for dumps: a script's launches are known",
                where=str(files[0]),
                remedy="leave them out",
            )
        report = _examine_script(files[0], spec, variant, target, toolchain, shown_as)
    if shown_as == "json":
        shapes = {name: _as_json(item) for name, item in report.shapes.items()}
        print_json({report.key: report.title, **report.description, "shapes": shapes})
    elif shown_as == "sarif":
        print_json(_sarif(report))
    else:
        _show_all(report)
    if any(item.first_failure or not item.evidence for item in report.shapes.values()):
        return EXIT_INPUT_KERNEL
    if fail_on is not None:
        bad = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        if any(f.severity in bad for item in report.shapes.values() for f in item.findings):
            return EXIT_NO_IMPROVEMENT
    return EXIT_OK


@dataclass(frozen=True)
class _Report:
    """What was examined. `key` and `title` name it in JSON."""

    key: str
    title: Any
    description: dict[str, str | None]
    shapes: dict[str, Examination]
    problem: Problem | None

    def lines_of(self, file: str | None) -> list[str]:
        """The lines of the file that defines a kernel: a script may import it from another."""
        if self.problem is not None and (file is None or Path(file) == self.problem.path):
            return self.problem.source.splitlines()
        try:
            return [] if not file else Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):  # the kernel was made of text that is in no file
            return []


def _examine_script(
    kernel: Path,
    spec: Path | None,
    variant: str | None,
    target: str | None,
    toolchain: str | None,
    shown_as: str,
) -> _Report:
    from xesmith.engine.problem import load_problem
    from xesmith.engine.session import Session

    problem = load_problem(kernel, spec, variant)
    with (
        progress(quiet=shown_as != "text") as shown,
        Session(target or _DEFAULT_DEVICE, toolchain=toolchain) as session,
    ):
        shown.say(f"lowering {problem.name} for {session.device.title}")
        (examined,) = session.examine(problem, [problem.source])
        return _Report("kernel", str(kernel), session.description, examined, problem)


def _examine_dumps(
    files: Sequence[Path],
    target: str | None,
    toolchain: str | None,
    kernel: str | None,
    arguments: Sequence[str],
    grid: str | None,
    build_native: bool,
    shown_as: str,
) -> _Report:
    from xesmith.cascade.examine import examine
    from xesmith.lowering.dumps import NOT_GIVEN, device_of, find_dumps, lower_dumps
    from xesmith.lowering.record import GhostRun
    from xesmith.scratch import ScratchFolder
    from xesmith.toolchain.native import find_native

    values, programs = _values(arguments), None if grid is None else _grid(grid)
    dumps = find_dumps(files)
    device = device_of(dumps, target, _DEFAULT_DEVICE)
    try:
        tools = find_native() if device.kind == "xpu" else None
    except ToolchainError:
        tools = None  # told where a level needs them
    with progress(quiet=shown_as != "text") as shown, ScratchFolder("dumps") as scratch:
        shown.say(f"reading {', '.join(dump.path.name for dump in dumps)}")
        lowering = lower_dumps(
            dumps,
            device,
            scratch.path,
            tools=tools,
            toolchain=toolchain,
            kernel=kernel,
            values=values,
            grid=programs,
            build_native=build_native,
        )
        examined = examine(GhostRun((lowering,), failure=None), device)
    (evidence,) = examined.evidence
    levels = (evidence.ttir, evidence.ttgir, evidence.spirv, evidence.native, evidence.ptx)
    if not any(levels):
        first = next(
            (why for why in evidence.not_read.values() if why != NOT_GIVEN),
            "no level of it is read",
        )
        raise UsageError(f"nothing in it could be read: {first}", where=str(files[0]))
    description = {
        "device": device.name,
        "device_title": device.title,
        "compiler": lowering.compiler,
        "native_compiler": lowering.native_compiler,
    }
    names = [str(file) for file in files]
    return _Report("dumps", names, description, {"as dumped": examined}, None)


def _values(arguments: Sequence[str]) -> dict[str, int | float]:
    values: dict[str, int | float] = {}
    for given in arguments:
        name, equals, text = given.partition("=")
        try:
            values[name] = int(text, 0) if re.fullmatch(r"[+-]?\w+", text) else float(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise UsageError(
                f"'{given}' gives no argument a number", where="--arg", remedy="write --arg M=4096"
            )
    return values


def _grid(text: str) -> tuple[int, int, int]:
    sizes = text.split(",")
    if len(sizes) > 3 or not all(size.isdigit() and 0 < int(size) < 2**31 for size in sizes):
        raise UsageError(f"'{text}' is no grid", where="--grid", remedy="write --grid 256 or 16,16")
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z


def _show_all(report: _Report) -> None:
    description = report.description
    name = report.problem.name if report.problem is not None else ", ".join(report.title)
    print(f"{name} on {description['device_title']} ({description['device']})")
    native = description["native_compiler"]
    if report.problem is not None:
        ocloc = "" if native is None else f", ocloc {native}"
        print(f"compiled by {description['compiler']}{ocloc}")
    else:
        known = description["compiler"] if description["compiler"] != "not known" else None
        made = [name for name in (known, native) if name is not None]
        print(f"compiled by {', '.join(made)}" if made else "no dump names its compiler")
    for shape, item in report.shapes.items():
        _show(shape, item, report)


def _facts(evidence: Evidence) -> list[list[str]]:
    """What each level that was read holds, in short."""
    rows: list[list[str]] = []
    ttir, ttgir, spirv = evidence.ttir, evidence.ttgir, evidence.spirv
    native, ptx = evidence.native, evidence.ptx
    if ttir is not None:
        ops = Counter(access.op for access in ttir.accesses)
        counts = {"loads": ops["load"], "stores": ops["store"], "dots": len(ttir.dots)}
        rows.append(["ttir", _counted(**counts, loops=len(ttir.loops))])
    if ttgir is not None:
        shape = f"{ttgir.num_warps} warps of {ttgir.threads_per_warp}"
        counts = {
            "accesses": len(ttgir.accesses),
            "dots": len(ttgir.dots),
            "layout conversions": len(ttgir.layout_conversions),
        }
        if ttgir.dialect != "none":  # Intel's
            counts["dots on DPAS"] = sum(dot.on_dpas is True for dot in ttgir.dots)
            counts["marked block_io"] = sum(a.block_io is not None for a in ttgir.accesses)
            counts["prefetches"] = ttgir.prefetches
        rows.append(["ttgir", f"{shape}, {_counted(**counts)}"])
    if spirv is not None:
        rows.append(["spirv", _counted(dpas=spirv.dpas_calls, **_blocks(spirv))])
    if native is not None:
        counted = _counted(instructions=native.instructions, dpas=native.dpas, **_blocks(native))
        rows.append(["native", counted])
    if ptx is not None:
        counted = _counted(
            instructions=ptx.instructions,
            **{"matrix instructions": ptx.matrix_instructions},
            loads=sum(ptx.loads.values()),
            stores=sum(ptx.stores.values()),
            barriers=ptx.barriers,
        )
        mean = "" if ptx.bytes_per_load is None else f", {ptx.bytes_per_load:g} B a load"
        rows.append(["ptx", f"{ptx.target}, {counted}{mean}"])
    return rows


def _blocks(facts: Spirv | Native) -> dict[str, int]:
    return {
        "2D loads": facts.loads_2d,
        "2D stores": facts.stores_2d,
        "2D prefetches": facts.prefetches_2d,
        "atomics": facts.atomics,
    }


def _counted(**counts: int) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _sarif(report: _Report) -> dict[str, Any]:
    from xesmith.report.sarif import result_of, sarif_log

    results = [
        result_of(
            finding,
            file,
            report.lines_of(file),
            device=str(report.description["device"]),
            shape=None if report.problem is None else shape,
        )
        for shape, item in report.shapes.items()
        for finding in item.findings
        for file in [_file_of(item, finding.kernel) or _first_file(report)]
    ]
    notes = [note for item in report.shapes.values() for note in _remarks(item.evidence)]
    return sarif_log(results, notes)


def _file_of(item: Examination, kernel: str) -> str | None:
    return next((e.launch["file"] for e in item.evidence if e.kernel == kernel), None)


def _first_file(report: _Report) -> str:
    return str(report.title if report.problem is not None else report.title[0])


def _as_json(item: Examination) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "evidence": [evidence.model_dump(mode="json") for evidence in item.evidence],
        "findings": [finding.model_dump(mode="json") for finding in item.findings],
        "failure": None if item.failure is None else asdict(item.failure),
    }


def _show(name: str, item: Examination, report: _Report) -> None:
    declared = {} if report.problem is None else report.problem.constexprs
    print()
    several = len(item.evidence) > 1
    rows = [
        [*([str(number)] if several else []), *_row(evidence, declared.get(evidence.kernel))]
        for number, evidence in enumerate(item.evidence, 1)
    ]
    columns = [*(["#"] if several else []), "launch", "grid", "configuration", *_titles(item)]
    if report.problem is None:
        table(["level", "what it holds"], _facts(item.evidence[0]))
    if rows and (report.problem is not None or item.evidence[0].native is not None):
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
                lines = report.lines_of(files.get(finding.kernel))
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


# Registers and spills are decided after PTX, and nothing predicts times there.
_PTX_COLUMNS = (
    "dots",
    "matrix instr",
    "PTX instr",
    "B per load",
    "async copies",
    "shared memory B",
    "float64 instr",
)


def _titles(item: Examination) -> tuple[str, ...]:
    return _PTX_COLUMNS if any(evidence.ptx for evidence in item.evidence) else _COLUMNS


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
        "not known" if launch["grid"] is None else "x".join(str(n) for n in launch["grid"]),
        " ".join(f"{k}={v}" for k, v in configuration.items()),
    ]
    if evidence.ptx is not None:
        ptx, ttgir = evidence.ptx, evidence.ttgir
        return [
            *head,
            "not read" if ttgir is None else str(len(ttgir.dots)),
            str(ptx.matrix_instructions),
            str(ptx.instructions),
            "not known" if ptx.bytes_per_load is None else f"{ptx.bytes_per_load:g}",
            str(ptx.async_copies),
            "not known" if ttgir is None or ttgir.shared_bytes is None else str(ttgir.shared_bytes),
            str(ptx.f64_instructions),
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
        "not known" if native.slm_bytes is None else str(native.slm_bytes),
        in_loop[2],
        str(native.grf_count),
        f"{native.spill_bytes_per_thread} ({native.spill_bytes_per_lane:g})",
        "-" if occupancy is None else str(occupancy.threads_per_xve),
        "not predicted"
        if prediction is None or prediction.seconds is None
        else f"{prediction.seconds * 1e6:.1f}",
    ]
