"""Run folders: one run each, resumed only with what it was begun with."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from xesmith.cascade.correctness import find_reference
from xesmith.engine.problem import load_problem
from xesmith.engine.run_folder import LEDGER_FILE, RunFolder, run_header
from xesmith.errors import UsageError
from xesmith.ledger import Ledger

HEADER = {"kernel": "k.py", "source": "x = 1\n", "stages": ["dtype_fix"]}


def test_a_new_run_makes_its_folder(tmp_path):
    with RunFolder.open(tmp_path / "a" / "b", HEADER, resume=False) as run:
        assert run.ledger.header == HEADER
        assert (run.folder / LEDGER_FILE).is_file()


def test_a_run_is_resumed_with_what_it_was_begun_with(tmp_path):
    RunFolder.open(tmp_path, HEADER, resume=False).__exit__(None, None, None)
    with RunFolder.open(tmp_path, {**HEADER, "kernel": "./k.py"}, resume=True) as run:
        assert run.ledger.header == HEADER


@pytest.mark.parametrize("field", ["source", "stages"])
def test_a_run_is_not_resumed_with_anything_else(tmp_path, field):
    RunFolder.open(tmp_path, HEADER, resume=False).__exit__(None, None, None)
    with pytest.raises(UsageError, match=f"the run in this folder had other {field}"):
        RunFolder.open(tmp_path, {**HEADER, field: ["other"]}, resume=True)


def test_a_second_run_does_not_overwrite_the_first(tmp_path):
    RunFolder.open(tmp_path, HEADER, resume=False).__exit__(None, None, None)
    with pytest.raises(UsageError, match="already holds a run") as caught:
        RunFolder.open(tmp_path, HEADER, resume=False)
    assert "--resume" in str(caught.value.remedy)


def test_resuming_where_nothing_is_says_so(tmp_path):
    with pytest.raises(UsageError, match="no ledger"):
        RunFolder.open(tmp_path, HEADER, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_died_before_its_first_write_is_begun_anew(tmp_path, resume):
    Ledger(tmp_path / LEDGER_FILE).close()
    with RunFolder.open(tmp_path, HEADER, resume=resume) as run:
        assert run.ledger.header == HEADER


def test_two_do_not_work_in_one_folder(tmp_path):
    with (
        RunFolder.open(tmp_path, HEADER, resume=False),
        pytest.raises(UsageError, match="another xesmith is at work"),
    ):
        RunFolder.open(tmp_path, HEADER, resume=True)
    RunFolder.open(tmp_path, HEADER, resume=True).__exit__(None, None, None)


def test_a_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        RunFolder.open(tmp_path / "file" / "run", HEADER, resume=False)


def test_files_are_written_whole(tmp_path):
    with RunFolder.open(tmp_path, HEADER, resume=False) as run:
        run.write_text("a.txt", "one\r\n")
        path = run.write_text("a.txt", "two\r\n")
        assert path.read_bytes() == b"two\r\n"
        assert sorted(p.name for p in tmp_path.glob("*.txt*")) == ["a.txt"]


def test_a_header_says_what_a_run_is_about_in_whole_texts(repository):
    folder = repository / "bench" / "problems" / "softmax"
    problem = load_problem(folder / "kernel.py")
    reference = find_reference(problem.program())
    session = SimpleNamespace(description={"device": "bmg-g31"})
    assert run_header(problem, reference, session) == {
        "kernel": str(folder / "kernel.py"),
        "problem": "softmax",
        "variant": problem.variant,
        "source": (folder / "kernel.py").read_text(),
        "spec": (folder / "spec.yaml").read_text(),
        "reference": "reference.py",
        "reference_source": (folder / "reference.py").read_text(),
        "session": {"device": "bmg-g31"},
    }
    plain = replace(problem, spec=None, variant=None, shapes=())
    assert run_header(plain, reference, session)["spec"] is None
