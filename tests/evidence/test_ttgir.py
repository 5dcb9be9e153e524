# ruff: noqa: E501
"""TTGIR of real kernels, in both spellings of the Intel dialect, and of another GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith.evidence import Evidence
from xesmith.evidence.record import Access, Ttgir
from xesmith.evidence.ttgir import read_ttgir
from xesmith.ghost.launch import Launch

if TYPE_CHECKING:
    from xesmith.lowering.record import Lowering

DATA = Path(__file__).with_name("data")


@pytest.fixture
def ttgir_of(evidence_of: Callable[[str], Evidence]) -> Callable[[str], Ttgir]:
    def ttgir(case: str) -> Ttgir:
        found = evidence_of(case).ttgir
        assert found is not None, evidence_of(case).not_read
        return found

    return ttgir


def loads(ir: Ttgir) -> list[Access]:
    return [a for a in ir.accesses if a.op == "load" and a.reached]


@pytest.mark.intel
@pytest.mark.mlir
class TestIntel:
    def test_block_pointer_gemm(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        ir = ttgir_of("block 256x256x32 w32 g256")
        assert ir.dialect == "triton_intel_gpu"
        assert (ir.num_warps, ir.threads_per_warp, ir.target) == (32, 16, "xpu")
        assert ir.shared_bytes == 0
        (dpas,) = ir.dpas
        assert (dpas.repeat_count, dpas.systolic_depth, dpas.execution_size) == (8, 8, 16)
        assert (dpas.ops_per_channel, dpas.warps_per_cta) == (2, (8, 4))
        (dot,) = ir.dots
        assert dot.on_dpas
        assert dot.why_not_dpas is None
        assert ir.prefetches == 4  # two before the loop, two in it
        assert [a.block_io for a in loads(ir)] == ["row_major", "row_major"]
        assert not any(a.why_not_block_io or a.block_io_doubt for a in loads(ir))
        assert ir.layout_conversions == ()

    def test_tensor_of_pointers_says_why(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        ir = ttgir_of("pointer 128x128x32 w32 g256")
        load_a, load_b = loads(ir)
        assert load_a.kind == "pointer"
        assert load_a.block_io is None
        assert load_a.why_not_block_io is not None
        assert "tensor of pointers" in load_a.why_not_block_io
        assert "`stride_am`" in load_a.why_not_block_io
        assert load_b.why_not_block_io is not None
        assert "`stride_bk`" in load_b.why_not_block_io
        assert (load_a.contiguity, load_a.bytes_per_access) == (8, 16)
        store = next(a for a in ir.accesses if a.op == "store")
        assert store.why_not_block_io is not None
        assert "masked" in store.why_not_block_io

    def test_stride_that_is_not_known_to_be_one_is_named(
        self, ttgir_of: Callable[[str], Ttgir]
    ) -> None:
        load_a, _ = loads(ttgir_of("pointer a strided"))
        assert (load_a.why_not_block_io or "").startswith(
            "tensor of pointers: stride of the last dimension is the argument `stride_ak`, "
            "not known to be 1"
        )
        assert (load_a.contiguity, load_a.bytes_per_access) == (1, 2)
        transposed, _ = loads(ttgir_of("pointer a transposed"))
        assert (transposed.why_not_block_io or "").startswith(
            "tensor of pointers that lies transposed in memory, with column stride `stride_ak`; "
            "nothing states width and pitch"
        )

    def test_modulo_is_named_only_where_it_can_wrap(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        even, _ = loads(ttgir_of("pointer 64x64x32 w4 g256"))
        odd, _ = loads(ttgir_of("pointer odd"))
        assert "modulo" not in (even.why_not_block_io or "")
        assert "dimension 0 is taken modulo `M`" in (odd.why_not_block_io or "")

    def test_pitch_that_is_not_known_to_be_aligned_is_named(
        self, ttgir_of: Callable[[str], Ttgir]
    ) -> None:
        load_a, load_b = loads(ttgir_of("block n 4095"))
        assert load_a.block_io == "row_major"
        assert load_b.block_io is None
        assert load_b.why_not_block_io == (
            "the pitch is the argument `stride_bk` times 2 B, not known to be a multiple of 16 B"
        )

    def test_column_major_block(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        _, load_b = loads(ttgir_of("block b transposed"))
        assert load_b.block_io == "column_major"

    def test_intent_that_may_come_to_nothing_is_doubted(
        self, ttgir_of: Callable[[str], Ttgir]
    ) -> None:
        for load in loads(ttgir_of("block rank 3")):
            assert load.block_io == "row_major"
            assert "3 dimensions" in (load.block_io_doubt or "")
        (load,) = loads(ttgir_of("softmax block"))
        assert load.block_io == "row_major"
        assert "layout is blocked" in (load.block_io_doubt or "")

    def test_row_access_has_one_dimension(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        (load,) = loads(ttgir_of("softmax pointer"))
        assert "one dimension" in (load.why_not_block_io or "")

    @pytest.mark.parametrize(
        ("case", "slm_bytes"),
        [
            ("pointer 256x256x32 w32 g128", 256 * (256 + 8) * 2),
            ("pointer 128x128x32 w32 g256", 128 * (128 + 8) * 2),
            ("pointer 64x64x32 w4 g256", 64 * (64 + 8) * 2),
        ],
    )
    def test_slm_of_the_epilogue_is_what_triton_allocates(
        self, case: str, slm_bytes: int, ttgir_of: Callable[[str], Ttgir]
    ) -> None:
        ir = ttgir_of(case)
        (epilogue,) = (c for c in ir.layout_conversions if c.op == "ttg.convert_layout")
        assert epilogue.slm_bytes == slm_bytes == ir.shared_bytes
        assert epilogue.loop is None
        staged = [c for c in ir.layout_conversions if c.op == "ttg.local_alloc" and c.reached]
        assert len(staged) == 2
        assert all(c.loop is not None for c in staged)
        m, _, k = (ir.dots[0].m, ir.dots[0].n, ir.dots[0].k)
        assert staged[0].slm_bytes == m * k * 2

    def test_dpas_result_as_dpas_operand_costs_no_slm(
        self, ttgir_of: Callable[[str], Ttgir]
    ) -> None:
        ir = ttgir_of("attention block")
        (conversion,) = ir.layout_conversions
        assert conversion.loop is not None
        assert conversion.slm_bytes == 0 == ir.shared_bytes
        assert all(dot.on_dpas for dot in ir.dots)

    def test_float32_is_on_dpas_as_tf32_only(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        (ieee,), (tf32,) = ttgir_of("float32 ieee").dots, ttgir_of("float32 tf32").dots
        assert tf32.on_dpas
        assert not ieee.on_dpas
        assert ieee.why_not_dpas == (
            "float32 operands with input_precision 'ieee': DPAS takes float32 only as tf32"
        )

    def test_masks_and_loops_are_known_here_too(self, ttgir_of: Callable[[str], Ttgir]) -> None:
        ir = ttgir_of("block 256x256x32 w32 g256")
        assert [loop.trip_count for loop in ir.loops] == [128]
        assert all(a.mask_always_true for a in loads(ir))

    def test_newer_spelling_of_the_dialect_reads_the_same(
        self, lowering_of: Callable[[str], Lowering]
    ) -> None:
        """Intel's Triton 3.4 and later says `ttig` where 3.3 says `triton_intel_gpu`."""
        lowering = lowering_of("block 256x256x32 w32 g256")
        old = Path(lowering.levels["ttgir_generic"]).read_text()
        new = old.replace("triton_intel_gpu", "ttig")
        assert new != old
        before, after = (
            read_ttgir(text, lowering.launch, lowering.metadata) for text in (old, new)
        )
        assert after.dialect == "ttig"
        assert after.dpas == before.dpas
        assert after.prefetches == before.prefetches
        assert [a.block_io for a in after.accesses] == [a.block_io for a in before.accesses]
        assert [d.on_dpas for d in after.dots] == [d.on_dpas for d in before.dots]


