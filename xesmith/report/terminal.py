"""Shows a report on the terminal."""

from __future__ import annotations

from xesmith.cli.common import table
from xesmith.report.model import Report, columns
from xesmith.report.spending import Spending
from xesmith.report.tree import Node


def show(report: Report, *, with_tree: bool = False) -> None:
    """Prints the report; the trial tree only where it is asked for: a search has many trials."""
    session = report.header["session"]
    print()
    table(
        ["stage", "shape", *(column.title for column in columns(report.header))],
        [[row.stage, row.shape, *row.cells] for row in report.rows],
        title=f"{report.header['problem']} on {session['device_title']} ({session['device']})",
    )
    for stage in report.stages:
        print(f"{stage.name}: {stage.status}: {stage.reason}")
    for line in report.measurements:
        print(f"measured: {line}")
    if with_tree:
        print()
        titles = ["trial", "stage", "proposer", "predicted us", "tokens", "seconds", "evidence"]
        table([*titles, "fate"], [_trial(node) for node in report.tree], title="trials")
    if report.spending:
        print()
        table(list(_SPENDING), [_spent(row) for row in report.spending], title="models")
        for fault in report.faults:
            print(f"no candidate in {fault.request}: {fault.reason}")
    print()
    if report.correctness is not None:
        facts = report.correctness["facts"]
        count = len(facts["cases"])
        print(
            f"results: {report.correctness['status']} against {facts['reference']}, "
            f"{count} shape{'s' if count != 1 else ''}, seeds {facts['seeds']}"
        )
        passes = facts.get("passes")
        if passes is not None and report.correctness["status"] == "passed":
            programs = sum(item.get("programs", 0) for item in passes["launches"])
            count = len(passes["launches"])
            print(
                f"passes: {programs} programs of {count} launch{'es' if count != 1 else ''} store "
                "the same with them"
            )
    print(report.verdict)


_SPENDING = (
    *("stage", "answers", "without candidate", "unanswered", "tokens in", "tokens out"),
    *("US dollars", "seconds", "accepted", "tokens per accepted"),
)


def _spent(row: Spending) -> list[str]:
    about = "about " if row.estimated else ""
    per_win = row.tokens_per_win
    return [
        row.stage,
        str(row.answers),
        str(row.without_candidate),
        str(row.unanswered),
        f"{about}{row.prompt_tokens}",
        f"{about}{row.completion_tokens}",
        "not known" if row.cost_usd is None else f"{row.cost_usd:.4f}",
        f"{row.seconds:.1f}",
        str(row.accepted),
        "-" if per_win is None else f"{per_win:.0f}",
    ]


def _trial(node: Node) -> list[str]:
    trial = node.trial
    predicted, about = trial.predicted_seconds, "about " if node.tokens_estimated else ""
    seconds = trial.wall_seconds + (node.model_seconds or 0.0)
    return [
        f"{'  ' * node.depth}{trial.id} {_short(trial.note)}",
        trial.stage,
        trial.proposer,
        "not predicted" if predicted is None else f"{predicted * 1e6:.1f}",
        "-" if node.tokens is None else f"{about}{node.tokens}",
        f"{seconds:.1f}",
        node.evidence or "-",
        _short(node.fate),
    ]


def _short(text: str, characters: int = 72) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
