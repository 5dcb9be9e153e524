"""The passes inside the MLIR Python bindings of this process: each fires, bad input is refused."""

from __future__ import annotations

import pytest

from xesmith.errors import UnreadableLevelError, UsageError
from xesmith.passes.pipeline import CHECKS, run_pipeline
from xesmith.passes.reference import pass_names

pytestmark = pytest.mark.mlir

#: by check: the kind of finding, how many in the small kernel, and a part of the first why
CHECKED = {
    "xesmith-check-block-io": ("load-not-2d-block", 1, "tensor of pointers"),
    "xesmith-check-dpas": ("dot-not-dpas", 1, "'ieee'"),
    "xesmith-check-layout-conversions": ("layout-conversion-in-loop", 1, "to blocked"),
    "xesmith-check-prefetch": ("missing-prefetch", 1, "it made none"),
    "xesmith-check-coalescing": ("uncoalesced-access", 0, ""),
    "xesmith-check-invariants": ("invariant-rebuilt-in-loop", 1, "nothing that they"),
    "xesmith-check-wide-arithmetic": ("f64-arithmetic", 2, "float64 runs"),
    "xesmith-check-masks{values=1=64}": ("needless-mask", 1, "the given sizes"),
}
#: by transform: what it says, and what is in the text after it
TRANSFORMED = {
    "xesmith-specialize-args{values=1=64}": ("1 specialised argument", "dense<64>"),
    "xesmith-narrow-offsets{grid=32}": ("1 narrowed offset", "(!tt.ptr<f32>, i32) -> !tt.ptr<f32>"),
    "xesmith-exp2": ("1 rewritten exponential", '"math.exp2"'),
    "xesmith-hoist-invariant": ("2 hoisted operations", '"tt.splat"'),
    "xesmith-drop-true-masks{values=1=64}": ("1 needless mask", "array<i32: 1, 0, 0>"),
}


def test_every_pass_is_in_these_tables() -> None:
    others = {"xesmith-report", "xesmith-evidence", "xesmith-ask", "xesmith-check-offsets"}
    names = {name.partition("{")[0] for name in (*CHECKED, *TRANSFORMED)}
    assert names | others == set(pass_names())
    assert set(CHECKS) == {name.partition("{")[0] for name in CHECKED}


@pytest.mark.parametrize("name", [name for name, (_, count, _) in CHECKED.items() if count])
def test_each_check_fires(everything: str, name: str) -> None:
    kind, count, why = CHECKED[name]
    result = run_pipeline(everything, name)
    assert [finding["kind"] for finding in result.findings] == [kind] * count
    assert why in result.findings[0]["why"]
    assert result.remarks == ()
    # The text is what it was: no attribute of ours is left in it.
    assert "xesmith." not in result.text
    assert run_pipeline(result.text, name).findings[0]["message"] == result.findings[0]["message"]


def test_the_coalescing_check_fires(everything: str) -> None:
    strided = everything.replace('"tt.broadcast"(%e)', '"op.columns"(%e)')
    assert run_pipeline(strided, "xesmith-check-coalescing").findings == ()
    column = everything.replace(
        '%b = "tt.broadcast"(%e) : (tensor<64x1xi32>) -> tensor<64x64xi32>',
        '%k = "tt.splat"(%n) : (i32) -> tensor<64x1xi32>\n'
        '%j = "arith.muli"(%e, %k) : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi32>\n'
        '%b = "tt.broadcast"(%j) : (tensor<64x1xi32>) -> tensor<64x64xi32>',
    )
    (finding,) = run_pipeline(column, "xesmith-check-coalescing").findings
    assert finding["numbers"] == {"bytes_per_access": 4, "possible_bytes": 16}
    assert finding["severity"] == "warning"
    assert "`arg1`" in finding["why"]


@pytest.mark.parametrize("name", TRANSFORMED)
def test_each_transform_fires(everything: str, name: str) -> None:
    said, written = TRANSFORMED[name]
    result = run_pipeline(everything, name)
    assert [remark.message for remark in result.remarks] == [said]
    assert written in result.text
    assert run_pipeline(result.text, name.partition("{")[0]).text  # it parses again


def test_a_transform_that_finds_nothing_changes_nothing(everything: str) -> None:
    plain = run_pipeline(everything, "xesmith-report").text
    for name in ("xesmith-narrow-offsets", "xesmith-drop-true-masks", "xesmith-specialize-args"):
        result = run_pipeline(plain, name)
        assert result.remarks == ()
        assert result.text == plain


def test_the_report_counts(everything: str) -> None:
    (function,) = run_pipeline(everything, "xesmith-report{values=1=256}").report
    assert function["name"] == "kernel"
    assert function["loads"] == {"tensor_of_pointers": 1}
    # A dot and an exp in each of four iterations.
    assert function["flop_per_program_total"] == 4 * (2 * 64**3 + 64**2)
    assert function["bytes_loaded_per_program_total"] == 4 * 64 * 64 * 4
    assert function["loops"][0]["trip_count"] == 4
    (symbolic,) = run_pipeline(everything, "xesmith-report").report
    assert symbolic["flop_per_program"] == f"cdiv(arg1, 64) * {2 * 64**3 + 64**2}"
    assert "flop_per_program_total" not in symbolic


