"""The facade over the MLIR bindings: bounds before parsing, types, attributes, locations."""

from __future__ import annotations

import pytest

from tests.mlir_facade import parse_module, parse_type
from xesmith.errors import UnreadableLevelError
from xesmith.ir_bounds import MAX_NESTING
from xesmith.passes.mlir import check_bounds

pytestmark = pytest.mark.mlir


@pytest.mark.parametrize("bracket", ["[", "<", "{", "("])
def test_deep_nesting_is_refused_before_it_ends_the_process(bracket: str) -> None:
    with pytest.raises(UnreadableLevelError, match="nested deeper"):
        parse_module(f"module attributes {{a = {bracket * 20000}}}")


def test_brackets_in_strings_and_arrows_do_not_nest() -> None:
    check_bounds('"' + "[" * 20000 + '" ' + "() -> " * 20000)


def test_nesting_up_to_the_bound_parses() -> None:
    depth = MAX_NESTING - 8
    body = '"x.op"() {a = ' + "[" * depth + "]" * depth + "} : () -> ()"
    (op,) = parse_module(f'"builtin.module"() ({{ {body} }}) : () -> ()').body()
    assert op.attribute("a") == "[" * depth + "]" * depth


def test_what_is_no_mlir_is_refused() -> None:
    with pytest.raises(UnreadableLevelError, match="MLIR can't parse it"):
        parse_module("this is no IR")


@pytest.mark.parametrize(
    ("text", "kind", "shape", "element", "bits", "pointer"),
    [
        ("i32", "scalar", (), "i32", 32, False),
        ("index", "scalar", (), "index", 64, False),
        ("bf16", "scalar", (), "bf16", 16, False),
        ("f8E5M2", "scalar", (), "f8E5M2", 8, False),
        ("tensor<128x32xf16>", "tensor", (128, 32), "f16", 16, False),
        ("tensor<4x!tt.ptr<f32>, #ttg.blocked<{a = [1, 2]}>>", "tensor", (4,), "f32", 32, True),
        ("!tt.ptr<f16>", "pointer", (), "f16", 16, True),
        ("!tt.ptr<f16, 3>", "pointer", (), "f16", 16, True),
        ("!tt.ptr<tensor<8x16xbf16>>", "block_pointer", (8, 16), "bf16", 16, True),
        ("!tt.tensordesc<tensor<64x64xf16>>", "descriptor", (64, 64), "f16", 16, True),
        ("!tt.tensordesc<64x64xf16, #s.t<{a = 1}>>", "descriptor", (64, 64), "f16", 16, True),
        ("!ttg.memdesc<2x64xf16, #a.b, #ttg.smem>", "memory", (2, 64), "f16", 16, False),
    ],
)
def test_types(
    text: str, kind: str, shape: tuple[int, ...], element: str, bits: int, pointer: bool
) -> None:
    found = parse_type(text)
    assert (found.kind, found.shape, found.element) == (kind, shape, element)
    assert (found.element_bits, found.is_pointer) == (bits, pointer)


def test_encoding_is_cut_out_whole() -> None:
    text = "#ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [1, 0]}>}>"
    assert parse_type(f"tensor<16xf32, {text}>").encoding == text
    assert parse_type(f"!tt.ptr<tensor<16xf32, {text}>>").encoding == text


TEXT = """
"builtin.module"() ({
  "x.outer"() <{number = 3 : i32, flag = true, list = array<i32: 1, 0>}> ({
    %0 = "x.inner"() {name = "text"} : () -> i32 loc(callsite("lib.py":1:2 at "kernel.py":7:9))
    "x.use"(%0) : (i32) -> () loc("named"("kernel.py":8:4))
  }) : () -> () loc(fused["kernel.py":5:1, "kernel.py":6:1])
}) : () -> ()
"""


def test_attributes_by_name_and_places_in_the_kernel() -> None:
    outer = parse_module(TEXT).body()[0]
    assert outer.integer("number") == 3
    assert outer.integer("flag") == 1
    assert outer.integers("list") == (1, 0)
    assert outer.attribute("absent") is None
    assert outer.site.line == 5
    inner, use = outer.body()
    assert inner.attribute("name") == "text"
    assert (inner.site.file, inner.site.line, inner.site.column) == ("kernel.py", 7, 9)
    assert use.site.line == 8
    assert use.operands[0] is inner.results[0]
    assert inner.results[0].owner is inner
    assert [op.name for op in outer.walk()] == ["x.outer", "x.inner", "x.use"]


def test_many_modules_share_a_context() -> None:
    for _ in range(50):
        parse_module(TEXT)
