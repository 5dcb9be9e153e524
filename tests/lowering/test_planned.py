"""Plans of passes where programs are lowered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.ghost.launch import Program
from xesmith.lowering import Lowerer
from xesmith.lowering.record import GhostRun
from xesmith.pass_plan import PassEntry, PassPlan

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

#: three launches of one kernel that Triton compiles once: the sizes are all multiples of 16
SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)


x = torch.empty(4096, device="xpu")
for n in (4096, 4080, 4096):
    scale[(64,)](x, x, n, B=64)
scale[lambda meta: (4096 // meta["B"],)](x, x, n=4096, B=64)
"""
MASKS = PassEntry("scale", "xesmith-drop-true-masks{launch},cse", {"n": 4096}, (64, 1, 1))


def lowered(lowerer: Lowerer, *entries: PassEntry) -> GhostRun:
    program = Program(SOURCE, "scale.py", entry="script", passes=PassPlan(entries))
    return lowerer.run(program, native=False)


def masks(run: GhostRun) -> list[int]:
    """Comparisons in the TTIR of each different launch."""
    assert run.failure is None
    texts = [Path(item.levels["ttir_generic"]).read_text() for item in run.lowerings]
    return [text.count("arith.cmpi") for text in texts]


def test_only_the_launches_that_an_entry_is_for_are_changed(lowerer: Lowerer):
    plain, planned = lowered(lowerer), lowered(lowerer, MASKS)
    assert masks(plain) == [1, 1]
    assert masks(planned) == [0, 1]
    assert [item.launch for item in planned.lowerings] == [item.launch for item in plain.lowerings]
    assert planned.lowerings[0].launch.repeats == 3
    # Each level after the TTIR is made of what the passes left.
    text = Path(planned.lowerings[0].levels["ttgir"]).read_text()
    assert "arith.cmpi" not in text


def test_an_entry_for_all_launches_is_for_each(lowerer: Lowerer):
    general = PassEntry("scale", "xesmith-specialize-args{values=2=4096}")
    assert [
        '"arith.constant"() <{value = dense<4096>' in Path(item.levels["ttir_generic"]).read_text()
        for item in lowered(lowerer, general).lowerings
    ] == [True, True]


def test_a_plan_for_others_changes_nothing(lowerer: Lowerer):
    others = (replace(MASKS, kernel="other"), replace(MASKS, backend="cuda"))
    assert masks(lowered(lowerer, *others)) == [1, 1]


def test_a_pipeline_that_fails_is_a_failure_of_its_kernel(lowerer: Lowerer):
    run = lowered(lowerer, replace(MASKS, pipeline="xesmith-no-such-pass"))
    failures = {item.launch.values["n"]: item.failure for item in run.lowerings}
    assert failures[4080] is None
    first = failures[4096]
    assert first is not None
    assert (first.kind, first.level) == ("compile", "ttir")
    assert "the pipeline 'xesmith-no-such-pass' fails" in first.message
    assert "unknown pass" in first.message


def test_switches_are_there_for_the_kernel_alone(lowerer: Lowerer):
    run = lowered(
        lowerer,
        replace(
            MASKS, pipeline="", switches={"TRITON_INTEL_RAISE_BLOCK_POINTER": "1:ignore-masks"}
        ),
    )
    raised = ["tt.make_tensor_ptr" in Path(i.levels["ttir"]).read_text() for i in run.lowerings]
    assert raised == [True, False]
