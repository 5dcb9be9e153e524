"""What a report says, read from the ledger; the writers only lay it out."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xesmith.ledger import BASELINE, FINAL, Exchange, Ledger, StageOutcome, Trial
from xesmith.report.spending import Spending, spending
from xesmith.report.tree import Node, tree

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of the table of stages: its title, and its text for a shape's values."""

    title: str
    text: Callable[[Values], str]


def _number(name: str) -> Callable[[Values], str]:
    def text(values: Values) -> str:
        value = values.get(name)
        return "not read" if value is None else f"{value:g}"

    return text


def _ratio(part: str, whole: str) -> Callable[[Values], str]:
    def text(values: Values) -> str:
        a, b = values.get(part), values.get(whole)
        return "not read" if a is None or b is None else f"{a:g}/{b:g}"

    return text


def _dpas(values: Values) -> str:
    share = values.get("native.main.dpas_share")
    counts = _ratio("native.main.dpas", "native.main.instructions")(values)
    return counts if share is None else f"{counts} ({share:.0%})"


def _loads(values: Values) -> str:
    a, b = values.get("native.main.loads_2d"), values.get("native.main.global_loads")
    return "not read" if a is None or b is None else f"{a:g} of {a + b:g}"


def _percent(name: str) -> Callable[[Values], str]:
    def text(values: Values) -> str:
        value = values.get(name)
        return "not read" if value is None else f"{value:.0%}"

    return text


def _predicted(values: Values) -> str:
    seconds = values.get("derived.seconds")
    return "not predicted" if seconds is None else f"{seconds * 1e6:.1f}"


COLUMNS = (
    Column("2D loads in loop", _loads),
    Column("dots on DPAS", _ratio("ttgir.dots_on_dpas", "ttgir.dots")),
    Column("dpas in loop", _dpas),
    Column("SLM B", _number("native.slm_bytes")),
    Column("SLM msgs in loop", _number("native.main.slm_messages")),
    Column("spill B/thread", _number("native.spill_bytes_per_thread")),
    Column("GRF", _number("native.grf_count")),
    Column("occupancy", _percent("derived.occupancy")),
    Column("predicted us", _predicted),
)


@dataclass(frozen=True)
class Row:
    """One step of the accepted chain at one shape."""

    stage: str
    note: str
    shape: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """A model's answer that held no candidate of its own, and why."""

    request: str
    reason: str


@dataclass(frozen=True)
class Report:
    header: dict[str, Any]
    finished: bool
    rows: tuple[Row, ...]
    stages: tuple[StageOutcome, ...]
    trials: tuple[Trial, ...]
    tree: tuple[Node, ...]
    spending: tuple[Spending, ...]
    faults: tuple[Fault, ...]
    findings_before: tuple[dict[str, Any], ...]
    findings_after: tuple[dict[str, Any], ...]
    correctness: dict[str, Any] | None  # the final check's level, else the baseline's
    diff: str
    passes: str  # the text of the plan that goes with the file; "" for none
    verdict: str

    @property
    def improved(self) -> bool:
        return self.verdict.startswith("improved")


def build(ledger: Ledger) -> Report:
    """The report of a run, also of one that has not ended."""
    trials, exchanges = ledger.trials(), ledger.exchanges()
    by_id = {trial.id: trial for trial in trials}
    baseline = next((t for t in trials if t.stage == BASELINE), None)
    final = next((t for t in reversed(trials) if t.stage == FINAL), None)
    chain = _chain(final, ledger.stages(), by_id)
    shown = [baseline, *chain] if baseline else []
    last = shown[-1] if shown else None
    diff = ""
    if baseline is not None and last is not None and last is not baseline:
        diff = _diff(ledger.get(baseline.source), ledger.get(last.source), ledger.header)
    return Report(
        header=ledger.header,
        finished=ledger.finished,
        rows=tuple(row for trial in shown for row in _rows(trial)),
        stages=tuple(ledger.stages()),
        trials=tuple(trials),
        tree=tree(trials, exchanges),
        spending=spending(exchanges, ledger.lost(), trials),
        faults=tuple(_faults(exchanges, trials, finished=ledger.finished)),
        findings_before=_findings(ledger, baseline),
        findings_after=_findings(ledger, last),
        correctness=_correctness(final or baseline),
        diff=diff,
        passes=last.passes if last else "",
        verdict=_verdict(ledger, baseline, final, chain),
    )


def _faults(
    exchanges: Sequence[Exchange], trials: Sequence[Trial], *, finished: bool
) -> Iterator[Fault]:
    """Answers that are no trial of their own. The last one of a run that died may become one."""
    judged = {trial.exchange for trial in trials}
    stages = {trial.stage for trial in trials}
    for exchange in exchanges:
        if exchange.fault is not None:
            yield Fault(exchange.request.label, exchange.fault)
        elif finished and exchange.id not in judged and exchange.stage in stages:
            yield Fault(exchange.request.label, "its candidate had been judged before")


def _chain(
    final: Trial | None, stages: list[StageOutcome], by_id: Mapping[int | None, Trial]
) -> list[Trial]:
    """Accepted trials from the first stage to the last."""
    if final is not None and not final.accepted:
        return []
    improved = [stage.trial for stage in stages if stage.status == "improved"]
    return [by_id[trial] for trial in improved if trial in by_id]


def _rows(trial: Trial) -> list[Row]:
    return [
        Row(trial.stage, trial.note, shape, tuple(column.text(values) for column in COLUMNS))
        for shape, values in trial.summary.items()
    ]


def _findings(ledger: Ledger, trial: Trial | None) -> tuple[dict[str, Any], ...]:
    if trial is None or trial.evidence is None:
        return ()
    shapes = json.loads(ledger.get(trial.evidence))
    return tuple(finding for shape in shapes.values() for finding in shape["findings"])


def _correctness(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    levels = trial.verdict["levels"]
    return next((level for level in levels if level["level"] == "correctness"), None)


def _diff(old: str, new: str, header: Mapping[str, Any]) -> str:
    name = Path(header["kernel"]).name
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _verdict(
    ledger: Ledger, baseline: Trial | None, final: Trial | None, chain: list[Trial]
) -> str:
    if not ledger.finished:
        return "unfinished: resume it with --resume"
    if final is not None and not final.accepted:
        return "not improved: the final check refused the optimised file"
    if not chain or baseline is None:
        return "not improved: no stage's candidate was accepted"
    before, after = baseline.predicted_seconds, chain[-1].predicted_seconds
    if before is None or after is None:
        return "improved: better code by the compiler's evidence; its time is not predicted"
    return (
        f"improved: predicted time {before * 1e6:.1f} us before, {after * 1e6:.1f} us after"
        " (a static prediction, not measured)"
    )
