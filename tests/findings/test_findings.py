"""Each judge on hand-made evidence: found with the right numbers, and not found without cause."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from xesmith.device import load_device
from xesmith.evidence.record import Evidence, IrCounts
from xesmith.findings import JUDGES, KINDS, Finding, judge, judge_program

B70 = load_device("bmg-g31")


def find(kind: str, evidence: Evidence, device: str = "bmg-g31") -> list[Finding]:
    return [item for item in judge(evidence, load_device(device)) if item.kind == kind]


def one(kind: str, evidence: Evidence, device: str = "bmg-g31") -> Finding:
    found = find(kind, evidence, device)
    assert len(found) == 1, found
    return found[0]


def test_every_kind_has_a_judge() -> None:
    assert set(JUDGES) | {"many-kernels"} == set(KINDS)


def test_the_good_gemm_has_no_finding(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    surface = m.surface(shape_values=(4096, 4096), stride_values=(4096, 1))
    clean = m.make(
        ttgir=m.ttgir(
            accesses=tuple(
                access.model_copy(update={"surface": surface}) for access in m.ttgir().accesses
            )
        )
    )
    assert judge(clean, B70) == ()


def test_slm_over_the_limit(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make(
        native=m.native(slm_bytes=135168),
        ttgir=m.ttgir(layout_conversions=(m.conversion(), m.conversion())),
        failure={
            "kind": "out_of_resources", "level": "launch", "line": 7, "detail": "",
            "message": "shared local memory: 135168 bytes required, limit 131072",
            "numbers": {"required_bytes": 135168, "limit_bytes": 131072},
        },
    )  # fmt: skip
    finding = one("slm-over-limit", evidence)
    assert finding.severity == "error"
    assert finding.numbers == {"slm_bytes": 135168, "limit_bytes": 131072}
    assert "135168 B" in finding.message
    assert finding.reason == "layout conversions through SLM at line 11"
    refused = one("cannot-launch", evidence)
    assert refused.line == 7
    assert refused.numbers == {"required_bytes": 135168, "limit_bytes": 131072}
    # Crescent Island has 384 KB.
    assert not find("slm-over-limit", evidence, "cri")


def test_a_compiler_failure_is_named(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    failure: dict[str, Any] = {
        "kind": "crash", "level": "ttgir", "line": 12, "detail": "", "message": "signal 11",
        "numbers": {},
    }  # fmt: skip
    finding = one("cannot-compile", m.make(failure=failure))
    assert finding.message == "the compiler crashed at level ttgir: signal 11"
    assert not find("cannot-launch", m.make(failure=failure))


@pytest.mark.parametrize("warps", [3, 12, 0])
def test_warps_that_are_no_power_of_two(evidence_maker: ModuleType, warps: int) -> None:
    m = evidence_maker
    launch = m.launch(options={"num_warps": warps})
    assert one("not-power-of-two", m.make(launch=launch)).severity == "error"


def test_a_block_size_that_is_no_power_of_two(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make(
        launch=m.launch(constexprs={"BLOCK": 96, "GROUP": 4, "NAME": "x"}),
        failure={
            "kind": "compile", "level": "ttir", "line": 5, "detail": "", "numbers": {},
            "message": "arange's range must be a power of 2",
        },
    )  # fmt: skip
    finding = one("not-power-of-two", evidence)
    assert finding.line == 5
    assert finding.numbers == {"BLOCK": 96}
    assert not find("cannot-compile", evidence)


def test_more_warps_than_registers_allow(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    launch = m.launch(options={"num_warps": 64, "grf_mode": "256"})
    finding = one("grf-warps-illegal", m.make(launch=launch))
    assert finding.numbers == {"num_warps": 64, "limit_sub_groups": 32, "grf_count": 256}
    assert not find("grf-warps-illegal", m.make())
    # 512 registers exist on Crescent Island only.
    launch = m.launch(options={"num_warps": 16, "grf_mode": "512"})
    assert "no mode of 512" in one("grf-warps-illegal", m.make(launch=launch)).message
    assert not find("grf-warps-illegal", m.make(launch=launch), "cri")


# loads, stores, surfaces


def _pointers(m: ModuleType, **changes: Any) -> Any:
    values: dict[str, Any] = {"kind": "pointer", "why_not_block_io": "stride is `sak`"}
    return m.access(**{**values, **changes})


def test_a_load_that_is_no_2d_block(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make(
        ttgir=m.ttgir(accesses=(_pointers(m),)), native=m.native(loads_2d=0, sends_2d=())
    )
    finding = one("load-not-2d-block", evidence)
    assert (finding.line, finding.severity, finding.level) == (10, "warning", "native")
    assert finding.message.startswith("load of 256x32xf16 stays a tensor of pointers")
    assert finding.reason == "stride is `sak`"
    assert finding.numbers == {"loads_2d_in_kernel": 0, "bytes": 256 * 32 * 2}


def test_the_outcome_decides_not_the_source(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # A compiler that raises tensors of pointers to blocks by itself: native code has the load.
    evidence = m.make(ttgir=m.ttgir(accesses=(_pointers(m),)))
    assert not find("load-not-2d-block", evidence)
    # Not read: nothing is said of an outcome.
    unread = m.make(ttgir=m.ttgir(accesses=(_pointers(m),)), native=None)
    assert not find("load-not-2d-block", unread)
    # Alchemist has no 2D blocks to miss.
    missing = m.make(ttgir=m.ttgir(accesses=(_pointers(m),)), native=m.native(sends_2d=()))
    assert not find("load-not-2d-block", missing, "dg2")


def test_of_two_loads_on_a_line_the_one_that_was_meant_has_the_block(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    accesses = (m.access(block_io="row_major"), _pointers(m, argument="b"))
    evidence = m.make(ttgir=m.ttgir(accesses=accesses))
    assert one("load-not-2d-block", evidence).reason == "stride is `sak`"
    assert not find("block-io-intent-without-outcome", evidence)


def test_an_argument_tells_more_than_a_wrong_line(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # The message for `b` carries the line of its neighbour.
    accesses = (
        m.access(block_io="row_major", argument="a"),
        m.access(block_io="row_major", argument="b", site=m.site(11)),
    )
    sends = (m.send_2d(argument=None), m.send_2d(argument="b", site=m.site(9)))
    evidence = m.make(ttgir=m.ttgir(accesses=accesses), native=m.native(sends_2d=sends))
    assert not find("block-io-intent-without-outcome", evidence)
    # A second load of `b` elsewhere: the argument alone no longer tells which.
    twice = (*accesses, m.access(argument="b", site=m.site(30), block_io="row_major"))
    evidence = m.make(ttgir=m.ttgir(accesses=twice), native=m.native(sends_2d=sends))
    assert [f.line for f in find("block-io-intent-without-outcome", evidence)] == [11, 30]


def test_rows_and_unreached_accesses_are_no_tiles(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    accesses = (
        _pointers(m, shape=(1, 256)),
        _pointers(m, shape=(1024,)),
        _pointers(m, site=m.site(20), reached=False),
    )
    evidence = m.make(ttgir=m.ttgir(accesses=accesses), native=m.native(sends_2d=()))
    assert not find("load-not-2d-block", evidence)


def test_without_a_dot_it_is_a_note_without_remedy(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make(
        ttgir=m.ttgir(accesses=(_pointers(m),), dots=()), native=m.native(sends_2d=())
    )
    finding = one("load-not-2d-block", evidence)
    assert finding.severity == "note"
    assert finding.remedy is None
    assert "no dot" in (finding.reason or "")


def test_a_store_outside_the_loop_is_a_note(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    store = _pointers(m, op="store", loop=None, site=m.site(14))
    evidence = m.make(ttgir=m.ttgir(accesses=(store,)), native=m.native(sends_2d=()))
    assert one("store-not-2d-block", evidence).severity == "note"


def test_intent_without_outcome(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    access = m.access(
        shape=(1, 256, 32), block_io="row_major", block_io_doubt="the block has 3 dimensions"
    )
    evidence = m.make(ttgir=m.ttgir(accesses=(access,)), native=m.native(loads_2d=0, sends_2d=()))
    finding = one("block-io-intent-without-outcome", evidence)
    assert finding.line == 10
    assert finding.reason == "the block has 3 dimensions"
    assert not find("load-not-2d-block", evidence)  # one finding for one fault


def _store_at(m: ModuleType, **surface: Any) -> Any:
    store = m.access(
        op="store", loop=None, site=m.site(14), argument="c", surface=m.surface(**surface)
    )
    return m.make(
        ttgir=m.ttgir(accesses=(store,)),
        native=m.native(sends_2d=(m.send_2d(op="store", site=m.site(14), loop=None),) * 4),
    )


def test_an_odd_pitch_makes_a_2d_store_illegal(evidence_maker: ModuleType) -> None:
    # N = 4095 in fp16: 8190 bytes, not a multiple of 16.
    m = evidence_maker
    evidence = _store_at(m, shape_values=(4096, 4095), stride_values=(4095, 1))
    finding = one("2d-op-illegal", evidence)
    assert finding.line == 14
    assert finding.message == "2D block store of 'c': pitch 8190 B is no multiple of 16 B"
    assert finding.numbers["messages"] == 4
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("surface", "fault"),
    [
        ({"stride_values": (24, 1), "shape_values": (4096, 24)}, "pitch 48 B is under 64 B"),
        ({"stride_values": (4096, 1), "shape_values": (4096, 31)}, "width 62 B is under 64 B"),
        ({"stride_values": (1 << 24, 1), "shape_values": (8, 4096)}, "over 16777216 B"),
        ({"base_alignment_bytes": 32}, "base is aligned to 32 B, not 64 B"),
        # column major: the fastest dimension is the first
        ({"stride_values": (1, 4095), "shape_values": (4096, 64)}, "pitch 8190 B"),
    ],
)
def test_other_rules_of_2d_blocks(
    evidence_maker: ModuleType, surface: dict[str, Any], fault: str
) -> None:
    assert fault in one("2d-op-illegal", _store_at(evidence_maker, **surface)).message


def test_the_base_rule_of_crescent_island_is_unknown(evidence_maker: ModuleType) -> None:
    evidence = _store_at(evidence_maker, base_alignment_bytes=32)
    assert not find("2d-op-illegal", evidence, "cri")


def test_a_surface_that_is_not_known_is_said_to_be_unchecked(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    moved = _store_at(m, base_moved=True, base_alignment_bytes=None)
    assert "alignment of the base not known" in one("2d-op-unchecked", moved).message
    known = _store_at(m, base_moved=True, base_alignment_bytes=64)
    assert not find("2d-op-unchecked", known)
    odd = _store_at(m, base_moved=True, base_alignment_bytes=32)
    assert "base is aligned to 32 B, not 64 B" in one("2d-op-illegal", odd).message
    unknown = _store_at(m, stride_values=(None, 1))
    assert "pitch not known" in one("2d-op-unchecked", unknown).message
    assert not find("2d-op-illegal", unknown)


def test_a_message_with_a_foreign_line_is_held_against_every_surface(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    odd = _store_at(m, shape_values=(4096, 4095), stride_values=(4095, 1))
    sends = (m.send_2d(op="store", site=m.site(163), loop=None, argument=None),)
    finding = one("2d-op-illegal", odd.model_copy(update={"native": m.native(sends_2d=sends)}))
    assert finding.line == 14  # the store's, not the line of the inlined function


def test_a_tensor_of_pointers_is_held_against_the_tensor(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    odd = m.tensor(4096, 4095)
    evidence = m.make(
        launch=m.launch(values={"a": odd}),
        ttgir=m.ttgir(accesses=(_pointers(m),)),
        native=m.native(sends_2d=(m.send_2d(),)),
    )
    assert "pitch 8190 B" in one("2d-op-illegal", evidence).message


# arithmetic, masks, layouts


def test_float64(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    ttir = m.ttir(counts=IrCounts(f64_operations=3), f64_sites=(m.site(27), m.site(25)))
    finding = one("f64-arithmetic", m.make(ttir=ttir, native=m.native(f64_instructions=40)))
    assert finding.line == 25
    assert finding.message == "3 float64 operations (lines 25, 27)"
    assert finding.numbers == {"f64_operations": 3, "f64_instructions": 40}
    # The compiler removed it.
    assert not find("f64-arithmetic", m.make(ttir=ttir))
    # Not lowered to native code: the IR's word.
    assert find("f64-arithmetic", m.make(ttir=ttir, native=None))


def test_64_bit_offsets(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    ttir = m.ttir(counts=IrCounts(i64_address_operations=2), i64_address_sites=(m.site(8),))
    finding = one(
        "i64-address-arithmetic", m.make(ttir=ttir, native=m.native(int64_instructions=9))
    )
    assert (finding.line, finding.severity) == (8, "note")


def test_needless_masks(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    accesses = (
        m.access(kind="pointer", masked=True, mask_always_true=True),
        m.access(kind="pointer", masked=True, mask_always_true=False, site=m.site(11)),
        m.access(kind="pointer", masked=True, mask_always_true=None, site=m.site(12)),
        m.access(masked=True, mask_always_true=True, site=m.site(13)),
    )
    found = find("needless-mask", m.make(ttir=m.ttir(accesses=accesses)))
    assert [item.line for item in found] == [10, 13]
    assert "the mask of" in found[0].message
    assert "the boundary check of" in found[1].message


def test_a_dot_off_the_matrix_engines(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    dot = m.dot(on_dpas=False, why_not_dpas="float32 with ieee precision", a_type="f32")
    finding = one("dot-not-dpas", m.make(ttgir=m.ttgir(dots=(dot,))))
    assert finding.reason == "float32 with ieee precision"
    assert (finding.numbers["m"], finding.numbers["k"]) == (256, 32)
    unreached = m.dot(on_dpas=False, reached=False)
    assert not find("dot-not-dpas", m.make(ttgir=m.ttgir(dots=(unreached,))))


def test_a_layout_conversion_in_the_loop(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    conversions = (
        m.conversion(source="#ttg.blocked<{a}>", destination="#ttg.dot_op<{p = #ttig.dpas<{}>}>"),
        m.conversion(loop=None, site=m.site(20)),
        m.conversion(slm_bytes=0, site=m.site(21)),
    )
    ttgir = m.ttgir(layout_conversions=conversions)
    finding = one("layout-conversion-in-loop", m.make(ttgir=ttgir, native=m.native(slm_messages=9)))
    assert finding.line == 11
    assert finding.numbers["slm_bytes_per_iteration"] == 8192
    assert finding.reason == "from blocked to dot_op of dpas"
    # Native code without SLM messages: it was a move between registers.
    assert not find("layout-conversion-in-loop", m.make(ttgir=ttgir))


def test_narrow_accesses(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # 128 x 128 fp16 over 512 lanes are 32 elements a lane: 16 bytes could go at once.
    narrow = _pointers(m, shape=(128, 128), bytes_per_access=2)
    wide = _pointers(m, shape=(128, 128), bytes_per_access=16, site=m.site(11))
    # 512 elements over 512 lanes: 2 bytes are all that a lane has.
    small = _pointers(m, shape=(512,), bytes_per_access=2, site=m.site(12))
    evidence = m.make(ttgir=m.ttgir(accesses=(narrow, wide, small)))
    finding = one("uncoalesced-access", evidence)
    assert finding.numbers == {"bytes_per_access": 2, "possible_bytes": 16}


# registers, occupancy, prefetch


def test_spill_with_its_units(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # IGC: "spilled around 107" registers of 64 bytes = 6848 bytes a thread = 428 a lane of 16
    native = m.native(
        grf_count=128,
        spill_bytes_per_thread=6848,
        loops=(m.native_loop(scratch_messages=88),),
    )
    finding = one("spill", m.make(native=native))
    assert finding.line == 9
    assert finding.numbers == {
        "spill_bytes_per_thread": 6848,
        "spill_bytes_per_lane": 428,
        "spilled_registers": 107,
        "scratch_messages_in_main_loop": 88,
        "grf_count": 128,
        "larger_grf_count": 256,
    }
    assert "256 registers hold the 107" in (finding.remedy or "")


def test_what_a_larger_register_mode_can_not_do(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def remedy(spill: int, grf: int = 128, warps: int = 32) -> str:
        native = m.native(grf_count=grf, spill_bytes_per_thread=spill)
        finding = one("spill", m.make(native=native, ttgir=m.ttgir(num_warps=warps)))
        assert finding.severity == "note"  # no scratch message in the main loop
        return finding.remedy or ""

    assert "hold 128 of the 258" in remedy(16512)
    assert "at most 32 warps instead of 64" in remedy(64, warps=64)
    assert "registers" not in remedy(64, grf=256)  # nothing larger on this device


def test_slm_that_limits_occupancy(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make(
        launch=m.launch(grid=(1024, 1, 1)),
        ttgir=m.ttgir(num_warps=16),
        native=m.native(grf_count=128, slm_bytes=34816),
    )
    numbers = one("slm-limits-occupancy", evidence).numbers
    # 34816 B take 48 KB: 2 in 128 KB, where 64 threads would hold 4 of 16 sub-groups
    assert numbers["slm_allocated_bytes"] == 49152
    assert numbers["work_groups_per_xe_core"] == 2
    assert numbers["possible_work_groups_per_xe_core"] == 4
    assert not find("slm-limits-occupancy", m.make())


def test_a_loop_without_prefetch(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    native = m.native(loops=(m.native_loop(loads_2d=0, prefetches_2d=0, global_loads=4),))
    finding = one("missing-prefetch", m.make(native=native))
    assert finding.line == 9
    assert finding.numbers["loads_in_main_loop"] == 4
    assert "4 load messages" in finding.message
    once = m.ttir(loops=(m.loop(trip_count=1),))
    assert not find("missing-prefetch", m.make(native=native, ttir=once))
    # the compiler prefetches nothing but operands of dots, so that nothing is amiss here
    assert not find("missing-prefetch", m.make(native=native, ttgir=m.ttgir(dots=())))


# programs


def _elementwise(m: ModuleType, name: str, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "kernel": name,
        "launch": m.launch(
            index=1, kernel=name, line=48, values={"x": m.tensor(4096, 4096),
                                                   "y": m.tensor(4096, 4096)},
        ),
        "ttir": m.ttir(
            dots=(), loops=(),
            accesses=(
                m.access(kind="pointer", shape=(1024,), loop=None, argument="x"),
                m.access(kind="pointer", shape=(1024,), loop=None, argument="y", op="store"),
            ),
        ),
    }  # fmt: skip
    return m.make(**{**values, **changes})


def _many(*evidence: Evidence) -> list[Finding]:
    return [item for item in judge_program(evidence, B70) if item.kind == "many-kernels"]


def test_an_elementwise_kernel_after_a_gemm(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    found = _many(m.make(), _elementwise(m, "gelu"))
    assert [item.kernel for item in found] == ["gelu"]
    assert "that 'gemm' has just stored" in found[0].message
    assert found[0].line == 48
    assert found[0].numbers == {"intermediate_bytes": 33554432, "saved_bytes": 67108864}


def test_kernels_that_share_no_tensor_or_are_both_heavy(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    other = m.launch(values={"x": m.tensor(64, 64), "y": m.tensor(64, 64)})
    assert not _many(m.make(), _elementwise(m, "gelu", launch=other))
    assert not _many(m.make(), m.make(kernel="second"))


def test_configurations_of_one_launch_are_not_many_kernels(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    configurations = [
        _elementwise(m, "gelu", launch={**_elementwise(m, "gelu").launch, "config_index": i})
        for i in range(3)
    ]
    assert not _many(*configurations)


def test_the_same_finding_of_several_launches_stands_once(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    native = m.native(grf_count=128, spill_bytes_per_thread=64)
    launches = [m.make(native=native, launch=m.launch(index=i)) for i in range(3)]
    found = [item for item in judge_program(launches, B70) if item.kind == "spill"]
    assert [item.launch_index for item in found] == [0]


def test_evidence_of_a_cuda_device_is_judged_by_what_was_read(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    ttgir = m.ttgir(dialect="none", dpas=(), dots=(m.dot(on_dpas=None),), threads_per_warp=32)
    evidence = m.make(device="h200", ttgir=ttgir, spirv=None, native=None, ptx=m.ptx())
    assert judge(evidence, load_device("h200")) == ()
    heavy = m.make(device="h200", ttgir=m.ttgir(shared_bytes=300000), spirv=None, native=None)
    assert one("slm-over-limit", heavy, "h200").numbers["limit_bytes"] == 232448


def test_suppressed_kinds_and_the_order(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    bad = {
        "native": m.native(slm_bytes=200000, spill_bytes_per_thread=64, grf_count=128),
        "ttgir": m.ttgir(dots=(m.dot(on_dpas=False),)),
    }
    severities = [item.severity for item in judge(m.make(**bad), B70)]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert not find("dot-not-dpas", m.make(**bad, suppress=("dot-not-dpas",)))
