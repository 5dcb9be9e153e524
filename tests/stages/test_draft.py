"""Drafts: rewrites without a guard replace their kernel, others become guarded variants."""

import pytest

from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import read
from xesmith.stages.draft import Draft, Variant, renamed
from xesmith.stages.rewrites.result import Rewrite

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offs, 2.0 * tl.load(x + offs, mask=offs < N), mask=offs < N)


def run(x):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
GRID = ("cdiv(N, BLOCK)",)
UNMASKED = SOURCE.split("\n\n\n")[1].replace(", mask=offs < N", "")


@pytest.fixture
def draft():
    return Draft(KernelFile.parse(SOURCE, "scale.py"))


def test_an_untouched_draft_is_the_file_itself(draft):
    assert draft.text == SOURCE


def test_the_draft_of_a_file_that_was_optimised_before_is_that_file(draft):
    rewrite = Rewrite(UNMASKED, guard=("N % BLOCK == 0",))
    text = draft.with_rewrite("scale", rewrite, draft.plain_variant("scale", GRID)).text
    again = Draft.of_file(KernelFile.parse(text, "scale.py"), text, None)
    assert again.text == text
    assert list(again.added) == ["scale_xs"]
    edited = text.replace("scale: 1 alternative", "scale: 2 alternatives")
    assert edited != text
    assert Draft.of_file(KernelFile.parse(edited, "scale.py"), edited, None).text == SOURCE


def test_a_rewrite_without_a_guard_replaces_the_kernel(draft):
    made = draft.with_rewrite("scale", Rewrite(UNMASKED), None)
    assert made.text == SOURCE.replace(", mask=offs < N", "")
    assert made.source_of("scale") == UNMASKED


def test_a_guarded_rewrite_keeps_the_original_and_adds_a_variant(draft):
    rewrite = Rewrite(UNMASKED, guard=("N % BLOCK == 0",))
    made = draft.with_rewrite("scale", rewrite, draft.plain_variant("scale", GRID))
    assert made.text.startswith(SOURCE)
    assert "def scale_xs(" in made.text
    (rebinding,) = read(made.text, "scale.py").plan.rebindings
    assert rebinding.alternatives[0].guard == "(N % BLOCK == 0)"
    assert rebinding.original_grid == ["cdiv(N, BLOCK)"]


def test_a_guarded_rewrite_needs_a_grid_that_is_understood(draft):
    assert draft.with_rewrite("scale", Rewrite(UNMASKED, guard=("N > 0",)), None) is None


def test_rewrites_of_a_variant_add_up_their_guards(draft):
    base = draft.plain_variant("scale", GRID)
    first = draft.with_rewrite("scale", Rewrite(UNMASKED, guard=("N % BLOCK == 0",)), base)
    more = Rewrite(UNMASKED, guard=("N < 9", "N % BLOCK == 0"))
    both = first.with_rewrite("scale", more, first.variants["scale"])
    assert both.variants["scale"].guard == ("N % BLOCK == 0", "N < 9")


def test_a_guard_speaks_of_the_meta_parameters_that_the_variant_is_launched_with():
    variant = Variant(
        kernel="scale",
        source=UNMASKED,
        grid=("cdiv(N, BLOCK)",),
        original_grid=("cdiv(N, BLOCK)",),
        guard=("N % BLOCK == 0", "N < BLOCK_LIMIT"),
        metas={"BLOCK": 256},
    )
    assert variant.planned_guard() == "(N % 256 == 0) and (N < BLOCK_LIMIT)"


def test_a_variant_of_an_autotuned_kernel_is_launched_with_one_configuration():
    tuned = SOURCE.replace(
        "@triton.jit",
        '@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2)], key=["N"])\n@triton.jit',
    ).replace(", BLOCK=64)", ")")
    draft = Draft(KernelFile.parse(tuned, "scale.py"))
    configuration = {"BLOCK": 64, "num_warps": 2, "num_ctas": 1, "num_stages": 3}
    variant = draft.plain_variant("scale", GRID, configuration)
    assert "autotune" not in variant.source
    assert (variant.metas, variant.options) == ({"BLOCK": 64}, {"num_warps": 2, "num_stages": 3})
    text = draft.with_variant(variant).text
    assert text.startswith(tuned)
    assert read(text, "scale.py").plan.rebindings[0].alternatives[0].launches[0].metas == {
        "BLOCK": 64
    }


def test_renaming_touches_the_definition_alone():
    source = "@triton.jit\ndef scale(scale_by):  # scale\n    return scale_by\n"
    assert renamed(source, "scale", "scale_xs") == source.replace("def scale(", "def scale_xs(")
