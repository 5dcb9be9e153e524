"""Findings as a SARIF 2.1.0 log, for code scanning and editors.

One rule for each kind of finding, one result for each finding at its line of the kernel's source.
Files inside the repository (else the current folder) are named relative to it, as code scanning
asks. The fingerprint holds no line number and no figure: it outlives edits elsewhere in the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from xesmith import __version__
from xesmith.findings.record import CHECK_KINDS, KINDS, Finding
from xesmith.passes.mlir import UNNAMED_TEXT

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"


@dataclass(frozen=True)
class Result:
    """A finding of any reader: with its file, and the text of its line where that is known."""

    kind: str
    severity: str
    message: str
    why: str | None
    mend: str | None
    kernel: str | None
    file: str | None
    line: int | None
    column: int | None = None
    text: str | None = None
    properties: dict[str, Any] = field(default_factory=dict[str, Any])


def result_of(
    finding: Finding,
    file: str | None,
    lines: Sequence[str],
    *,
    device: str,
    **properties: Any,
) -> Result:
    """A finding from evidence; `lines` are those of `file`."""
    line = finding.line or None
    return Result(
        kind=finding.kind,
        severity=finding.severity,
        message=finding.message,
        why=finding.reason,
        mend=finding.remedy,
        kernel=finding.kernel,
        file=file,
        line=line,
        text=_line(lines, line),
        properties={
            **finding.numbers,
            "level": finding.level,
            "device": device,
            **{k: v for k, v in properties.items() if v is not None},
        },
    )


def result_of_pass(found: dict[str, Any], module: str, file: str | None) -> Result:
    """A finding of a check pass; `module` is the title of what was checked.

    `file` stands in where the IR names none: the dump itself.
    """
    named = found.get("file")
    if named == UNNAMED_TEXT:
        named = file
    line = found.get("line") if named else None
    numbers: Any = found.get("numbers") or {}
    return Result(
        kind=found["kind"],
        severity=found["severity"],
        message=found["message"],
        why=found.get("why"),
        mend=found.get("mend"),
        kernel=found.get("kernel"),
        file=named or file,
        line=line,
        column=found.get("column") if named else None,
        text=_line(_lines_of(named), line),
        properties={**cast("dict[str, Any]", numbers), "module": module},
    )


def _lines_of(file: str | None) -> list[str]:
    try:
        return [] if file is None else Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _line(lines: Sequence[str], number: int | None) -> str | None:
    return lines[number - 1] if number and 0 < number <= len(lines) else None


def sarif_log(results: Iterable[Result], notes: Sequence[str] = ()) -> dict[str, Any]:
    """The log of one run.

    Args:
        notes: what the run could not read, one sentence each.
    """
    found = list(results)
    kinds = sorted({item.kind for item in found})
    root = _root(found)
    prints: dict[str, int] = {}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "xesmith",
                        "semanticVersion": __version__,
                        "rules": [_rule(kind, found) for kind in kinds],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "note", "message": {"text": note}} for note in notes
                        ],
                    }
                ],
                "originalUriBaseIds": {_ROOT: {"uri": f"{root.as_uri()}/"}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, kinds.index(item.kind), root, prints) for item in found],
            }
        ],
    }


def _rule(kind: str, results: Sequence[Result]) -> dict[str, Any]:
    own = [item for item in results if item.kind == kind]
    plain = CHECK_KINDS.get(kind, kind.replace("-", " "))
    severity, meaning = KINDS.get(kind, (own[0].severity, plain))
    remedies = dict.fromkeys(item.mend for item in own if item.mend)
    return {
        "id": kind,
        "name": "".join(part.capitalize() for part in kind.split("-")),
        "shortDescription": {"text": _sentence(meaning)},
        "help": {"text": "\n".join(map(_sentence, remedies)) or _sentence(meaning)},
        "defaultConfiguration": {"level": severity},
        "properties": {"tags": ["performance", "triton"]},
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def _result(item: Result, index: int, root: Path, prints: dict[str, int]) -> dict[str, Any]:
    parts = [item.message]
    parts += [f"why: {item.why}"] if item.why else []
    parts += [f"mend: {item.mend}"] if item.mend else []
    location: dict[str, Any] = {}
    if item.kernel:
        location["logicalLocations"] = [{"name": item.kernel, "kind": "function"}]
    if item.file:
        physical: dict[str, Any] = {"artifactLocation": _artifact(item.file, root)}
        if item.line:
            physical["region"] = _region(item)
        location["physicalLocation"] = physical
    return {
        "ruleId": item.kind,
        "ruleIndex": index,
        "level": item.severity,
        "message": {"text": "\n".join(parts)},
        **({"locations": [location]} if location else {}),
        "partialFingerprints": {"xesmithFinding/v1": _fingerprint(item, root, prints)},
        **({"properties": item.properties} if item.properties else {}),
    }


def _region(item: Result) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": item.line}
    if item.column:
        region["startColumn"] = item.column
    if item.text is not None:
        region["snippet"] = {"text": item.text}
    return region


def _artifact(file: str, root: Path) -> dict[str, str]:
    path = Path(file)
    absolute = path if path.is_absolute() else Path.cwd() / path
    try:
        relative = absolute.resolve().relative_to(root)
    except ValueError:
        return {"uri": absolute.as_uri()}
    return {"uri": quote(relative.as_posix()), "uriBaseId": _ROOT}


def _fingerprint(item: Result, root: Path, prints: dict[str, int]) -> str:
    """Equal findings on equal lines are told apart by their order."""
    where = _artifact(item.file, root)["uri"] if item.file else ""
    text = (item.text or "").strip() or "".join(c for c in item.message if not c.isdigit())
    parts = "\0".join([item.kind, where, item.kernel or "", text])
    digest = hashlib.sha256(parts.encode()).hexdigest()[:32]
    prints[digest] = prints.get(digest, 0) + 1
    return f"{digest}:{prints[digest]}"


def _root(results: Sequence[Result]) -> Path:
    """The repository of the first file that is in one, else the current folder."""
    for item in results:
        start = None if item.file is None else Path(item.file)
        if start is None or not start.exists():
            continue
        for folder in start.resolve().parents:
            if (folder / ".git").exists():
                return folder
    return Path.cwd().resolve()
