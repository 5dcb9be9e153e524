"""Drafts with a model's answer: added kernels and a launch plan of its own."""

from __future__ import annotations

from typing import Any

import pytest

from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan, PlanError, read
from xesmith.stages.draft import Draft
from xesmith.stages.rewrites.result import Rewrite

SOURCE = """\
import torch
import triton
import triton.language as tl

FACTOR = 2.0


@triton.jit
def scale(x, y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offs, FACTOR * tl.load(x + offs, mask=offs < N), mask=offs < N)


@triton.jit
def shift(x, y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offs, 1.0 + tl.load(x + offs, mask=offs < N), mask=offs < N)


def run(x):
    y, z = torch.empty_like(x), torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    shift[(triton.cdiv(x.numel(), 64),)](y, z, x.numel(), BLOCK=64)
    return z
"""
FUSED = """\
@triton.jit
def scale_shift(x, y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offs, moved(FACTOR * tl.load(x + offs, mask=offs < N)), mask=offs < N)"""
MOVED = """\
@triton.jit
def moved(value):
    return value + STEP"""
STEP = "STEP = tl.constexpr(1.0)"
ANSWER = {"scale_shift": FUSED, "moved": MOVED, "STEP": STEP}


def plan_of(**changes: Any) -> LaunchPlan:
    """`run` as one launch of the fused kernel."""
    launch = {
        "kernel": "scale_shift",
        "grid": ["cdiv(x.numel, BLOCK)"],
        "args": {"y": "out", "N": "x.numel"},
        "metas": {"BLOCK": 128},
        **changes.pop("launch", {}),
    }
    buffer = {"name": "out", "shape": ["x.shape[0]"], "dtype": "x.dtype"}
    alternative = {
        "guard": "x.ndim == 1 and x.is_contiguous",
        "launches": [launch],
        "buffers": [buffer],
        "returns": ["out"],
        **changes,
    }
    rebinding = {"kind": "function", "name": "run", "alternatives": [alternative]}
    return LaunchPlan.from_data({"rebindings": [rebinding]})


@pytest.fixture
def draft() -> Draft:
    return Draft(KernelFile.parse(SOURCE, "two.py"), "xpu")


@pytest.fixture
def fused(draft: Draft) -> Draft:
    return draft.with_kernels(ANSWER, plan_of())


def with_variant(draft: Draft, kernel: str, rewrite: Rewrite) -> Draft:
    base = draft.plain_variant(kernel, ("cdiv(N, BLOCK)",))
    made = draft.with_rewrite(kernel, rewrite, base)
    assert made is not None
    return made


# -- what may change -----------------------------------------------------------------------------


def test_kernels_are_all_that_may_change_by_the_names_in_the_file(draft: Draft) -> None:
    assert [*draft.kernels()] == ["FACTOR", "scale", "shift"]
    assert draft.kernels()["FACTOR"] == "FACTOR = 2.0"
    source = draft.source_of("scale").replace("64", "32")
    made = with_variant(draft, "scale", Rewrite(source, guard=("N > 0",)))
    assert [*made.kernels()] == ["FACTOR", "scale", "shift", "scale_xs"]
    assert made.kernels()["scale"] == draft.source_of("scale")
    assert made.kernels()["scale_xs"].startswith("@triton.jit\ndef scale_xs(")


def test_a_name_of_the_file_is_replaced_in_place(draft: Draft) -> None:
    made = draft.with_kernels({"FACTOR": "FACTOR = 4.0"}, None)
    assert made.text == SOURCE.replace("FACTOR = 2.0", "FACTOR = 4.0")
    assert made.kernels()["FACTOR"] == "FACTOR = 4.0"
    assert made.with_kernels({"FACTOR": "FACTOR = 2.0"}, None).text == SOURCE


def test_other_names_are_added_and_launched_by_the_plan(fused: Draft) -> None:
    assert fused.text.startswith(SOURCE)
    again = read(fused.text, "two.py")
    # The constant comes first: decorators and defaults may read it.
    assert again.added_kernels == (STEP, FUSED, MOVED)
    assert again.plan == fused.plan
    assert [*fused.kernels()][3:] == ["STEP", "scale_shift", "moved"]
    assert fused.source_of("scale_shift") == FUSED
    assert fused.kernel_of("scale_shift") == "scale_shift"
    assert fused.jit("scale_shift").calls == ("moved",)


def test_alternatives_without_a_backend_get_the_drafts(draft: Draft, fused: Draft) -> None:
    assert fused.plan.rebindings[0].alternatives[0].backend == "xpu"
    other = draft.with_kernels(ANSWER, plan_of(backend="cuda"))
    assert other.plan.rebindings[0].alternatives[0].backend == "cuda"


def test_an_added_kernel_is_replaced_under_its_name_while_the_plan_stays(fused: Draft) -> None:
    made = fused.with_kernels({"STEP": "STEP = tl.constexpr(3.0)"}, None)
    assert made.plan == fused.plan
    assert made.text == fused.text.replace(STEP, "STEP = tl.constexpr(3.0)")


