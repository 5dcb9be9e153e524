"""The ledger: nothing that was written is lost, whenever the process dies."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.ledger import Ledger, StageOutcome, Trial, text_digest

ROOT = Path(__file__).resolve().parents[1]


def trial(stage: str = "dtype_fix", source: str = "x = 1\n", **changes) -> Trial:
    fields = {
        "stage": stage,
        "proposer": "rules",
        "note": "a note",
        "source": text_digest(source),
        "verdict": {"accepted": True, "levels": []},
        "accepted": True,
        "summary": {"native.loads_2d": 3},
        "predicted_seconds": 0.25,
    }
    return Trial(**(fields | changes))


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite", {"kernel": "k.py"}) as ledger:
        yield ledger


def test_a_trial_comes_back_as_it_went_in(ledger):
    kept = ledger.add(trial(), source_text="x = 1\n", evidence_json='[{"a": 1}]')
    assert kept.id == 1
    assert ledger.trials() == [kept]
    assert ledger.get(kept.source) == "x = 1\n"
    assert json.loads(ledger.get(kept.evidence)) == [{"a": 1}]
    assert (kept.summary, kept.predicted_seconds) == ({"native.loads_2d": 3}, 0.25)


def test_a_judged_candidate_is_found_by_stage_text_and_parent(ledger):
    first = ledger.add(trial(), source_text="x = 1\n")
    child = ledger.add(trial(stage="gpu_specific", parent=first.id), source_text="x = 1\n")
    digest = text_digest("x = 1\n")
    assert ledger.find("dtype_fix", digest, None) == first
    assert ledger.find("gpu_specific", digest, first.id) == child
    assert ledger.find("gpu_specific", digest, None) is None


def test_one_text_with_two_plans_of_passes_is_two_candidates(ledger):
    plain = ledger.add(trial(), source_text="x = 1\n")
    planned = ledger.add(trial(passes="a plan"), source_text="x = 1\n")
    digest = text_digest("x = 1\n")
    assert ledger.find("dtype_fix", digest, None) == plain
    assert ledger.find("dtype_fix", digest, None, "a plan") == planned
    assert ledger.find("dtype_fix", digest, None, "another") is None


def test_the_same_candidate_is_not_kept_twice(ledger):
    ledger.add(trial(), source_text="x = 1\n")
    with pytest.raises(sqlite3.IntegrityError):
        ledger.add(trial(), source_text="x = 1\n")
    assert len(ledger.trials()) == 1


def test_equal_texts_are_kept_once(ledger):
    first = ledger.add(trial(), source_text="x = 1\n")
    ledger.add(trial(stage="memory_access", parent=first.id), source_text="x = 1\n")
    (count,) = ledger._db.execute("SELECT count(*) FROM blob").fetchone()
    assert count == 1


def test_stages_come_back_in_their_order(ledger):
    ledger.set_stage(StageOutcome("gpu_specific", 2, "skipped", "no finding"))
    ledger.set_stage(StageOutcome("dtype_fix", 1, "skipped", "no finding"))
    kept = ledger.add(trial(), source_text="x = 1\n")
    ledger.set_stage(StageOutcome("dtype_fix", 1, "improved", "", kept.id))
    assert [(s.name, s.status, s.trial) for s in ledger.stages()] == [
        ("dtype_fix", "improved", 1),
        ("gpu_specific", "skipped", None),
    ]


def test_a_ledger_opens_again(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with Ledger.create(path, {"kernel": "k.py"}) as ledger:
        ledger.add(trial(), source_text="x = 1\n")
        assert not ledger.finished
        ledger.finish()
    with Ledger.open(path) as ledger:
        assert ledger.header == {"kernel": "k.py"}
        assert ledger.finished
        assert len(ledger.trials()) == 1


@pytest.mark.parametrize("content", [None, "no database, only text that is long enough" * 9])
def test_what_is_no_ledger_is_refused_with_a_remedy(tmp_path, content):
    path = tmp_path / "ledger.sqlite"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as caught:
        Ledger.open(path)
    assert caught.value.remedy


def test_a_ledger_of_another_format_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path, {}).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(UsageError, match="format 99"):
        Ledger.open(path)


WRITER = """
import sys
from pathlib import Path
from xesmith.ledger import Ledger, Trial, text_digest
ledger = Ledger.create(Path(sys.argv[1]), {})
for number in range(100_000):
    text = f"x = {number}\\n" * 500
    ledger.add(
        Trial("s", "rules", "", text_digest(text), {"accepted": True}, True),
        source_text=text, evidence_json=text)
    print(number, flush=True)
"""


@pytest.mark.parametrize("after_seconds", [0.0, 0.013, 0.037, 0.071])
def test_no_trial_that_was_reported_is_lost_to_kill_9(tmp_path, after_seconds):
    path = tmp_path / "ledger.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        time.sleep(after_seconds)
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    reported = int([line for line in lines if line.endswith("\n")][-1])
    with Ledger.open(path) as ledger:
        trials = ledger.trials()
        assert len(trials) in (reported + 1, reported + 2)  # the last may not have been printed
        for number, kept in enumerate(trials):
            assert ledger.get(kept.source) == f"x = {number}\n" * 500
            assert ledger.get(kept.evidence) == ledger.get(kept.source)
