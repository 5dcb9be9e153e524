"""The cost model against arithmetic by hand and against the order of known configurations."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest

from xesmith.cost import derive, order_key
from xesmith.cost.dealing import busiest_share
from xesmith.cost.executed import (
    UnknownTripsError,
    executed,
    loop_times,
    mean_iterations,
    trip_count,
)
from xesmith.cost.model import dram_bytes, predict, tensor_bytes
from xesmith.cost.occupancy import occupancy, residency
from xesmith.device import load_device
from xesmith.evidence.record import ProgramGroup

B70 = load_device("bmg-g31")

#: fp16 GEMM for bmg-g31 as the compiler made it: (block pointers, BM, BN, warps, GRF,
#: instructions, dpas, 2D loads + prefetches, global loads, SLM, scratch, spill, SLM bytes)
TABLE: dict[str, tuple[Any, ...]] = {
    "bp 256x256 w32 g256": (True, 256, 256, 32, 256, 61, 32, 5, 0, 0, 0, 0, 0),
    "bp 256x256 w32 g128": (True, 256, 256, 32, 128, 306, 32, 5, 0, 0, 88, 6848, 0),
    "bp 256x256 w64 g128": (True, 256, 256, 64, 128, 111, 16, 4, 0, 0, 24, 1536, 0),
    "bp 128x128 w32 g128": (True, 128, 128, 32, 128, 35, 8, 4, 0, 0, 0, 0, 0),
    "bp 256x128 w16 g256": (True, 256, 128, 16, 256, 61, 32, 5, 0, 0, 0, 0, 0),
    "tp 128x128 w32 g256": (False, 128, 128, 32, 256, 323, 8, 0, 2, 100, 0, 0, 34816),
    "tp 64x64 w4 g256": (False, 64, 64, 4, 256, 820, 16, 0, 8, 138, 0, 0, 9216),
}


def table_evidence(m: ModuleType, row: str, size: int = 4096) -> Any:
    """Evidence of one row of the table for a square GEMM of that size."""
    blocks, bm, bn, warps, grf, instructions, dpas, loads, plain, slm, scratch, spill, slm_bytes = (
        TABLE[row]
    )
    prefetches = 2 if blocks else 0
    # The operands of one K step of 32: a warp tile of area bm * bn / warps is about square.
    side = math.isqrt(bm * bn // warps)
    dot = m.dot(m=bm, n=bn, k=32)
    a = m.tensor(size, size)
    return m.make(
        kernel=row,
        launch=m.launch(grid=((size // bm) * (size // bn), 1, 1), values={"a": a, "b": a, "c": a}),
        ttir=m.ttir(
            dots=(dot,),
            loops=(m.loop(trip_count=size // 32),),
            flop_per_program=2.0 * bm * bn * size,
            bytes_loaded_per_program=2.0 * (bm + bn) * size,
            bytes_stored_per_program=2.0 * bm * bn,
        ),
        ttgir=m.ttgir(num_warps=warps, dots=(dot,), shared_bytes=slm_bytes),
        native=m.native(
            grf_count=grf,
            instructions=instructions + 200,
            dpas=dpas,
            spill_bytes_per_thread=spill,
            slm_bytes=slm_bytes,
            scratch_messages=scratch,
            slm_messages=slm,
            global_loads=plain,
            sends_2d=tuple(
                m.send_2d(width=16, height=side, blocks=2) for _ in range(2 if blocks else 0)
            ),
            loops=(
                m.native_loop(
                    instructions=instructions,
                    dpas=dpas,
                    loads_2d=loads - prefetches,
                    prefetches_2d=prefetches,
                    global_loads=plain,
                    slm_messages=slm,
                    scratch_messages=scratch,
                ),
            ),
        ),
    )


def test_the_known_best_configuration_comes_first(evidence_maker: ModuleType) -> None:
    seconds = {}
    for row in TABLE:
        prediction = predict(table_evidence(evidence_maker, row), B70)
        assert prediction.seconds is not None, prediction.why_not
        seconds[row] = prediction.seconds
    order = sorted(seconds, key=lambda row: seconds[row])
    assert order[0] == "bp 256x256 w32 g256"
    assert order[1] == "bp 256x128 w16 g256"
    # Far behind: 88 spill messages a step, and operands that go through SLM.
    last = {"bp 256x256 w32 g128", "tp 128x128 w32 g256", "tp 64x64 w4 g256"}
    assert set(order[-3:]) == last
    assert seconds[order[-3]] > 2 * seconds[order[-4]]


def test_bounds_are_named(evidence_maker: ModuleType) -> None:
    bounds = {row: predict(table_evidence(evidence_maker, row), B70).bound_by for row in TABLE}
    assert bounds["bp 256x256 w32 g256"] == "dpas"
    assert bounds["bp 256x256 w32 g128"] == "spill"
    assert bounds["tp 128x128 w32 g256"] == "slm"


def test_the_dpas_time_is_the_roofline_of_the_gemm(evidence_maker: ModuleType) -> None:
    prediction = predict(table_evidence(evidence_maker, "bp 256x256 w32 g256"), B70)
    # 2 * 4096^3 FLOP at 149.4 TFLOP/s = 0.920 ms; 256 tiles on 32 Xe cores leave no tail.
    assert prediction.parts["dpas"] == pytest.approx(2 * 4096**3 / (256 * 256 * 2.28e9))
    assert prediction.seconds is not None
    assert prediction.seconds >= prediction.parts["dpas"]


def test_a_tail_wave_costs_a_whole_round(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # 33 work-groups on 32 Xe cores: one core runs two.
    full = predict(m.make(launch=m.launch(grid=(32, 1, 1))), B70)
    tail = predict(m.make(launch=m.launch(grid=(33, 1, 1))), B70)
    assert tail.parts["dpas"] == 2 * full.parts["dpas"]


@pytest.mark.parametrize(
    ("groups", "share"),
    [
        # (programs, work of one) on 32 Xe cores -> programs of each on the busiest one
        ([(36, 1.0)], [2]),
        ([(4, 2.0), (28, 1.0)], [1, 0]),  # 36 tiles, one program a Xe core: 2 tiles
        ([(28, 0.0), (36, 1.0)], [0, 2]),  # 36 tiles, two programs a Xe core: 2 tiles
        ([(36, 2.0), (28, 1.0)], [2, 0]),  # 100 tiles, two programs a Xe core: 4 tiles
        ([(28, 3.0), (4, 4.0)], [0, 1]),  # 100 tiles, one program a Xe core: 4 tiles
        ([(20, 3.0)], [1]),  # a grid that leaves Xe cores idle
        # Causal attention: 16 lengths, 64 programs of each; 2 of each on every Xe core
        ([(64, float(length)) for length in range(1, 17)], [2] * 16),
        # one of each kind on every Xe core, and what is left over longest first: 5 + 3 and 4 + 3
        ([(33, 3.0), (33, 5.0)], [1, 2]),
    ],
)
def test_what_the_busiest_xe_core_runs(groups: list[tuple[int, float]], share: list[int]) -> None:
    assert busiest_share(groups, 32) == share


def _tiles(m: ModuleType, *groups: tuple[int, int], outer: bool) -> Any:
    """A gemm of 256x256 tiles with K = 4096: (programs, tiles of each of them)."""
    tile_bytes = 2.0 * (256 + 256) * 4096 + 2.0 * 256 * 256
    programs = sum(n for n, _ in groups)
    tiles = sum(n * each for n, each in groups) / programs
    inner = m.loop(index=int(outer), parent=0 if outer else None)
    walk = (m.loop(trip_count=None, trip_mean=tiles),) if outer else ()
    main = m.native_loop(index=int(outer), parent=0 if outer else None)
    around = (m.native_loop(instructions=300),) if outer else ()
    dot = m.dot(loop=int(outer))
    return m.make(
        launch=m.launch(
            grid=(programs, 1, 1),
            values={
                "a": m.tensor(1536, 4096),
                "b": m.tensor(4096, 1536),
                "c": m.tensor(1536, 1536),
            },
        ),
        ttir=m.ttir(
            dots=(dot,),
            loops=(*walk, inner),
            bytes_loaded_per_program=2.0 * (256 + 256) * 4096 * tiles,
            bytes_stored_per_program=2.0 * 256 * 256 * tiles,
            program_groups=tuple(
                ProgramGroup(
                    programs=n,
                    iterations=(*((float(each),) if outer else ()), 128.0 * each),
                    bytes_moved=tile_bytes * each,
                )
                for n, each in groups
            ),
        ),
        ttgir=m.ttgir(dots=(dot,)),
        native=m.native(
            loops=(*around, main),
            main_loop=int(outer),
            sends_2d=tuple(m.send_2d(loop=int(outer)) for _ in range(3)),
        ),
    )


def test_walking_over_tiles_does_not_speed_up_the_busiest_core(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # 36 tiles on 32 Xe cores: some core computes two, whoever deals them.
    each = predict(_tiles(m, (36, 1), outer=False), B70)
    walked = predict(_tiles(m, (28, 1), (4, 2), outer=True), B70)
    # 2 tiles of 2 * 256 * 256 * 4096 FLOP on 8 XVEs of 256 FLOP/clock at 2.28 GHz: 230 us
    two_tiles = 2 * 2 * 256 * 256 * 4096 / (8 * 256 * 2.28e9)
    assert two_tiles == pytest.approx(229.95e-6, rel=1e-4)
    for prediction in (each, walked):
        assert prediction.parts["dpas"] == pytest.approx(two_tiles)
        # what two tiles load and store, at 64 B/clock
        assert prediction.parts["l2"] == pytest.approx(2 * 4325376 / 64 / 2.28e9)
    for part in ("dpas", "l1", "latency", "l2", "memory"):
        assert walked.parts[part] == pytest.approx(each.parts[part]), part
    assert walked.seconds == pytest.approx(each.seconds, rel=0.01)
    # Where the tiles come out even there is nothing to lose: 64 tiles, 2 for each of 32.
    even = predict(_tiles(m, (32, 2), outer=True), B70)
    assert even.parts["dpas"] == pytest.approx(two_tiles)
    # What memory delivers follows all tiles, not the busiest core's.
    assert even.parts["memory"] == pytest.approx(64 / 36 * walked.parts["memory"])


def test_programs_that_differ_are_dealt_as_whole_programs(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # 32 programs on 32 Xe cores: half run one loop, half the other. No core runs both.
    groups = tuple(
        ProgramGroup(programs=16, iterations=iterations, bytes_moved=100.0)
        for iterations in ((128.0, 0.0), (0.0, 128.0))
    )
    evidence = m.make(
        launch=m.launch(grid=(32, 1, 1)),
        ttir=m.ttir(dots=(), loops=(m.loop(), m.loop(index=1)), program_groups=groups),
        ttgir=m.ttgir(dots=()),
        native=m.native(
            instructions=200,
            loops=(
                m.native_loop(instructions=50, dpas=0),
                m.native_loop(index=1, instructions=60, dpas=0),
            ),
        ),
    )
    run = executed(evidence, 32)
    assert (run.work_groups, run.bytes_moved) == (1, 100.0)
    # 90 outside the loops, and the longer one of them 128 times
    assert run.counts["instructions"] == 90 + 60 * 128


def test_the_issue_time(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def cycles(**native: Any) -> float:
        # 32 work-groups, so 32 sub-groups per Xe core, 4 per XVE.
        evidence = m.make(launch=m.launch(grid=(32, 1, 1)), native=m.native(**native))
        return predict(evidence, B70).parts["issue"] * 2.28e9 / 4

    # 300 instructions once and the loop of 61 another 127 times; 32 of each 61 are dpas.
    assert cycles() == pytest.approx(268 + 29 * 127)
    straight: dict[str, Any] = {"loops": (), "main_loop": None, "sends_2d": (), "dpas": 0}
    # 100 math instructions take 4 clocks per 16 lanes: more than 300 instructions issue in
    assert cycles(**straight, pipes={"math": 100, "int": 200}) == pytest.approx(400)
    assert cycles(**straight, simd_size=32, pipes={"int": 200}) == pytest.approx(400)
    assert cycles(**straight, simd_size=32, pipes={"int": 90, "float": 90}) == pytest.approx(300)


def test_spill_traffic_is_served_by_l1_as_far_as_it_fits(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def spill(per_thread: int) -> float:
        native = m.native(
            spill_bytes_per_thread=per_thread,
            scratch_messages=10,
            loops=(m.native_loop(scratch_messages=10),),
        )
        return predict(m.make(launch=m.launch(grid=(32, 1, 1)), native=native), B70).parts["spill"]

    # 10 messages x 128 trips x 256 B x 32 threads at 256 B/clock (4096 B x 32 threads = 128 KB)
    assert spill(4096) == pytest.approx(10 * 128 * 256 * 32 / 256 / 2.28e9)
    # Twice the scratch: half of it at L2's 64 B/clock
    half = (1 / 256 + 1 / 64) / 2
    assert spill(8192) == pytest.approx(10 * 128 * 256 * 32 * half / 2.28e9)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("cri", "xe_cores, clock_hz, memory_bytes_per_second, fp16_dpas_flop_per_clock_per_xve"),
        ("lnl-m", "clock_hz"),
        ("ptl-h", "clock_hz, memory_bytes_per_second, fp16_dpas_flop_per_clock_per_xve"),
        ("pvc-max-1100", "clock_hz, memory_bytes_per_second"),
    ],
)
def test_a_missing_device_fact_is_named(
    evidence_maker: ModuleType, name: str, missing: str
) -> None:
    prediction = predict(evidence_maker.make(), load_device(name))
    assert prediction.seconds is None
    assert prediction.why_not == f"{name} has no {missing}"


def test_what_cannot_be_predicted_says_why(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    reasons = {
        "native": m.make(native=None, not_read={"native": "ocloc refused it"}),
        "cannot run": m.make(failure={"kind": "out_of_resources", "message": "SLM"}),
        "bytes": m.make(ttir=m.ttir(bytes_loaded_per_program=None)),
        "line 9": m.make(
            ttir=m.ttir(loops=(m.loop(trip_count=None),)),
        ),
        "no work-group fits": m.make(native=m.native(slm_bytes=135168)),
    }
    for text, evidence in reasons.items():
        prediction = predict(evidence, B70)
        assert prediction.seconds is None
        assert text in (prediction.why_not or "")


def test_float64_is_slow_on_arc_and_not_on_max(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def issue(device: str, f64: int) -> float:
        native = m.native(f64_instructions=f64, loops=(), main_loop=None, sends_2d=())
        return predict(m.make(native=native), load_device(device)).parts["issue"]

    # Arc: 16 lanes x 2 FLOP at 2 FLOP/clock are 16 clocks for each of 100; else 268 clocks.
    assert issue("bmg-g31", 100) / issue("bmg-g31", 0) == pytest.approx(1600 / 268)
    assert issue("pvc", 100) == issue("pvc", 0)


def test_occupancy_and_its_limits(evidence_maker: ModuleType) -> None:
    m = evidence_maker

    def limited(grid: int = 4096, warps: int = 32, **native: Any) -> tuple[int, float, str]:
        evidence = m.make(
            launch=m.launch(grid=(grid, 1, 1)),
            ttgir=m.ttgir(num_warps=warps),
            native=m.native(**native),
        )
        result = occupancy(evidence, B70)
        assert result is not None
        return (result.threads_per_xve, result.fraction, result.limited_by)

    assert limited(grf_count=128) == (8, 1.0, "none")
    assert limited(grf_count=256) == (4, 0.5, "grf")
    # 34816 B are allocated as 48 KB: two work-groups of 16 sub-groups in 128 KB
    assert limited(grf_count=128, warps=16, slm_bytes=34816) == (4, 0.5, "slm")
    assert limited(grf_count=128, warps=4, grid=64) == (1, 0.125, "grid")  # 2 per Xe core
    assert limited(grf_count=128, warps=4, grid=32) == (1, 0.0625, "grid")


def test_nothing_is_resident_where_nothing_fits(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    assert residency(m.make(native=m.native(slm_bytes=135168)), B70) is None
    # 64 sub-groups of 256 registers: only 32 threads per Xe core
    assert residency(m.make(ttgir=m.ttgir(num_warps=64)), B70) is None


def test_dram_traffic_of_a_tiled_gemm(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    evidence = m.make()
    resident = residency(evidence, B70)
    assert resident is not None
    # 256 programs ask for 4 MB each; 32 run together and share as a square of tiles.
    asked, stored = 256 * 2.0 * 512 * 4096, 2.0 * 4096 * 4096
    assert dram_bytes(evidence, B70, resident) == pytest.approx(asked / math.sqrt(32) + stored)
    # Where everything fits in L2 (408 MB of Max 1550), each operand is loaded once.
    pvc = load_device("pvc")
    assert dram_bytes(evidence, pvc, resident) == 3 * stored


def test_every_tensor_is_loaded_at_least_once_but_no_more_than_asked(
    evidence_maker: ModuleType,
) -> None:
    m = evidence_maker
    # 32 programs of a large grid's first wave that ask for little
    evidence = m.make(ttir=m.ttir(bytes_loaded_per_program=64.0, bytes_stored_per_program=0.0))
    resident = residency(evidence, B70)
    assert resident is not None
    assert dram_bytes(evidence, B70, resident) == 64.0 * 256


def test_a_broadcast_dimension_counts_once(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    row = m.tensor(4096, 4096, strides=(0, 1))
    evidence = m.make(launch=m.launch(values={"a": row, "b": row, "c": row}))
    assert tensor_bytes(evidence, "store") == 4096 * 2


def test_trip_counts_from_expressions(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    values = {"K": 4095, "BLOCK_K": 32}
    loop = m.loop(trip_count=None, trip_expression="cdiv(K, BLOCK_K)")
    assert trip_count(loop, values) == 128
    assert trip_count(m.loop(trip_count=None, trip_expression="cdiv(Q, 2)"), values) is None
    assert trip_count(m.loop(trip_count=None, trip_expression="K //"), values) is None
    assert trip_count(m.loop(trip_count=None), values) is None


def test_a_loop_that_igc_unrolled_runs_less_often(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    # 2 * 256 * 256 * 32 FLOP over 32 warps are 32 dpas of 4096 FLOP; 64 means unrolled by two.
    native = m.native(loops=(m.native_loop(dpas=64),))
    assert loop_times(m.ttir(), m.ttgir(), m.native(), [128]) == [128]
    assert loop_times(m.ttir(), m.ttgir(), native, [128]) == [64]


def test_nested_loops_multiply(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    ttir = m.ttir(
        dots=(),
        loops=(m.loop(trip_count=3), m.loop(index=1, parent=0, trip_count=5)),
    )
    native = m.native(
        instructions=100,
        loops=(
            m.native_loop(instructions=50, dpas=0),
            m.native_loop(index=1, parent=0, instructions=20, dpas=0),
        ),
        main_loop=1,
    )
    assert mean_iterations(ttir, {}) == [3, 15]
    assert loop_times(ttir, m.ttgir(dots=()), native, [3, 15]) == [3, 15]
    run = executed(m.make(ttir=ttir, ttgir=m.ttgir(dots=()), native=native), 32)
    # 50 outside the loops once, 30 of the outer body 3 times, 20 of the inner 15 times
    assert run.counts["instructions"] == 50 + 30 * 3 + 20 * 15


def test_another_nest_in_native_code_matches_the_main_loop(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    native = m.native(
        loops=(m.native_loop(dpas=0, loads_2d=0), m.native_loop(index=1)), main_loop=1
    )
    assert loop_times(m.ttir(), m.ttgir(), native, [128]) == [1, 128]
    unknown = m.ttir(loops=(m.loop(trip_count=None),))
    with pytest.raises(UnknownTripsError, match="line 9"):
        loop_times(unknown, m.ttgir(), native, [None])


def _two_versions(m: ModuleType, reached: int) -> Any:
    """A loop that the compiler made with and without masks; IGC put the masked one first."""

    def access(loop: int, masked: bool) -> Any:
        return m.access(kind="pointer", loop=loop, masked=masked, reached=loop == reached)

    return m.make(
        ttir=m.ttir(
            dots=tuple(m.dot(loop=i, reached=i == reached) for i in range(2)),
            accesses=(access(0, False), access(1, True)),
            loops=tuple(m.loop(index=i, trip_count=32, reached=i == reached) for i in range(2)),
        ),
        native=m.native(
            instructions=1000,
            loops=(
                m.native_loop(instructions=453, prefetches_2d=0),
                m.native_loop(index=1, instructions=406, prefetches_2d=0),
            ),
        ),
    )


@pytest.mark.parametrize(("reached", "native_loop"), [(0, 1), (1, 0)])
def test_only_the_version_of_a_loop_that_runs_counts(
    evidence_maker: ModuleType, reached: int, native_loop: int
) -> None:
    evidence = _two_versions(evidence_maker, reached)
    assert derive(evidence, B70).native.main_loop == native_loop  # type: ignore[union-attr]
    times = [0.0, 0.0]
    times[native_loop] = 32.0
    iterations = mean_iterations(evidence.ttir, {})
    assert loop_times(evidence.ttir, evidence.ttgir, evidence.native, iterations) == times
    own, other = (453, 406) if native_loop == 0 else (406, 453)
    # the code outside both loops once, one loop 32 times, the other never
    assert executed(evidence, 32).counts["instructions"] == 1000 - own - other + 32 * own


def test_order_key_needs_no_clock(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    order = sorted(TABLE, key=lambda row: order_key(table_evidence(m, row)))
    assert order[0].startswith("bp 256x")
    assert order[0].endswith("g256")
    assert order[-1] == "bp 256x256 w32 g128"  # the most spill
    # Dropping masks makes the loop shorter and leaves its 134 SLM messages: that is better.
    masked, bare = (
        m.make(native=m.native(loops=(m.native_loop(instructions=n, dpas=16, slm_messages=134),)))
        for n in (348, 300)
    )
    assert order_key(bare) < order_key(masked)
    failed = m.make(failure={"kind": "out_of_resources", "message": "SLM"})
    assert order_key(m.make()) < order_key(failed) < order_key(m.make(native=None))


def test_derive_fills_in_and_keeps_the_hash(evidence_maker: ModuleType) -> None:
    m = evidence_maker
    once = derive(m.make(), B70, lowered_hash="abc")
    assert once.derived is not None
    assert once.derived.lowered_hash == "abc"
    again = derive(once, B70)
    assert again == once
    assert m.make().derived is None
