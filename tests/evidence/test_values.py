"""Ranges, expressions and slopes: held against plain Python arithmetic."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xesmith.evidence.mlir import Operation, Value, parse_module
from xesmith.evidence.values import MAX_PROGRAMS, Slope, Values

pytestmark = pytest.mark.mlir

GRID = (3, 2, 1)
ARGUMENTS = {"m": 37, "k": 64, "s": 5}


def function(body: str) -> Operation:
    text = f"""
"builtin.module"() ({{
  "tt.func"() <{{sym_name = "f"}}> ({{
  ^bb0(%p: !tt.ptr<f16>, %m: i32, %k: i32, %s: i32):
    {body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    return parse_module(text).body()[0]


def values_of(
    body: str, grid: tuple[int, int, int] = GRID
) -> tuple[Values, dict[str, Value], Operation]:
    """The analysis, and the operand of each `"t.NAME"(%value)` by its name."""
    func = function(body)
    marks = {op.name[2:]: op.operands[0] for op in func.walk() if op.name.startswith("t.")}
    return Values(func, ["p", *ARGUMENTS], ARGUMENTS, grid), marks, func


def constant(name: str, value: int) -> str:
    return f'%{name} = "arith.constant"() <{{value = {value} : i32}}> : () -> i32'


def pid(name: str, axis: int) -> str:
    return f'%{name} = "tt.get_program_id"() <{{axis = {axis} : i32}}> : () -> i32'


def binary(name: str, op: str, left: str, right: str) -> str:
    return f'%{name} = "arith.{op}"(%{left}, %{right}) : (i32, i32) -> i32'


def truncated(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


OPERATORS = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": truncated,
    "remsi": lambda a, b: a - b * truncated(a, b),
    "minsi": min,
    "maxsi": max,
    "andi": lambda a, b: a & b,
}
LEAVES = ["m", "k", "s", "pid0", "pid1", "c3", "c16", "c0", "i"]


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """(operator, left, right) lines; operands are leaves or the results of earlier lines."""
    lines: list[tuple[str, str, str]] = []
    for index in range(draw(st.integers(1, 8))):
        names = LEAVES + [f"v{i}" for i in range(index)]
        op = draw(st.sampled_from(sorted(OPERATORS)))
        right = draw(
            st.sampled_from(["k", "s", "c3", "c16"] if op in ("divsi", "remsi") else names)
        )
        lines.append((op, draw(st.sampled_from(names)), right))
    return lines


@settings(max_examples=150, deadline=None)
@given(programs())
def test_ranges_hold_every_value(lines: list[tuple[str, str, str]]) -> None:
    """Inside a loop of 0, 4, 8 .. below k, in every program: nothing falls out of its range."""
    head = [constant("c3", 3), constant("c16", 16), constant("c0", 0), constant("c4", 4)]
    head += [pid("pid0", 0), pid("pid1", 1)]
    inside = [binary(f"v{i}", *line) for i, line in enumerate(lines)]
    marks = [f'"t.v{i}"(%v{i}) : (i32) -> ()' for i in range(len(lines))]
    body = "\n".join(
        [
            *head,
            '"scf.for"(%c0, %k, %c4) ({',
            "^bb0(%i: i32):",
            *inside,
            *marks,
            '"scf.yield"() : () -> ()',
            "}) : (i32, i32, i32) -> ()",
        ]
    )
    for grid in (GRID, (3 * MAX_PROGRAMS, 2, 1)):
        values, marked, _ = values_of(body, grid)
        ranges = [values.range(marked[f"v{i}"]) for i in range(len(lines))]
        for program, i in product(range(GRID[0] * GRID[1]), range(0, ARGUMENTS["k"], 4)):
            known = {**ARGUMENTS, "c3": 3, "c16": 16, "c0": 0, "i": i}
            known |= {"pid0": program % GRID[0], "pid1": program // GRID[0]}
            for index, (op, left, right) in enumerate(lines):
                result = OPERATORS[op](known[left], known[right])
                known[f"v{index}"] = result
                if not -(2**31) <= result < 2**31:
                    break  # wraps on the device: beyond it nothing is claimed here
                found = ranges[index]
                if found is not None:
                    at = program if found.low.size > 1 else 0
                    assert found.low[at] <= result <= found.high[at], (index, lines[index])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(-60, 60), st.integers(-60, 60))
def test_comparisons_hold(predicate: int, first: int, span: int) -> None:
    signed = [
        lambda a, b: a == b,
        lambda a, b: a != b,
        lambda a, b: a < b,
        lambda a, b: a <= b,
        lambda a, b: a > b,
        lambda a, b: a >= b,
    ]
    body = "\n".join(
        [
            constant("c", first),
            '%r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>',
            '%t = "tt.splat"(%c) : (i32) -> tensor<64xi32>',
            f'%x = "arith.cmpi"(%r, %t) <{{predicate = {predicate} : i64}}> : '
            "(tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>",
            '"t.x"(%x) : (tensor<64xi1>) -> ()',
        ]
    )
    values, marked, _ = values_of(body)
    found = values.range(marked["x"])
    compare = signed[predicate if predicate < 6 else predicate - 4]
    truth = [compare(i, first) for i in range(64)]
    if found is None:
        assert predicate >= 6
        assert first < 0
        return
    assert int(found.low[0]) <= int(min(truth))
    assert int(found.high[0]) >= int(max(truth))
    if predicate not in (0, 1):  # one side is a single number, so these are exact
        assert (int(found.low[0]), int(found.high[0])) == (min(truth), max(truth))


def test_value_that_could_wrap_is_not_known() -> None:
    body = "\n".join(
        [
            constant("c", 2**30),
            binary("a", "addi", "c", "c"),
            binary("b", "muli", "c", "c"),
            '"t.a"(%a) : (i32) -> ()',
            '"t.b"(%b) : (i32) -> ()',
        ]
    )
    values, marked, _ = values_of(body)
    assert values.range(marked["a"]) is None
    assert values.range(marked["b"]) is None


def test_carried_counter_grows_by_its_step() -> None:
    body = """
    %c0 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %c2 = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %end:2 = "scf.for"(%c0, %k, %c2, %m, %s) ({
    ^bb0(%i: i32, %a: i32, %b: i32):
      "t.inside"(%a) : (i32) -> ()
      %next = "arith.addi"(%a, %c2) : (i32, i32) -> i32
      %twice = "arith.muli"(%b, %c2) : (i32, i32) -> i32
      "t.unknown"(%b) : (i32) -> ()
      "scf.yield"(%next, %twice) : (i32, i32) -> ()
    }) : (i32, i32, i32, i32, i32) -> (i32, i32)
    "t.after"(%end#0) : (i32) -> ()
    """
    values, marked, func = values_of(body)
    loop = next(op for op in func.walk() if op.name == "scf.for")
    trips = values.trips(loop)
    assert trips is not None
    assert trips.constant == 32
    inside, after = values.range(marked["inside"]), values.range(marked["after"])
    assert inside is not None
    assert after is not None
    assert (int(inside.low[0]), int(inside.high[0])) == (37, 37 + 31 * 2)
    assert int(after.high[0]) == 37 + 32 * 2
    assert values.range(marked["unknown"]) is None


def test_program_ids_follow_the_grid() -> None:
    body = f"""
    {pid("x", 0)}
    {pid("y", 1)}
    "t.x"(%x) : (i32) -> ()
    "t.y"(%y) : (i32) -> ()
    """
    values, marked, _ = values_of(body)
    x, y = values.range(marked["x"]), values.range(marked["y"])
    assert x is not None
    assert y is not None
    assert np.array_equal(x.low, [0, 1, 2, 0, 1, 2])
    assert np.array_equal(y.low, [0, 0, 0, 1, 1, 1])


def test_expressions() -> None:
    body = f"""
    {constant("c31", 31)}
    {constant("c32", 32)}
    {constant("c1", 1)}
    {binary("up", "addi", "k", "c31")}
    {binary("tiles", "divsi", "up", "c32")}
    {binary("odd", "addi", "k", "c1")}
    {binary("half", "divsi", "odd", "c32")}
    {binary("same", "muli", "m", "c1")}
    {binary("least", "minsi", "m", "half")}
    "t.tiles"(%tiles) : (i32) -> ()
    "t.half"(%half) : (i32) -> ()
    "t.same"(%same) : (i32) -> ()
    "t.least"(%least) : (i32) -> ()
    """
    values, marked, _ = values_of(body)
    assert values.text(marked["tiles"]) == "cdiv(k, 32)"
    assert values.text(marked["half"]) == "(k + 1) // 32"
    assert values.text(marked["same"]) == "m"
    assert values.text(marked["least"]) == "min(m, (k + 1) // 32)"


def test_slopes_of_an_offset() -> None:
    """(arange % m)[:, None] * s + arange[None, :] * 2, with 64 > m = 37 rows."""
    body = """
    %r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>
    %sm = "tt.splat"(%m) : (i32) -> tensor<64xi32>
    %w = "arith.remsi"(%r, %sm) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
    %c = "tt.expand_dims"(%w) <{axis = 1 : i32}> : (tensor<64xi32>) -> tensor<64x1xi32>
    %ss = "tt.splat"(%s) : (i32) -> tensor<64x1xi32>
    %cs = "arith.muli"(%c, %ss) : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi32>
    %cb = "tt.broadcast"(%cs) : (tensor<64x1xi32>) -> tensor<64x64xi32>
    %q = "tt.expand_dims"(%r) <{axis = 0 : i32}> : (tensor<64xi32>) -> tensor<1x64xi32>
    %two = "arith.constant"() <{value = dense<2> : tensor<1x64xi32>}> : () -> tensor<1x64xi32>
    %q2 = "arith.muli"(%q, %two) : (tensor<1x64xi32>, tensor<1x64xi32>) -> tensor<1x64xi32>
    %qb = "tt.broadcast"(%q2) : (tensor<1x64xi32>) -> tensor<64x64xi32>
    %o = "arith.addi"(%cb, %qb) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
    "t.o"(%o) : (tensor<64x64xi32>) -> ()
    %x = "arith.muli"(%o, %o) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
    "t.x"(%x) : (tensor<64x64xi32>) -> ()
    """
    values, marked, _ = values_of(body)
    assert values.slopes(marked["o"]) == (Slope("s", modulo="m"), Slope(2))
    assert values.slopes(marked["x"]) is None


def test_base_of_an_address_is_known_where_all_ways_lead_to_it() -> None:
    body = """
    %c = "arith.constant"() <{value = true}> : () -> i1
    %q = "tt.addptr"(%p, %m) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
    %o = "x.other"() : () -> !tt.ptr<f16>
    %same = "arith.select"(%c, %p, %q) : (i1, !tt.ptr<f16>, !tt.ptr<f16>) -> !tt.ptr<f16>
    %two = "arith.select"(%c, %p, %o) : (i1, !tt.ptr<f16>, !tt.ptr<f16>) -> !tt.ptr<f16>
    %if = "scf.if"(%c) ({
      "scf.yield"(%q) : (!tt.ptr<f16>) -> ()
    }, {
      "scf.yield"(%o) : (!tt.ptr<f16>) -> ()
    }) : (i1) -> !tt.ptr<f16>
    %loop = "scf.for"(%m, %k, %s, %q) ({
    ^bb0(%i: i32, %a: !tt.ptr<f16>):
      %n = "tt.addptr"(%a, %s) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
      "scf.yield"(%n) : (!tt.ptr<f16>) -> ()
    }) : (i32, i32, i32, !tt.ptr<f16>) -> !tt.ptr<f16>
    "t.same"(%same) : (!tt.ptr<f16>) -> ()
    "t.two"(%two) : (!tt.ptr<f16>) -> ()
    "t.if"(%if) : (!tt.ptr<f16>) -> ()
    "t.loop"(%loop) : (!tt.ptr<f16>) -> ()
    """
    values, marked, _ = values_of(body)
    found = {name: values.base_argument(value) for name, value in marked.items()}
    assert found == {"same": "p", "two": None, "if": None, "loop": "p"}
