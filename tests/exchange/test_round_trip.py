"""Triton's modules through stock MLIR and back: the text is the same, or it is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.self.round_trip import KERNELS, Carrier, Row, carrier, kernel_names
from xesmith.bench import problem_names
from xesmith.errors import XesmithError
from xesmith.passes.pipeline import run_pipeline
from xesmith.passes.properties import lost_property

#: kernels that triton-xpu 3.3 does not take, and why
NOT_MADE = {"specialized": "warp_specialize", "mapped": "map_elementwise"}
#: and the problem that it takes to TTIR, where the transforms mend it, and no further
NO_TTGIR = ("gemm_rebuilt", "TritonIntelGPUPipeline fails")


@pytest.fixture(scope="module")
def intel() -> Iterator[Carrier]:
    with carrier(None) as one:
        yield one


@pytest.fixture(scope="module")
def rows(intel: Carrier) -> list[Row]:
    return list(intel.rows([*problem_names(), *kernel_names()]))


@pytest.mark.intel
@pytest.mark.mlir
class TestIntelsTriton:
    def test_every_problem_comes_back_identical(self, rows: list[Row]) -> None:
        found = [row for row in rows if row.subject in problem_names()]
        assert {row.subject for row in found} == set(problem_names())
        assert len(found) >= 2 * len(problem_names())
        (unmade,) = (row for row in found if row.result != "identical")
        assert (unmade.subject, unmade.level, unmade.result) == (NO_TTGIR[0], "ttgir", "not made")
        assert NO_TTGIR[1] in unmade.detail

    def test_every_kernel_comes_back_identical_or_is_not_made(self, rows: list[Row]) -> None:
        found = [row for row in rows if row.subject in kernel_names()]
        assert {row.subject for row in found} == set(kernel_names())
        for row in found:
            if row.subject in NOT_MADE:
                assert (row.result, NOT_MADE[row.subject] in row.detail) == ("not made", True)
            else:
                assert row.result == "identical", row

    def test_descriptors_of_this_release(self, intel: Carrier) -> None:
        row = intel.dump(KERNELS / "descriptors.ttir")
        assert row.result == "identical", row.detail

    def test_one_other_attribute_or_location_is_seen(self, intel: Carrier, tmp_path: Path) -> None:
        text = (KERNELS / "descriptors.ttir").read_text()
        (plain,) = intel._read(text)
        for old, new in (("constant 0", "constant 1"), ("@k(", "@q(")):
            (other,) = intel._read(text.replace(old, new))
            assert other != plain
            assert intel.carried(other, plain)[0] in ("differs", "refused")

    def test_a_form_in_which_triton_reads_another_module_is_refused(self, tmp_path: Path) -> None:
        """In a process of its own, which holds Triton."""
        script = f"""
from pathlib import Path
from triton._C.libtriton import ir
from xesmith.lowering import generic
context = ir.context()
ir.load_dialects(context)
path = Path({str(tmp_path)!r}) / "k.ttir"
path.write_text(Path({str(KERNELS / "descriptors.ttir")!r}).read_text())
generic.generic_form(path, context, checked=True)
whole = generic.expand_aliases
for old, new in (("value = 1 : i64", "value = 2 : i64"), ('"tt.return"', '"tt.retur"')):
    generic.expand_aliases = lambda text: whole(text).replace(old, new)
    try:
        generic.generic_form(path, context, checked=True)
    except generic.NotGenericError as error:
        print(error)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
        )
        first, second = done.stdout.splitlines()
        assert first.startswith("in generic form this would become another: %c1_i64 ="), done.stderr
        assert second.startswith("Triton does not read its generic form")


NEWER = """
"builtin.module"() ({
  "tt.func"() <{function_type = (f32) -> (), sym_name = "k"}> ({
  ^bb0(%a: f32):
    %b = "arith.addf"(%a, %a) <{fastmath = #arith.fastmath<none>, rounding = 1 : i32}> : (f32, f32) -> f32
    "tt.new"(%b) <{what = [1, {rounding = 2 : i32}], "rounding"}> : (f32) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""  # noqa: E501


@pytest.mark.mlir
class TestWhatStockMLIRDoesNotKnow:
    def test_a_property_of_a_newer_release_is_not_dropped(self) -> None:
        with pytest.raises(XesmithError) as caught:
            run_pipeline(NEWER, "xesmith-report")
        assert caught.value.what == (
            "this MLIR does not know the property 'rounding' of arith.addf, and would drop it"
        )
        number, line = 5, NEWER.splitlines()[4]
        assert caught.value.where == f"{number}:{line.index('rounding') + 1}"
        # Evidence reads; it hands nothing on.
        assert run_pipeline(NEWER, "xesmith-report", keep_text=False).report

    def test_an_operation_of_a_newer_release_is_refused(self) -> None:
        with pytest.raises(XesmithError, match=r"unregistered operation 'arith\.newer'"):
            run_pipeline(NEWER.replace("arith.addf", "arith.newer"), "xesmith-report")

    def test_an_operation_that_it_does_not_know_at_all_keeps_everything(self) -> None:
        known = NEWER.replace(", rounding = 1 : i32", "")
        assert "what = [1, {rounding = 2 : i32}]" in run_pipeline(known, "xesmith-report").text

    def test_properties_are_told_from_what_stands_in_them(self) -> None:
        text = '"a.b"(%x)[^bb1] <{p = [1, 2], q = "},{", r, s = {t = 1, u = #v<w, x>}}> : () -> ()'
        for name in "pqs":
            lost = lost_property(text, text.replace(f"{name} =", "z ="))
            assert lost is not None
            assert lost.text == f"the property '{name}' of a.b"
            assert lost.place == f"1:{text.index(f'{name} =') + 1}"
        lost = lost_property(text, text.replace(" r,", ""))
        assert lost is not None
        assert lost.text == "the property 'r' of a.b"
        # What stands inside a value is that operation's own matter.
        assert lost_property(text, text.replace("t = 1", "z = 1")) is None
        assert lost_property(text, text) is None
