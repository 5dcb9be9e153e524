"""A share of `python bench/self/fuzz.py`: mutated IR gives a result or an error, never a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

TEXTS = 300


@pytest.fixture(scope="module")
def script(repository: Path) -> Path:
    return repository / "bench" / "self" / "fuzz.py"


def test_mutated_ir_ends_no_process(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--texts", str(TEXTS), "--json"],
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert done.returncode == 0
    outcomes = (found["result"], found["error_with_position"], found["refused_by_bounds"])
    assert sum(outcomes) == found["texts"] == TEXTS
    # The mutations are neither all harmless nor all malformed.
    assert min(outcomes[:2]) > TEXTS / 5


def test_a_crash_is_a_failure_that_names_its_seed(script: Path, tmp_path: Path) -> None:
    """A text that would end the process, with the bounds out of the way."""
    changed = tmp_path / "fuzz.py"
    text = script.read_text("utf-8")
    crash = 'import os; os.abort() if "abort" in text else None'
    text = text.replace(
        "    try:\n        check_bounds(text)", f"    {crash}\n    try:\n        check_bounds(text)"
    )
    text = text.replace(
        "path.write_text(json.dumps(corpus())",
        'path.write_text(json.dumps([["abort", "cse"], ["x", "cse"]])',
    )
    assert text.count("abort") >= 2
    changed.write_text(text)
    done = subprocess.run(
        [sys.executable, str(changed), "--texts", "4", "--json"], capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["texts"] == 4
    assert found["failures"]
    for failure in found["failures"]:
        assert 0 <= failure["seed"] < 4
        assert "ends the process (-6)" in failure["what"]
