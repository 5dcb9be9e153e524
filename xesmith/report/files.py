"""Leaves a run's results in its folder: optimised file, diff, reports, evidence."""

from __future__ import annotations

import json
from pathlib import Path

from xesmith.engine.optimize import Result
from xesmith.engine.run_folder import RunFolder
from xesmith.pass_plan import FILE_NAME
from xesmith.report.model import Report
from xesmith.report.write import to_html, to_markdown

#: what the plan of passes is called among a run's results
PASSES = "passes"


def write_results(run: RunFolder, result: Result, report: Report) -> dict[str, Path]:
    """Writes all files of a finished run and answers their paths by what they are."""
    files: dict[str, Path] = {}
    if result.improved:
        files["optimised kernel"] = run.write_text("kernel.optimized.py", result.final.text)
        if report.diff:
            files["diff"] = run.write_text("changes.diff", report.diff)
        if plan := result.final.draft.passes:
            bound = plan.bound(result.final.draft.kernels())
            files[PASSES] = run.write_text(FILE_NAME, bound.to_text())
    files["report"] = run.write_text("report.md", to_markdown(report))
    files["report (HTML)"] = run.write_text("report.html", to_html(report))
    for trial in report.trials:
        if trial.evidence is not None and (trial.accepted or trial is result.final.trial):
            record = {
                "stage": trial.stage,
                "note": trial.note,
                "verdict": trial.verdict,
                "shapes": json.loads(run.ledger.get(trial.evidence)),
            }
            path = run.write_json(f"evidence/{trial.id:03}-{trial.stage}.json", record)
            files["evidence"] = path.parent
    return files
