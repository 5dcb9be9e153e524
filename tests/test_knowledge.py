"""Knowledge entries: the ones that ship, how they are chosen and found, and faulty files."""

from __future__ import annotations

import ast
import json
import textwrap
from pathlib import Path

import pytest

from xesmith.device import device_names
from xesmith.errors import UsageError
from xesmith.findings.record import KINDS
from xesmith.knowledge import (
    DISTRIBUTIONS,
    Entry,
    Knowledge,
    lint,
    load_knowledge,
    version_matches,
)
from xesmith.stage_contract import Stage, load_stages

SOURCES = ("driver", "backend", "compiler", "spec", "computed", "derived", "seen", "judgement")


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return load_knowledge()


# -- what ships -----------------------------------------------------------------------------------


def test_there_are_enough_entries(knowledge: Knowledge) -> None:
    kinds = [entry.kind for entry in knowledge.entries]
    assert kinds.count("constraint") >= 20
    assert kinds.count("pattern") >= 15


def test_nothing_that_ships_is_faulty() -> None:
    assert lint(load_stages().values()) == ()


def test_every_entry_says_where_it_comes_from(knowledge: Knowledge) -> None:
    known = (*SOURCES, "secondary")
    assert [e.id for e in knowledge.entries if not e.source.startswith(known)] == []


def test_every_pattern_has_a_before_and_an_after_that_differ(knowledge: Knowledge) -> None:
    for entry in knowledge.entries:
        if entry.kind == "pattern":
            assert entry.before is not None, entry.id
            assert entry.after is not None, entry.id
            assert entry.before != entry.after, entry.id


def test_fragments_are_python_or_a_part_of_a_plan(knowledge: Knowledge) -> None:
    for entry in knowledge.entries:
        for fragment in (entry.before, entry.after):
            if fragment is not None and fragment.startswith("{"):
                assert set(json.loads(fragment)) == {"metas", "options"}, entry.id
            elif fragment is not None:
                ast.parse(textwrap.dedent(fragment), entry.id)


def test_every_entry_is_told_to_some_stage_that_selects_it(knowledge: Knowledge) -> None:
    patterns = [p for stage in load_stages().values() for p in stage.knowledge if p != "*"]
    told = {entry.id for entry in knowledge.matching(patterns)}
    untold = {entry.id for entry in knowledge.entries} - told
    # discovery is told all
    assert untold == {"discovery.rows_per_program", "discovery.split_k"}


def test_no_text_is_given_twice(knowledge: Knowledge) -> None:
    statements = [entry.statement.strip() for entry in knowledge.entries]
    assert len(set(statements)) == len(statements)


# -- what holds where -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.3.0b1", "3.4.0", "3.5.1", "3.6.0", "3.8.0", "3.9.0"])
@pytest.mark.parametrize("distribution", ["triton-xpu", "pytorch-triton-xpu"])
def test_a_compiler_is_told_one_spelling_and_one_pointer_api(
    knowledge: Knowledge, distribution: str, version: str
) -> None:
    told = {
        entry.id
        for entry in knowledge.entries
        if entry.applies.to("bmg-g31", "xpu", distribution, version)
    }
    new = version >= "3.6"
    assert ("grf.spelling_from_3_6" in told) == new
    assert ("grf.spelling_to_3_5" in told) == (not new)
    gone = version >= "3.8"
    assert ("block_pointer.removed_3_8" in told) == gone
    assert ("block_pointer.descriptor" in told) == gone
    assert ("block_pointer.gemm" in told) == (not gone)


def test_a_cuda_device_is_told_nothing_of_intel(knowledge: Knowledge) -> None:
    stages = load_stages()

    def ids(stage: str) -> set[str]:
        entries = knowledge.for_stage(
            stages[stage], device="h200", kind="cuda", distribution="triton", version="3.6.0"
        )
        return {entry.id for entry in entries}

    assert ids("gpu_specific") == {
        "launch.block_sizes",
        "launch.needs_buffers",
        "swizzle.grid",
        "swizzle.group_m",
    }
    assert ids("block_pointers") == {"block_pointer.boundary_check"}


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


# -- choosing and finding -------------------------------------------------------------------------


def entry(name: str, kind: str = "constraint", findings: tuple[str, ...] = (), size: int = 75):
    """An entry whose text has `size` characters, so size / 3 tokens."""
    made = Entry.model_validate(
        {"id": name, "kind": kind, "statement": "x", "source": "seen", "findings": findings}
    )
    return made.model_copy(update={"statement": "x" * (size - len(made.text()) + 1)})


def chosen(entries: list[Entry], findings: list[str], budget: int) -> tuple[list[str], list[str]]:
    stage = Stage(name="s", description="d", knowledge=("a.*",))
    made = Knowledge(entries=tuple(entries)).choose(
        stage, findings, budget, device="x", kind="xpu", distribution="triton-xpu", version="3.3"
    )
    return [e.id for e in made.entries], list(made.left_out)


def test_what_a_finding_asks_for_comes_first_then_constraints_and_patterns_in_turn() -> None:
    entries = [
        entry("a.z", "pattern", ("spill",)),
        entry("a.m", "constraint", ("spill",)),
        entry("a.b", "pattern"),
        entry("a.c", "constraint", ("dot-not-dpas",)),
        entry("a.a", "pattern"),
        entry("b.a", "constraint", ("spill",)),  # not selected by the stage
    ]
    order = ["a.m", "a.z", "a.c", "a.a", "a.b"]
    assert chosen(entries, ["spill"], 125) == (order, [])
    assert chosen(entries, [], 125) == (["a.c", "a.a", "a.m", "a.b", "a.z"], [])


