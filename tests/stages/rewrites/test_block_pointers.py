"""Block pointers: equal results under the guards, and what must be refused or guarded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xesmith.evidence import Evidence, read
from xesmith.ghost.launch import Launch, Program
from xesmith.launch_plan import parse
from xesmith.stages.rewrites import Refusal, Rewrite, block_pointers, memory_access
from xesmith.stages.rewrites.result import guard_holds, guards_hold

CASES = {
    "tutorial gemm": lambda k: k.gemm(96, 64, 96),
    "masked gemm": lambda k: k.gemm_masked(64, 96, 64),
    "masked gemm, tails everywhere": lambda k: k.gemm_masked(72, 88, 104),
    "masked gemm, padded rows": lambda k: k.gemm_masked(64, 64, 64, padding=8),
    "masked gemm, B stored transposed": lambda k: k.gemm_masked(64, 72, 96, transposed=True),
    "B transposed, unmasked": lambda k: k.gemm_bt(64, 96, 96),
    "batched gemm": lambda k: k.batched(2, 64, 64, 96),
    "batched gemm, tails": lambda k: k.batched(3, 40, 72, 80),
    "gemm, bias, GELU": lambda k: k.gemm_bias_gelu(64, 96, 64),
    "attention": lambda k: k.attention(1, 2, 96, 32),
    "attention, tail": lambda k: k.attention(2, 1, 80, 32),
    "causal attention": lambda k: k.attention(1, 2, 96, 64, causal=True),
}


def rewritten(source: str, facts: Any) -> Rewrite:
    result = block_pointers(source, facts)
    assert isinstance(result, Rewrite), result
    return result


def refused(source: str, facts: Any) -> Refusal:
    result = block_pointers(source, facts)
    assert isinstance(result, Refusal), result
    return result


@pytest.mark.intel
@pytest.mark.parametrize("case", CASES)
def test_same_results(kernels: Any, interpreter: Any, case: str) -> None:
    launch = CASES[case](kernels)
    original = kernels.source(launch.kernel)
    result = rewritten(original, kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    assert "make_block_ptr" in result.kernel_source
    (difference,) = interpreter.differences(launch, original, result.kernel_source)
    assert difference == 0.0


@pytest.mark.intel
def test_the_comparison_sees_a_wrong_step(kernels: Any, interpreter: Any) -> None:
    """A block pointer that stays where it is reads the first tile of K again and again."""
    launch = kernels.gemm_masked(64, 64, 72)
    original = kernels.source("gemm_masked")
    result = rewritten(original, kernels.facts(launch)).kernel_source
    broken, count = re.subn(r"(tl\.advance\(\w+, )\(0, \w+\)", r"\1(0, 0)", result)
    assert count == 1
    (difference,) = interpreter.differences(launch, original, broken)
    assert isinstance(difference, float)
    assert difference > 0.01


@pytest.mark.parametrize("case", CASES)
def test_guards_belong_to_the_launch_plan(kernels: Any, case: str) -> None:
    launch = CASES[case](kernels)
    result = rewritten(kernels.source(launch.kernel), kernels.facts(launch))
    for guard in result.guard:
        names = parse(guard, "guard").names
        assert names <= launch.values.keys() | launch.constexprs.keys()


COMPILED = {
    "tutorial": lambda k: k.gemm(256, 256, 256, block=(64, 64, 32)),
    "masked": lambda k: k.gemm_masked(256, 256, 256, block=(64, 64, 32)),
    "column-major": lambda k: k.gemm_masked(256, 256, 256, block=(64, 64, 32), transposed=True),
    "checked": lambda k: k.gemm_masked(272, 272, 272, block=(64, 64, 32)),
    "recomputed": lambda k: k.gemm_bt(256, 256, 256, block=(64, 64, 32)),
    "while": lambda k: k.batched(2, 256, 256, 256, block=(64, 64, 32)),
    "bias": lambda k: k.gemm_bias_gelu(256, 256, 256, block=(64, 64, 32)),
    "attention": lambda k: k.attention(1, 2, 256, 64, block=(64, 32)),
}


def lowered(kernels: Any, lowerer: Any, source: str, launch: Launch) -> Evidence:
    run = lowerer.run(Program(kernels.script(source, launch), "kernel.py", entry="script"))
    assert run.failure is None
    assert run.lowerings[0].failure is None
    return read(run.lowerings[0])


@pytest.mark.intel
@pytest.mark.parametrize("case", COMPILED)
def test_the_compiler_makes_2d_blocks(kernels: Any, lowerer: Any, case: str) -> None:
    """Every tile is loaded and stored by native 2D messages, none through shared memory."""
    launch = replace(COMPILED[case](kernels), options={"num_warps": 8, "grf_mode": "256"})
    result = rewritten(kernels.source(launch.kernel), kernels.facts(launch))
    evidence = lowered(kernels, lowerer, result.kernel_source, launch)
    assert evidence.native is not None
    assert evidence.ttgir is not None
    assert evidence.native.loads_2d > 0
    assert evidence.native.stores_2d > 0
    assert evidence.native.dpas > 0
    assert evidence.ttgir.shared_bytes == 0


@pytest.mark.intel
def test_pointers_went_through_shared_memory(kernels: Any, lowerer: Any) -> None:
    """The other side of the test above: what the original kernel gives."""
    launch = replace(COMPILED["masked"](kernels), options={"num_warps": 8, "grf_mode": "256"})
    evidence = lowered(kernels, lowerer, kernels.source("gemm_masked"), launch)
    assert evidence.native is not None
    assert evidence.ttgir is not None
    assert evidence.native.loads_2d == 0
    assert evidence.ttgir.shared_bytes


def test_what_is_checked_and_what_is_guarded(kernels: Any) -> None:
    """K = 104 leaves a tail of BK = 32 in every captured launch, M and N do not."""
    launch = kernels.gemm_masked(64, 64, 104)
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert "M % BM == 0" in result.guard
    assert "N % BN == 0" in result.guard
    assert "K % BK == 0" not in result.guard
    assert result.kernel_source.count("boundary_check=(1,)") == 1  # A, along K
    assert result.kernel_source.count("boundary_check=(0,)") == 1  # B, along K
    assert "tl.store(c_block_ptr, acc.to(C.dtype.element_ty))" in result.kernel_source


def test_one_launch_of_several_with_a_tail_is_enough_for_a_check(kernels: Any) -> None:
    facts = kernels.facts(kernels.gemm_masked(64, 64, 64), kernels.gemm_masked(80, 64, 64))
    result = rewritten(kernels.source("gemm_masked"), facts)
    assert "M % BM == 0" not in result.guard
    assert "boundary_check=(0,)" in result.kernel_source


def test_guards_keep_other_layouts_on_the_original_path(kernels: Any) -> None:
    launch = kernels.gemm_masked(64, 64, 64)
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    others = [
        kernels.gemm_masked(64, 64, 64, transposed=True),  # B's columns are contiguous
        kernels.gemm_masked(64, 64, 64, padding=4),  # pitch 136 B
        kernels.gemm_masked(64, 64, 64, alignment=16),  # base of A not aligned to 64 B
        kernels.gemm_masked(80, 64, 64),  # rows that 32 does not divide
    ]
    assert not any(guards_hold(result.guard, other) for other in others)


def test_odd_pitch_is_refused_per_access(kernels: Any) -> None:
    """N = 4095: pitch 8190 B is no multiple of 16 B for B and C; A alone is rewritten."""
    launch = kernels.gemm_masked(4096, 4095, 4096, block=(128, 128, 32))
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert result.kernel_source.count("make_block_ptr") == 1
    assert "tl.store(C + rm[:, None] * scm" in result.kernel_source
    stays = [note for note in result.notes if "stays" in note]
    assert len(stays) == 2
    assert all("4095 elements of 2 B is no multiple of 16 B" in note for note in stays)


def test_wraps_that_do_wrap_are_refused(kernels: Any) -> None:
    """M = 4000 is not divided by 128: `% M` repeats rows, a block would read zeros."""
    launch = kernels.gemm(4000, 4096, 4096, block=(128, 128, 32))
    result = rewritten(kernels.source("gemm"), kernels.facts(launch))
    note = next(note for note in result.notes if "wraps by" in note)
    assert "M % BLOCK_M == 0, but M = 4000" in note
    assert result.kernel_source.count("make_block_ptr") == 2  # B and C


def test_a_row_wise_kernel_is_refused(kernels: Any) -> None:
    facts = kernels.facts(kernels.softmax(8, 1000), first_line=11)
    refusal = refused(kernels.source("softmax"), facts)
    assert "no 2D tile" in refusal.reason
    assert refusal.line == 16  # the load, six lines into the kernel


def test_no_launch_is_refused(kernels: Any) -> None:
    assert "no captured launch" in refused(kernels.source("gemm"), kernels.facts()).reason


def test_neither_dimension_contiguous(kernels: Any) -> None:
    launch = kernels.gemm_masked(64, 64, 64)
    launch = replace(launch, values={**launch.values, "sak": 2, "sam": 128})
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    note = next(note for note in result.notes if "no dimension has stride 1" in note)
    assert "`sam` = 128 and `sak` = 2" in note


KERNEL = """\
@triton.jit
def kernel(x_ptr, y_ptr, i_ptr, M, N, sx, sy, BM: tl.constexpr, BN: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    {body}
"""


def copy_launch(kernels: Any) -> Launch:
    values = {"x_ptr": kernels.tensor(64, 96), "y_ptr": kernels.tensor(64, 96),
              "i_ptr": kernels.tensor(64), "M": 64, "N": 96, "sx": 96, "sy": 96}  # fmt: skip
    return kernels.launch("kernel", values, {"BM": 32, "BN": 32}, 2, 3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("tl.load(x_ptr + rm[:, None] * sx + rn[None, :], mask=mask, other=-1.0)", None),
        ("tl.load(x_ptr + rm[:, None] * sx + rn[None, :], mask=rm[:, None] <= M)", "`rm[:, None]"),
        ("tl.load(x_ptr + rn[None, :] + 0 * rm[:, None])", "depend on dimension 0"),
        ("tl.load(x_ptr + rm[:, None] * sx + tl.load(i_ptr + rn)[None, :])", "not understood"),
        ("tl.load(x_ptr + (rm[:, None] - 1) * sx + rn[None, :])", "before element 0"),
        ("tl.load(x_ptr + rm[:, None, None] * sx + rn[None, None, :])", "3 dimensions"),
        ("tl.store(y_ptr + rm[:, None] * sy + rn[None, :], rm[:, None])", "broadcast"),
        ("tl.load(x_ptr + rm[:, None] * sx + rn[None, :], volatile=True)", "volatile"),
        ("tl.load(x_ptr + (rm * rm)[:, None] * sx + rn[None, :])", "not understood"),
    ],
)
def test_what_is_not_a_tile(kernels: Any, body: str, reason: str | None) -> None:
    result = block_pointers(KERNEL.format(body=body), kernels.facts(copy_launch(kernels)))
    if reason is None:
        assert isinstance(result, Rewrite)  # every element is inside, so `other` never shows
        return
    assert isinstance(result, Refusal)
    assert reason in result.reason
    assert result.line == 8


def test_a_grid_that_is_not_known_leaves_the_checks_of_what_it_places(kernels: Any) -> None:
    facts = kernels.facts(copy_launch(kernels))
    source = KERNEL.format(body="tl.load(x_ptr + rm[:, None] * sx + rn[None, :], mask=mask)")
    assert "boundary_check" not in rewritten(source, facts).kernel_source
    unknown = replace(facts, grid_is_known=False)
    assert "boundary_check=(0, 1)" in rewritten(source, unknown).kernel_source
    # Whether a tile begins before the tensor cannot be told by the programs that were captured.
    before = source.replace("rm[:, None] * sx", "(rm[:, None] - 1) * sx + sx")
    before = before.replace("mask=mask", "mask=rm[:, None] - 1 < M")
    assert isinstance(block_pointers(before, unknown), Refusal)


def test_other_than_zero_needs_every_element_inside(kernels: Any) -> None:
    body = "tl.load(x_ptr + rm[:, None] * sx + rn[None, :], mask=mask, other=-1.0)"
    launch = copy_launch(kernels)
    launch = replace(launch, values={**launch.values, "M": 60})
    refusal = refused(KERNEL.format(body=body), kernels.facts(launch))
    assert "masked elements become -1.0" in refusal.reason


LOOPED = """\
@triton.jit
def kernel(x_ptr, y_ptr, i_ptr, M, N, sx, sy, BM: tl.constexpr, BN: tl.constexpr):
    pid_m = tl.program_id(0)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    x_ptrs = x_ptr + rm[:, None] * sx + rn[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for n in range(0, tl.cdiv(N, BN)):
        total += tl.load(x_ptrs)
        {advance}
    tl.store(y_ptr + rm[:, None] * sy + rn[None, :], total)
"""


@pytest.mark.intel
@pytest.mark.parametrize(
    ("advance", "blocked"),
    [
        ("x_ptrs += BN", True),
        ("x_ptrs = x_ptrs + BN", True),
        ("x_ptrs += BN * (n + 1) * 0", False),  # the step is not the same each time
        ("x_ptrs += (tl.load(i_ptr) > 9.0).to(tl.int32)", False),
        ("x_ptrs = x_ptrs + BN if n < 1 else x_ptrs", False),
    ],
)
def test_advances_of_a_loop(kernels: Any, interpreter: Any, advance: str, blocked: bool) -> None:
    source = LOOPED.format(advance=advance)
    launch = replace(copy_launch(kernels), grid=(2, 1, 1))
    result = rewritten(source, kernels.facts(launch))  # the store always is a tile
    assert ("tl.load(x_ptrs)" not in result.kernel_source) == blocked
    assert ("tl.advance(x_block_ptr, (0, BN))" in result.kernel_source) == blocked
    (difference,) = interpreter.differences(launch, source, result.kernel_source)
    assert difference == 0.0


@pytest.mark.intel
def test_bounds_of_dropped_masks_come_from_the_original(kernels: Any, interpreter: Any) -> None:
    """After memory_access has dropped the masks, the surface is still M x K, not one tile."""
    launch = kernels.gemm_masked(64, 64, 64)
    original = kernels.source("gemm_masked")
    bare = memory_access(original, kernels.facts(launch))
    assert isinstance(bare, Rewrite)
    result = rewritten(bare.kernel_source, kernels.facts(launch, original_source=original))
    assert "shape=(M, K)" in result.kernel_source
    blind = rewritten(bare.kernel_source, kernels.facts(launch))
    assert "shape=(pid_m * BM + BM, K)" in blind.kernel_source
    assert interpreter.differences(launch, original, result.kernel_source, blind.kernel_source) == [
        0.0,
        0.0,
    ]


def test_dead_arithmetic_goes_and_the_rest_stays(kernels: Any) -> None:
    launch = kernels.gemm_bias_gelu(64, 96, 64)
    result = rewritten(kernels.source("gemm_bias_gelu"), kernels.facts(launch))
    assert "offs_k" not in result.kernel_source
    assert "offs_m" not in result.kernel_source
    assert "bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0)" in result.kernel_source


def test_a_reused_parameter_name(kernels: Any) -> None:
    """`A = A + ...` hides the argument: the block pointer is made before it, and it goes."""
    launch = kernels.gemm_masked(64, 64, 64)
    text = rewritten(kernels.source("gemm_masked"), kernels.facts(launch)).kernel_source
    assert "A = A +" not in text
    assert "A += " not in text


def test_descriptors_have_their_contiguous_dimension_last(kernels: Any) -> None:
    launch = kernels.gemm_bt(64, 96, 96)
    result = rewritten(kernels.source("gemm_bt"), kernels.facts(launch))
    text = result.descriptor_source
    assert text is not None
    assert "block_shape=[BLOCK_N, BLOCK_K]" in text
    assert "w = w_desc.load([pid_n * BLOCK_N, k]).T" in text
    assert "tl.load" not in text


def test_element_types_are_guarded(kernels: Any) -> None:
    """The pitch was checked in bytes of fp16."""
    launch = kernels.gemm_masked(64, 64, 64)
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert "A.dtype == 'float16'" in result.guard
    tensor = replace(launch.values["A"], dtype="float8_e5m2")
    other = replace(launch, values={**launch.values, "A": tensor})
    assert not guard_holds("A.dtype == 'float16'", other)


def test_the_text_is_python(kernels: Any, tmp_path: Path) -> None:
    for case in CASES.values():
        launch = case(kernels)
        result = rewritten(kernels.source(launch.kernel), kernels.facts(launch))
        for text in (result.kernel_source, result.descriptor_source):
            compile(text or "", "kernel", "exec")


def test_an_argument_that_is_none_at_one_shape(kernels: Any) -> None:
    """A guard over it does not hold there; the other launch keeps its rewrite."""
    launch = kernels.gemm_masked(64, 64, 64)
    values = {**launch.values, "C": None}
    without = replace(launch, values=values, signature={**launch.signature, "C": "constexpr"})
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(without, launch))
    assert guards_hold(result.guard, launch)
    assert not guards_hold(result.guard, without)


def test_rows_that_overlap_take_the_original_path(kernels: Any) -> None:
    """A sliding window: rows 64 wide every 32 elements. A surface's pitch is at least its width."""
    launch = kernels.gemm_masked(64, 64, 64)
    result = rewritten(kernels.source("gemm_masked"), kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    windows = kernels.tensor(64, 64, strides=(32, 1))
    overlapping = replace(launch, values={**launch.values, "A": windows, "sam": 32})
    assert not guards_hold(result.guard, overlapping)
    others = rewritten(kernels.source("gemm_masked"), kernels.facts(overlapping))
    assert "base=B" in others.kernel_source
    assert "base=A" not in others.kernel_source


PADDED = """\
@triton.jit
def kernel(x_ptr, y_ptr, M, N, pad, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM - pad + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    offs = rm[:, None] * N + rn[None, :]
    x = tl.load(x_ptr + offs, mask=rm[:, None] < M, other=0.0)
    tl.store(y_ptr + offs, x, mask=rm[:, None] < M)
"""


def test_a_start_that_an_argument_may_move_before_zero_is_pinned(kernels: Any) -> None:
    """With pad = 1 a pointer reads the row before x_ptr, a block pointer reads 0."""
    values = {"x_ptr": kernels.tensor(64, 64), "y_ptr": kernels.tensor(64, 64), "M": 64, "N": 64}
    launch = kernels.launch("kernel", {**values, "pad": 0}, {"BM": 32, "BN": 64}, 2)
    result = rewritten(PADDED, kernels.facts(launch))
    assert guards_hold(result.guard, launch)
    moved = replace(launch, values={**values, "pad": 1})
    assert not guards_hold(result.guard, moved)
