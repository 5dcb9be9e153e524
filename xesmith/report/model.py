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


_PREDICTED = Column("predicted us", _predicted)

_COLUMNS = {
    "xpu": (
        Column("2D loads in loop", _loads),
        Column("dots on DPAS", _ratio("ttgir.dots_on_dpas", "ttgir.dots")),
        Column("dpas in loop", _dpas),
        Column("SLM B", _number("native.slm_bytes")),
        Column("SLM msgs in loop", _number("native.main.slm_messages")),
        Column("spill B/thread", _number("native.spill_bytes_per_thread")),
        Column("GRF", _number("native.grf_count")),
        Column("occupancy", _percent("derived.occupancy")),
        _PREDICTED,
    ),
    # Registers and spills are decided after PTX, and nothing predicts times there.
    "cuda": (
        Column("dots", _number("ttgir.dots")),
        Column("matrix instr", _number("ptx.matrix_instructions")),
        Column("PTX instr", _number("ptx.instructions")),
        Column("B per load", _number("ptx.bytes_per_load")),
        Column("async copies", _number("ptx.async_copies")),
        Column("shared memory B", _number("ttgir.shared_bytes")),
        Column("float64 instr", _number("ptx.f64_instructions")),
    ),
}


def columns(header: Mapping[str, Any]) -> tuple[Column, ...]:
    """Those of the kind of device that a run is for."""
    return _COLUMNS[header["session"].get("kind", "xpu")]


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
    measurements: tuple[str, ...]  # of the accepted stages and the final file; () where predicted
    diff: str
    passes: str  # the text of the plan that goes with the file; "" for none
    verdict: str

    @property
    def measured(self) -> bool:
        """Whether times were measured on a device in this run."""
        return any(_performance(trial)[0] for trial in self.trials)

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
        rows=tuple(row for trial in shown for row in _rows(trial, columns(ledger.header))),
        stages=tuple(ledger.stages()),
        trials=tuple(trials),
        tree=tree(trials, exchanges),
        spending=spending(exchanges, ledger.lost(), trials),
        faults=tuple(_faults(exchanges, trials, finished=ledger.finished)),
        findings_before=_findings(ledger, baseline),
        findings_after=_findings(ledger, last),
        correctness=_correctness(final or baseline),
        measurements=tuple(_measurements([*chain, final] if final else chain)),
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


def _rows(trial: Trial, shown: Sequence[Column]) -> list[Row]:
    return [
        Row(trial.stage, trial.note, shape, tuple(column.text(values) for column in shown))
        for shape, values in trial.summary.items()
    ]


def _findings(ledger: Ledger, trial: Trial | None) -> tuple[dict[str, Any], ...]:
    if trial is None or trial.evidence is None:
        return ()
    shapes = json.loads(ledger.get(trial.evidence))
    return tuple(finding for shape in shapes.values() for finding in shape["findings"])


def _performance(trial: Trial) -> tuple[bool, tuple[str, ...]]:
    """Whether the level "performance" was measured for a trial, and what it says by shape."""
    for level in trial.verdict["levels"]:
        if level["level"] == "performance":
            return bool(level["facts"].get("measured")), tuple(level["messages"])
    return False, ()


def _measurements(trials: Sequence[Trial]) -> Iterator[str]:
    for trial in trials:
        measured, messages = _performance(trial)
        if measured:
            against = "the kernel as given" if trial.stage == FINAL else "what it set out from"
            yield from (f"{trial.stage} against {against}: {message}" for message in messages)


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
    if final is not None and _performance(final)[0]:
        return f"improved: {'; '.join(_performance(final)[1])}"
    if not chain or baseline is None:
        return "not improved: no stage's candidate was accepted"
    before, after = baseline.predicted_seconds, chain[-1].predicted_seconds
    if before is None or after is None:
        return "improved: better code by the compiler's evidence; its time is not predicted"
    return (
        f"improved: predicted time {before * 1e6:.1f} us before, {after * 1e6:.1f} us after"
        " (a static prediction, not measured)"
    )