@pytest.mark.mlir
def test_another_gpu_has_no_intel_facts(cuda_lowering: Lowering) -> None:
    text = Path(cuda_lowering.levels["ttgir_generic"]).read_text()
    ir = read_ttgir(text, cuda_lowering.launch, cuda_lowering.metadata)
    assert ir.dialect == "none"
    assert (ir.num_warps, ir.threads_per_warp, ir.target) == (8, 32, "cuda:90")
    assert ir.dpas == ()
    assert {(a.block_io, a.why_not_block_io) for a in ir.accesses} == {(None, None)}
    # Copies before the loop and in it, of a and b, then one store.
    assert [a.op for a in ir.accesses] == ["load"] * 6 + ["store"]
    (dot,) = ir.dots
    assert (dot.m, dot.n, dot.k, dot.on_dpas) == (128, 128, 64, None)
    assert dot.encoding == "nvidia_mma"
    assert [loop.trip_count for loop in ir.loops] == [4096 // 64]


MODULE = """
"builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {}], function_type = (!tt.ptr<f16>, i32) -> (), sym_name = "f", sym_visibility = "public"}> ({
  ^bb0(%arg0: !tt.ptr<f16>, %arg1: i32):
    %c0 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %c1 = "arith.constant"() <{value = 1 : i64}> : () -> i64
    %size = "arith.constant"() <{value = 64 : i64}> : () -> i64
    %stride = "arith.extsi"(%arg1) : (i32) -> i64
    %block = "tt.make_tensor_ptr"(%arg0, %size, %size, STRIDES, %c0, %c0) <{order = array<i32: 1, 0>}> : (!tt.ptr<f16>, i64, i64, i64, i64, i32, i32) -> !tt.ptr<tensor<32x32xf16, LAYOUT>>
    %value = "tt.load"(%block) <{boundaryCheck = array<i32>}> : (!tt.ptr<tensor<32x32xf16, LAYOUT>>) -> tensor<32x32xf16, LAYOUT>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttig.support_dpas, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 16 : i32} : () -> ()
"""
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 4], "
    "warpsPerCTA = [4, 1], order = [1, 0]}>"
)


