"""The transforms on the problems' own TTIR: Triton takes it back, and it computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.small_spec import small_spec
from xesmith.cascade.translation_task import compare
from xesmith.device import Device
from xesmith.engine.problem import load_problem
from xesmith.ghost.launch import Launch
from xesmith.lowering import Lowerer
from xesmith.lowering.lowerer import target_json
from xesmith.passes.dump import with_launch
from xesmith.passes.pipeline import run_pipeline
from xesmith.toolchain import Toolchain
from xesmith.worker.client import WorkerPool

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

EXACT = (
    "xesmith-specialize-args{launch}",
    "xesmith-narrow-offsets{launch}",
    "xesmith-drop-true-masks{launch}",
    "xesmith-hoist-invariant",
)
PROBLEMS = (
    "gemm", "softmax", "layer_norm", "flash_attention", "batched_gemm", "gemm_rebuilt", "swiglu"
)  # fmt: skip

Kernel = tuple[str, Launch]


@pytest.fixture(scope="module")
def kernels(
    lowerer: Lowerer, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Kernel]]:
    """By problem: the TTIR of each launch at its first shape."""
    found: dict[str, list[Kernel]] = {}
    for name in PROBLEMS:
        kernel = repository / "bench" / "problems" / name / "kernel.py"
        problem = load_problem(kernel, small_spec(name, tmp_path_factory.mktemp(name)))
        program = next(iter(problem.programs().values()))
        run = lowerer.run(program, native=False)
        found[name] = [
            (Path(item.levels["ttir_generic"]).read_text(), item.launch) for item in run.lowerings
        ]
    return found


@pytest.fixture(scope="module")
def workers(toolchain: Toolchain) -> Iterator[WorkerPool]:
    with WorkerPool(toolchain.python, "lower", preload=["triton"], parallel=1) as pool:
        yield pool


def assert_same(
    before: str, after: str, launch: Launch, folder: Path, *, exact: bool = True
) -> None:
    result = compared(before, after, launch, folder, exact=exact)
    assert (result["fault"], result["unknown"]) == (None, None)
    assert result["programs"] == min(result["of"], 8)
    assert result["elements"] > 0


def compared(
    before: str, after: str, launch: Launch, folder: Path, *, exact: bool = True
) -> dict[str, Any]:
    (folder / "before").write_text(before)
    (folder / "after").write_text(after)
    given = {"before": folder / "before", "after": folder / "after", "launch": launch.to_json()}
    return compare({**given, "exact": exact, "seconds": 60.0}, folder)


def taken_back(workers: WorkerPool, device: Device, text: str, folder: Path) -> str:
    """What Triton's own parser and verifier make of a text, printed again."""
    arguments = {"text": text, "suffix": ".ttir", "target": target_json(device)}
    result = workers.run(
        "xesmith.passes.generic_task:print_generic", arguments, folder=folder / "task"
    )
    assert result.status == "ok", result
    return result.value["text"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_exact_transforms_store_the_same_bits(
    kernels: dict[str, list[Kernel]],
    problem: str,
    workers: WorkerPool,
    device: Device,
    tmp_path: Path,
) -> None:
    for index, (before, launch) in enumerate(kernels[problem]):
        after = run_pipeline(before, with_launch(",".join(EXACT), launch)).text
        assert after.count("tt.func") == 1
        assert after != before
        assert_same(before, after, launch, tmp_path)
        again = taken_back(workers, device, after, tmp_path / str(index))
        assert_same(before, again, launch, tmp_path)


def test_block_pointers_are_carried_and_lose_their_checks(
    kernels: dict[str, list[Kernel]], workers: WorkerPool, device: Device, tmp_path: Path
) -> None:
    ((before, launch),) = kernels["gemm_rebuilt"]
    hoisted = run_pipeline(before, "xesmith-hoist-invariant")
    assert [remark.message for remark in hoisted.remarks] == ["2 carried block pointers"]
    assert '"tt.advance"' not in before
    assert_same(before, hoisted.text, launch, tmp_path)
    pipeline = "xesmith-hoist-invariant,xesmith-drop-true-masks{launch}"
    dropped = run_pipeline(before, with_launch(pipeline, launch)).text
    assert "boundaryCheck = array<i32: " in before
    assert "boundaryCheck = array<i32: " not in dropped
    again = taken_back(workers, device, dropped, tmp_path)
    assert_same(before, again, launch, tmp_path)


def test_demoted_float64_stores_the_same_within_rounding(
    kernels: dict[str, list[Kernel]], workers: WorkerPool, device: Device, tmp_path: Path
) -> None:
    ((before, launch),) = kernels["layer_norm"]
    result = run_pipeline(before, "xesmith-demote-float64")
    assert "f64" in before
    assert "f64" not in result.text
    assert_same(before, result.text, launch, tmp_path, exact=False)
    taken_back(workers, device, result.text, tmp_path)


@pytest.mark.parametrize("transform", EXACT)
def test_each_exact_transform_alone(
    kernels: dict[str, list[Kernel]], transform: str, tmp_path: Path
) -> None:
    ((before, launch),) = kernels["flash_attention"]
    after = run_pipeline(before, with_launch(transform, launch)).text
    assert_same(before, after, launch, tmp_path)


@pytest.mark.parametrize("problem", ["flash_attention", "softmax", "swiglu"])
def test_exp2_stores_the_same_within_rounding(
    kernels: dict[str, list[Kernel]],
    problem: str,
    workers: WorkerPool,
    device: Device,
    tmp_path: Path,
) -> None:
    ((before, launch),) = kernels[problem]
    after = run_pipeline(before, "xesmith-exp2").text
    assert '"math.exp"' not in after
    assert_same(before, after, launch, tmp_path, exact=False)
    taken_back(workers, device, after, tmp_path)


def test_the_comparison_sees_one_wrong_operation(
    kernels: dict[str, list[Kernel]], tmp_path: Path
) -> None:
    ((before, launch),) = kernels["softmax"]
    changed = before.replace("arith.divf", "arith.mulf", 1)
    assert changed != before
    for exact in (True, False):
        fault = compared(before, changed, launch, tmp_path, exact=exact)["fault"]
        assert "values of 'out_ptr' differ" in fault


def test_each_transform_finds_work_in_a_problem(kernels: dict[str, list[Kernel]]) -> None:
    said: set[str] = set()
    for found in kernels.values():
        for text, launch in found:
            every = (*EXACT, "xesmith-exp2", "xesmith-demote-float64")
            pipeline = with_launch(",".join(every), launch)
            said |= {remark.message for remark in run_pipeline(text, pipeline).remarks}
    words = {message.rstrip("s").partition(" ")[2] for message in said}
    # Of what xesmith-hoist-invariant moves unchanged Triton's own passes have left nothing here.
    assert words == {
        "specialised argument", "narrowed offset", "narrowed comparison", "needless mask",
        "needless boundary check", "rewritten exponential", "carried block pointer",
        "demoted operation",
    }  # fmt: skip
