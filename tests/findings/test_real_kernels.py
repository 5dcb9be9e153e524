"""Findings and predictions on what the Intel compiler makes of real kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith import cost, evidence
from xesmith.contracts import ProgramEvidence, check
from xesmith.evidence.record import Evidence
from xesmith.findings import Finding, judge, judge_program
from xesmith.ghost.launch import Program

if TYPE_CHECKING:
    from xesmith.device import Device
    from xesmith.lowering import Lowerer

pytestmark = [pytest.mark.intel, pytest.mark.mlir]


def lower(lowerer: Lowerer, device: Device, path: Path, entry: str = "model") -> list[Evidence]:
    run = lowerer.run(Program(source=path.read_text(), path=str(path), entry=entry))
    return [cost.derive(evidence.read(item), device) for item in run.lowerings]


@pytest.fixture(scope="module")
def blocks(lowerer: Lowerer, device: Device) -> list[Evidence]:
    """The gemm at N = 4096 and 4095, and the batched gemm of rank 3."""
    return lower(lowerer, device, Path(__file__).parent / "kernels" / "blocks.py", "script")


def by_kind(found: tuple[Finding, ...], kind: str) -> list[Finding]:
    return [item for item in found if item.kind == kind]


def test_the_gemm_that_can_not_launch(lowerer: Lowerer, device: Device, repository: Path) -> None:
    path = repository / "bench" / "problems" / "gemm_256" / "kernel.py"
    (program,) = lower(lowerer, device, path)
    found = judge(program, device)
    lines = path.read_text().splitlines()

    slm = by_kind(found, "slm-over-limit")[0]
    assert slm.numbers == {"slm_bytes": 135168, "limit_bytes": 131072}
    assert by_kind(found, "cannot-launch")[0].numbers["required_bytes"] == 135168

    loads = [item for item in by_kind(found, "load-not-2d-block") if item.severity == "warning"]
    assert len(loads) == 2
    for item in loads:
        assert item.line is not None
        assert "tl.load(" in lines[item.line - 1]
        assert "tensor of pointers" in (item.reason or "")

    spill = by_kind(found, "spill")[0]
    assert spill.numbers["spill_bytes_per_thread"] == 64 * spill.numbers["spilled_registers"]
    assert spill.numbers["spill_bytes_per_lane"] == spill.numbers["spill_bytes_per_thread"] / 16
    assert spill.line is not None
    assert lines[spill.line - 1].strip().startswith("for ")
    assert "cannot run" in (program.derived.prediction.why_not or "")  # type: ignore[union-attr]


def test_block_pointers_are_predicted_far_ahead_of_pointers(
    lowerer: Lowerer, device: Device, repository: Path, blocks: list[Evidence]
) -> None:
    pointers = lower(lowerer, device, repository / "bench" / "problems" / "gemm" / "kernel.py")
    before, after = ProgramEvidence.of(pointers), ProgramEvidence.of(blocks[:1])
    assert check("after.native.loads_2d > before.native.loads_2d", before, after)
    assert check("after.native.slm_messages < before.native.slm_messages", before, after)
    assert check("2 * after.derived.seconds < before.derived.seconds", before, after)
    # The same work at either: 2 * 4096^3.
    assert check("after.ttir.flop == before.ttir.flop", before, after)
    assert before.values["ttir.flop"] == 2 * 4096**3


def test_a_legal_gemm_with_block_pointers(blocks: list[Evidence], device: Device) -> None:
    found = judge(blocks[0], device)
    assert [item for item in found if item.severity != "note"] == []
    assert not by_kind(found, "2d-op-illegal")
    assert not by_kind(found, "2d-op-unchecked")


def test_the_odd_pitch_that_the_compiler_does_not_see(
    blocks: list[Evidence], device: Device
) -> None:
    found = judge(blocks[1], device)
    # The load of B falls back, the store of C does not: 4095 * 2 B is no multiple of 16 B.
    illegal = by_kind(found, "2d-op-illegal")
    assert [item.numbers["pitch_bytes"] for item in illegal] == [8190]
    assert "store of 'c'" in illegal[0].message
    lost = by_kind(found, "load-not-2d-block")
    assert ["32x128" in item.message for item in lost] == [True]


def test_rank_three_blocks_are_intent_without_outcome(
    blocks: list[Evidence], device: Device
) -> None:
    found = by_kind(judge(blocks[2], device), "block-io-intent-without-outcome")
    assert len([item for item in found if item.severity == "warning"]) == 2
    assert blocks[2].native is not None
    assert blocks[2].native.loads_2d == 0


def test_float64_and_many_kernels(lowerer: Lowerer, device: Device, repository: Path) -> None:
    problems = repository / "bench" / "problems"
    norm = judge_program(lower(lowerer, device, problems / "layer_norm" / "kernel.py"), device)
    assert by_kind(norm, "f64-arithmetic")[0].numbers["f64_instructions"] > 0
    chain = lower(lowerer, device, problems / "gemm_bias_gelu" / "kernel.py")
    assert len(chain) == 3
    assert len(by_kind(judge_program(chain, device), "many-kernels")) == 2


def test_every_problem_is_predicted(lowerer: Lowerer, device: Device, repository: Path) -> None:
    for name in ("softmax", "layer_norm", "flash_attention", "batched_gemm", "gemm_bt"):
        for item in lower(lowerer, device, repository / "bench" / "problems" / name / "kernel.py"):
            assert item.derived is not None
            prediction = item.derived.prediction
            assert prediction is not None
            assert prediction.seconds is not None, (name, prediction.why_not)
