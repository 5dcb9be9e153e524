"""`xesmith kb`: faults end with 1, searches find, wrong names are answered with the nearest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xesmith import knowledge
from xesmith.cli import app
from xesmith.errors import UsageError

Capture = pytest.CaptureFixture[str]


def test_what_ships_has_no_fault(capsys: Capture) -> None:
    assert app.run(["kb", "lint"]) == 0
    assert "no fault" in capsys.readouterr().out
    assert app.run(["kb", "lint", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["faults"] == []
    assert "fusion" in shown["stages"]


def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("constraints", "patterns"):
        (tmp_path / kind).mkdir()
    (tmp_path / "patterns" / "x.yaml").write_text(
        "- {id: tile.a, statement: s, source: seen, findings: [spil]}\n- {id: b}\n"
    )
    monkeypatch.setattr(knowledge, "asset_folder", lambda name: tmp_path)


def test_faults_end_with_1_and_are_all_named(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(tmp_path, monkeypatch)
    assert app.run(["kb", "lint"]) == 1
    out = capsys.readouterr().out
    assert "entry 1: findings: unknown finding kind 'spil'" in out
    assert "did you mean 'spill'?" in out
    assert "entry 2: id" in out
    assert "the pattern 'block_pointer.*' matches no entry" in out
    assert app.run(["kb", "lint", "--json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert faults[0]["what"] == "findings: unknown finding kind 'spil'"


def test_a_faulty_stage_is_a_fault_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise UsageError("the front matter is no YAML", where="x/STAGE.md")

    monkeypatch.setattr("xesmith.stage_contract.load_stages", broken)
    assert app.run(["kb", "lint"]) == 1
    assert "x/STAGE.md: the front matter is no YAML" in capsys.readouterr().out


def ids(capsys: Capture, *arguments: str) -> list[str]:
    assert app.run(["kb", "search", *arguments, "--json"]) == 0
    return [entry["id"] for entry in json.loads(capsys.readouterr().out)]


def test_a_search_shows_whole_entries(capsys: Capture) -> None:
    assert app.run(["kb", "search", "odd", "pitch"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("block_pointer.odd_pitch: ")
    assert "(source: seen with triton-xpu 3.3.0b1 and ocloc for bmg-g31)" in out


def test_a_search_is_narrowed_by_stage_target_and_finding(capsys: Capture) -> None:
    assert set(ids(capsys, "--stage", "dtype_fix")) == {
        "dtype.accumulate_f32",
        "dtype.coarser_dots",
        "dtype.dot_operands",
        "dtype.dpas",
        "dtype.dpas_shape",
        "dtype.pairwise",
    }
    assert "dtype.dpas" not in ids(capsys, "--stage", "dtype_fix", "--target", "h200")
    assert "block_pointer.alchemist" in ids(capsys, "block", "--target", "dg2")
    assert "block_pointer.alchemist" not in ids(capsys, "block", "--target", "b70")
    assert set(ids(capsys, "--finding", "many-kernels")) == {"fusion.bias", "fusion.epilogue"}


def test_a_search_that_finds_nothing_says_so(capsys: Capture) -> None:
    assert app.run(["kb", "search", "quantum"]) == 0
    assert "no entry holds that" in capsys.readouterr().out
    assert ids(capsys, "quantum") == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--stage", "fuse"], "did you mean 'fusion'?"),
        (["--target", "bmg-g32"], "did you mean 'bmg-g31'?"),
        (["--finding", "spil"], "did you mean 'spill'?"),
        (["--stag", "fusion"], "did you mean '--stage'?"),
    ],
)
def test_a_wrong_name_ends_with_2_and_the_nearest(
    capsys: Capture, arguments: list[str], hint: str
) -> None:
    assert app.run(["kb", "search", *arguments]) == 2
    assert hint in capsys.readouterr().err
