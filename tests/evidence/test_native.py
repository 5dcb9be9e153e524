"""The native reader, on real assembly (values of toolchain facts) and on small pieces of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from xesmith.device import load_device
from xesmith.errors import UnreadableLevelError
from xesmith.evidence import Evidence, read
from xesmith.evidence.native import parse_assembly, read_native, read_ze_info
from xesmith.evidence.record import Native, NativeLoop
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.toolchain import Toolchain

KERNELS = Path(__file__).with_name("kernels.py")


@dataclass(frozen=True)
class Row:
    """One fp16 gemm for bmg-g31 as triton-xpu 3.3.0b1 and IGC 2.40 make it."""

    instructions: int  # of the main loop, as are the next four
    dpas: int
    global_loads: int  # 2D blocks, prefetches, plain loads and fills of spills
    slm_messages: int
    spill_bytes: int  # per hardware thread
    slm_bytes: int


TABLE = {
    "block 256x256x32 w32 g256": Row(61, 32, 5, 0, 0, 0),
    "block 256x256x32 w32 g128": Row(306, 32, 93, 0, 6848, 0),
    "block 256x256x32 w64 g128": Row(111, 16, 28, 0, 1536, 0),
    "block 128x128x32 w32 g128": Row(35, 8, 4, 0, 0, 0),
    "block 256x128x32 w16 g256": Row(61, 32, 5, 0, 0, 0),
    "pointer 128x128x32 w32 g256": Row(323, 8, 2, 100, 0, 34816),
    "pointer 64x64x32 w4 g256": Row(820, 16, 8, 138, 0, 9216),
}


def known_versions(evidence: Evidence) -> bool:
    """Counts are exact for the compilers they were seen with; sid's IGC moves."""
    native = evidence.native_compiler or ""
    return evidence.compiler == "triton-xpu 3.3.0b1" and native.startswith("ocloc 26.27.")


def main_loop(evidence: Evidence) -> NativeLoop:
    assert evidence.native is not None, evidence.not_read
    assert evidence.native.main is not None
    return evidence.native.main


def native(evidence: Evidence) -> Native:
    assert evidence.native is not None, evidence.not_read
    return evidence.native


@pytest.mark.intel
@pytest.mark.mlir
@pytest.mark.parametrize("case", TABLE)
def test_main_loop_of_the_gemm_is_what_the_facts_say(
    case: str, evidence_of: Callable[[str], Evidence]
) -> None:
    evidence, row = evidence_of(case), TABLE[case]
    loop, code = main_loop(evidence), native(evidence)
    # Fixed by the tile and by Triton, whatever IGC makes of the rest.
    assert loop.dpas == row.dpas
    assert code.slm_bytes == row.slm_bytes
    assert bool(loop.slm_messages) == bool(row.slm_messages)
    assert bool(code.spill_bytes_per_thread) == bool(row.spill_bytes)
    assert code.simd_size == 16
    assert code.spill_bytes_per_lane == code.spill_bytes_per_thread / 16
    if known_versions(evidence):
        loads = loop.loads_2d + loop.prefetches_2d + loop.global_loads + loop.scratch_messages
        assert (
            Row(
                loop.instructions,
                loop.dpas,
                loads,
                loop.slm_messages,
                code.spill_bytes_per_thread,
                code.slm_bytes,
            )
            == row
        )


@pytest.mark.intel
@pytest.mark.mlir
def test_best_configuration_has_the_highest_share_of_dpas(
    evidence_of: Callable[[str], Evidence],
) -> None:
    shares = {case: main_loop(evidence_of(case)).dpas_share for case in TABLE}
    assert shares["block 256x256x32 w32 g256"] == max(shares.values())
    assert shares["block 256x256x32 w32 g256"] >= 0.45


@pytest.mark.intel
@pytest.mark.mlir
def test_whole_kernel_counts_of_the_block_pointer_gemm(
    evidence_of: Callable[[str], Evidence],
) -> None:
    code = native(evidence_of("block 256x256x32 w32 g256"))
    # 256x256x32 over 32 warps: a tile of 32x64 a warp, 4 x 4 dpas of 8x16x16, twice for K = 32.
    assert code.dpas == 32
    assert (code.loads_2d, code.prefetches_2d, code.stores_2d) == (3, 4, 16)
    assert code.grf_count == 256
    assert code.hardware_threads_per_xve == 4
    assert code.has_dpas
    assert code.scratch_messages == 0
    assert code.register_allocator