def test_neither_constraints_nor_patterns_crowd_out_the_others() -> None:
    constraints = [f"a.c{number}" for number in range(9)]
    patterns = [f"a.p{number}" for number in range(3)]
    entries = [entry(name) for name in constraints] + [entry(name, "pattern") for name in patterns]
    # room for six of twelve: three of each
    told, left_out = chosen(entries, [], 150)
    assert told == ["a.c0", "a.p0", "a.c1", "a.p1", "a.c2", "a.p2"]
    assert left_out == constraints[3:]
    # What is left of the turns goes to the kind that has more.
    assert chosen(entries, [], 200)[0][6:] == ["a.c3", "a.c4"]
    # The same among those that a finding calls for, which all come before the others.
    spilling = [entry(f"a.s{n}", "constraint", ("spill",)) for n in range(4)]
    helping = entry("a.t", "pattern", ("spill",))
    told, _ = chosen([*entries, *spilling, helping], ["spill"], 150)
    assert told == ["a.s0", "a.t", "a.s1", "a.s2", "a.s3", "a.c0"]


def test_discovery_is_told_constraints_and_patterns(knowledge: Knowledge) -> None:
    made = knowledge.choose(
        load_stages()["discovery"],
        ["load-not-2d-block", "needless-mask"],
        2000,
        device="bmg-g31",
        kind="xpu",
        distribution="triton-xpu",
        version="3.3.0b1",
    )
    kinds = [item.kind for item in made.entries]
    assert min(kinds.count("constraint"), kinds.count("pattern")) >= 5


def test_entries_are_whole_and_those_without_room_are_named() -> None:
    entries = [entry("a.a", size=75), entry("a.b", size=300), entry("a.c", size=60)]
    assert entries[1].tokens == 100
    # a.b does not fit after a.a; the smaller one after it does.
    assert chosen(entries, [], 45) == (["a.a", "a.c"], ["a.b"])
    assert chosen(entries, [], 0) == ([], ["a.a", "a.b", "a.c"])
    assert chosen(entries, [], 145) == (["a.a", "a.b", "a.c"], [])


@pytest.mark.parametrize("budget", [300, 800, 1500, 6000])
def test_no_budget_is_passed_and_nothing_is_lost(knowledge: Knowledge, budget: int) -> None:
    stage = load_stages()["discovery"]
    made = knowledge.choose(
        stage,
        KINDS,
        budget,
        device="bmg-g31",
        kind="xpu",
        distribution="triton-xpu",
        version="3.3.0b1",
    )
    assert sum(len(e.text().encode()) for e in made.entries) <= 3 * budget
    every = knowledge.for_stage(
        stage, device="bmg-g31", kind="xpu", distribution="triton-xpu", version="3.3.0b1"
    )
    assert {*(e.id for e in made.entries), *made.left_out} == {e.id for e in every}


def test_a_search_ranks_by_words_held(knowledge: Knowledge) -> None:
    assert knowledge.search("odd pitch")[0].id == "block_pointer.odd_pitch"
    assert knowledge.search("SPILL units")[0].id == "grf.spill_units"
    found = knowledge.search("make_block_ptr")
    assert {"block_pointer.gemm", "block_pointer.removed_3_8"} <= {e.id for e in found}
    assert knowledge.search("quantum") == ()
    assert len(knowledge.search("")) == len(knowledge.entries)


# -- faulty files ---------------------------------------------------------------------------------

ENTRY = """\
- id: a.b
  statement: Something.
  source: seen
  applies: {devices: [xpu], compilers: {triton-xpu: ">=3.3"}}
  findings: [spill]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "patterns" / "x.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


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
    path = written(tmp_path, ENTRY.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_knowledge(tmp_path)
    assert message in str(caught.value)
    assert str(path) in (caught.value.where or "")


def test_lint_names_every_fault_at_once(tmp_path: Path) -> None:
    written(
        tmp_path,
        ENTRY
        + ENTRY.replace("a.b", "a.c").replace("[xpu]", "[bmg-g32]")
        + ENTRY.replace("a.b", "a.d").replace("triton-xpu:", "triton-xpuu:")
        + ENTRY.replace("a.b", "a.e").replace("[spill]", "[spil]")
        + ENTRY,
    )
    stage = Stage(name="s", description="d", knowledge=("a.*", "z.*"), path="s/STAGE.md")
    assert [(fault.where or "", fault.what) for fault in lint([stage], tmp_path)] == [
        ("a.c", "unknown device 'bmg-g32'"),
        ("a.d", "unknown compiler 'triton-xpuu'"),
        (f"{tmp_path}/patterns/x.yaml: entry 4", "findings: unknown finding kind 'spil'"),
        (f"{tmp_path}/patterns/x.yaml: entry 5", "the id 'a.b' is taken twice"),
        ("s/STAGE.md: knowledge", "the pattern 'z.*' matches no entry"),
    ]


def test_devices_and_compilers_of_the_entries_exist(knowledge: Knowledge) -> None:
    for item in knowledge.entries:
        assert set(item.applies.devices) <= {*device_names(), "xpu", "cuda"}
        assert set(item.applies.compilers) <= {*DISTRIBUTIONS}
