"""Stages: the ten that ship, and every way in which a STAGE.md can be wrong."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from xesmith.assets import asset_folder
from xesmith.contract_names import NAMES
from xesmith.contracts import ProgramEvidence, check, check_all
from xesmith.engine.ordering import PLANNER
from xesmith.errors import UsageError
from xesmith.findings.record import KINDS
from xesmith.knowledge import load_knowledge
from xesmith.ledger import BASELINE, FINAL
from xesmith.mcp.judging import NO_STAGE
from xesmith.stage_contract import (
    RESERVED,
    Promises,
    Stage,
    StagePass,
    legal_order,
    load_stages,
    read_stage,
)
from xesmith.stages.planner import plan

AFTER = {
    "analysis": set(),
    "algorithmic": {"analysis"},
    "discovery": {"algorithmic"},
    "dtype_fix": {"algorithmic", "discovery"},
    "fusion": {"algorithmic", "discovery", "dtype_fix"},
    "memory_access": set(),
    "block_pointers": {"memory_access"},
    "persistent_kernel": {"fusion"},
    "gpu_specific": {"fusion", "block_pointers", "persistent_kernel"},
    "autotuning": {"gpu_specific"},
}


def test_the_ten_stages_have_their_edges() -> None:
    stages = load_stages()
    assert {name: set(stage.after) for name, stage in stages.items()} == AFTER


def test_the_stages_come_in_a_legal_order() -> None:
    names = list(load_stages())
    for name, after in AFTER.items():
        assert all(names.index(a) < names.index(name) for a in after)


def test_every_order_of_six_stages_is_repaired() -> None:
    stages = load_stages()
    names = ["fusion", "memory_access", "block_pointers", "gpu_specific", "autotuning", "analysis"]
    for order in itertools.permutations(names):
        legal = legal_order(stages.values(), order)
        assert sorted(legal) == sorted(names)
        for name in names:
            assert all(legal.index(a) < legal.index(name) for a in AFTER[name] if a in names), order


def test_edges_hold_through_a_stage_that_is_left_out() -> None:
    stages = load_stages()
    # block_pointers, between the two, is not wanted.
    order = legal_order(stages.values(), ["gpu_specific", "memory_access"])
    assert order == ("memory_access", "gpu_specific")


def test_an_unknown_wanted_stage_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown stage 'block_pointer'") as caught:
        legal_order(load_stages().values(), ["block_pointer"])
    assert "did you mean 'block_pointers'?" in str(caught.value)


@pytest.mark.parametrize("name", AFTER)
def test_a_stage_is_a_valid_agent_skill(name: str) -> None:
    """By the published rules of Agent Skills."""
    stage = load_stages()[name]
    empty, front_text, body = stage.as_agent_skill().split("---\n", 2)
    front = yaml.safe_load(front_text)
    assert empty == ""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert 1 <= len(front["name"]) <= 64
    assert front["name"] == stage.skill_name == name.replace("_", "-")
    assert 1 <= len(front["description"]) <= 1024
    fields = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert set(front) <= fields
    metadata = front["metadata"]
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in metadata.items())
    assert body == stage.body


@pytest.mark.parametrize("name", AFTER)
def test_an_agent_skill_holds_the_whole_contract(name: str) -> None:
    stage = load_stages()[name]
    metadata = yaml.safe_load(stage.as_agent_skill().split("---\n", 2)[1])["metadata"]

    def listed(key: str, separator: str = ", ") -> tuple[str, ...]:
        return tuple(metadata[key].split(separator)) if key in metadata else ()

    again = Stage(
        name=metadata["stage"],
        description=stage.description,
        after=listed("after"),
        triggers=listed("triggers"),
        promises=Promises(
            any=listed("promises-any", "; "),
            xpu=listed("promises-xpu", "; "),
            cuda=listed("promises-cuda", "; "),
        ),
        keeps=listed("keeps"),
        improves=metadata["improves"] == "yes",
        knowledge=listed("knowledge"),
        passes=tuple(StagePass(**item) for item in json.loads(metadata.get("passes", "[]"))),
        iterations=int(metadata["iterations"]),
        body=stage.body,
        path=stage.path,
    )
    assert again == stage


@pytest.mark.parametrize("name", AFTER)
def test_a_body_is_short_and_says_what_is_done_and_what_to_read(name: str) -> None:
    body = load_stages()[name].body
    assert body.startswith("# ")
    assert len(body.split()) <= 350
    if name != "analysis":
        for part in ("\nHow: ", "\nDone: ", "\nNever", "\nRead first: "):
            assert part in body, part


@pytest.mark.parametrize("name", AFTER)
def test_a_body_speaks_of_findings_and_values_that_exist(name: str) -> None:
    body = load_stages()[name].body
    for quoted in re.findall(r"`([^`\n]+)`", body):
        if re.fullmatch(r"(ttir|ttgir|spirv|native|ptx|derived|program)\.[a-z0-9_.]+", quoted):
            assert quoted in NAMES, quoted
        elif re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", quoted):
            assert quoted in KINDS, quoted


def test_the_documented_names_are_the_names() -> None:
    text = (asset_folder("llm_stages") / "README.md").read_text()
    assert set(re.findall(r"^\| `([a-z0-9_]+\.[a-z0-9_.]+)` \|", text, re.MULTILINE)) == set(NAMES)


FILE = """\
---
name: demo
description: Does nothing.
after: []
triggers: [spill]
promises:
  xpu: ["after.native.loads_2d > before.native.loads_2d"]
