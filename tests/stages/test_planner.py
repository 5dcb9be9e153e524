"""The planner: every plan is legal, and no legal one is nearer to what was proposed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from xesmith import stage_order
from xesmith.errors import UsageError
from xesmith.findings.record import KINDS
from xesmith.stage_contract import Stage, load_stages
from xesmith.stages.planner import Plan, order_prompt, plan, read_order, repair

STAGES = load_stages()
NINE = tuple(name for name in STAGES if name != "analysis")
#: of the nine, written down once more: pairs (earlier, later) that follow from the edges
CHAIN = ("algorithmic", "discovery", "dtype_fix", "fusion", "persistent_kernel")
PAIRS = {
    *itertools.combinations((*CHAIN, "gpu_specific", "autotuning"), 2),
    *itertools.combinations(("memory_access", "block_pointers", "gpu_specific", "autotuning"), 2),
}


def graph(**after: str) -> dict[str, Stage]:
    return {
        name: Stage(name=name, description="d", after=tuple(text.split()))
        for name, text in after.items()
    }


def random_graph(rng: random.Random, size: int) -> dict[str, Stage]:
    names = [f"s{number}" for number in range(size)]
    return {
        name: Stage(
            name=name,
            description="d",
            after=tuple(other for other in names[:number] if rng.random() < 0.3),
        )
        for number, name in enumerate(names)
    }


def pairs_inverted(order: tuple[str, ...], proposed: tuple[str, ...]) -> int:
    return sum(
        proposed.index(first) > proposed.index(second)
        for first, second in itertools.combinations(order, 2)
    )


def is_legal(order: tuple[str, ...], stages: dict[str, Stage]) -> bool:
    """By the edges that are written down; only for orders of all stages."""
    return all(
        order.index(other) < order.index(name) for name in order for other in stages[name].after
    )


# -- the order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", NINE)
def test_every_order_of_the_nine_stages_becomes_legal(first: str) -> None:
    """All 9! = 362,880 of them, in nine parts of 8!."""
    others = [name for name in NINE if name != first]
    looked_at = illegal = unchanged = 0
    for order in itertools.permutations(others):
        made = repair((first, *order), STAGES)
        place = {name: position for position, name in enumerate(made)}
        looked_at += 1
        unchanged += made == (first, *order)
        illegal += len(place) != 9 or any(place[a] > place[b] for a, b in PAIRS)
    assert (looked_at, illegal) == (40_320, 0)
    # memory_access and block_pointers each stand anywhere before gpu_specific: 21 legal orders.
    assert unchanged == {"algorithmic": 15, "memory_access": 6}.get(first, 0)


def test_the_pairs_follow_from_the_contracts() -> None:
    edges = {(other, name) for name in NINE for other in STAGES[name].after if other in NINE}
    assert edges <= PAIRS
    legal = [o for o in itertools.permutations(NINE[1:6]) if repair(o, STAGES) == o]
    place = [{name: number for number, name in enumerate(order)} for order in legal]
    assert legal
    assert all(p[a] < p[b] for p in place for a, b in PAIRS if a in p and b in p)


@pytest.mark.parametrize("seed", range(12))
def test_no_legal_order_is_nearer(seed: int) -> None:
    """Against all legal orders of a random graph of seven stages."""
    rng = random.Random(seed)
    stages = random_graph(rng, 7)
    legal = [o for o in itertools.permutations(stages) if is_legal(o, stages)]
    for _ in range(8):
        proposed = tuple(rng.sample(list(stages), 7))
        made = repair(proposed, stages)
        fewest = min(pairs_inverted(order, proposed) for order in legal)
        nearest = [order for order in legal if pairs_inverted(order, proposed) == fewest]
        assert made == min(nearest, key=lambda order: [proposed.index(name) for name in order])


@pytest.mark.parametrize("seed", range(6))
def test_a_legal_proposal_is_kept(seed: int) -> None:
    rng = random.Random(seed)
    stages = random_graph(rng, 60)
    proposed: list[str] = []
    while len(proposed) < 60:
        free = [n for n, s in stages.items() if n not in proposed and set(s.after) <= {*proposed}]
        proposed.append(rng.choice(free))
    assert repair(proposed, stages) == tuple(proposed)


def test_many_stages_in_any_order_become_legal() -> None:
    rng = random.Random(3)
    stages = random_graph(rng, 24)
    for _ in range(20):
        made = repair(rng.sample(list(stages), 24), stages)
        assert sorted(made) == sorted(stages)
        assert is_legal(made, stages)


def test_beyond_the_limit_of_the_search_an_order_is_still_legal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_order, "_MOST_SETS", 3)
    stages = random_graph(random.Random(4), 12)
    made = repair(tuple(reversed(stages)), stages)
    assert sorted(made) == sorted(stages)
    assert is_legal(made, stages)


def test_a_pass_of_swaps_would_not_do() -> None:
    """Moving c before a drags b along, which moves what was right before."""
    stages = graph(a="b", b="c", c="", d="")
    assert repair(("a", "d", "b", "c"), stages) == ("d", "c", "b", "a")
    assert repair(("d", "a", "b", "c"), stages) == ("d", "c", "b", "a")


# -- the plan -------------------------------------------------------------------------------------


def test_stages_without_findings_are_skipped_with_the_reason() -> None:
    made = plan(STAGES, ["load-not-2d-block"])
    assert made.order == (
        "analysis",
        "algorithmic",
        "discovery",
        "block_pointers",
        "persistent_kernel",
        "gpu_specific",
        "autotuning",
    )
    assert made.skipped == {
        "dtype_fix": "no finding of f64-arithmetic, dot-not-dpas",
        "fusion": "no finding of many-kernels",
        "memory_access": "no finding of uncoalesced-access, needless-mask, "
        "i64-address-arithmetic, missing-prefetch, layout-conversion-in-loop",
    }
    assert (made.proposed, made.moved, made.added) == (None, (), ())


def test_only_stages_that_are_asked_for_are_planned() -> None:
    made = plan(STAGES, KINDS, wanted=["gpu_specific", "memory_access"])
    # block_pointers, between the two, is not asked for.
    assert made.order == ("memory_access", "gpu_specific")
    assert made.skipped["block_pointers"] == "not asked for"
    with pytest.raises(UsageError, match="unknown stage 'fuse'"):
        plan(STAGES, KINDS, wanted=["fuse"])


def test_a_proposal_is_followed_where_it_may_be() -> None:
    proposed = ["memory_access", "gpu_specific", "block_pointers", "autotuning"]
    made = plan(STAGES, KINDS, wanted=proposed, proposed=proposed)
    assert made == Plan(
        order=("memory_access", "block_pointers", "gpu_specific", "autotuning"),
        skipped={name: "not asked for" for name in STAGES if name not in proposed},
        proposed=tuple(proposed),
        moved=(("block_pointers", "gpu_specific"),),
    )


def test_a_nonsensical_proposal_is_mended_and_the_plan_says_how() -> None:
    made = plan(
        STAGES,
        ["many-kernels"],
        wanted=["fusion", "dtype_fix", "persistent_kernel", "gpu_specific"],
        proposed=["gpu_specific", "fuse_it", "gpu_specific", "dtype_fix", "fusion", "autotuning"],
    )
    assert made.order == ("fusion", "persistent_kernel", "gpu_specific")
    assert made.dropped == {
        "fuse_it": "unknown",
        "dtype_fix": "skipped: no finding of f64-arithmetic, dot-not-dpas",
        "autotuning": "skipped: not asked for",
    }
    assert made.added == ("persistent_kernel",)
    assert made.moved == (("fusion", "gpu_specific"),)


def test_missing_stages_go_where_edges_and_the_default_order_put_them() -> None:
    order = ("memory_access", "block_pointers", "fusion")
    made = plan(STAGES, KINDS, proposed=order)
    assert made.order == (
        "analysis",
        "algorithmic",
        "discovery",
        "dtype_fix",
        "memory_access",
        "block_pointers",
        "fusion",
        "persistent_kernel",
        "gpu_specific",
        "autotuning",
    )
    assert made.moved == ()


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_holds_every_pending_stage_once_and_breaks_no_edge(seed: int) -> None:
    rng = random.Random(seed)
    stages = random_graph(rng, 9)
    proposed = [rng.choice([*stages, "nonsense"]) for _ in range(rng.randint(0, 15))]
    made = plan(stages, (), proposed=proposed)
    assert sorted(made.order) == sorted(stages)
    assert is_legal(made.order, stages)
    named = tuple(dict.fromkeys(name for name in proposed if name in stages))
    assert tuple(n for n in made.order if n in named) == repair(named, stages)


STAGE = """\
---
name: split_k
description: Splits a long K over several programs. Use it for few tiles and a long K.
after: [block_pointers]
triggers: []
promises:
  any: ["after.program.work_groups > before.program.work_groups"]