def test_checks_stands_for_all_of_them(everything: str) -> None:
    kinds = {finding["kind"] for finding in run_pipeline(everything, "checks").findings}
    assert kinds == {
        "load-not-2d-block", "dot-not-dpas", "layout-conversion-in-loop", "missing-prefetch",
        "invariant-rebuilt-in-loop", "f64-arithmetic",
    }  # fmt: skip
    mixed = run_pipeline(everything, "checks,xesmith-exp2,cse")
    assert len(mixed.findings) == len(run_pipeline(everything, "checks").findings)


def test_the_newer_spelling_is_read_alike(everything: str) -> None:
    newer = everything.replace("triton_intel_gpu.support_sg_2d_block", "ttig.support_2d_block_io")
    newer = newer.replace(
        "triton_intel_gpu.support_dpas", "ttig.support_subgroup_matrix_multiply_accumulate"
    )
    assert "triton_intel_gpu" not in newer
    assert run_pipeline(newer, "checks").findings == run_pipeline(everything, "checks").findings


def test_an_unknown_pass_names_the_nearest(everything: str) -> None:
    with pytest.raises(UsageError, match="unknown pass 'xesmith-exp3'") as caught:
        run_pipeline(everything, "xesmith-exp3")
    assert "did you mean 'xesmith-exp2'" in (caught.value.remedy or "")


@pytest.mark.parametrize("pipeline", ["", "xesmith-exp2{", "xesmith-report{value=1}", "a b", "((("])
def test_a_malformed_pipeline_is_refused(everything: str, pipeline: str) -> None:
    with pytest.raises(UsageError):
        run_pipeline(everything, pipeline)


def test_malformed_ir_is_refused_with_its_position() -> None:
    with pytest.raises(UnreadableLevelError) as caught:
        run_pipeline('"builtin.module"() ({\n  %0 = "x"( : () -> i32\n}) : () -> ()', "checks")
    assert caught.value.where == "2:12"


def test_nesting_is_bounded_before_the_parser() -> None:
    with pytest.raises(UnreadableLevelError, match="nested deeper"):
        run_pipeline('"builtin.module"() {a = ' + "[" * 20_000, "checks")
    grown = "".join(f"#a{i} = #ttg.s<{{p = #a{i - 1}}}>\n" for i in range(1, 400))
    with pytest.raises(UnreadableLevelError, match="nested deeper"):
        run_pipeline(f'#a0 = 1 : i32\n{grown}"x"() {{a = #a399}} : () -> ()', "checks")


@pytest.mark.parametrize("shape", ["9223372036854775807x4", "1000000x1000000x1000000", "9" * 9000])
def test_shapes_are_bounded_before_the_parser(shape: str) -> None:
    """MLIR ends the process where a number of elements overflows 64 bits."""
    text = f'%0 = "arith.constant"() <{{value = dense<0> : tensor<{shape}xi32>}}> : () -> i32'
    with pytest.raises(UnreadableLevelError, match="no tile of a kernel"):
        run_pipeline(text, "checks")


@pytest.mark.parametrize("use", ['"y"(%0#2147483647) : (i32) -> ()', "%1:99999 = "])
def test_result_numbers_are_bounded_before_the_parser(use: str) -> None:
    with pytest.raises(UnreadableLevelError, match="as many results"):
        run_pipeline(f'%0 = "x"() : () -> i32\n{use}', "checks")


def test_a_pass_that_refuses_names_its_place(everything: str) -> None:
    with pytest.raises(UnreadableLevelError, match="'9=1' names no argument") as caught:
        run_pipeline(everything, "xesmith-drop-true-masks{values=9=1}")
    assert caught.value.where is not None


def test_deep_definitions_end(everything: str) -> None:
    """A chain of ten thousand operations costs no stack."""
    lines = ['%c0 = "tt.broadcast"(%b) : (tensor<64x64xi32>) -> tensor<64x64xi32>']
    lines += [
        f'%c{i} = "arith.addi"(%c{i - 1}, %b) : (tensor<64x64xi32>, tensor<64x64xi32>) '
        "-> tensor<64x64xi32>"
        for i in range(1, 10_000)
    ]
    deep = everything.replace('%s = "tt.splat"(%n)', "\n".join(lines) + '\n%s = "tt.splat"(%n)')
    deep = deep.replace('"tt.addptr"(%q, %b)', '"tt.addptr"(%q, %c9999)')
    deep = deep.replace('"arith.cmpi"(%b, %s)', '"arith.cmpi"(%c9999, %s)')
    pipeline = "checks,xesmith-report,xesmith-narrow-offsets,xesmith-drop-true-masks"
    assert run_pipeline(deep, pipeline).report
