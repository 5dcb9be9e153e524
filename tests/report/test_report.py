"""Reports: made from the ledger alone, at every point of a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xesmith.cli import app
from xesmith.ledger import Ledger, Lost, StageOutcome, Trial
from xesmith.lm.record import Message, Reply, Request, Usage
from xesmith.report.model import build
from xesmith.report.write import to_html, to_markdown

HEADER = {
    "kernel": "bench/double/kernel.py",
    "problem": "double",
    "session": {
        "device": "bmg-g31",
        "device_title": "Intel Arc Pro B70 Graphics",
        "compiler": "triton-xpu 3.3.0b1",
        "native_compiler": "26.27",
        "igc": "2.40",
    },
}
PASSED = {
    "level": "correctness",
    "status": "passed",
    "messages": [],
    "facts": {
        "reference": "reference.py",
        "seeds": [0, 1, 2],
        "cases": [
            {
                "case": "bench[0] N=64 (scaled)",
                "runs": 4,
                "error_over_allowed": 0.25,
                "weights": "none",
            }
        ],
    },
}
VALUES = {
    "native.main.loads_2d": 0,
    "native.main.global_loads": 4,
    "native.main.dpas": 8,
    "native.main.instructions": 80,
    "native.main.dpas_share": 0.1,
    "native.slm_bytes": 34816,
    "derived.occupancy": 0.5,
    "derived.seconds": 2e-3,
}


def level(name: str, status: str, *messages: str) -> dict[str, Any]:
    return {"level": name, "status": status, "messages": list(messages), "facts": {}}


def trial(stage: str, note: str, *levels: dict[str, Any], accepted: bool = True, **more: Any):
    verdict = {"accepted": accepted, "levels": [*levels]}
    return Trial(stage, "rules", note, "", verdict, accepted, **more)


@pytest.fixture
def run(tmp_path: Path):
    """A run up to its first accepted stage, as its ledger stands then."""
    with Ledger.create(tmp_path / "ledger.sqlite", HEADER) as ledger:
        findings = {"a[0]": {"evidence": [], "findings": [FINDING]}}
        base = ledger.add(
            trial("baseline", "as given", PASSED, summary={"a[0]": VALUES}, predicted_seconds=2e-3),
            source_text="x = 1\n",
            evidence_json=json.dumps(findings),
        )
        better = {**VALUES, "native.main.loads_2d": 4, "native.main.global_loads": 0}
        made = ledger.add(
            trial(
                "block_pointers",
                "load of A | as a block",
                PASSED,
                parent=base.id,
                summary={"a[0]": {**better, "derived.seconds": 1e-3}},
                predicted_seconds=1e-3,
            ),
            source_text="x = 2",
        )
        ledger.add(
            trial(
                "gpu_specific",
                "BM=256",
                level("syntax", "passed"),
                level("lowering", "not_read", "native of 'double': no ocloc"),
                accepted=False,
                parent=made.id,
            ),
            source_text="x = 3\n",
        )
        ledger.set_stage(StageOutcome("block_pointers", 0, "improved", "load of A", made.id))
        ledger.set_stage(StageOutcome("gpu_specific", 1, "refused", "BM=256", None))
        yield ledger


FINDING = {
    "severity": "warning",
    "kind": "load-not-2d-block",
    "kernel": "double",
    "line": 7,
    "message": "load stays a tensor of pointers",
    "reason": "row stride `sak`; it is masked <here>",
    "remedy": "a block pointer",
}


def finish(ledger: Ledger, *, accepted: bool) -> None:
    status = "passed" if accepted else "refused"
    ledger.add(
        trial("final", "end to end", {**PASSED, "status": status}, accepted=accepted, parent=2),
        source_text="x = 2",
    )
    ledger.finish()


def test_an_unfinished_run_says_so_and_shows_how_far_it_came(run):
    report = build(run)
    assert report.verdict.startswith("unfinished")
    assert not report.improved
    assert [(row.stage, row.cells[0]) for row in report.rows] == [
        ("baseline", "0 of 4"),
        ("block_pointers", "4 of 4"),
    ]
    assert report.correctness is not None
    assert report.correctness["status"] == "passed"  # the baseline's


def test_an_improved_run_predicts_and_never_says_that_it_measured(run):
    finish(run, accepted=True)
    report = build(run)
    assert report.improved
    assert "2000.0 us before, 1000.0 us after" in report.verdict
    assert "not measured" in report.verdict
    assert report.diff.startswith("--- a/kernel.py\n+++ b/kernel.py\n")
    assert "+x = 2\n" in report.diff


def test_a_run_on_the_device_says_what_was_measured_and_shows_what_a_cuda_compiler_makes(tmp_path):
    said = "a[0]: measured FASTER 1.250x [1.240, 1.260]"
    timed = {**level("performance", "passed", said), "facts": {"measured": True}}
    session = {**HEADER["session"], "device_title": "NVIDIA H200", "kind": "cuda"}
    values = {"ptx.instructions": 812, "ptx.matrix_instructions": 16, "ttgir.dots": 1}
    with Ledger.create(tmp_path / "ledger.sqlite", {**HEADER, "session": session}) as ledger:
        base = ledger.add(
            trial("baseline", "as given", PASSED, summary={"a[0]": values}), source_text="x = 1\n"
        )
        tuned = trial("gpu_specific", "8 warps", PASSED, timed, parent=base.id)
        made = ledger.add(replace(tuned, summary={"a[0]": values}), source_text="x = 2\n")
        ledger.set_stage(StageOutcome("gpu_specific", 0, "improved", "8 warps", made.id))
        ledger.add(trial("final", "end", PASSED, timed, parent=made.id), source_text="x = 2\n")
        ledger.finish()
        report = build(ledger)
    assert report.verdict == f"improved: {said}"
    assert report.measurements == (
        f"gpu_specific against what it set out from: {said}",
        f"final against the kernel as given: {said}",
    )
    for text in (to_markdown(report), to_html(report)):
        assert said in text
        assert "measured on NVIDIA H200" in text
        assert "No GPU took part" not in text
        assert "PTX instr" in text
        assert "GRF" not in text


def test_a_final_check_that_refuses_leaves_the_baseline(run):
    finish(run, accepted=False)
    report = build(run)
    assert report.verdict == "not improved: the final check refused the optimised file"
    assert [row.stage for row in report.rows] == ["baseline"]
    assert report.diff == ""


def test_values_that_were_not_read_are_called_that(run):
    report = build(run)
    (baseline, _) = report.rows
    assert "not read" in baseline.cells  # spill and registers are not in the summary


def test_markdown_keeps_its_tables_whole_and_names_what_was_not_read(run):
    finish(run, accepted=True)
    text = to_markdown(build(run))
    rows = [line for line in text.splitlines() if line.startswith("| · 2 |")]
    assert rows == [
        "| · 2 | 1 | block_pointers | rules | load of A \\| as a block | 1000.0 |  |  | yes |  |"
    ]
    assert "lowering not read: native of 'double': no ocloc |" in text
    assert "bench[0] N=64 (scaled): 4 runs, largest error 0.25 of what is allowed" in text


REQUEST = Request("fusion-1-0", (Message("user", "request: fusion-1-0"),))


def test_the_trial_tree_has_each_trial_under_the_one_that_it_set_out_from(run):
    nodes = [(node.depth, node.trial.id, node.fate) for node in build(run).tree]
    assert nodes == [
        (0, 1, "accepted"),
        (1, 2, "accepted"),
        (2, 3, "lowering not read: native of 'double': no ocloc"),
    ]


def test_what_models_cost_is_told_per_stage_and_per_accepted_candidate(run):
    first = run.add_exchange("lm", "fusion", REQUEST, Reply("", "m", "stop", Usage(100, 20), 1.5))
    run.set_fault("lm", REQUEST.digest, "the reply is empty")
    usage = Usage(200, 40, estimated=True)
    again = replace(REQUEST, label="fusion-2-0")
    second = run.add_exchange("lm", "fusion", again, Reply("y", "m", "stop", usage, 2.0))
    won = trial("fusion", "one launch", PASSED, parent=1, exchange=second.id)
    run.add(won, source_text="x = 4")
    (stage, whole) = build(run).spending
    assert (stage.stage, whole.stage) == ("fusion", "all")
    assert (stage.answers, stage.without_candidate, stage.accepted) == (2, 1, 1)
    assert (stage.prompt_tokens, stage.completion_tokens) == (300, 60)
    assert stage.estimated
    assert stage.cost_usd is None  # the price of neither is known
    assert stage.seconds == 3.5
    assert stage.tokens_per_win == 360
    run.add_lost(Lost("lm", "fusion", "fusion-3-0", "no reply", Usage(30, 10), 4.0))
    (stage, _) = build(run).spending
    assert (stage.answers, stage.unanswered) == (2, 1)
    assert (stage.prompt_tokens, stage.completion_tokens, stage.seconds) == (330, 70, 7.5)
    (node,) = [node for node in build(run).tree if node.trial.exchange is not None]
    assert (node.tokens, node.tokens_estimated, node.model_seconds) == (240, True, 2.0)
    (fault,) = build(run).faults
    assert (fault.request, fault.reason) == ("fusion-1-0", "the reply is empty")
    assert first.id != second.id
    for text in (to_markdown(build(run)), to_html(build(run))):
        assert "no candidate in fusion-1-0: the reply is empty" in text


def test_a_run_without_a_model_says_nothing_of_models(run):
    assert build(run).spending == ()
    assert "Models" not in to_markdown(build(run)) + to_html(build(run))


def test_html_is_one_file_with_everything_escaped(run):
    finish(run, accepted=True)
    text = to_html(build(run))
    assert "why: row stride <code>sak</code>; it is masked &lt;here&gt;" in text
    assert "mend: a block pointer" in text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)


def test_the_command_reads_the_folder(run, tmp_path, capsys):
    finish(run, accepted=True)
    assert app.run(["report", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"].startswith("improved")
    assert len(told["trials"]) == 4
    assert app.run(["report", str(tmp_path), "--markdown"]) == 0
    assert capsys.readouterr().out == to_markdown(build(run))
    assert app.run(["report", str(tmp_path)]) == 0
    assert "improved: predicted time" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert app.run(["report", str(tmp_path), "--html", str(page)]) == 0
    assert page.read_text() == to_html(build(run))


def test_a_folder_without_a_run_and_a_file_that_cannot_be_written(run, tmp_path, capsys):
    assert app.run(["report", str(tmp_path / "none")]) == 2
    assert "there is no ledger here" in capsys.readouterr().err
    assert app.run(["report", str(tmp_path), "--html", str(tmp_path / "no" / "x.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
