"""Drafts with a model's answer: added kernels and a launch plan of its own."""

from __future__ import annotations

from dataclasses import replace
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


# -- rules on top --------------------------------------------------------------------------------

UNMASKED = FUSED.replace(", mask=offs < N", "")


def alternatives(draft: Draft) -> list[Any]:
    (rebinding,) = read(draft.text, "two.py").plan.rebindings
    return rebinding.alternatives


def test_a_variant_of_an_added_kernel_is_launched_before_it(fused: Draft) -> None:
    rewrite = Rewrite(UNMASKED, guard=("N % BLOCK == 0 and aligned(y, 64)", "x.stride[0] == 1"))
    made = with_variant(fused, "scale_shift", rewrite)
    first, second = alternatives(made)
    assert second == fused.plan.rebindings[0].alternatives[0]
    assert first.guard == (
        "(x.ndim == 1) and (x.is_contiguous) and (x.numel % 128 == 0) and (x.stride[0] == 1)"
    )
    assert (first.buffers, first.returns, first.backend) == (second.buffers, ["out"], "xpu")
    (launch,) = first.launches
    assert launch.model_dump() == {**second.launches[0].model_dump(), "kernel": "scale_shift_xs"}
    assert [*made.kernels()][3:] == ["STEP", "scale_shift", "moved", "scale_shift_xs"]
    assert made.kernel_of("scale_shift_xs") == "scale_shift"
    assert made.launched_name("scale_shift") == "scale_shift_xs"
    assert made.source_of("scale_shift") == UNMASKED
    assert made.given_text == fused.text


def test_a_rewrite_without_a_guard_replaces_an_added_kernel(fused: Draft) -> None:
    source = FUSED.replace("FACTOR *", "2.0000 *")
    made = fused.with_rewrite("scale_shift", Rewrite(source), None)
    assert made is not None
    assert made.text == fused.text.replace(FUSED, source)
    assert made.source_of("scale_shift") == source
    # Bounds of tiles are still read from the kernel as it was given.
    assert made.jit("scale_shift").source == FUSED
    again = made.with_kernels({"FACTOR": "FACTOR = 4.0"}, None)
    assert again.source_of("scale_shift") == source
    assert again.jit("scale_shift").source == FUSED
    other = made.with_kernels({"scale_shift": FUSED.replace("FACTOR", "3.0")}, None)
    assert other.source_of("scale_shift") == FUSED.replace("FACTOR", "3.0")


def test_other_tiles_without_a_guard_leave_nothing_of_the_old_launch(fused: Draft) -> None:
    base = fused.plain_variant("scale_shift", ("cdiv(N, BLOCK)",))
    made = fused.with_variant(replace(base, metas={"BLOCK": 256}, options={"num_warps": 8}))
    (only,) = alternatives(made)
    (launch,) = only.launches
    assert (launch.metas, launch.options.num_warps) == ({"BLOCK": 256}, 8)
    assert launch.grid == ["cdiv(x.numel, BLOCK)"]
    assert [*made.kernels()][3:] == ["STEP", "moved", "scale_shift_xs"]


def test_without_a_grid_of_its_own_a_variant_has_the_plans(fused: Draft) -> None:
    base = fused.plain_variant("scale_shift", None)
    (only,) = alternatives(fused.with_variant(replace(base, metas={"BLOCK": 256})))
    assert only.launches[0].grid == ["cdiv(x.numel, BLOCK)"]


def test_what_the_caller_passed_for_replaced_values_is_dropped(draft: Draft) -> None:
    launch = {
        "kernel": "scale_shift",
        "grid": ["cdiv(N, BLOCK)"],
        "metas": {"BLOCK": "min(BLOCK, 32)"},
    }
    rebinding = {"name": "scale", "alternatives": [{"launches": [launch]}]}
    plan = LaunchPlan.from_data({"rebindings": [rebinding]})
    made = draft.with_kernels(ANSWER, plan)
    base = made.plain_variant("scale_shift", ("cdiv(N, BLOCK)",))
    (only,) = alternatives(made.with_variant(replace(base, metas={"BLOCK": 64})))
    assert only.dropped == ["BLOCK"]


def test_several_variants_of_one_alternative_are_launched_together(draft: Draft) -> None:
    """Both kernels of the file, launched by the plan: wrappers would not reach the variants."""
    launches = [
        {"kernel": "scale", "grid": ["cdiv(x.numel, 64)"], "args": {"y": "mid", "N": "x.numel"},
         "metas": {"BLOCK": 64}},
        {"kernel": "shift", "grid": ["cdiv(x.numel, 32)"],
         "args": {"x": "mid", "y": "out", "N": "x.numel"}, "metas": {"BLOCK": 32}},
    ]  # fmt: skip
    buffers = [{"name": n, "shape": ["x.numel"], "dtype": "x.dtype"} for n in ("mid", "out")]
    alternative = {"launches": launches, "buffers": buffers, "returns": ["out"]}
    rebinding = {"kind": "function", "name": "run", "alternatives": [alternative]}
    planned = draft.with_kernels({}, LaunchPlan.from_data({"rebindings": [rebinding]}))
    assert planned.is_planned("scale")
    for kernel in ("scale", "shift"):
        source = planned.source_of(kernel).replace(", mask=offs < N", "")
        rewrite = Rewrite(source, guard=("N % BLOCK == 0", "aligned(x, 64)"))
        planned = with_variant(planned, kernel, rewrite)
    first, second = alternatives(planned)
    assert [launch.kernel for launch in first.launches] == ["scale_xs", "shift_xs"]
    assert [launch.kernel for launch in second.launches] == ["scale", "shift"]
    # Of the buffer between them the alignment is known.
    assert first.guard == "(x.numel % 64 == 0) and (aligned(x, 64)) and (x.numel % 32 == 0)"