---
Body.
"""


def _write(folder: Path, text: str, name: str = "demo") -> Path:
    path = folder / name / "STAGE.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("triggers:", "trigger:", "did you mean 'triggers'?"),
        ("xpu:", "xpus:", "did you mean 'xpu'?"),
        ("[spill]", "[spil]", "did you mean 'spill'?"),
        ("loads_2d >", "load_2d >", "did you mean 'after.native.loads_2d'"),
        ("name: demo", "name: other", "its folder 'demo'"),
        ("name: demo", "name: De mo", "name"),
        ("---\nname", "name", "no front matter"),
        ("after: []", "after: [", "no YAML"),
        ("description: Does nothing.\n", "", "description"),
        ("after: []", "iterations: -1", "iterations"),
        ("after: []", "keeps: [output]", "did you mean 'outputs'?"),
        ('["after.native', '[3, "after.native', "promises.xpu.0"),
        ("name: demo", "name: final", "no stage can be called 'final'"),
    ],
)
def test_a_faulty_file_is_one_clear_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = _write(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        read_stage(path)
    assert message in str(caught.value)
    assert str(path) == caught.value.where


@pytest.mark.parametrize("name", ["baseline", "final", "planner", "verify", "xesmith"])
def test_a_stage_has_no_name_that_means_something_else_in_a_ledger(
    tmp_path: Path, name: str
) -> None:
    path = _write(tmp_path, FILE.replace("name: demo", f"name: {name}"), name)
    with pytest.raises(UsageError, match=f"no stage can be called '{name}'") as caught:
        load_stages(extra=[tmp_path])
    assert caught.value.where == str(path)
    assert caught.value.remedy == "give the stage another name, and its folder too"


def test_what_a_ledger_has_besides_stages_is_reserved() -> None:
    assert {BASELINE, FINAL, PLANNER, NO_STAGE} <= set(RESERVED)


def test_the_same_number_of_launches_is_a_condition_of_the_stages_that_keep_it() -> None:
    condition = "after.program.launches == before.program.launches"
    stages = load_stages()
    bound = {name for name, stage in stages.items() if condition in stage.conditions("xpu")}
    assert bound == {"analysis", "memory_access", "block_pointers"}
    for stage in stages.values():
        for kind in ("xpu", "cuda"):
            kept = (condition,) if stage.name in bound else ()
            assert stage.conditions(kind) == stage.promises.on(kind) + kept


def test_one_launch_more_is_no_way_to_keep_launches(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    stage = Stage(name="s", description="d", keeps=("outputs", "launches"))
    (condition,) = stage.conditions("xpu")
    once, twice = ProgramEvidence.of([m.make()]), ProgramEvidence.of([m.make(), m.make()])
    assert [check(condition, once, after).status for after in (once, twice)] == ["holds", "broken"]
    assert check(condition, once, twice).text == f"{condition}: 2 == 1 is false"
    assert Stage(name="s", description="d", keeps=("signature", "dtypes")).conditions("xpu") == ()


def test_a_correct_file_is_read(tmp_path: Path) -> None:
    stage = read_stage(_write(tmp_path, FILE))
    assert stage.body == "Body.\n"
    assert stage.iterations == 5
    assert stage.applies(["spill", "f64-arithmetic"])
    assert not stage.applies(["f64-arithmetic"])


def test_a_cycle_and_an_unknown_edge_are_errors(tmp_path: Path) -> None:
    _write(tmp_path, FILE.replace("after: []", "after: [other]"))
    _write(tmp_path, FILE.replace("after: []", "after: [demo]").replace("demo\nd", "other\nd"),
           "other")  # fmt: skip
    with pytest.raises(UsageError, match="waits for itself"):
        load_stages(tmp_path)
    _write(tmp_path, FILE.replace("after: []", "after: [othr]"))
    with pytest.raises(UsageError, match="unknown stage 'othr'"):
        load_stages(tmp_path)
    with pytest.raises(UsageError, match="no stage found"):
        load_stages(tmp_path / "nothing")


def test_stages_of_another_folder_are_added_where_their_edges_put_them(tmp_path: Path) -> None:
    _write(tmp_path, FILE.replace("after: []", "after: [fusion]"))
    stages = load_stages(extra=[tmp_path])
    names = list(stages)
    assert names.index("fusion") < names.index("demo")
    assert [name for name in names if name != "demo"] == list(load_stages())
    front = yaml.safe_load(stages["demo"].as_agent_skill().split("---\n", 2)[1])
    assert front["name"] == "demo"
    assert front["metadata"]["triggers"] == "spill"


def test_a_name_that_is_taken_and_a_folder_without_stages_are_errors(tmp_path: Path) -> None:
    _write(tmp_path, FILE.replace("name: demo", "name: fusion"), "fusion")
    with pytest.raises(UsageError, match="the stage 'fusion' is there twice") as caught:
        load_stages(extra=[tmp_path])
    assert str(tmp_path / "fusion" / "STAGE.md") in (caught.value.where or "")
    with pytest.raises(UsageError, match="no stage found"):
        load_stages(extra=[tmp_path / "nothing"])


def test_the_example_of_the_documentation_is_planned_and_told(
    tmp_path: Path, repository: Path
) -> None:
    page = (repository / "docs" / "05-stages.md").read_text()
    (example,) = re.findall(r"^```markdown\n(---\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    _write(tmp_path, example, "split_k")
    stages = load_stages(extra=[tmp_path])
    order = plan(stages, ["load-not-2d-block"]).order
    assert order.index("block_pointers") < order.index("split_k")
    told = load_knowledge().matching(stages["split_k"].knowledge)
    assert {entry.id for entry in told} == {"discovery.split_k", "launch.needs_buffers"}
    assert "# Split K" in stages["split_k"].as_agent_skill()
    # what the page says of a plan
    proposed = ["gpu_specific", "memory_access", "fusion", "block_pointers"]
    made = plan(stages, KINDS, wanted=proposed, proposed=proposed)
    assert f"    {', '.join(made.order)}\n" in page
    assert [f"({first}, {second})" for first, second in made.moved] == [
        " ".join(pair.split()) for pair in re.findall(r"`(\([a-z_]+,\s[a-z_]+\))`", page)
    ]


def test_the_documented_stages_are_the_stages(repository: Path) -> None:
    page = (repository / "docs" / "05-stages.md").read_text()
    rows = re.findall(r"^\| ([a-z_]+) \| [^|]+ \|([^|]*)\|([^|]*)\|$", page, re.MULTILINE)
    told = {name: (after.strip(), re.findall(r"`([^`]+)`", by)) for name, after, by in rows[1:]}
    assert told == {
        name: (", ".join(stage.after), list(stage.triggers))
        for name, stage in load_stages().items()
    }


def _outcomes(stage: str, before: object, after: object) -> list[str]:
    promises = load_stages()[stage].promises.on("xpu")
    outcomes = check_all(
        promises,
        ProgramEvidence.of([before]),  # type: ignore[list-item]
        ProgramEvidence.of([after]),  # type: ignore[list-item]
    )
    return [outcome.status for outcome in outcomes]


def test_block_pointers_hold_on_the_gemm_of_the_table(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    pointers = m.make(
        native=m.native(
            loads_2d=0, slm_messages=100, sends_2d=(),
            loops=(m.native_loop(instructions=323, dpas=8, loads_2d=0, slm_messages=100),),
        )
    )  # fmt: skip
    assert set(_outcomes("block_pointers", pointers, m.make())) == {"holds"}


def test_block_pointers_may_spill_as_far_as_more_registers_help(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    before = m.make(native=m.native(loads_2d=0, sends_2d=()))

    in_the_loop = (m.native_loop(scratch_messages=8),)

    def spilling(grf: int, spill: int) -> list[str]:
        after = m.make(
            native=m.native(grf_count=grf, spill_bytes_per_thread=spill, loops=in_the_loop)
        )
        return _outcomes("block_pointers", before, after)

    # 256x256x32 with 32 warps: 6848 B at 128 registers, nothing at 256
    assert set(spilling(128, 6848)) == {"holds"}
    # more than another 128 registers of 64 B hold
    assert spilling(128, 8256)[2] == "broken"
    # no larger mode is left
    assert spilling(256, 64)[2] == "broken"
    # From pointers that spilled more (16512 B) the same code is progress.
    worse = m.make(native=m.native(loads_2d=0, sends_2d=(), spill_bytes_per_thread=16512))
    after = m.make(native=m.native(grf_count=128, spill_bytes_per_thread=9000, loops=in_the_loop))
    assert set(_outcomes("block_pointers", worse, after)) == {"holds"}


def _spill(m: ModuleType, stage: str, **native: Any) -> str:
    """What becomes of the promise on spill, from a program at 128 registers that has none."""
    (promise,) = (p for p in load_stages()[stage].promises.xpu if "spill_bytes" in p)
    spilling = m.native(grf_count=256, spill_bytes_per_thread=11264, **native)
    before = ProgramEvidence.of([m.make(native=m.native(grf_count=128))])
    return check(promise, before, ProgramEvidence.of([m.make(native=spilling)])).status


@pytest.mark.parametrize("stage", ["fusion", "discovery", "block_pointers", "persistent_kernel"])
def test_spill_outside_the_loop_with_the_dots_is_left_to_the_time(
    evidence_maker: ModuleType, stage: str
) -> None:
    m = evidence_maker
    # The erf of a 256x256 epilogue at 256 registers: 11264 B, none of them in the loop.
    assert _spill(m, stage) == "holds"
    assert _spill(m, stage, loops=(m.native_loop(scratch_messages=1),)) == "broken"
    # A kernel without a loop, or whose loop has no dpas, has nothing that is known to be spared.
    assert _spill(m, stage, loops=(), main_loop=None) == "broken"
    assert _spill(m, stage, loops=(m.native_loop(dpas=0),)) == "broken"


def test_wider_accesses_are_no_reason_to_spill(evidence_maker: ModuleType) -> None:
    assert _spill(evidence_maker, "memory_access") == "broken"


def test_a_softmax_that_gains_no_2d_load_is_refused(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    plain = m.native(loads_2d=0, sends_2d=(), instructions=346, loops=(), main_loop=None)
    rewritten = m.native(loads_2d=0, sends_2d=(), instructions=368, loops=(), main_loop=None)
    outcomes = _outcomes("block_pointers", m.make(native=plain), m.make(native=rewritten))
    assert outcomes[0] == "broken"


def test_autotuning_must_add_configurations(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    assert _outcomes("autotuning", m.make(), m.make())[0] == "broken"


def test_promises_for_cuda_are_read_from_ptx(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def program(**ptx: object) -> ProgramEvidence:
        return ProgramEvidence.of([m.make(native=None, spirv=None, ptx=m.ptx(**ptx))])

    promises = load_stages()["block_pointers"].promises.on("cuda")

    def statuses(after: ProgramEvidence) -> list[str]:
        return [outcome.status for outcome in check_all(promises, program(), after)]

    assert statuses(program()) == ["holds", "holds"]
    assert statuses(program(bytes_per_load=4.0)) == ["broken", "holds"]
    # All loads became bulk copies: there is no mean any more.
    assert statuses(program(bytes_per_load=None, bulk_copies=2)) == ["holds", "holds"]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("{pipelin: cse}", "passes.0.pipelin"),
        ("{backend: xpu}", "neither a pipeline nor switches"),
        ("{switches: {PATH: /}}", "'PATH' is no switch of a backend"),
        ("{pipeline: cse, backend: xpo}", "passes.0.backend"),
    ],
)
def test_a_faulty_pass_of_a_stage_is_named(tmp_path: Path, item: str, told: str) -> None:
    (tmp_path / "s").mkdir()
    front = f"name: s\ndescription: d\npasses:\n  - {item}\n"
    (tmp_path / "s" / "STAGE.md").write_text(f"---\n{front}---\n# S\n")
    with pytest.raises(UsageError, match=re.escape(told)):
        load_stages(tmp_path)