@pytest.mark.intel
@pytest.mark.mlir
def test_sends_name_their_block_argument_and_line(
    evidence_of: Callable[[str], Evidence], line_of: Callable[[str, str], int]
) -> None:
    code = native(evidence_of("block 256x256x32 w32 g256"))
    loads = {
        (s.argument, s.width, s.height, s.blocks, s.vnni) for s in code.sends_2d if s.op == "load"
    }
    assert loads == {("a_ptr", 16, 32, 2, False), ("b_ptr", 16, 32, 2, True)}
    stores = [s for s in code.sends_2d if s.op == "store"]
    assert {(s.argument, s.width, s.height, s.blocks) for s in stores} == {("c_ptr", 16, 8, 1)}
    assert all(s.element_bits == 16 and s.loop is None for s in stores)
    assert {s.argument for s in code.sends_2d if s.op == "prefetch"} == {"a_ptr", "b_ptr"}


@pytest.mark.intel
@pytest.mark.mlir
def test_instructions_are_counted_on_the_kernel_s_own_lines(
    evidence_of: Callable[[str], Evidence], line_of: Callable[[str, str], int]
) -> None:
    code = native(evidence_of("block 256x256x32 w32 g256"))
    assert code.main is not None
    assert code.main.site.line == line_of("gemm_block", "for k in")
    assert code.instructions_per_line[line_of("gemm_block", "tl.store")] > 100
    # cdiv is inlined from Triton's own file: its instructions are on no line of ours.
    assert sum(code.instructions_per_line.values()) < code.instructions


@pytest.mark.intel
@pytest.mark.mlir
def test_intent_without_outcome_is_seen(evidence_of: Callable[[str], Evidence]) -> None:
    for case in ("block rank 3", "softmax block"):
        evidence = evidence_of(case)
        assert evidence.ttgir is not None
        loads = [a for a in evidence.ttgir.accesses if a.op == "load"]
        assert all(load.block_io == "row_major" for load in loads)
        assert all(load.block_io_doubt for load in loads)
        assert native(evidence).loads_2d == 0


@pytest.mark.intel
@pytest.mark.mlir
def test_store_at_an_illegal_pitch_is_seen_with_its_argument(
    evidence_of: Callable[[str], Evidence],
) -> None:
    """N = 4095: the compiler falls back on the loads of b and still stores 2D blocks to c."""
    evidence = evidence_of("block n 4095")
    sends = native(evidence).sends_2d
    assert {s.argument for s in sends if s.op == "load"} == {"a_ptr"}
    assert {s.argument for s in sends if s.op == "store"} == {"c_ptr"}
    assert evidence.ttgir is not None
    store = next(a for a in evidence.ttgir.accesses if a.op == "store")
    assert store.surface is not None
    assert store.surface.stride_values == (4095, 1)  # 8190 B, no multiple of 16 B


@pytest.mark.intel
@pytest.mark.mlir
def test_base_with_an_offset_is_still_the_argument_s(
    evidence_of: Callable[[str], Evidence], line_of: Callable[[str, str], int]
) -> None:
    loads = [s for s in native(evidence_of("attention block")).sends_2d if s.op == "load"]
    keys = [s for s in loads if s.argument == "k_ptr"]
    assert keys
    assert all(s.transpose and s.element_bits == 32 for s in keys)
    assert {s.site.line for s in keys} == {line_of("attention", "k = tl.load(k_block)")}
    assert all(s.vnni for s in loads if s.argument == "v_ptr")


@pytest.mark.intel
@pytest.mark.mlir
def test_float64_and_atomics_are_counted(evidence_of: Callable[[str], Evidence]) -> None:
    norm, counts = native(evidence_of("layer norm")), native(evidence_of("histogram"))
    assert norm.f64_instructions > 100
    assert norm.pipes["long"] > 100
    assert counts.atomics == 9  # 8 of 32 lanes each for 1024 elements over 4 warps, and 1
    assert counts.f64_instructions == 0


