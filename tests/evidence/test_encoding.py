"""Layouts, as the pass reads them: the shared memory that a conversion takes, and vectors."""

from __future__ import annotations

import pytest

from xesmith.evidence.record import Ttgir
from xesmith.evidence.ttgir import read_ttgir
from xesmith.ghost.launch import Launch

pytestmark = pytest.mark.mlir

LAUNCH = Launch(0, "f", "f.py", 1, (1, 1, 1), {}, {}, {}, (), {})
DPAS = (
    "#triton_intel_gpu.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, "
    "opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 1], repCluster = [2, 2], "
    "A = [16, 16], B = [16, 32], C = [16, 32]}>"
)
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 8], "
    "warpsPerCTA = [8, 1], order = [1, 0]}>"
)


def operand(index: int, parent: str = DPAS) -> str:
    return f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}, kWidth = 1}}>"


def read(body: str) -> Ttgir:
    text = f"""
"builtin.module"() ({{
  "tt.func"() <{{sym_name = "f"}}> ({{
    {body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) {{"ttg.num-warps" = 8 : i32, "ttg.threads-per-warp" = 16 : i32}} : () -> ()
"""
    return read_ttgir(text, LAUNCH, {})


def slm_bytes(source: str, destination: str, shape: str, element: str = "f16") -> int | None:
    """Of a conversion between two layouts."""
    first, second = (f"tensor<{shape}x{element}, {e}>" for e in (source, destination))
    (conversion,) = read(
        f'%a = "x.make"() : () -> {first} %b = "ttg.convert_layout"(%a) : ({first}) -> {second}'
    ).layout_conversions
    assert (conversion.source, conversion.destination) == (source, destination)
    return conversion.slm_bytes


def dot_layout(encoding: str) -> str | None:
    """How a sentence names the layout: of a dot's result."""
    kind = f"tensor<64x64xf16, {encoding}>"
    (dot,) = read(
        f'%a = "x.make"() : () -> {kind} '
        f'%d = "tt.dot"(%a, %a, %a) : ({kind}, {kind}, {kind}) -> {kind}'
    ).dots
    return dot.encoding


def test_both_spellings_are_one_kind() -> None:
    old, new = (
        read(f'%a = "x.make"() : () -> tensor<64x64xf16, {operand(0, text)}>')
        for text in (DPAS, DPAS.replace("triton_intel_gpu", "ttig"))
    )
    assert (old.dialect, new.dialect) == ("none", "none")  # a parent is not what the tensor has
    assert old.dpas == new.dpas
    assert old.dpas[0].warps_per_cta == (8, 1)


def test_encodings_nest() -> None:
    deep = f"#ttg.slice<{{dim = 1, parent = {operand(0)}}}>"
    assert dot_layout(deep) == "slice of dot operand 0 of dpas"


def test_linear_and_lists_of_lists() -> None:
    """Four elements side by side in a thread: 8 B of halves in one access."""
    linear = (
        "#ttg.linear<{register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0]], "
        "warp = [], block = []}>"
    )
    pointers, values = f"tensor<16x4x!tt.ptr<f16>, {linear}>", f"tensor<16x4xi32, {linear}>"
    row = f"tensor<4xi32, #ttg.slice<{{dim = 0, parent = {linear}}}>>"
    one = f"tensor<1x4xi32, {linear}>"
    (load,) = read(
        f'%p = "x.base"() : () -> !tt.ptr<f16> '
        f'%s = "tt.splat"(%p) : (!tt.ptr<f16>) -> {pointers} '
        f'%r = "tt.make_range"() <{{start = 0 : i32, end = 4 : i32}}> : () -> {row} '
        f'%e = "tt.expand_dims"(%r) <{{axis = 0 : i32}}> : ({row}) -> {one} '
        f'%b = "tt.broadcast"(%e) : ({one}) -> {values} '
        f'%q = "tt.addptr"(%s, %b) : ({pointers}, {values}) -> {pointers} '
        f'%x = "tt.load"(%q) : ({pointers}) -> tensor<16x4xf16, {linear}>'
    ).accesses
    assert (load.contiguity, load.bytes_per_access) == (4, 8)


@pytest.mark.parametrize(
    "text",
    [
        "#ttg.padded_shared<[32:+4] {order = [1, 0]}>",
        "#ttg.shared_memory",
        "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64>",
        "#ttg.slice<{dim = 0, parent = " * 100 + "1" + "}>" * 100,
    ],
)
def test_unknown_bodies_are_kept_as_text(text: str) -> None:
    found = read(f'%a = "x.make"() : () -> tensor<64x64xf16, {text}>')
    assert found.encodings == {text: 1}
    assert slm_bytes(text, text, "64x64") == 0
    if text.endswith("]}>"):  # what is not read is not the same
        assert slm_bytes(text, text.replace("+4", "+8"), "64x64") is None


def test_dpas_to_its_own_first_operand_is_free() -> None:
    assert slm_bytes(DPAS, operand(0), "128x64") == 0
    assert slm_bytes(DPAS, DPAS, "128x64") == 0
    # The second operand is held by other threads: 64 columns padded by one, of 128 rows.
    assert slm_bytes(DPAS, operand(1), "128x64") == 128 * (32 + 1) * 2
    # With warps side by side a row of the result is spread over them.
    spread = DPAS.replace("[8, 1]", "[4, 2]")
    assert slm_bytes(spread, operand(0, spread), "128x64") == 64 * (64 + 1) * 2


def test_dpas_to_blocked_goes_through_a_padded_tile() -> None:
    # Seen in flash attention: 128 rows of 64 + 8 halves are 18432 B.
    assert slm_bytes(DPAS, BLOCKED, "128x64") == 128 * (64 + 8) * 2


def test_equal_ownership_is_a_register_move() -> None:
    # One row of a slice of [1, 8] x [1, 16] x [1, 4] is the one-dimensional layout.
    flat = (
        "#ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>"
    )
    row = (
        "#ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 8], "
        "threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>}>"
    )
    assert slm_bytes(flat, row, "512", "f32") == 0
    other = flat.replace("[8]", "[4]")
    assert slm_bytes(flat, other, "512", "f32") == 512 * 4


def test_a_linear_layout_that_owns_the_same_is_a_register_move() -> None:
    """Columns: 1 in a thread, 2 by the first lane bit. Rows: 1 by the second lane bit, 2 by the
    warp bit, 4 by repetition."""
    blocked = (
        "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 2], "
        "warpsPerCTA = [2, 1], order = [1, 0]}>"
    )
    linear = (
        "#ttg.linear<{register = [[0, 1], [4, 0]], lane = [[0, 2], [1, 0]], "
        "warp = [[2, 0]], block = []}>"
    )
    assert slm_bytes(blocked, linear, "8x4") == 0
    assert slm_bytes(blocked, linear.replace("[[0, 2], [1, 0]]", "[[1, 0], [0, 2]]"), "8x4") != 0


def test_predicates_go_through_memory_as_bytes() -> None:
    assert slm_bytes(DPAS, BLOCKED, "128x64", "i1") == 128 * (64 + 8)


def test_unknown_layouts_cost_an_unknown_amount() -> None:
    mma = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0}>"
    assert slm_bytes(mma, BLOCKED, "128x64") is None
