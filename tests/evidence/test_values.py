"""Ranges, expressions and slopes of the C++ passes, held against plain Python arithmetic."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xesmith.passes.pipeline import run_pipeline

pytestmark = pytest.mark.mlir

#: programs that are evaluated one by one; of more all at once
MAX_PROGRAMS = 1 << 16
GRID = (3, 2, 1)
ARGUMENTS = {"m": 37, "k": 64, "s": 5}


def answers(body: str, grid: tuple[int, int, int] = GRID) -> list[dict[str, Any]]:
    """What is proven of the operand of each `ask(%value)`, in order."""
    text = f"""
"builtin.module"() ({{
  "tt.func"() <{{sym_name = "f"}}> ({{
  ^bb0(%p: !tt.ptr<f16>, %m: i32 loc("m"), %k: i32 loc("k"), %s: i32 loc("s")):
    {body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    values = ",".join(f"{name}={value}" for name, value in ARGUMENTS.items())
    pipeline = f"xesmith-ask{{values={values} grid={','.join(str(n) for n in grid)}}}"
    return [json.loads(r.message) for r in run_pipeline(text, pipeline, keep_text=False).remarks]


def ask(name: str, kind: str = "i32") -> str:
    return f'"xesmith.ask"(%{name}) : ({kind}) -> ()'


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
    body = "\n".join(
        [
            *head,
            '"scf.for"(%c0, %k, %c4) ({',
            "^bb0(%i: i32):",
            *(binary(f"v{i}", *line) for i, line in enumerate(lines)),
            *(ask(f"v{i}") for i in range(len(lines))),
            '"scf.yield"() : () -> ()',
            "}) : (i32, i32, i32) -> ()",
        ]
    )
    for grid in (GRID, (3 * MAX_PROGRAMS, 2, 1)):
        ranges = answers(body, grid)
        for program, i in product(range(GRID[0] * GRID[1]), range(0, ARGUMENTS["k"], 4)):
            known = {**ARGUMENTS, "c3": 3, "c16": 16, "c0": 0, "i": i}
            known |= {"pid0": program % GRID[0], "pid1": program // GRID[0]}
            for index, (op, left, right) in enumerate(lines):
                result = OPERATORS[op](known[left], known[right])
                known[f"v{index}"] = result
                if not -(2**31) <= result < 2**31:
                    break  # wraps on the device: beyond it nothing is claimed here
                found = ranges[index]
                if "low" in found:
                    at = program if len(found["low"]) > 1 else 0
                    assert found["low"][at] <= result <= found["high"][at], (index, lines[index])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(-60, 60))
def test_comparisons_hold(predicate: int, first: int) -> None:
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
            ask("x", "tensor<64xi1>"),
        ]
    )
    (found,) = answers(body)
    compare = signed[predicate if predicate < 6 else predicate - 4]
    truth = [compare(i, first) for i in range(64)]
    if "low" not in found:
        assert predicate >= 6
        assert first < 0
        return
    assert found["low"][0] <= int(min(truth))
    assert found["high"][0] >= int(max(truth))
    if predicate not in (0, 1):  # one side is a single number, so these are exact
        assert (found["low"][0], found["high"][0]) == (min(truth), max(truth))


def test_value_that_could_wrap_is_not_known() -> None:
    body = "\n".join(
        [
            constant("c", 2**30),
            binary("a", "addi", "c", "c"),
            binary("b", "muli", "c", "c"),
            ask("a"),
            ask("b"),
        ]
    )
    assert [("low" in found) for found in answers(body)] == [False, False]


def test_carried_counter_grows_by_its_step() -> None:
    body = f"""
    {constant("c0", 0)}
    {constant("c2", 2)}
    %end:2 = "scf.for"(%c0, %k, %c2, %m, %s) ({{
    ^bb0(%i: i32, %a: i32, %b: i32):
      {ask("a")}
      {binary("next", "addi", "a", "c2")}
      {binary("twice", "muli", "b", "c2")}
      {ask("b")}
      "scf.yield"(%next, %twice) : (i32, i32) -> ()
    }}) : (i32, i32, i32, i32, i32) -> (i32, i32)
    {ask("end#0")}
    """
    inside, unknown, after = answers(body)
    # 32 iterations: the last step is added after the last of them.
    assert (inside["low"], inside["high"]) == ([37], [37 + 31 * 2])
    assert after["high"] == [37 + 32 * 2]
    assert "low" not in unknown


def test_program_ids_follow_the_grid() -> None:
    x, y = answers("\n".join([pid("x", 0), pid("y", 1), ask("x"), ask("y")]))
    assert x["low"] == x["high"] == [0, 1, 2, 0, 1, 2]
    assert y["low"] == y["high"] == [0, 0, 0, 1, 1, 1]


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
    {ask("tiles")} {ask("half")} {ask("same")} {ask("least")}
    """
    assert [found["text"] for found in answers(body)] == [
        "cdiv(k, 32)", "(k + 1) // 32", "m", "min(m, (k + 1) // 32)",
    ]  # fmt: skip


def test_an_expression_that_doubles_with_every_line_is_none() -> None:
    """Of 40 doublings the text would have 2^40 words; no time and no memory goes into it."""
    lines = [binary("v0", "addi", "m", "k")]
    lines += [binary(f"v{i}", "addi", f"v{i - 1}", f"v{i - 1}") for i in range(1, 40)]
    (found,) = answers("\n".join([*lines, ask("v39")]))
    assert "text" not in found


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
    %x = "arith.muli"(%o, %o) : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
    "xesmith.ask"(%o) : (tensor<64x64xi32>) -> ()
    "xesmith.ask"(%x) : (tensor<64x64xi32>) -> ()
    """
    offset, square = answers(body)
    assert offset["slopes"] == [{"step": "s", "modulo": "m"}, {"step": 2}]
    assert square["slopes"] == [{}, {}]


def test_base_of_an_address_is_known_where_all_ways_lead_to_it() -> None:
    pointer = "!tt.ptr<f16>"
    body = f"""
    %c = "arith.constant"() <{{value = true}}> : () -> i1
    %q = "tt.addptr"(%p, %m) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
    %o = "x.other"() : () -> !tt.ptr<f16>
    %same = "arith.select"(%c, %p, %q) : (i1, !tt.ptr<f16>, !tt.ptr<f16>) -> !tt.ptr<f16>
    %two = "arith.select"(%c, %p, %o) : (i1, !tt.ptr<f16>, !tt.ptr<f16>) -> !tt.ptr<f16>
    %if = "scf.if"(%c) ({{
      "scf.yield"(%q) : (!tt.ptr<f16>) -> ()
    }}, {{
      "scf.yield"(%o) : (!tt.ptr<f16>) -> ()
    }}) : (i1) -> !tt.ptr<f16>
    %loop = "scf.for"(%m, %k, %s, %q) ({{
    ^bb0(%i: i32, %a: !tt.ptr<f16>):
      %n = "tt.addptr"(%a, %s) : (!tt.ptr<f16>, i32) -> !tt.ptr<f16>
      "scf.yield"(%n) : (!tt.ptr<f16>) -> ()
    }}) : (i32, i32, i32, !tt.ptr<f16>) -> !tt.ptr<f16>
    {ask("same", pointer)} {ask("two", pointer)} {ask("if", pointer)} {ask("loop", pointer)}
    """
    found = [one.get("argument") for one in answers(body)]
    assert found == ["arg0", None, None, "arg0"]
