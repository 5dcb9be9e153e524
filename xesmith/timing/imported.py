"""A result that another machine measured, held against what is here: one record, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from xesmith.errors import UsageError
from xesmith.timing.bundle import FORMAT, Bundle


class _Ratio(BaseModel):
    ratio: float
    low: float
    high: float


class _Judgement(BaseModel):
    verdict: str
    ratio: _Ratio | None


class _Shape(BaseModel):
    label: str


class _Measurement(BaseModel):
    programs: dict[str, dict[str, Any]]


class _Outcome(BaseModel):
    problem: str
    digest: str
    shape: _Shape
    judgements: dict[str, _Judgement]
    measurement: _Measurement | None


class _Machine(BaseModel):
    name: str


class _Result(BaseModel):
    """What is read of a result here; whatever else it holds stays as it is."""

    date: str
    machine: _Machine
    bundle_digest: str | None
    harness_digest: str
    device_file: str | None
    levels_not_read: list[str]
    outcomes: list[_Outcome]


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
    try:
        _Result.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"a damaged result: {at}: {first['msg']}",
            where=str(path),
            remedy="give the file as it was written",
        ) from error
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
