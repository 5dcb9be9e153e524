"""The expression language: what is written out, what is refused."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xesmith.launch_plan.block_runtime import (
    _xs_aligned,
    _xs_cdiv,
    _xs_dtype,
    _xs_max,
    _xs_min,
    _xs_next_power_of_2,
)
from xesmith.launch_plan.expression import PlanError, check_names, parse

HELPERS = {
    "_xs_aligned": _xs_aligned,
    "_xs_cdiv": _xs_cdiv,
    "_xs_dtype": _xs_dtype,
    "_xs_max": _xs_max,
    "_xs_min": _xs_min,
    "_xs_next_power_of_2": _xs_next_power_of_2,
}


class Tensor:
    shape = (6, 4)
    ndim = 2
    dtype = "torch.float16"

    def stride(self, index: int) -> int:
        return (4, 1)[index]

    def numel(self) -> int:
        return 24

    def data_ptr(self) -> int:
        return 4096 + 32

    def is_contiguous(self) -> bool:
        return True


def value(text: str, **names: object) -> object:
    return eval(parse(text, "here").code(), {**HELPERS, **names})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cdiv(10, 4)", 3),
        ("next_power_of_2(33)", 64),
        ("next_power_of_2(32)", 32),
        ("next_power_of_2(1)", 1),
        ("min(n, 3) * max(2, 5, 1) - -1", 16),
        ("(n + 1) * 2 // 3 % 5", 3),
        ("n - (3 - 1)", 2),
        ("-(n + 1)", -5),
        ("a.shape[0] * a.stride[0] + a.shape[-1]", 28),
        ("a.ndim == 2 and a.numel == 24 and a.is_contiguous", True),
        ("a.dtype == 'float16' and a.dtype in ('float16', 'bfloat16')", True),
        ("a.dtype not in ('float32',)", True),
        ("aligned(a, 32) and not aligned(a, 64)", True),
        ("b is None or b > 3", True),
        ("a is not None", True),
        ("1 < n <= 4 != 5", True),
        ("not (n == 4 and (n > 5 or n < 2))", True),
        ("'gelu'", "gelu"),
        ("1.5", 1.5),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert value(text, n=4, a=Tensor(), b=None) == expected


def test_numbers_and_truth_stand_for_themselves() -> None:
    for given_value in (3, True, None, 0.5):
        assert parse(given_value, "here").code() == repr(given_value)


def test_names_are_read_and_replaced() -> None:
    expression = parse("cdiv(M, BM) * a.shape[0]", "here")
    assert expression.names == {"M", "BM", "a"}
    code = expression.code({"BM": "256", "M": "x + 1"})
    assert code == "_xs_cdiv(x + 1, 256) * a.shape[0]"
    with pytest.raises(PlanError, match="unknown name 'BM'") as caught:
        check_names(expression, {"M", "a", "BN"}, "plan.grid")
    assert caught.value.where == "plan.grid"
    assert "did you mean" in str(caught.value.remedy)


def test_attributes_of_self_belong_to_methods() -> None:
    assert parse("self.weight.shape[1]", "here", owner="self").code() == "self.weight.shape[1]"
    assert parse("aligned(self.a.b, 16)", "here", owner="self").names == {"self"}
    for text in ("self.weight", "self._buffers", "self.__class__", "other.weight"):
        owner = None if text == "self.weight" else "self"
        with pytest.raises(PlanError):
            parse(text, "here", owner=owner)


HOSTILE = [
    "__import__('os').system('true')",
    "().__class__.__bases__",
    "a.__class__",
    "a.shape.__len__",
    "a.data_ptr()",
    "a.shape[0:1]",
    "a.shape[i]",
    "a.shape[99]",
    "a['x']",
    "open('x')",
    "cdiv(1)",
    "cdiv(a=1, b=2)",
    "cdiv(*x)",
    "min(1)",
    "lambda: 1",
    "[x for x in y]",
    "(x := 1)",
    "x if y else z",
    "2 ** 9",
    "1 / 2",
    "1 << 9",
    "~1",
    "x is y",
    "x in y",
    "x in (y, 1)",
    "f'{x}'",
    "b'x'",
    "1j",
    "...",
    "(1, 2)",
    "x; y",
    "x = 1",
    "",
    "1\n+ 2\n; x",
    "_xs_run",
    "__name__",
    "'a\\nb'",
    "'" + "x" * 101 + "'",
    "9" * 30,
    "(" * 300 + "x" + ")" * 300,
    "1e999",
    "await x",
    "aligned(1 + x, 4)",
    "aligned(x)",
]


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 3000, " + ".join("x" * 300)])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text, "plan.guard")
    assert caught.value.where == "plan.guard"
    assert caught.value.exit_code == 2
    assert len(caught.value.what) < 400


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abn.()[],'\"+-*/%<>=!~:@{}0129 \n\\_#;", max_size=40))
def test_no_text_gets_through_unchecked(text: str) -> None:
    """Whatever is accepted comes out as an expression of the same few node kinds."""
    try:
        code = parse(text, "here").code()
    except PlanError:
        return
    tree = ast.parse(code, mode="eval")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        if isinstance(call.func, ast.Name):
            assert call.func.id in HELPERS
        else:
            assert isinstance(call.func, ast.Attribute)
            assert call.func.attr in {"stride", "numel", "is_contiguous"}


_LEAVES = st.sampled_from(["n", "m", "3", "7", "1"])


def _combined(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "and", "or"])
    binary = st.tuples(children, operators, children).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    return binary | children.map("(not {})".format) | children.map("(-{})".format)


@settings(max_examples=300, deadline=None)
@given(st.recursive(_LEAVES, _combined, max_leaves=12))
def test_what_is_written_out_means_the_same(text: str) -> None:
    names = {"n": 4, "m": 5}
    try:
        expected = eval(text, dict(names))
    except ZeroDivisionError:
        return
    expression = parse(text, "here")
    assert eval(expression.code(), {**HELPERS, **names}) == expected
    parts = [eval(part, {**HELPERS, **names}) for part in expression.conditions()]
    assert bool(expected) == all(bool(part) for part in parts)
