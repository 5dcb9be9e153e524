"""The stages' promises on what the Intel compiler makes of good and of useless candidates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xesmith import cost, evidence
from xesmith.contracts import ProgramEvidence, check_all
from xesmith.evidence.record import Evidence
from xesmith.ghost.launch import Program
from xesmith.stage_contract import load_stages

if TYPE_CHECKING:
    from xesmith.device import Device
    from xesmith.lowering import Lowerer

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

#: stage, program before, program after: a problem under bench/ or kernels of after.py
KEPT = [
    ("memory_access", "gemm", "gemm_even"),
    ("block_pointers", "gemm", "gemm_blocks"),
    ("block_pointers", "gemm_bt", "linear_blocks"),
    ("block_pointers", "flash_attention", "attention_blocks"),
    ("block_pointers", "batched_gemm", "bmm_blocks"),
    ("gpu_specific", "gemm_blocks", "gemm_best"),
    ("persistent_kernel", "gemm_best", "gemm_persistent"),
    ("fusion", "gemm_bias_gelu", "gemm_gelu"),
    ("dtype_fix", "layer_norm", "norm_f32"),
]

#: and a part of the promise that is broken
BROKEN = [
    ("block_pointers", "softmax", "softmax_rows", "loads_2d > before"),
    ("block_pointers", "gemm", "gemm_even", "loads_2d > before"),
    ("memory_access", "gemm_blocks", "gemm_blocks", "instructions < before"),
    ("memory_access", "gemm_blocks", "gemm_even", "slm_messages <= before"),
    ("gpu_specific", "gemm_blocks", "gemm_even", "loads_2d > 0"),
    ("persistent_kernel", "gemm_best", "gemm_best", "work_groups < before"),
    ("fusion", "gemm_blocks", "gemm_best", "launches < before"),
    ("dtype_fix", "layer_norm", "layer_norm", "f64_instructions < before"),
    ("autotuning", "gemm_best", "gemm_best", "configurations > before"),
    ("algorithmic", "gemm", "gemm_even", "flop < before"),
]


@pytest.fixture(scope="module")
def programs(lowerer: Lowerer, device: Device, repository: Path) -> dict[str, ProgramEvidence]:
    def lower(path: Path, entry: str) -> list[Evidence]:
        run = lowerer.run(Program(source=path.read_text(), path=str(path), entry=entry))
        assert run.failure is None
        return [cost.derive(evidence.read(item), device) for item in run.lowerings]

    problems = repository / "bench" / "problems"
    wanted = {name for _, before, *_ in KEPT + BROKEN for name in (before,)}
    found = {
        name: ProgramEvidence.of(lower(problems / name / "kernel.py", "model"))
        for name in sorted(wanted)
        if (problems / name).is_dir()
    }
    for item in lower(Path(__file__).parent / "kernels" / "after.py", "script"):
        found[item.kernel] = ProgramEvidence.of([item])
    return found


@pytest.mark.parametrize(("stage", "before", "after"), KEPT)
def test_a_good_candidate_keeps_the_promise(
    programs: dict[str, ProgramEvidence], stage: str, before: str, after: str
) -> None:
    promises = load_stages()[stage].conditions("xpu")
    outcomes = check_all(promises, programs[before], programs[after])
    assert [outcome.text for outcome in outcomes if not outcome] == []


@pytest.mark.parametrize(("stage", "before", "after", "part"), BROKEN)
def test_a_useless_candidate_breaks_it(
    programs: dict[str, ProgramEvidence], stage: str, before: str, after: str, part: str
) -> None:
    promises = load_stages()[stage].conditions("xpu")
    outcomes = check_all(promises, programs[before], programs[after])
    assert any(o.status == "broken" and part in o.expression for o in outcomes), outcomes


def test_good_candidates_are_predicted_to_be_better(
    programs: dict[str, ProgramEvidence],
) -> None:
    for stage, before, after in KEPT:
        if stage == "persistent_kernel":  # 256 tiles on 32 Xe cores leave no tail to win
            continue
        old, new = (programs[name].values["derived.seconds"] for name in (before, after))
        assert old is not None
        assert new is not None
        assert new < old, (stage, before, after)