@pytest.mark.intel
@pytest.mark.mlir
@pytest.mark.parametrize("name", ["pvc", "lnl-m", "ptl-h", "cri"])
def test_other_devices_are_read_in_their_own_spelling(name: str, toolchain: Toolchain) -> None:
    """Xe3 prints raw sends, Xe3P `sendg`, Xe-HPC scratch blocks: the same counts come out."""
    source = KERNELS.read_text()

    def lowered(lowerer: Lowerer, case: str) -> Evidence:
        run = lowerer.run(Program(source, str(KERNELS), entry="script", argv=(case,)))
        return read(run.lowerings[0])

    with Lowerer(toolchain, load_device(name), parallel=1) as lowerer:
        block = lowered(lowerer, "block 256x256x32 w32 g256")
        spilled = lowered(lowerer, "block 256x256x32 w32 g128")
        pointer = lowered(lowerer, "pointer 128x128x32 w32 g256")
    code = native(block)
    assert (code.loads_2d, code.prefetches_2d, code.stores_2d) == (3, 4, 16)
    assert (code.global_loads, code.scratch_messages, code.slm_messages) == (0, 0, 0)
    assert {(s.op, s.argument, s.width, s.height, s.blocks) for s in code.sends_2d} == {
        ("load", "a_ptr", 16, 32, 2),
        ("load", "b_ptr", 16, 32, 2),
        ("prefetch", "a_ptr", 32, 8, 1),
        ("prefetch", "b_ptr", 32, 8, 1),
        ("store", "c_ptr", 16, 8, 1),
    }
    assert main_loop(block).dpas == 32
    assert native(spilled).spill_bytes_per_thread > 0
    assert main_loop(spilled).scratch_messages > 0
    assert native(spilled).loads_2d == 3
    assert main_loop(pointer).slm_messages > 0
    assert main_loop(pointer).barriers == 2
    assert native(pointer).global_loads > 0


ZE_INFO = """
version: '1.73'
kernels:
  - name: first
    execution_env:
      grf_count: 128
      simd_size: 16
      spill_size: 6848
      private_size: 64
      slm_size: 0
      barrier_count: 1
      eu_thread_count: 8
      has_dpas: true
    payload_arguments:
      - {arg_type: arg_bypointer, offset: 0, size: 8, arg_index: 0, addrspace: global}
      - {arg_type: arg_bypointer, offset: 8, size: 8, arg_index: 1, addrspace: global}
"""