def test_alternatives_for_another_backend_stay_as_they_are(draft: Draft) -> None:
    given = draft.with_kernels(ANSWER, plan_of(backend="cuda"))
    made = with_variant(given, "scale_shift", Rewrite(UNMASKED, guard=("N % BLOCK == 0",)))
    assert made.text == given.text


def test_a_guard_that_cannot_be_said_there_is_an_error(fused: Draft) -> None:
    made = with_variant(fused, "scale_shift", Rewrite(UNMASKED, guard=("aligned(y, 4096)",)))
    with pytest.raises(PlanError, match="asks of the buffer 'out'"):
        _ = made.text


def test_a_variant_of_a_tuned_added_kernel_has_one_configuration(draft: Draft) -> None:
    tuning = '@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2)], key=["N"])\n'
    answer = {**ANSWER, "scale_shift": tuning + FUSED}
    given = draft.with_kernels(answer, plan_of(launch={"metas": {}}))
    configuration = {"BLOCK": 64, "num_warps": 2, "num_ctas": 1, "num_stages": 3}
    base = given.plain_variant("scale_shift", ("cdiv(N, BLOCK)",), configuration)
    rewrite = Rewrite(base.source.replace(", mask=offs < N", ""), guard=("N % BLOCK == 0",))
    made = given.with_rewrite("scale_shift", rewrite, base)
    assert made is not None
    first, second = alternatives(made)
    assert "autotune" not in made.kernels()["scale_shift_xs"]
    assert (first.launches[0].metas, first.launches[0].options.num_stages) == ({"BLOCK": 64}, 3)
    assert "(x.numel % 64 == 0)" in first.guard
    assert second == given.plan.rebindings[0].alternatives[0]


def test_both_forms_of_an_added_kernel_go_into_its_variant(draft: Draft) -> None:
    """As of a draft of the rules that a model has changed."""
    source = draft.source_of("scale")
    rewrite = Rewrite(source, guard=("N > 1",), descriptor_source=source.replace("offs", "at"))
    made = with_variant(draft, "scale", rewrite)
    changed = {
        name: made.kernels()[name].replace("FACTOR", "3.0")
        for name in ("scale_xs", "scale_xs_descriptor")
    }
    given = made.with_kernels(changed, None)
    assert given.kernel_of("scale_xs_descriptor") == "scale_xs"
    assert given.launched_forms("scale_xs") == ["scale_xs", "scale_xs_descriptor"]
    base = given.plain_variant("scale_xs", ("cdiv(N, BLOCK)",))
    again = given.with_variant(replace(base, guard=("N > 2",)))
    first, second = alternatives(again)
    assert (second.guard, first.guard) == ("(N > 1)", "(N > 1) and (N > 2)")
    assert first.launches[0].kernel.model_dump() == {
        "block_pointer": "scale_xs2",
        "descriptor": "scale_xs2_descriptor",
    }
    assert again.kernels()["scale_xs2_descriptor"] == changed["scale_xs_descriptor"].replace(
        "scale_xs_descriptor", "scale_xs2_descriptor"
    )
    # The wrapper's grid is compared as before.
    assert again.plan.rebindings[0].original_grid == ["cdiv(N, BLOCK)"]


# -- what cannot be used --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "plan", "what", "where"),
    [
        ({"fast": FUSED.replace("scale_shift", "fast"), "moved": MOVED, "STEP": STEP}, None,
         "nothing launches or calls 'fast'", "added kernel 'fast'"),
        ({"fast": MOVED.replace("moved", "fast"), **ANSWER}, plan_of(),
         "nothing launches or calls 'fast'", "added kernel 'fast'"),
        ({"fast": FUSED}, None, "it must be the definition of 'fast' alone", "source of 'fast'"),
        ({"STEP": f"{STEP}\nX = 1"}, None, "it must be the definition of 'STEP' alone",
         "source of 'STEP'"),
        ({"fast": "def fast(:"}, None, "syntax error: invalid syntax", "source of 'fast', line 1"),
        ({"run": "def run(x):\n    return x"}, plan_of(),
         "'run' is no jit function", "source of 'run'"),
        ({"scale": "scale = 2.0"}, None, "'scale' is a jit function of the file",
         "source of 'scale'"),
        ({"FACTOR": MOVED.replace("moved", "FACTOR")}, None, "'FACTOR' is a constant of the file",
         "source of 'FACTOR'"),
        ({**ANSWER, "moved": MOVED.replace("@triton.jit", "@torch.no_grad()")}, plan_of(),
         "'moved' is no jit function", "source of 'moved'"),
        ({**ANSWER, "moved": f"@torch.no_grad()\n{MOVED}"}, plan_of(),
         "'moved' must carry Triton's jit, autotune and heuristics decorators alone",
         "added kernel 3"),
        ({**ANSWER, "STEP": "STEP = open('x')"}, plan_of(), "'STEP' is no constant: open('x')",
         "added kernel 1"),
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
