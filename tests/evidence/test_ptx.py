"""PTX: widths of global accesses, matrix instructions, and a real gemm for an H100."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith.errors import UnreadableLevelError
from xesmith.evidence.ptx import read_ptx

if TYPE_CHECKING:
    from xesmith.lowering.record import Lowering

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry f(
    .param .u64 f_param_0
)
{
    .reg .b32 %r<9>;
    ld.param.u64 %rd1, [f_param_0];  // an argument
$L__BB0_1:
    // begin inline asm
    @%p1 ld.global.v4.b32 { %r0, %r1, %r2, %r3 }, [ %rd1 + 0 ];
    // end inline asm
    ld.global.nc.L1::evict_last.b16 %rs1, [%rd1];
    @!%p2 st.global.v2.f32 [%rd1], {%f1, %f2}; cp.async.cg.shared.global [%r1], [%rd1], 0x10, %r2;
    cp.async.commit_group;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier [%r1], [%rd1, {%r2, %r3}], [%r4];
    cp.async.bulk.commit_group;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};
    fma.rn.f64 %fd1, %fd2, %fd3, %fd1;
    cvt.f64.f32 %fd1, %f1;
    mad.wide.s32 %rd2, %r1, 4, %rd1;
    add.s64 %rd2, %rd2, 8;
    ex2.approx.f32 %f1, %f2;
    red.global.add.f32 [%rd1], %f1;
    bar.sync 0;
    @%p1 bra $L__BB0_1;
    ret;
}
\t.section .debug_abbrev
{
.b8 1
}
"""


def test_widths_of_global_accesses() -> None:
    found = read_ptx(TEXT)
    assert found.loads == {2: 1, 16: 2}
    assert found.stores == {8: 1}
    assert found.bytes_per_load == pytest.approx((16 + 2 + 16) / 3)
    assert (found.async_copies, found.bulk_copies) == (1, 1)


def test_kinds_of_instructions() -> None:
    found = read_ptx(TEXT)
    assert (found.version, found.target) == ("8.7", "sm_90a")
    assert found.instructions == 19
    assert found.matrix_instructions == 1
    assert (found.shared_messages, found.barriers, found.atomics) == (1, 1, 1)
    assert (found.f64_instructions, found.int64_instructions) == (2, 2)
    assert found.math == {"ex2": 1}


@pytest.mark.parametrize("text", ["", ".version 8.7\n.target sm_90\n", "define void @f()"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLevelError):
        read_ptx(text)


def test_gemm_for_an_h100(cuda_lowering: Lowering) -> None:
    """Triton 3.9.0, 128x128x64, 8 warps, 3 stages: tiles of 16 KiB in copies of 16 B."""
    found = read_ptx(Path(cuda_lowering.levels["ptx"]).read_text())
    assert found.target == "sm_90a"
    # Two stages before the loop and one in it, of a and b each: 16384 B / (256 threads * 16 B).
    assert found.async_copies == 3 * 2 * 4
    assert found.loads == {16: 24}
    # 128 x 128 halves over 256 threads.
    assert found.stores == {16: 8}
    # wgmma m64n128k16: a warp group has 64 of the 128 rows, and K is 64.
    assert found.matrix_instructions == 4