def test_a_new_plan_drops_what_nothing_launches_or_calls_any_more(fused: Draft) -> None:
    simple = FUSED.replace("moved(", "(1.0 + ").replace("scale_shift", "simple")
    made = fused.with_kernels({"simple": simple}, plan_of(launch={"kernel": "simple"}))
    assert [*made.kernels()] == ["FACTOR", "scale", "shift", "simple"]
    assert "scale_shift" not in made.text
    assert made.with_kernels({}, LaunchPlan()).text == SOURCE


def test_an_edited_kernel_may_call_an_added_one(draft: Draft) -> None:
    shift = (
        draft.source_of("shift").replace("1.0 + ", "moved(").replace("< N), mask", "< N)), mask")
    )
    made = draft.with_kernels({"shift": shift, "moved": MOVED, "STEP": STEP}, None)
    assert read(made.text, "two.py").added_kernels == (STEP, MOVED)
    # Without the call the helper goes.
    back = made.with_kernels({"shift": draft.source_of("shift")}, LaunchPlan())
    assert back.text == SOURCE


def test_a_models_change_of_a_variant_keeps_how_it_is_launched(draft: Draft) -> None:
    unmasked = draft.source_of("scale").replace(", mask=offs < N", "")
    made = with_variant(draft, "scale", Rewrite(unmasked, guard=("N % BLOCK == 0",)))
    doubled = made.kernels()["scale_xs"].replace("FACTOR", "2.0")
    changed = made.with_kernels({"scale_xs": doubled}, None)
    assert changed.plan == made.plan
    assert changed.kernels()["scale_xs"] == doubled
    assert changed.source_of("scale") == draft.source_of("scale")


def test_variants_stay_where_a_model_changed_other_kernels(draft: Draft) -> None:
    unmasked = draft.source_of("scale").replace(", mask=offs < N", "")
    made = with_variant(draft, "scale", Rewrite(unmasked, guard=("N % BLOCK == 0",)))
    shift = draft.source_of("shift").replace("1.0", "3.0")
    changed = made.with_kernels({"shift": shift}, None)
    assert changed.variants == made.variants
    assert changed.source_of("scale") == unmasked


def test_of_two_forms_the_one_that_stayed_old_is_left_out(draft: Draft) -> None:
    def form(api: str) -> str:
        source = draft.source_of("scale")
        call = f"    unused = tl.{api}(x, [N], [1], [BLOCK])\n"
        return source.replace("    tl.store", f"{call}    tl.store")

    rewrite = Rewrite(form("make_block_ptr"), descriptor_source=form("make_tensor_descriptor"))
    made = with_variant(draft, "scale", rewrite)
    both = made.kernels()
    forms = ("scale_xs", "scale_xs_descriptor")
    new = {name: both[name].replace("FACTOR", "2.0") for name in forms}
    kept = made.with_kernels(new, None).kernels()
    assert kept["scale_xs_descriptor"] == new["scale_xs_descriptor"]
    alone = made.with_kernels({"scale_xs": new["scale_xs"]}, None)
    assert "scale_xs_descriptor" not in alone.text
    # Below 3.8 alone: from there on no Triton has block pointers.
    assert "_xs_VERSION < (3, 8)" in alone.text


# -- what cannot be used --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "plan", "what", "where"),
    [
        ({"fast": FUSED.replace("scale_shift", "fast"), "moved": MOVED, "STEP": STEP}, None,
         "nothing launches or calls 'fast'", "added kernel 'fast'"),
        ({"fast": FUSED}, None, "it must be the definition of 'fast' alone", "source of 'fast'"),
        ({"STEP": f"{STEP}\nX = 1"}, None, "it must be the definition of 'STEP' alone",
         "source of 'STEP'"),
        ({"fast": "def fast(:"}, None, "syntax error: invalid syntax", "source of 'fast', line 1"),
        ({"run": "def run(x):\n    return x"}, plan_of(),
         "'run' is no jit function", "source of 'run'"),
        ({"run": FUSED.replace("scale_shift", "run")}, plan_of(),
         "the name 'run' is taken in the file", "added kernel 'run'"),
        ({"scale": "@triton.jit\ndef scale(x, y, BLOCK: tl.constexpr):\n    pass"}, None,
         "its parameters change, but callers stay as they are", "edit of 'scale'"),
        (ANSWER, plan_of(launch={"grid": ["cdiv(n, BLOCK)"]}),
         "unknown name 'n' in 'cdiv(n, BLOCK)'",
         "launch plan: run: alternatives[0].launches[0].grid"),
        ({}, plan_of(), "no kernel 'scale_shift'",
         "launch plan: run: alternatives[0].launches[0].kernel"),
        ({**ANSWER, "moved": "@triton.jit\ndef moved(value):\n    return value + STEP\n"
          "# >>> xesmith launch plan >>>"}, plan_of(),
         "a source holds a marker of the block", "added kernel"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_at_once(
    draft: Draft, sources: dict[str, str], plan: LaunchPlan | None, what: str, where: str | None
) -> None:
    with pytest.raises(PlanError) as refused:
        draft.with_kernels(sources, plan)
    assert (refused.value.what, refused.value.where) == (what, where)
