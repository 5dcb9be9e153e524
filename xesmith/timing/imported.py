"""A result that another machine measured, held against what is here: one record, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from xesmith.errors import UsageError
from xesmith.timing.bundle import FORMAT, Bundle


def read_result(path: Path) -> dict[str, Any]:
    """The record in a result.json. Raises UsageError where it is none."""
    try:
        data: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"no result: {error}", where=str(path)) from error
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("format") != FORMAT:
        raise UsageError(
            "no result of this format",
            where=str(path),
            remedy="give the result.json that xesmith.timing.run_bundle wrote",
        )
    return cast("dict[str, Any]", data)


def check_provenance(result: Mapping[str, Any], bundle: Bundle) -> None:
    """Whether the result belongs to that bundle: kernels, specs, references, tolerances, harness.

    Raises:
        UsageError: it does not; says what differs.
    """
    remedy = "time the bundle again; a result of something else says nothing of it"
    if result["harness_digest"] != bundle.harness_digest:
        raise UsageError("it was timed with another harness than the bundle's", remedy=remedy)
    if result["bundle_digest"] != bundle.digest:
        raise UsageError("it was timed from another bundle", remedy=remedy)
    known = {entry.name: entry for entry in bundle.entries}
    for outcome in result["outcomes"]:
        entry = known.get(outcome["problem"])
        if entry is None or outcome["digest"] != entry.digest:
            raise UsageError(
                f"'{outcome['problem']}' is not what the bundle holds: its kernel, reference, spec "
                "or tolerances differ",
                remedy=remedy,
            )
        shapes = [json.loads(json.dumps(shape)) for shape in _shapes(entry.to_json())]
        if outcome["shape"] not in shapes:
            raise UsageError(
                f"a shape of '{outcome['problem']}' is not the bundle's", remedy=remedy
            )


def _shapes(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return entry["shapes"]


def one_record(result: Mapping[str, Any], bundle: Bundle) -> dict[str, Any]:
    """The result with what the machine that made the bundle knew of its kernels."""
    return {
        **result,
        "bundle": {
            "digest": bundle.digest,
            "target": bundle.target,
            "evidence": bundle.evidence or "not read: the bundle was made without --target",
            "lowered": {entry.name: entry.lowered for entry in bundle.entries},
        },
    }
