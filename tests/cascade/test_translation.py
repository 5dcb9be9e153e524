"""What kernels store with passes and without: the evaluator, and what a difference is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xesmith.cascade.record import LevelResult
from xesmith.cascade.translation import TranslationChecker
from xesmith.cascade.translation_task import programs
from xesmith.cascade.ttir_evaluator import Kernel, UnknownOperationError
from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.pass_plan import NO_PASSES, PassEntry, PassPlan

pytestmark = pytest.mark.mlir


def stored(body: str, arguments: str = "", given: tuple[Any, ...] = ()) -> list[Any]:
    """The values that a kernel of these operations stores as `%v` at offset 0 of `%p`."""
    kinds = ["!tt.ptr<f32>", *[part.split(": ")[1] for part in arguments.split(", ") if part]]
    text = f"""
"builtin.module"() ({{
  "tt.func"() <{{function_type = ({", ".join(kinds)}) -> (), sym_name = "k"}}> ({{
  ^bb0(%p: !tt.ptr<f32>{", " if arguments else ""}{arguments}):
    {body}
    "tt.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    done = Kernel(text).run((None, *given), (0, 0, 0), (1, 1, 1))
    return list(done.images[0][1])


def scalar(operation: str, kind: str, *values: float, operand: str = "i32") -> Any:
    """What one operation on scalars gives; its operands are arguments."""
    names = [f"%a{i}" for i in range(len(values))]
    arguments = ", ".join(f"{name}: {operand}" for name in names)
    kinds = ", ".join(operand for _ in values)
    name, _, attributes = operation.partition(" ")
    store = f'"tt.store"(%p, %v) : (!tt.ptr<f32>, {kind}) -> ()'
    body = f'%v = "{name}"({", ".join(names)}) {attributes} : ({kinds}) -> {kind}\n{store}'
    (value,) = stored(body, arguments, values)
    return value


@pytest.mark.parametrize(
    ("operation", "kind", "values", "result"),
    [
        ("arith.divsi", "i32", (-7, 2), -3),
        ("arith.remsi", "i32", (-7, 2), -1),
        ("arith.floordivsi", "i32", (-7, 2), -4),
        ("arith.ceildivsi", "i32", (7, 2), 4),
        ("arith.divui", "i32", (-1, 2), 2**31 - 1),
        ("arith.shrui", "i32", (-1, 28), 15),
        ("arith.shrsi", "i32", (-16, 2), -4),
        ("arith.maxui", "i32", (-1, 1), -1),
        ("arith.muli", "i32", (2**30, 4), 0),
        ("arith.cmpi <{predicate = 2 : i64}>", "i1", (-1, 0), True),
        ("arith.cmpi <{predicate = 6 : i64}>", "i1", (-1, 0), False),
        ("arith.extui", "i64", (-1,), 2**32 - 1),
        ("arith.trunci", "i8", (300,), 44),
        ("tt.mulhiui", "i32", (-1, -1), -2),
    ],
)
def test_integers(operation: str, kind: str, values: tuple[int, ...], result: object):
    assert scalar(operation, kind, *values) == result


@pytest.mark.parametrize(
    ("predicate", "with_nan", "equal"),
    [(1, False, True), (4, False, False), (8, True, True), (11, True, False), (13, True, False),
     (7, False, True), (14, True, False)],
)  # fmt: skip
def test_comparisons_of_floats_with_a_nan(predicate: int, with_nan: bool, equal: bool):
    name = f"arith.cmpf <{{predicate = {predicate} : i64}}>"
    assert scalar(name, "i1", float("nan"), 1.0, operand="f32") == with_nan
    assert scalar(name, "i1", 1.0, 1.0, operand="f32") == equal


def test_floats_round_to_their_type():
    assert scalar("arith.truncf", "bf16", 1.00390625, operand="f32") == 1.0  # half, to even
    assert scalar("arith.truncf", "bf16", 1.01171875, operand="f32") == 1.015625
    assert scalar("arith.addf", "f16", 2048.0, 1.0, operand="f16") == 2048.0
    assert np.isnan(scalar("arith.maximumf", "f32", float("nan"), 1.0, operand="f32"))
    assert scalar("arith.maxnumf", "f32", float("nan"), 1.0, operand="f32") == 1.0


def test_a_mask_of_one_bit_is_minus_one_where_signs_are_kept():
    extended = '%b = "arith.trunci"(%a) : (i32) -> i1\n%v = "arith.extsi"(%b) : (i1) -> i32\n'
    store = '"tt.store"(%p, %v) : (!tt.ptr<f32>, i32) -> ()'
    assert stored(extended + store, "%a: i32", (3,)) == [-1]


BLOCK = """
%c = "arith.constant"() <{value = 1 : i64}> : () -> i64
%n = "arith.constant"() <{value = 3 : i64}> : () -> i64
%o = "arith.constant"() <{value = -1 : i32}> : () -> i32
%q = "tt.make_tensor_ptr"(%p, %n, %c, %o) <{order = array<i32: 0>}> : (!tt.ptr<f32>, i64, i64, i32) -> !tt.ptr<tensor<8xf32>>
%r = "tt.make_range"() <{end = 8 : i32, start = 0 : i32}> : () -> tensor<8xi32>
%s = "arith.sitofp"(%r) : (tensor<8xi32>) -> tensor<8xf32>
"""  # noqa: E501


def test_a_block_pointer_leaves_out_what_is_outside():
    store = '"tt.store"(%q, %s) <{boundaryCheck = array<i32: 0>}> : (!tt.ptr<tensor<8xf32>>, tensor<8xf32>) -> ()'  # noqa: E501
    assert stored(BLOCK + store) == [1, 2, 3]


def test_a_block_load_pads_what_is_outside_and_reads_back_what_was_stored():
    advance = """
%one = "arith.constant"() <{value = 1 : i32}> : () -> i32
%w = "tt.advance"(%q, %one) : (!tt.ptr<tensor<8xf32>>, i32) -> !tt.ptr<tensor<8xf32>>
"tt.store"(%w, %s) : (!tt.ptr<tensor<8xf32>>, tensor<8xf32>) -> ()
%l = "tt.load"(%q) <{boundaryCheck = array<i32: 0>, operandSegmentSizes = array<i32: 1, 0, 0>, padding = 1 : i32}> : (!tt.ptr<tensor<8xf32>>) -> tensor<8xf32>
"tt.store"(%w, %l) : (!tt.ptr<tensor<8xf32>>, tensor<8xf32>) -> ()
"""  # noqa: E501
    assert stored(BLOCK + advance) == [0, 0, 1, 2, 0, 0, 0, 0]


def test_sums_and_running_sums():
    both = """
%t = "tt.scan"(%s) <{axis = 0 : i32, reverse = false}> ({
^bb0(%a: f32, %b: f32):
  %x = "arith.addf"(%a, %b) : (f32, f32) -> f32
  "tt.scan.return"(%x) : (f32) -> ()
}) : (tensor<8xf32>) -> tensor<8xf32>
%u = "tt.reduce"(%t) <{axis = 0 : i32}> ({
^bb0(%a: f32, %b: f32):
  %x = "arith.addf"(%a, %b) : (f32, f32) -> f32
  "tt.reduce.return"(%x) : (f32) -> ()
}) : (tensor<8xf32>) -> f32
"tt.store"(%p, %u) : (!tt.ptr<f32>, f32) -> ()
"""
    assert stored(BLOCK + both) == [sum(range(8 + 1)) * 7 // 3]  # 0 + 1 + 3 + 6 + ... + 28 = 84


@pytest.mark.parametrize(
    ("operation", "kind", "told"),
    [("tt.elementwise_inline_asm", "f32", "tt.elementwise_inline_asm"),
     ("arith.truncf", "f8E5M2", "the type f8E5M2")],
)  # fmt: skip
def test_what_is_not_known_ends_it(operation: str, kind: str, told: str):
    with pytest.raises(UnknownOperationError, match=told):
        scalar(operation, kind, 1.0, operand="f32")


def test_of_a_large_grid_the_ends_and_some_others_are_run():
    assert sorted(programs((2, 3, 1))) == [(x, y, 0) for x in range(2) for y in range(3)]
    chosen = list(programs((100, 10, 2)))
    assert chosen[:2] == [(0, 0, 0), (99, 9, 1)]
    assert len(set(chosen)) == 8
    assert all(x < 100 and y < 10 and z < 2 for x, y, z in chosen)
    assert list(programs((1, 1, 1))) == [(0, 0, 0)]


SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def softened(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n) * 0.3), mask=i < n)


@triton.jit
def counted(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.histogram(tl.load(x + i), B))


x = torch.empty(4096, device="xpu")
softened[(64,)](x, torch.empty_like(x), 4096, B=64)
i = torch.empty(64, dtype=torch.int32, device="xpu")
counted[(1,)](i, torch.empty_like(i), B=64)
"""
MASKS = PassEntry("softened", "xesmith-drop-true-masks{launch},cse", {"n": 4096}, (64, 1, 1))
EXP2 = PassEntry("softened", "xesmith-exp2", rounds=True)


@pytest.fixture(scope="module")
def checker() -> Iterator[TranslationChecker]:
    made = TranslationChecker(parallel=1)
    yield made
    made.close()


@pytest.mark.intel
class TestPrograms:
    def checked(
        self, lowerer: Lowerer, checker: TranslationChecker, *entries: PassEntry
    ) -> LevelResult:
        plan = PassPlan(entries)
        before, after = (
            {"s": lowerer.run(Program(SOURCE, "s.py", "script", passes=p), native=False)}
            for p in (NO_PASSES, plan)
        )
        return checker.check(before, after, plan, "xpu")

    def test_an_exact_pass(self, lowerer: Lowerer, checker: TranslationChecker):
        result = self.checked(lowerer, checker, MASKS)
        assert result.status == "passed", result
        assert "8 of 64 programs store the same with passes, bit for bit" in result.messages[0]
        assert "trusted" in result.messages[-1]

    def test_rounding_is_let_through_where_it_is_announced(
        self, lowerer: Lowerer, checker: TranslationChecker
    ):
        result = self.checked(lowerer, checker, EXP2)
        assert result.status == "passed", result
        assert 0 < result.facts["launches"][0]["worst"] < 1
        secret = self.checked(lowerer, checker, replace(EXP2, rounds=False))
        assert secret.status == "refused"
        assert "the passes change its results: in program (0, 0, 0)" in secret.messages[0]

    def test_what_cannot_be_evaluated_never_passes(
        self, lowerer: Lowerer, checker: TranslationChecker
    ):
        result = self.checked(lowerer, checker, PassEntry("counted", "cse"))
        assert result.status == "not_read"
        assert "cannot be checked: tt.histogram" in result.messages[0]

    def test_what_is_for_no_launch_is_not_checked(
        self, lowerer: Lowerer, checker: TranslationChecker
    ):
        result = self.checked(lowerer, checker, MASKS, replace(MASKS, values={"n": 64}))
        assert result.status == "not_read"
        assert "for no launch of the spec's shapes" in result.messages[0]
