"""TTIR of real kernels: values by arithmetic on the launches of kernels.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xesmith.evidence import Evidence
from xesmith.evidence.record import Ttir

pytestmark = [pytest.mark.intel, pytest.mark.mlir]


@pytest.fixture
def ttir_of(evidence_of: Callable[[str], Evidence]) -> Callable[[str], Ttir]:
    def ttir(case: str) -> Ttir:
        found = evidence_of(case).ttir
        assert found is not None, evidence_of(case).not_read
        return found

    return ttir


def test_block_pointer_gemm(
    ttir_of: Callable[[str], Ttir], line_of: Callable[[str, str], int]
) -> None:
    ir = ttir_of("block 256x256x32 w32 g256")
    (dot,) = ir.dots
    assert (dot.m, dot.n, dot.k) == (256, 256, 32)
    assert (dot.a_type, dot.b_type, dot.acc_type) == ("f16", "f16", "f32")
    assert dot.site.line == line_of("gemm_block", "tl.dot")
    (loop,) = ir.loops
    assert loop.trip_count == 4096 // 32
    assert loop.trip_expression == "cdiv(K, 32)"
    assert loop.site.line == line_of("gemm_block", "for k in")
    assert dot.loop == loop.index
    # 256 programs make the whole product: 2 * 4096^3 / 256.
    assert ir.flop_per_program == 2 * 4096**3 / 256
    assert ir.flop_expression == "cdiv(K, 32) * 4194304"
    assert ir.bytes_loaded_per_program == 128 * (256 * 32 + 32 * 256) * 2
    assert ir.bytes_stored_per_program == 256 * 256 * 2


def test_accesses_go_back_to_arguments_and_surfaces(ttir_of: Callable[[str], Ttir]) -> None:
    load_a, load_b, store = ttir_of("block 256x256x32 w32 g256").accesses
    assert [a.argument for a in (load_a, load_b, store)] == ["a_ptr", "b_ptr", "c_ptr"]
    assert {a.kind for a in (load_a, load_b, store)} == {"block_pointer"}
    assert load_a.surface is not None
    assert load_a.surface.shape == ("M", "K")
    assert load_a.surface.strides == ("stride_am", "1")
    assert load_a.surface.shape_values == (4096, 4096)
    assert load_a.surface.stride_values == (4096, 1)
    assert load_a.surface.base_alignment_bytes is not None
    assert load_a.surface.base_alignment_bytes >= 64
    assert not load_a.surface.base_moved


def test_boundary_checks_are_needless_where_blocks_divide(ttir_of: Callable[[str], Ttir]) -> None:
    checked = ttir_of("block 256x256x32 w32 g256").accesses
    assert all(a.masked and a.mask_always_true for a in checked)
    load_a, load_b, store = ttir_of("block n 4095").accesses
    assert load_a.mask_always_true is True  # M and K divide, N does not
    assert load_b.mask_always_true is None
    assert store.mask_always_true is None


def test_masks_are_proven_through_the_swizzled_program_order(
    ttir_of: Callable[[str], Ttir],
) -> None:
    """pid_m goes through //, % and min(); only per-program values prove offs_cm < M."""
    masked = [a for a in ttir_of("pointer 128x128x32 w32 g256").accesses if a.masked]
    assert masked
    assert all(a.mask_always_true for a in masked)
    masked = [a for a in ttir_of("pointer odd").accesses if a.masked]
    assert masked
    assert not any(a.mask_always_true for a in masked)


def test_branch_that_the_launch_never_takes_counts_nothing(
    ttir_of: Callable[[str], Ttir],
) -> None:
    """3.3.0b1 versions the loop: without masks where K % 32 == 0, with masks otherwise."""
    even, odd = ttir_of("pointer 64x64x32 w4 g256"), ttir_of("pointer odd")
    assert {a.reached for a in even.accesses if a.masked and a.op == "load"} == {False}
    assert {a.reached for a in odd.accesses if not a.masked and a.op == "load"} == {False}
    assert sum(dot.reached for dot in even.dots) == 1
    assert even.flop_per_program == 2 * 64 * 64 * 4096
    assert odd.flop_per_program == 2 * 64 * 64 * 32 * 32  # cdiv(1000, 32) iterations


