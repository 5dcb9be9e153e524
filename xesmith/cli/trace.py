"""`xesmith trace`: what the compile hook recorded in a program, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xesmith.cli.common import EXIT_OK, PANEL_KERNELS, JsonFlag, print_json, progress, table
from xesmith.cli.findings_text import listed, show_finding
from xesmith.cli.options import FormatOption, chosen_format
from xesmith.errors import ToolchainError, UsageError, nearest

if TYPE_CHECKING:
    from xesmith.evidence.record import Evidence
    from xesmith.findings.record import Finding
    from xesmith.hook.judged import JudgedKernel
    from xesmith.hook.read import Trace, TracedKernel

_DeviceOption = Annotated[
    str | None,
    typer.Option("--target", help="Device to judge for; default: the one it was compiled for."),
]
_NativeOption = Annotated[
    bool, typer.Option("--native/--no-native", help="Build native code with ocloc (Intel GPUs).")
]

_COLUMNS = ("instructions", "main loop", "dpas", "2D loads", "GRF", "spill B/thread", "SLM B")


def register(app: typer.Typer) -> None:
    trace = typer.Typer(
        name="trace",
        help="Show or compare what the compile hook recorded (python -m xesmith.hook).",
        no_args_is_help=True,
    )
    trace.command("show")(show)
    trace.command("diff")(diff)
    app.add_typer(trace, rich_help_panel=PANEL_KERNELS)


def show(
    folder: Annotated[Path, typer.Argument(help="The trace folder.")],
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="Only kernels of this name.")
    ] = None,
    target: _DeviceOption = None,
    native: _NativeOption = True,
    new: Annotated[bool, typer.Option("--new", help="Only what no earlier call showed.")] = False,
    output_format: FormatOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the kernels of a trace with their evidence, and the findings with their lines."""
    from xesmith.hook.read import read_trace

    shown_as = chosen_format(output_format, as_json)
    trace = read_trace(folder)
    judged = _judge(trace, _named(trace, kernel), target, native, quiet=shown_as != "text")
    if new:
        judged = [item for item in judged if not item.was_shown]
    if shown_as == "sarif":
        print_json(_sarif(judged))
        return EXIT_OK
    if shown_as == "json":
        print_json(
            {
                "trace": str(folder),
                "full": trace.is_full,
                "failures": list(trace.failures),
                "kernels": [item.to_json() for item in judged],
            }
        )
        return EXIT_OK
    print(f"{folder}: {len(trace.kernels)} kernels" + (", full" if trace.is_full else ""))
    rows = [_row(number, item) for number, item in enumerate(judged, 1)]
    if rows:
        table(["#", "kernel", "configuration", "compile ms", *_COLUMNS, "transform"], rows)
    _show_findings(judged)
    for failure in trace.failures:
        message = str(failure.get("message", "")).partition("\n")[0]
        who = failure.get("kernel") or "a kernel"
        print(f"failed at {failure.get('level')}: {who}: {message}")
    return EXIT_OK


def diff(
    before: Annotated[Path, typer.Argument(help="The trace folder to compare with.")],
    after: Annotated[Path, typer.Argument(help="The trace folder that is compared.")],
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="Only kernels of this name.")
    ] = None,
    target: _DeviceOption = None,
    native: _NativeOption = True,
    as_json: JsonFlag = False,
) -> int:
    """Compare two traces kernel by kernel: what the compiler made of each, before and after."""
    from xesmith.hook.read import paired, read_trace

    traces = read_trace(before), read_trace(after)
    kept = [_named(trace, kernel, required=False) for trace in traces]
    if kernel is not None and not any(kept):
        _named(traces[0], kernel)
    sides = [
        {
            id(item.kernel): item
            for item in _judge(trace, kernels, target, native, quiet=as_json)
        }
        for trace, kernels in zip(traces, kept, strict=True)
    ]  # fmt: skip
    rows: list[dict[str, Any]] = []
    for one, other in paired(*kept):
        left = None if one is None else sides[0][id(one)]
        right = None if other is None else sides[1][id(other)]
        rows.append(_difference(left, right))
    if as_json:
        print_json({"before": str(before), "after": str(after), "kernels": rows})
        return EXIT_OK
    changed = [row for row in rows if row["status"] != "same"]
    print(f"{len(rows)} kernels, {len(rows) - len(changed)} compiled to the same code")
    if changed:
        table(
            ["kernel", "configuration", "status", *_COLUMNS],
            [
                [row["kernel"], row["configuration"], row["status"], *map(_arrow, row["numbers"])]
                for row in changed
            ],
        )
    for row in changed:
        for sign, key in (("gone", "findings_gone"), ("new", "findings_new")):
            for text in row[key]:
                print(f"{sign}: {row['kernel']}: {text}")
    return EXIT_OK


def _named(trace: Trace, name: str | None, *, required: bool = True) -> list[TracedKernel]:
    kernels = [k for k in trace.kernels if name in (None, k.lowering.launch.kernel)]
    if name is not None and required and not kernels:
        known = {k.lowering.launch.kernel for k in trace.kernels}
        raise UsageError(
            f"the trace has no kernel '{name}'", where=str(trace.path), remedy=nearest(name, known)
        )
    return kernels