ASM = """
//.kernel first
//.thread_config numGRF=128, numAcc=4, numSWSB=32
//.RA type\tGRAPH_COLORING_SPILL_FF_RA
//.spill size 6848
//.declare V1 (1)  rf=r size=4 type=d (r9.0)
// | V0034    | :uq      |    0x8 | r1       | inline+0x0       |
// | V0035    | :uq      |    0x8 | r1+0x8   | inline+0x8       |
// B000: Preds:{}
_main:
// File: /home/u/kernel.py

// Line 3:  a = 1
(W)     mov (1|M0)   r20.0<1>:uq   r1.1<0;1,0>:q       //  ALU pipe: int; $1
(W)     mov (1|M0)   r20.3<1>:uq   0xF0700000000:uq    //  ALU pipe: int; $1
outer:
        add (16|M0)  r30.0<1>:d    r31.0<1;1,0>:d  1:w  {I@1}  //  ALU pipe: int; $2
inner:

// Line 5:  b = tl.load(p)
        load_block2d.ugm.d16v.a64 (1|M0)  r40:8 [r20:1]  {$1} // ex_desc:0x0; $3
        load_block2d.ugm.d16.a64.ca.ca (1|M0)  null:0 [r20:1]  {$2} // ex_desc:0x0; $3
(W)     load.ugm.d32x64t.a32 (1|M0)  r5:4  ss[a0.2][r3:1-0xFC00]  {$3} //  fill from offset[16*64]
(W)     store.ugm.d32x16t.a32 (1|M0)  ss[a0.2][r3:1-0xFC40] r5:1  {$3} //  spill to offset[15*64]
        dpas.8x8 (16|M0)  r60:f  r60:f  r40:hf  r6.0:hf  {Compacted,$1.dst} // $4
        mul (16|M0)  r70.0<1>:df  r71.0<1;1,0>:df  r72.0<1;1,0>:df  //  ALU pipe: long; $5
        add (16|M0)  r74.0<1>:q   r75.0<1;1,0>:q   r76.0<1;1,0>:q   //  ALU pipe: int; $5

// File: /lib/standard.py

// Line 40:  return x
(W&f0.0) jmpi  inner  //  ALU pipe: int; $6

// File: /home/u/kernel.py

// Line 9:  for i in range(n)
        load.slm.d32.a32 (16|M0)  r80:1  [r81:1]  {$4} // $7
        atomic_iadd.ugm.d32.a64 (16|M0)  null:0 [r82:2] r84:1 {$5} // $8
        atomic_iadd.slm.d32.a32 (16|M0)  null:0 [r82:2] r84:1 {$5} // $8
(W)     send.gtwy (1|M0)  null  r255  null:0  0x0  0x02000004 {$6} // wr:1+0, rd:0; signal barrier
(W)     send.slm (1|M0)  r12  r224  null:0  0x0  0x0210001F {$7} // wr:1+0, rd:1; fence.slm
        load.ugm.d32x4.a64 (16|M0)  r20:8  [r11:4]  {$8} // $9
        goto (16|M0)  outer  outer  //  ALU pipe: int; $9
        store_block2d.ugm.d16.a64 (1|M0)  [r20:1] r54:4  {$9} // $10
(W)     load.ugm.d32x8t.a32.ca.cc (1|M0)  r2:1  bti[255][r255:1]  {$0} // $11
(W)     send.gtwy (1|M0)  null  r255  null:0  0x0  0x02000010 {EOT} // wr:1+0, rd:0; end of thread

//.BankConflicts: 7
"""


def small(**changes: str) -> Native:
    return read_native(
        changes.get("ze_info", ZE_INFO),
        changes.get("asm", ASM),
        kernel=changes.get("kernel", "first"),
        arguments=("x_ptr", "y_ptr"),
        shared_bytes=512,
        source_file="/home/u/kernel.py",
    )


def test_units_of_spills() -> None:
    code = small()
    assert code.spill_bytes_per_thread == 107 * 64  # IGC says "spilled around 107": registers
    assert code.spill_bytes_per_lane == 428
    assert code.private_bytes_per_thread == 64


def test_slm_is_triton_s_where_the_native_compiler_knows_none() -> None:
    assert small().slm_bytes == 512


def test_loops_nest_by_backward_jumps() -> None:
    code = small()
    outer, inner = code.loops
    assert (outer.label, outer.parent, inner.label, inner.parent) == ("outer", None, "inner", 0)
    assert (inner.instructions, outer.instructions) == (8, 16)
    assert code.main == inner
    assert outer.site.line == 9
    # The backward jump stands on a line of Triton's library: the body's first own line counts.
    assert inner.site.line == 5


def test_messages_are_told_apart() -> None:
    code = small()
    assert (code.loads_2d, code.prefetches_2d, code.stores_2d) == (1, 1, 1)
    assert code.scratch_messages == 2
    assert code.slm_messages == 3  # a load, an atomic, a fence
    assert code.atomics == 2
    assert code.global_loads == 1  # neither the fill nor the load of arguments
    assert code.loops[0].barriers == 1
    assert code.loops[0].send_messages == 10
    assert code.bank_conflicts == 7
    assert code.register_allocator == "GRAPH_COLORING_SPILL_FF_RA"


def test_wide_types_are_counted_in_arithmetic_only() -> None:
    code = small()
    assert code.f64_instructions == 1
    assert code.int64_instructions == 3
    assert code.pipes == {"int": 6, "long": 1, "xmx": 1}


def test_block_and_argument_follow_the_payload_until_it_is_overwritten() -> None:
    load, prefetch, store = small().sends_2d
    assert (load.width, load.height, load.blocks, load.argument) == (8, 16, 1, "y_ptr")
    assert load.vnni
    assert prefetch.loop == 1
    # r20 was loaded over before the store.
    assert (store.width, store.height, store.blocks, store.argument) == (None, None, None, None)