def test_attention(ttir_of: Callable[[str], Ttir]) -> None:
    ir = ttir_of("attention block")
    assert [(d.m, d.n, d.k) for d in ir.dots] == [(128, 64, 64), (128, 64, 64)]
    assert ir.loops[0].trip_count == 2048 // 64
    assert ir.counts.math == {"exp2": 2}
    assert ir.counts.reductions == 2
    # The head's offset is 64 bits wide and feeds every pointer.
    assert ir.counts.i64_address_operations == 1
    assert all(a.surface is not None and a.surface.base_moved for a in ir.accesses)
    # A head's 2048 x 64 elements of 2 bytes are a multiple of what the arguments are aligned to.
    arguments = {a.surface.base_alignment_bytes for a in ir.accesses if a.surface is not None}
    assert min(alignment or 0 for alignment in arguments) >= 64
    assert ir.flop_per_program is not None
    assert ir.flop_per_program > 32 * 2 * (2 * 128 * 64 * 64)


def test_float64_and_int64_with_their_lines(
    ttir_of: Callable[[str], Ttir], line_of: Callable[[str, str], int]
) -> None:
    ir = ttir_of("layer norm")
    lines = {site.line for site in ir.f64_sites}
    assert line_of("layer_norm_f64", "total += x") in lines
    assert line_of("layer_norm_f64", "tl.sqrt") in lines
    assert line_of("layer_norm_f64", "tl.program_id") not in lines
    assert [s.line for s in ir.i64_address_sites] == [line_of("layer_norm_f64", "x_row = ")]
    assert ir.counts.f64_operations > 10
    assert [loop.trip_count for loop in ir.loops] == [4, 4, 4]


def test_tail_of_a_row_is_not_proven_needless(ttir_of: Callable[[str], Ttir]) -> None:
    full, tail = ttir_of("layer norm").accesses, ttir_of("layer norm odd").accesses
    assert all(a.mask_always_true for a in full)
    assert not any(a.mask_always_true for a in tail)


def test_atomics_and_a_loop_without_a_count(ttir_of: Callable[[str], Ttir]) -> None:
    ir = ttir_of("histogram")
    assert ir.counts.atomics == 2
    (loop,) = ir.loops  # scf.while
    assert loop.trip_count is None
    assert loop.trip_expression is None
    assert ir.bytes_stored_per_program is None  # an atomic stands in that loop
    assert ir.bytes_expression is not None
    assert "trips0" in ir.bytes_expression


def test_trip_counts_that_differ_between_programs(ttir_of: Callable[[str], Ttir]) -> None:
    """Five programs; program p runs p + 1 outer iterations, of i + 1 inner ones each."""
    outer, inner = ttir_of("triangle").loops
    assert (outer.parent, inner.parent) == (None, 0)
    assert outer.trip_count is None
    assert outer.trip_mean == (1 + 2 + 3 + 4 + 5) / 5
    # Of the inner loop only bounds are known: 1 to p + 1, in the middle on average.
    assert inner.trip_mean == (1 + 1.5 + 2 + 2.5 + 3) / 5
    # Program p runs 1 + 2 + .. + (p + 1) inner iterations: a load of 1024 halves each, and a store.
    groups = ttir_of("triangle").program_groups
    assert [group.programs for group in groups] == [1] * 5
    assert [group.iterations for group in groups] == [(1, 1), (2, 3), (3, 6), (4, 10), (5, 15)]
    assert [group.bytes_moved for group in groups] == [2048 * (n + 1) for n in (1, 3, 6, 10, 15)]


def test_programs_that_run_alike_are_one_group(ttir_of: Callable[[str], Ttir]) -> None:
    ir = ttir_of("block 256x256x32 w32 g256")
    (group,) = ir.program_groups
    assert group.programs == (4096 // 256) ** 2
    assert group.iterations == (4096 / 32,)
    assert group.bytes_moved == (
        (ir.bytes_loaded_per_program or 0.0) + (ir.bytes_stored_per_program or 0.0)
    )
    assert ttir_of("histogram").program_groups == ()  # a loop without a count


def test_softmax_reads_and_writes_its_row_once(ttir_of: Callable[[str], Ttir]) -> None:
    for case, rows in (("softmax pointer", 1), ("softmax block", 1), ("softmax block 8 rows", 8)):
        ir = ttir_of(case)
        assert ir.bytes_loaded_per_program == rows * 4096 * 2
        assert ir.bytes_stored_per_program == rows * 4096 * 2
        assert ir.bytes_expression == str(2 * rows * 4096 * 2)
