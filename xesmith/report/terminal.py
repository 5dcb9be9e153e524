"""Shows a report on the terminal."""

from __future__ import annotations

from xesmith.cli.common import table
from xesmith.report.model import COLUMNS, Report


def show(report: Report) -> None:
    session = report.header["session"]
    print()
    table(
        ["stage", "shape", *(column.title for column in COLUMNS)],
        [[row.stage, row.shape, *row.cells] for row in report.rows],
        title=f"{report.header['problem']} on {session['device_title']} ({session['device']})",
    )
    for stage in report.stages:
        print(f"{stage.name}: {stage.status}: {stage.reason}")
    print()
    if report.correctness is not None:
        facts = report.correctness["facts"]
        count = len(facts["cases"])
        print(
            f"results: {report.correctness['status']} against {facts['reference']}, "
            f"{count} shape{'s' if count != 1 else ''}, seeds {facts['seeds']}"
        )
    print(report.verdict)