@pytest.mark.mlir
@pytest.mark.parametrize(
    ("strides", "value", "reason"),
    [
        ("%stride, %stride", 7, "stride of the last dimension is the argument `s`, not known"),
        ("%stride, %c1", 7, "the pitch is the argument `s` times 2 B, not known to be a multiple"),
        ("%c1, %size", 64, "the compiler gives no reason"),
        ("%size, %size", 64, "stride of the last dimension is `64`, not known to be 1"),
    ],
)
def test_strides_that_a_block_cannot_have(strides: str, value: int, reason: str) -> None:
    text = MODULE.replace("STRIDES", strides).replace("LAYOUT", BLOCKED)
    launch = Launch(
        index=0,
        kernel="f",
        file="f.py",
        line=1,
        grid=(1, 1, 1),
        signature={"p": "*fp16", "s": "i32"},
        values={"s": value},
        constexprs={},
        divisible_by_16=("p",),
        options={},
    )
    (load,) = read_ttgir(text, launch, {}).accesses
    assert load.argument == "p"
    assert (load.why_not_block_io or "").startswith(reason)


DOTS = """
"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "f"}> ({
    DOT
    "tt.return"() : () -> ()
  }) : () -> ()
}) {MARK"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 16 : i32} : () -> ()
"""


def dot(a: str, b: str, acc: str, k: int = 64, n: int = 64, precision: int = 0) -> str:
    """One dot of 64 x k x n whose result stays in a blocked layout; precision 2 is ieee."""
    types = [f"tensor<{m}x{w}x{t}, {BLOCKED}>" for m, w, t in ((64, k, a), (k, n, b), (64, n, acc))]
    made = "".join(f'%v{i} = "x.make"() : () -> {t} ' for i, t in enumerate(types))
    return (
        f'"x.scope"() ({{ {made} %r = "tt.dot"(%v0, %v1, %v2) '
        f"<{{inputPrecision = {precision} : i32, maxNumImpreciseAcc = 0 : i32}}> : "
        f"({', '.join(types)}) -> {types[2]} }}) : () -> ()"
    )


@pytest.mark.mlir
@pytest.mark.parametrize(
    ("dots", "reasons"),
    [
        ([dot("f64", "f64", "f64")], ["DPAS has no float64"]),
        ([dot("f16", "bf16", "f32")], ["different element types, f16 and bf16"]),
        ([dot("f32", "f32", "f32", precision=2)], ["'ieee': DPAS takes float32 only as tf32"]),
        ([dot("f16", "f16", "f32", k=8)], ["its K is 8; one DPAS of f16 takes 16"]),
        ([dot("f16", "f16", "f32", n=8)], ["its N is 8; one DPAS makes 16 columns"]),
        ([dot("f16", "f16", "f64")], ["no f64 accumulator for f16"]),
        ([dot("i16", "i16", "i32")], ["DPAS has no i16 operands"]),
        ([dot("f16", "f16", "f32")], ["kept layout blocked; the IR tells no reason"]),
        (
            [dot("f16", "f16", "f32"), dot("f64", "f64", "f64")],
            ["every dot of a kernel must qualify, and the one", "DPAS has no float64"],
        ),
    ],
)
def test_why_a_dot_is_not_on_dpas(dots: list[str], reasons: list[str]) -> None:
    launch = Launch(0, "f", "f.py", 1, (1, 1, 1), {}, {}, {}, (), {})
    text = DOTS.replace("DOT", " ".join(dots))
    found = read_ttgir(text.replace("MARK", "ttig.support_dpas, "), launch, {}).dots
    for one, reason in zip(found, reasons, strict=True):
        assert one.on_dpas is False
        assert reason in (one.why_not_dpas or "")
    without = read_ttgir(text.replace("MARK", "ttig.min_sg_size = 8 : i32, "), launch, {}).dots
    assert {d.why_not_dpas for d in without} == {
        "the compiler takes this device for one without DPAS"
    }
