"""The proposer of passes: what a stage lists, for the launches of a situation."""

from __future__ import annotations

from types import ModuleType

import pytest

from xesmith.cascade.examine import Examination
from xesmith.device import Device
from xesmith.kernel_file import KernelFile
from xesmith.pass_plan import NO_PASSES, PassEntry, PassPlan
from xesmith.stage_contract import Stage, StagePass, load_stages
from xesmith.stages.draft import Draft, Variant
from xesmith.stages.proposers.passes import PassesProposer
from xesmith.stages.proposers.record import Proposal, Situation

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 2.0 * tl.load(x + i, mask=i < n), mask=i < n)
"""
MASKS = StagePass(pipeline="xesmith-drop-true-masks{launch},cse")
EXP2 = StagePass(pipeline="xesmith-exp2", rounds=True)
SWITCH = StagePass(switches={"TRITON_INTEL_RAISE_BLOCK_POINTER": "1"}, backend="xpu")
STAGE = Stage(name="memory_access", description="d", passes=(MASKS, EXP2, SWITCH))


@pytest.fixture
def situation(evidence_maker: ModuleType, device: Device) -> Situation:
    """A kernel launched at two shapes, at one of them by two configurations of one grid."""

    def examined(*launches: tuple[int, int]) -> Examination:
        made = [
            evidence_maker.make(
                kernel="scale",
                launch=evidence_maker.launch(
                    kernel="scale",
                    grid=(grid, 1, 1),
                    signature={"x": "*fp32", "n": "i32", "one": "constexpr", "B": "constexpr"},
                    values={"x": evidence_maker.tensor(64), "n": n, "one": 1, "B": 64},
                ),
            )
            for n, grid in launches
        ]
        return Examination(tuple(made), (), None)

    draft = Draft(KernelFile.parse(SOURCE, "scale.py"), "xpu")
    shapes = {"a": examined((64, 1)), "b": examined((640, 10), (640, 5), (640, 5))}
    return Situation(draft, shapes, device)


def proposed(situation: Situation, plan: PassPlan, *items: StagePass) -> list[Proposal]:
    situation = Situation(
        situation.draft.with_passes(plan), situation.examinations, situation.device
    )
    proposer = PassesProposer("xpu")
    steps = [("scale", item) for item in items]
    return [proposal for _, proposal in proposer.proposals(STAGE, steps, situation)]


def test_a_stage_offers_what_it_lists_for_each_kernel(situation: Situation):
    assert PassesProposer("xpu").steps(STAGE, situation) == [
        ("scale", MASKS), ("scale", EXP2), ("scale", SWITCH)
    ]  # fmt: skip
    assert PassesProposer("cuda").steps(STAGE, situation) == [("scale", MASKS), ("scale", EXP2)]
    assert not PassesProposer("xpu").knows(Stage(name="other", description="d"))
    assert not PassesProposer("cuda").knows(Stage(name="other", description="d", passes=(SWITCH,)))


def test_what_takes_a_launch_gets_an_entry_for_each_set_of_values(situation: Situation):
    (proposal,) = proposed(situation, NO_PASSES, MASKS)
    assert proposal.draft.text == SOURCE
    assert proposal.note == f"scale: {MASKS.pipeline}"
    assert proposal.draft.passes == PassPlan(
        tuple(
            PassEntry(
                "scale", MASKS.pipeline, {"n": n}, (grid, 1, 1), {}, "xpu", reason="memory_access"
            )
            for n, grid in ((64, 1), (640, 10), (640, 5))
        )
    )


def test_what_takes_none_is_for_all_launches(situation: Situation):
    exp2, switch = (p.draft.passes for p in proposed(situation, NO_PASSES, EXP2, SWITCH))
    assert [entry.is_for_all_launches for entry in exp2.entries] == [True]
    assert exp2.rounds
    assert not switch.rounds
    assert switch.entries[0].switches == SWITCH.switches


def test_one_goes_on_top_of_the_other(situation: Situation):
    (masks,) = proposed(situation, NO_PASSES, MASKS)
    (both,) = proposed(situation, masks.draft.passes, EXP2)
    pipelines = {entry.pipeline for entry in both.draft.passes.entries}
    assert pipelines == {f"{MASKS.pipeline},{EXP2.pipeline}"}
    assert [e.grid for e in both.draft.passes.entries] == [
        e.grid for e in masks.draft.passes.entries
    ]
    (exp2,) = proposed(situation, NO_PASSES, EXP2)
    (other,) = proposed(situation, exp2.draft.passes, MASKS)
    *special, general = other.draft.passes.entries
    assert {entry.pipeline for entry in special} == {f"{EXP2.pipeline},{MASKS.pipeline}"}
    assert all(entry.rounds for entry in special)
    # Launches with other values keep what was there.
    assert (general.pipeline, general.is_for_all_launches) == (EXP2.pipeline, True)


def test_a_variant_drops_the_passes_of_its_kernel_and_an_edit_keeps_them(situation: Situation):
    plan = PassPlan((PassEntry("scale", "cse"), PassEntry("other", "cse")))
    draft = situation.draft.with_passes(plan)
    edited = draft.with_edit("scale", SOURCE.split("\n\n\n")[1].replace("2.0", "4.0"))
    assert edited.passes == plan
    made = draft.with_variant(Variant("scale", draft.source_of("scale"), (1,), (1,)))
    assert [entry.kernel for entry in made.passes.entries] == ["other"]


def test_what_the_stages_list_runs():
    """Each pipeline is one that the plugin knows, and each entry one that a plan may hold."""
    from xesmith.passes.pipeline import run_pipeline

    module = '"builtin.module"() ({^bb0:}) : () -> ()'
    listed = [item for stage in load_stages().values() for item in stage.passes]
    assert {item.rounds for item in listed} == {True, False}
    for item in listed:
        entry = item.entry("k", "xpu")
        if entry.pipeline:
            assert "module" in run_pipeline(module, entry.resolved({})).text
