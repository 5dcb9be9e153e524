"""Runs a pipeline of MLIR passes on Triton IR in generic form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xesmith.errors import UnreadableLevelError, UsageError, nearest
from xesmith.lowering.generic import expand_aliases
from xesmith.passes.mlir import bindings, check_bounds
from xesmith.passes.plugin import load_plugin
from xesmith.passes.properties import lost_property
from xesmith.passes.reference import pass_names

#: every check, in the order in which the findings read best
CHECKS = (
    "xesmith-check-block-io",
    "xesmith-check-dpas",
    "xesmith-check-layout-conversions",
    "xesmith-check-prefetch",
    "xesmith-check-coalescing",
    "xesmith-check-invariants",
    "xesmith-check-wide-arithmetic",
    "xesmith-check-masks",
    "xesmith-check-slm",
    "xesmith-check-registers",
)
_FINDINGS = "xesmith.findings"
_REPORT = "xesmith.report"
_EVIDENCE = "xesmith.evidence"
#: at an operation or an argument; one level of brackets inside: loc(callsite(#loc1 at #loc2))
_LOCATION = re.compile(r"(?<!= )\bloc\((?:[^()\"\n]|\"[^\"\n]*\"|\([^()\n]*\))*\)")
_UNKNOWN_PASS = re.compile(r"'([^'\n]*)' does not refer to a registered pass")


@dataclass(frozen=True)
class Remark:
    """What a pass said, beside its findings: a transform tells what it changed."""

    severity: str  # "error" | "warning" | "remark" | "note"
    message: str
    where: str  # MLIR's own text of the location


@dataclass(frozen=True)
class PassResult:
    """What a pipeline made of a module.

    text: the module after it, in generic form with locations, free of the attributes that hold
    findings and report.
    findings: as the checks gave them: kind, severity ("warning" or "note"), message, why, mend,
    op, in_loop, numbers, and file, line, column where they are known.
    report: one object for each function, where `xesmith-report` ran; else ().
    evidence: where `xesmith-evidence` ran; else None.
    """

    text: str
    findings: tuple[dict[str, Any], ...]
    report: tuple[dict[str, Any], ...]
    remarks: tuple[Remark, ...]
    evidence: dict[str, Any] | None = None


def run_pipeline(text: str, pipeline: str, *, keep_text: bool = True) -> PassResult:
    """Runs a pipeline on a module.

    Args:
        text: generic form; aliases of attributes and types are expanded here.
        pipeline: passes as mlir-opt takes them, "builtin.module(...)" around them or not;
            "checks" stands for all of CHECKS. MLIR's own passes (cse, canonicalize) work too.
        keep_text: False saves printing the module: `text` is then "".

    Raises:
        UnreadableLevelError: the text is too large, too deep, or not MLIR in generic form; it
            holds what this MLIR would drop, and its text is to be kept; or a pass refused it.
        UsageError: no such pass or option.
        ToolchainError: the passes are not built, or the bindings are missing.
    """
    check_bounds(text)
    expanded = expand_aliases(text)
    if expanded is not text:
        check_bounds(expanded)  # aliases in aliases grow
        text = expanded
    mlir = load_plugin()
    with bindings().lock:
        return _run(mlir, text, pipeline, keep_text)


def _run(mlir: Any, text: str, pipeline: str, keep_text: bool) -> PassResult:
    context = bindings().context(len(text))
    said: list[Remark] = []
    manager = _manager(mlir, context, pipeline)
    try:
        module = mlir.ir.Module.parse(text, context)
    except mlir.ir.MLIRError as error:
        refusal = _refused("MLIR can't parse it", error)
        if refusal.where is None:
            refusal.where = _place_in_text(mlir, context, text)
        raise refusal from error
    if keep_text:
        parsed = module.operation.get_asm(print_generic_op_form=True)
        if (lost := lost_property(text, parsed)) is not None:
            what = f"this MLIR does not know {lost.text}, and would drop it"
            raise UnreadableLevelError(what, where=lost.place)

    def heard(diagnostic: Any) -> bool:
        severity = str(diagnostic.severity).rpartition(".")[2].lower()
        said.append(Remark(severity, str(diagnostic.message), str(diagnostic.location)))
        return severity != "error"  # an error is told by the exception

    handler = context.attach_diagnostic_handler(heard)
    try:
        manager.run(module.operation)
    except mlir.ir.MLIRError as error:
        raise _refused("a pass refused it", error) from error
    finally:
        handler.detach()
    operation = module.operation
    findings = _taken(operation, _FINDINGS)
    report = _taken(operation, _REPORT)
    evidence = _taken(operation, _EVIDENCE)
    return PassResult(
        text=operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        if keep_text
        else "",
        findings=tuple(json.loads(item.value) for item in findings) if findings else (),
        report=tuple(json.loads(report.value)) if report else (),
        evidence=json.loads(evidence.value) if evidence else None,
        # Findings were said as diagnostics too: those are told once.
        remarks=tuple(r for r in said if not (r.message.startswith("[") and "] " in r.message)),
    )


def _place_in_text(mlir: Any, context: Any, text: str) -> str | None:
    """Where in the text MLIR refuses an operation whose own location is unknown.

    Without locations in it MLIR takes those of the text.
    """
    bare = _LOCATION.sub(lambda match: " " * len(match.group()), text)
    try:
        mlir.ir.Module.parse(bare, context)
    except mlir.ir.MLIRError as error:
        return _refused("", error).where
    return None


def _taken(operation: Any, name: str) -> Any:
    """An attribute of the module, which it loses: Triton would not know it."""
    if name not in operation.attributes:
        return None
    value = operation.attributes[name]
    del operation.attributes[name]
    return value


def full_pipeline(pipeline: str) -> str:
    """`pipeline` as MLIR takes it: anchored at the module, with "checks" spelled out."""
    stripped = pipeline.strip()
    if stripped.startswith("builtin.module(") and stripped.endswith(")"):
        return stripped
    parts = [part for item in _split(stripped) for part in (CHECKS if item == "checks" else [item])]
    return f"builtin.module({','.join(parts)})"


def _split(pipeline: str) -> list[str]:
    """At commas outside of brackets."""
    parts: list[str] = []
    depth = start = 0
    for index, char in enumerate(pipeline):
        depth += (char in "({") - (char in ")}")
        if char == "," and depth == 0:
            parts.append(pipeline[start:index].strip())
            start = index + 1
    return [*parts, pipeline[start:].strip()]


def _manager(mlir: Any, context: Any, pipeline: str) -> Any:
    check_bounds(pipeline)
    if not pipeline.strip():
        raise UsageError("no pass is named", remedy="xesmith passes list")
    try:
        return mlir.passmanager.PassManager.parse(full_pipeline(pipeline), context)
    except ValueError as error:
        unknown = _UNKNOWN_PASS.search(str(error))
        if unknown is not None:
            raise UsageError(
                f"unknown pass '{unknown.group(1)}'",
                remedy=nearest(unknown.group(1), ["checks", *pass_names()]),
            ) from error
        what = next(iter(str(error).strip().splitlines()), "it is malformed")
        raise UsageError(
            f"not a pass pipeline: {what[:300]}",
            where=pipeline[:300],
            remedy="xesmith passes list; options stand in braces: pass{option=value}",
        ) from error


def _refused(what: str, error: Any) -> UnreadableLevelError:
    """An MLIRError as one of ours, with the position that its first diagnostic names."""
    diagnostics = cast(Sequence[Any], error.error_diagnostics)
    if not diagnostics:
        return UnreadableLevelError(what)
    first = diagnostics[0]
    where = str(first.location)
    place = re.search(r'"([^"]*)":(\d+):(\d+)', where)
    if place is not None:
        file = "" if place.group(1) == "-" else f"{place.group(1)}:"
        where = f"{file}{place.group(2)}:{place.group(3)}"
    return UnreadableLevelError(
        f"{what}: {str(first.message)[:300]}", where=where if place is not None else None
    )
