"""Plans of passes: their file, which entry a launch gets, and what its pipeline becomes."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.errors import UsageError
from xesmith.ghost.launch import Program
from xesmith.pass_plan import NO_PASSES, PassEntry, PassPlan, read_plan

MASKS = "xesmith-drop-true-masks{launch}"
SPECIAL = PassEntry("k", f"xesmith-specialize-args{{launch}},{MASKS},cse", {"n": 64}, (4, 1, 1))
GENERAL = PassEntry("k", "cse")


def test_the_first_entry_that_is_for_a_launch_counts():
    plan = PassPlan((SPECIAL, GENERAL))
    assert plan.find("k", "xpu", {"n": 64}, (4, 1, 1)) == SPECIAL
    assert plan.find("k", "xpu", {"n": 65}, (4, 1, 1)) == GENERAL
    assert plan.find("k", "xpu", {"n": 64}, (5, 1, 1)) == GENERAL
    assert plan.find("k", "xpu", {}, (4, 1, 1)) == GENERAL
    assert plan.find("other", "xpu", {"n": 64}, (4, 1, 1)) is None


@pytest.mark.parametrize(
    ("value", "given"), [(1, 1.0), (1.0, 1), (0.0, -0.0), (1, "1"), (64, None), (1, [1])]
)
def test_a_value_must_be_the_very_same(value: float, given: object):
    entry = PassEntry("k", "cse", {"n": value})
    assert entry.applies("k", "xpu", {"n": value}, (1, 1, 1))
    assert not entry.applies("k", "xpu", {"n": given}, (1, 1, 1))


def test_an_entry_for_another_backend_is_for_no_launch():
    assert PassPlan((replace(GENERAL, backend="cuda"),)).find("k", "xpu", {}, (1, 1, 1)) is None


def test_a_kernel_of_another_text_gets_nothing():
    text = "@triton.jit\ndef k(x):\n    pass\n"
    plan = PassPlan((GENERAL,)).bound({"k": text, "j": ""})
    launch = ("k", "xpu", {}, (1, 1, 1))
    # As Triton has it: without decorators, indented or not, and with the file's blanks at the end.
    for same in ("def k(x):\n    pass\n\n", textwrap.indent(text, "    ")):
        assert plan.find(*launch, same) == plan.entries[0]
    assert plan.find(*launch, text.replace("pass", "return")) is None
    assert PassPlan((GENERAL,)).find(*launch, "def k(y): pass") == GENERAL


def test_options_name_arguments_by_their_place_among_what_the_compiler_kept():
    signature = {"x": "*fp32", "one": "constexpr", "n": "i32", "s": "fp32"}
    entry = replace(SPECIAL, values={"n": 64, "s": 0.5, "one": 1})
    assert entry.resolved(signature) == (
        "xesmith-specialize-args{values=1=64,2=0.5},"
        "xesmith-drop-true-masks{values=1=64,2=0.5 grid=4,1,1},cse"
    )
    assert PassEntry("k", MASKS).resolved(signature) == "xesmith-drop-true-masks"


def test_a_plan_comes_back_from_its_file(tmp_path: Path):
    switched = PassEntry("j", switches={"TRITON_INTEL_RAISE_BLOCK_POINTER": "1"}, backend="xpu")
    plan = PassPlan((SPECIAL, GENERAL, switched))
    (tmp_path / "passes.json").write_text(plan.to_text())
    assert read_plan(tmp_path / "passes.json") == plan
    assert (NO_PASSES.to_text(), PassPlan.from_text("")) == ("", NO_PASSES)


def test_the_key_tells_what_is_done_and_not_why():
    assert replace(GENERAL, reason="because", rounds=True).key == GENERAL.key
    changed = [
        replace(GENERAL, pipeline="canonicalize"),
        replace(GENERAL, values={"n": 1}),
        replace(GENERAL, grid=(1, 1, 1)),
        replace(GENERAL, switches={"TRITON_INTEL_X": "1"}),
    ]
    assert len({GENERAL.key, *(entry.key for entry in changed)}) == 5


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"pipeline": "cse"}, "names no kernel"),
        ({"kernel": "k"}, "neither a pipeline nor switches"),
        ({"kernel": "k", "pipelin": "cse"}, "unknown field 'pipelin'"),
        ({"kernel": "k", "pipeline": "cse", "values": {"n": "64"}}, "numbers"),
        ({"kernel": "k", "pipeline": "cse", "grid": [1, 0, 1]}, "positive"),
        ({"kernel": "k", "pipeline": "cse", "backend": "xpo"}, "unknown backend 'xpo'"),
        ({"kernel": "k", "switches": {"PATH": "/"}}, "no switch of a backend"),
        ("k", "an object"),
    ],
)
def test_a_faulty_entry_is_named(entry: object, told: str):
    text = json.dumps({"xesmith_passes": 1, "entries": [{"kernel": "k", "pipeline": "a"}, entry]})
    with pytest.raises(UsageError, match=told) as error:
        PassPlan.from_text(text, "passes.json")
    assert error.value.what.startswith("entries[1]: ")
    assert error.value.where == "passes.json"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"xesmith_passes": 2, "entries": []}'])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str):
    (tmp_path / "p").write_text(text)
    with pytest.raises(UsageError):
        read_plan(tmp_path / "p")


def test_a_program_takes_its_plan_to_the_worker():
    program = Program("x = 1", "x.py", passes=PassPlan((SPECIAL,)))
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program
    assert hash(program) != 0