def _judge(
    trace: Trace,
    kernels: Sequence[TracedKernel],
    target: str | None,
    native: bool,
    *,
    quiet: bool,
) -> list[JudgedKernel]:
    from xesmith.hook.judged import judge_kernel
    from xesmith.toolchain.native import find_native

    tools = None
    if native and any(k.lowering.device.startswith("xpu") for k in kernels):
        try:
            tools = find_native()
        except ToolchainError:
            tools = None  # told as a level that is not read
    with progress(quiet=quiet) as shown:
        shown.say(f"reading {len(kernels)} kernels of {trace.path}")
        return [judge_kernel(kernel, target, tools) for kernel in kernels]


def _row(number: int, item: JudgedKernel) -> list[str]:
    seconds = item.kernel.lowering.seconds
    transform: dict[str, Any] = item.kernel.event.get("transform") or {}
    return [
        str(number),
        item.evidence.kernel,
        _configuration(item.kernel),
        f"{sum(seconds.values()) * 1e3:.0f}" if seconds else "cached",
        *("-" if value is None else str(value) for value in _numbers(item.evidence)),
        str(transform.get("status", "none")),
    ]


def _configuration(kernel: TracedKernel) -> str:
    return " ".join(f"{k}={v}" for k, v in kernel.configuration.items() if k != "num_ctas")


def _numbers(evidence: Evidence) -> list[int | None]:
    """Of the native code, or of PTX, as `_COLUMNS` names them; None: not known."""
    native, ptx = evidence.native, evidence.ptx
    if native is not None:
        main = native.main
        return [
            native.instructions,
            None if main is None else main.instructions,
            native.dpas,
            native.loads_2d,
            native.grf_count,
            native.spill_bytes_per_thread,
            native.slm_bytes,
        ]
    shared = None if evidence.ttgir is None else evidence.ttgir.shared_bytes
    if ptx is not None:
        return [ptx.instructions, None, ptx.matrix_instructions, None, None, None, shared]
    return [None] * (len(_COLUMNS) - 1) + [shared]


def _show_findings(judged: Sequence[JudgedKernel]) -> None:
    """Each finding once for all configurations of a kernel, with the numbers of those."""
    findings = _distinct(judged)
    not_read: dict[tuple[str, str, str], list[int]] = {}
    for number, item in enumerate(judged, 1):
        if item.evidence.ptx is None:  # where there is PTX, there is nothing below that we read
            for level, why in item.evidence.not_read.items():
                not_read.setdefault((item.evidence.kernel, level, why), []).append(number)
    for severity in ("error", "warning", "note"):
        for finding, item, numbers in findings:
            if finding.severity == severity:
                show_finding(finding, item.kernel.lines(), numbers)
    for (kernel, level, why), numbers in not_read.items():
        print(f"{kernel} ({listed(numbers)}): {level} not read: {why}")


def _distinct(judged: Sequence[JudgedKernel]) -> list[tuple[Finding, JudgedKernel, list[int]]]:
    """Each finding once for all configurations of a kernel, with the numbers of these."""
    findings: dict[tuple[str, str, str, int | None], tuple[Finding, JudgedKernel, list[int]]] = {}
    for number, item in enumerate(judged, 1):
        kernel, file = item.evidence.kernel, item.kernel.lowering.launch.file
        for finding in item.findings:
            key = (file, kernel, finding.kind, finding.line)
            _, _, numbers = findings.setdefault(key, (finding, item, []))
            if number not in numbers:
                numbers.append(number)
    return list(findings.values())


def _sarif(judged: Sequence[JudgedKernel]) -> dict[str, Any]:
    from xesmith.report.sarif import result_of, sarif_log

    return sarif_log(
        result_of(
            finding,
            item.kernel.lowering.launch.file,
            item.kernel.lines(),
            device=item.device,
            configuration=_configuration(item.kernel),
            configurations=len(numbers),
        )
        for finding, item, numbers in _distinct(judged)
    )


def _difference(before: JudgedKernel | None, after: JudgedKernel | None) -> dict[str, Any]:
    either = after or before
    assert either is not None
    hashes = [
        None
        if item is None or item.evidence.derived is None
        else item.evidence.derived.lowered_hash
        for item in (before, after)
    ]
    if before is None or after is None:
        status = "only after" if before is None else "only before"
    else:
        status = "same" if hashes[0] and hashes[0] == hashes[1] else "changed"
    unknown: list[int | None] = [None] * len(_COLUMNS)
    found = [
        set[str]() if item is None else {_finding_text(finding) for finding in item.findings}
        for item in (before, after)
    ]
    return {
        "kernel": either.evidence.kernel,
        "configuration": _configuration(either.kernel),
        "status": status,
        "numbers": [
            list(pair)
            for pair in zip(
                *(unknown if i is None else _numbers(i.evidence) for i in (before, after)),
                strict=True,
            )
        ],
        "findings_gone": sorted(found[0] - found[1]),
        "findings_new": sorted(found[1] - found[0]),
    }


def _finding_text(finding: Finding) -> str:
    at = f" line {finding.line}" if finding.line else ""
    return f"{finding.severity}[{finding.kind}]{at}: {finding.message}"


def _arrow(pair: Sequence[int | None]) -> str:
    before, after = ("-" if value is None else str(value) for value in pair)
    return before if before == after else f"{before} -> {after}"
