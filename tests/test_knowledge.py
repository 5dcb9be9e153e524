"""Knowledge entries: the ones that ship, their selection by version, and faulty files."""

from __future__ import annotations

from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.knowledge import Knowledge, load_knowledge, version_matches
from xesmith.stage_contract import load_stages


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return load_knowledge()


def test_every_pattern_of_a_stage_matches_an_entry(knowledge: Knowledge) -> None:
    for stage in load_stages().values():
        for pattern in stage.knowledge:
            assert knowledge.matching([pattern]), (stage.name, pattern)


def test_every_entry_is_told_to_some_stage(knowledge: Knowledge) -> None:
    patterns = [p for stage in load_stages().values() for p in stage.knowledge if p != "*"]
    told = {entry.id for entry in knowledge.matching(patterns)}
    untold = {entry.id for entry in knowledge.entries} - told
    assert untold == {"launch.num_warps", "launch.block_sizes", "launch.slm"}  # enforced instead


def test_entries_follow_the_compiler_version(knowledge: Knowledge) -> None:
    stage = load_stages()["gpu_specific"]

    def ids(version: str, device: str = "bmg-g31", kind: str = "xpu") -> set[str]:
        entries = knowledge.for_stage(
            stage, device=device, kind=kind, distribution="triton-xpu", version=version
        )
        return {entry.id for entry in entries}

    assert "grf.spelling_3_3" in ids("3.3.0b1")
    assert "grf.spelling_3_8" not in ids("3.3.0b1")
    assert "grf.spelling_3_8" in ids("3.8.0")
    assert ids("3.3.0b1", "h200", "cuda") == {"swizzle.group_m"}


@pytest.mark.parametrize(
    ("version", "clauses", "expected"),
    [
        ("3.3.0b1", ">=3.3", True),
        ("3.3.0b1", ">=3.3,<3.8", True),
        ("3.8.0", "<3.8", False),
        ("3.10.0", ">=3.9", True),
        ("3.3.0", "==3.3", True),
        ("3.3.1", "!=3.3.1", False),
        ("3.3.1", ">3.3.1", False),
        ("3.3.1", "<=3.3.1", True),
    ],
)
def test_versions(version: str, clauses: str, expected: bool) -> None:
    assert version_matches(version, clauses) is expected


def test_the_text_of_an_entry_is_whole(knowledge: Knowledge) -> None:
    text = knowledge.by_id["block_pointer.gemm"].text()
    assert text.startswith("block_pointer.gemm: ")
    assert "before:" in text
    assert "tl.advance" in text
    assert text.endswith(")")


ENTRY = """\
- id: a.b
  statement: Something.
  source: seen
  applies: {devices: [xpu], compilers: {triton-xpu: ">=3.3"}}
  findings: [spill]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("statement:", "statment:", "did you mean 'statement'?"),
        ("[spill]", "[spil]", "did you mean 'spill'?"),
        ("a.b", "ab", "id"),
        ("source: seen", "source: ''", "source"),
        (">=3.3", "3.3", "no version clause"),
        (ENTRY, "a: b", "list of entries"),
        (ENTRY, "- 1", "an entry is a mapping"),
        (ENTRY, ENTRY + ENTRY, "taken twice"),
        (ENTRY, "- [", "cannot read"),
    ],
)
def test_a_faulty_file_is_one_clear_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "patterns" / "x.yaml"
    path.parent.mkdir()
    path.write_text(ENTRY.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_knowledge(tmp_path)
    assert message in str(caught.value)
    assert str(path) in (caught.value.where or "")
