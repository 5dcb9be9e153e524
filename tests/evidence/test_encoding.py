"""Encodings: parsing, and the shared memory that a conversion between two of them takes."""

from __future__ import annotations

import pytest

from xesmith.evidence.encoding import (
    Encoding,
    contiguous_per_thread,
    conversion_slm_bytes,
    order,
    ownership,
    parse_encoding,
    tile,
)
from xesmith.errors import UnreadableLevelError

DPAS = (
    "#triton_intel_gpu.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, "
    "opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 1], repCluster = [2, 2], "
    "A = [16, 16], B = [16, 32], C = [16, 32]}>"
)
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 8], "
    "warpsPerCTA = [8, 1], order = [1, 0]}>"
)


def operand(index: int, parent: str = DPAS) -> Encoding:
    return parse_encoding(f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}, kWidth = 1}}>")


def test_both_spellings_are_one_kind() -> None:
    old, new = parse_encoding(DPAS), parse_encoding(DPAS.replace("triton_intel_gpu", "ttig"))
    assert old.is_dpas
    assert new.is_dpas
    assert old.parameters == new.parameters
    assert old.integers("warpsPerCTA") == (8, 1)


def test_encodings_nest() -> None:
    deep = parse_encoding(f"#ttg.slice<{{dim = 1, parent = {operand(0).text}}}>")
    assert deep.short == "slice of dot operand 0 of dpas"
    assert deep.parent is not None
    assert deep.parent.is_dpas_operand
    assert deep.parent.parent == parse_encoding(DPAS) or deep.parent.parent is not None


def test_linear_and_lists_of_lists() -> None:
    linear = parse_encoding(
        "#ttg.linear<{register = [[0, 1], [0, 2]], lane = [[1, 0]], warp = [], block = []}>"
    )
    assert linear.kind == "linear"
    assert contiguous_per_thread(linear, 2) == 4


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
    encoding = parse_encoding(text)
    assert encoding.text == text
    assert encoding.parameters == {}


def test_what_is_no_encoding_is_refused() -> None:
    with pytest.raises(UnreadableLevelError):
        parse_encoding("tensor<4xf32>")


def test_tiles_and_orders() -> None:
    assert tile(parse_encoding(BLOCKED), (128, 64)) == (16, 64)
    assert tile(parse_encoding(DPAS), (128, 64)) == (128, 32)
    assert tile(operand(0), (128, 64)) == (128, 16)
    assert tile(operand(1), (64, 64)) == (16, 32)
    column = parse_encoding(f"#ttg.slice<{{dim = 1, parent = {BLOCKED}}}>")
    assert tile(column, (128,)) == (16,)
    assert order(column, 1) == (0,)
    assert contiguous_per_thread(parse_encoding(BLOCKED), 2) == 8


def test_dpas_to_its_own_first_operand_is_free() -> None:
    dpas = parse_encoding(DPAS)
    assert conversion_slm_bytes(dpas, operand(0), (128, 64), 16) == 0
    assert conversion_slm_bytes(dpas, dpas, (128, 64), 16) == 0
    # The second operand is held by other threads.
    assert conversion_slm_bytes(dpas, operand(1), (128, 64), 16) != 0
    # With warps side by side a row of the result is spread over them.
    spread = DPAS.replace("[8, 1]", "[4, 2]")
    assert conversion_slm_bytes(parse_encoding(spread), operand(0, spread), (128, 64), 16) != 0


def test_dpas_to_blocked_goes_through_a_padded_tile() -> None:
    # Seen in flash attention: 128 rows of 64 + 8 halves are 18432 B.
    found = conversion_slm_bytes(parse_encoding(DPAS), parse_encoding(BLOCKED), (128, 64), 16)
    assert found == 128 * (64 + 8) * 2


def test_equal_ownership_is_a_register_move() -> None:
    # One row of a slice of [1, 8] x [1, 16] x [1, 4] is the one-dimensional layout.
    flat = parse_encoding(
        "#ttg.blocked<{sizePerThread = [8], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>"
    )
    row = parse_encoding(
        "#ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 8], "
        "threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>}>"
    )
    assert ownership(flat, (512,)) == ownership(row, (512,))
    assert conversion_slm_bytes(flat, row, (512,), 32) == 0
    other = parse_encoding(
        "#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>"
    )
    assert conversion_slm_bytes(flat, other, (512,), 32) == 512 * 4


def test_ownership_of_a_blocked_layout() -> None:
    layout = parse_encoding(
        "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 2], "
        "warpsPerCTA = [2, 1], order = [1, 0]}>"
    )
    registers, lanes, warps = ownership(layout, (8, 4)) or ((), (), ())
    # Columns: 1 in a thread, 2 by the first lane bit. Rows: 1 by the second lane bit, 2 by the
    # warp bit, 4 by repetition.
    assert registers == ((0, 1), (4, 0))
    assert lanes == ((0, 2), (1, 0))
    assert warps == ((2, 0),)


def test_unknown_layouts_cost_an_unknown_amount() -> None:
    mma = parse_encoding("#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0}>")
    assert conversion_slm_bytes(mma, parse_encoding(BLOCKED), (128, 64), 16) is None