def test_lines_of_other_files_are_not_the_kernel_s() -> None:
    assert set(small().instructions_per_line) == {3, 5, 9}


def test_kernel_without_loops_has_no_main_loop() -> None:
    asm = "_main:\n(W)  mov (1|M0)  r1.0<1>:d  0:w  //  ALU pipe: int; $1\n"
    assert small(asm=asm).main is None


def test_loop_without_dpas_is_the_innermost() -> None:
    asm = ASM.replace("dpas.8x8", "add")
    code = small(asm=asm)
    assert code.main is not None
    assert code.main.label == "inner"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"asm": "// nothing\n"}, "no instruction"),
        ({"ze_info": "kernels: [unclosed"}, "malformed"),
        ({"ze_info": "version: 1"}, "malformed"),
        ({"kernel": "second"}, "no kernel 'second'"),
        ({"ze_info": "kernels: [{name: first, execution_env: {simd_size: 16}}]"}, "malformed"),
    ],
)
def test_malformed_files_are_refused(change: dict[str, str], said: str) -> None:
    with pytest.raises(UnreadableLevelError, match=said):
        small(**change)


def test_the_only_kernel_needs_no_name() -> None:
    assert read_ze_info(ZE_INFO, None)["name"] == "first"


@pytest.mark.parametrize(
    ("line", "kind", "written"),
    [
        (
            "send.ugm (1|M0) r40 r111 null:0 0x80000 0x03F00283 {$8} "
            "// wr:1+0, rd:31; load_block2d.ugm.d16v.a64.flat[A+(0x80,0x0)] // $455",
            "load_2d",
            31,
        ),
        (
            "send.ugm (1|M0) null r3 null:0 0x0 0x02080203 {$1} "
            "// wr:1+0, rd:0; load_block2d.ugm.d16.a64.ca.ca // $138",
            "prefetch_2d",
            0,
        ),
        (
            "(W) send.ugm (1|M0) r117 r3 null:0 0x80000000:a0.2 0x4240F500 {$3} "
            "// wr:1+0, rd:4; load.ugm.d32x64t.a32.ss[a0.2][A-0x10000] //  fill from offset[0*64]",
            "scratch",
            4,
        ),
        (
            "(W) sendg.ugm (1|M0) r121 r34:1 null:0 s0.56 0xD780 {$2} "
            "// rd:256 B; load.ugm.d32x64t.a32 surf[s0.56][src0] //  fill from offset[0*64] of ?",
            "scratch",
            4,
        ),
        (
            "sendg.ugm (1|M0) r2 r229:1 null:0 0x8803 {$5} "
            "// load_block2d.ugm.d16.a64 [src0] // $448",
            "load_2d",
            32,
        ),
        (
            "sendg.ugm (32|M0) null r10:2 null:0 s0.16 0x100000005008 {$6} "
            "// rd:0 B; atomic_iinc.ugm.d32.a32s [s0.16+0x4*src0] // $375",
            "atomic",
            0,
        ),
        (
            "(W) send.dc0 (16|M0) r5 r3 null:0 0x0 0x02483000 {$2} "
            "// wr:1h+0, rd:4; hword scratch block read x8 //  scratch space fill: from",
            "scratch",
            4,
        ),
        (
            "(W) sendg.gtwy (1|M0) null r0:1 null:0 0x84 {$4} // rd:0 B; signal barrier // $330",
            "barrier",
            0,
        ),
    ],
)
def test_raw_sends_are_decoded_by_their_comment(line: str, kind: str, written: int) -> None:
    (item,) = parse_assembly(line).instructions
    assert (item.kind, item.registers_written) == (kind, written)


def test_raw_send_that_nothing_explains_is_refused() -> None:
    with pytest.raises(UnreadableLevelError, match="does not say what its message does"):
        parse_assembly("sendg.ugm (1|M0) r2 r229:1 null:0 0x8803 {$5}")


def test_plain_disassembly_has_no_lines() -> None:
    code = parse_assembly("L0:\n  mov (16|M0) r1.0<1>:f r2.0<1;1,0>:f\n").instructions
    assert [(i.base, i.line, i.pipe) for i in code] == [("mov", None, None)]