---
Split K.
"""


def test_a_stage_added_by_a_folder_is_planned_at_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "split_k"
    folder.mkdir()
    (folder / "STAGE.md").write_text(STAGE)
    stages = load_stages(extra=[tmp_path])
    assert "split_k" not in STAGES
    made = plan(stages, KINDS)
    assert set(made.order) == {*STAGES, "split_k"}
    assert made.order.index("block_pointers") < made.order.index("split_k")
    # Where it is proposed too early, it moves; nothing else does.
    made = plan(stages, KINDS, proposed=["split_k", *STAGES])
    assert tuple(name for name in made.order if name != "split_k") == tuple(STAGES)
    assert made.order.index("split_k") == made.order.index("block_pointers") + 1


# -- asking a model -------------------------------------------------------------------------------


def test_the_request_names_findings_stages_and_edges() -> None:
    pending = ("discovery", "memory_access", "block_pointers", "gpu_specific")
    text = order_prompt(STAGES, pending, {"spill": 2, "load-not-2d-block": 4})
    assert "- load-not-2d-block: 4 (warning: a load of a tile" in text
    assert "- spill: 2 (warning: registers spilled to memory)" in text
    for name in pending:
        assert f"- {name}: {STAGES[name].description}" in text
    assert "must come after: discovery, memory_access, block_pointers" in text
    assert "called for by: load-not-2d-block" in text
    assert "- fusion" not in text
    assert read_order(text, STAGES) == pending  # the example is a legal order


def test_the_request_says_when_nothing_was_found() -> None:
    assert "- nothing" in order_prompt(STAGES, ("discovery",), {})


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["fusion", "dtype_fix"]', ("fusion", "dtype_fix")),
        ('```json\n[\n  "fusion",\n  "dtype_fix"\n]\n```', ("fusion", "dtype_fix")),
        ('Not ["dtype_fix", "fusion"] but ["fusion", "dtype_fix"].', ("fusion", "dtype_fix")),
        ('{"order": ["fusion", "Dtype-Fix", 3]}', ("fusion", "dtype_fix")),
        ("fusion, dtype_fix", ("fusion", "dtype_fix")),
        ("Order: fusion -> dtype_fix -> autotuning", ("fusion", "dtype_fix", "autotuning")),
        ("1. **Fusion**: merge\n2. `dtype_fix` (casts)\n", ("fusion", "dtype_fix")),
        ("Since dtype_fix needs it:\n- fusion\n- dtype_fix", ("fusion", "dtype_fix")),
        ("1) first run fusion\n2) then block pointers", ("fusion", "block_pointers")),
        ("1) Block pointers\n2) Fusion", ("block_pointers", "fusion")),
        ('["fusion", "fuse_more"]', ("fusion", "fuse_more")),
        ("I would begin with fusion. Then dtype_fix.", ("fusion", "dtype_fix")),
        ("no idea", ()),
        ("", ()),
        ("[[[[[[", ()),
        ('["a b", [1], {}]', ()),
    ],
)
def test_an_order_is_read_from_many_forms(reply: str, expected: tuple[str, ...]) -> None:
    assert read_order(reply, STAGES) == expected


def test_an_endless_reply_is_read_to_a_bound() -> None:
    assert len(read_order('["fusion"' + ', "fusion"' * 100_000 + "]", STAGES)) <= 100
    assert len(read_order("[" * 300_000, STAGES)) == 0
    assert len(read_order("fusion, " * 100_000, STAGES)) <= 100
    assert read_order("- " + "x" * 300_000 + '\n["fusion"]', STAGES) == ("fusion",)
