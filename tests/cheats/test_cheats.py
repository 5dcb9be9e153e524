"""Known ways of fooling a harness, as whole programs: each refused, and its honest form accepted.

On the CPU, where the interpreter runs the kernels; bench/self/cheats_on_gpu.py runs the same on a
GPU, with those that need one. tests/traps has them as a model would try them, in a reply.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cheats.programs import CHEATS, REFERENCE, RIGHT, WRONG, Cheat, program
from xesmith.cascade.device_check import PRELOAD, DeviceCase, DeviceResult, check_on_device
from xesmith.ghost.launch import Program, TensorSpec
from xesmith.worker.client import WorkerPool

pytestmark = pytest.mark.cheats
NAMES = [f"{cheat.number:02}-{cheat.name.replace(' ', '-')}" for cheat in CHEATS]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    env = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    with WorkerPool(Path(sys.executable), "check", preload=PRELOAD, env=env) as pool:
        yield pool


def judged(
    pool: WorkerPool,
    source: str,
    folder: Path,
    *,
    shapes: tuple[tuple[int, int], ...] = ((37, 65),),
    baseline: DeviceResult | None = None,
) -> DeviceResult:
    cases: list[DeviceCase] = []
    for shape in shapes:
        inputs = (TensorSpec("x", shape, "float32"),)
        made = [
            Program(text, str(folder / name), "model", inits=(), inputs=inputs)
            for name, text in (("kernel.py", source), ("reference.py", REFERENCE))
        ]
        cases.append(DeviceCase(f"{shape}", *made))
    return check_on_device(
        pool, "cpu", cases, folder / "work", seeds=(0, 1), baseline=baseline, timeout_s=30
    )


def test_a_right_program_is_right(pool, tmp_path):
    result = judged(pool, RIGHT, tmp_path, shapes=((37, 65), (3, 1366)))
    assert result.faults == []
    assert [f for f in result.liberties if f.kind != "strided"] == []
    assert all(run["launches"] == 1 for run in result.runs)
    assert {m.name for m in result.measures if not m.in_force} == set()
    assert result.runs[2]["repeats_bitwise"] is True
    # The kernel takes no strides: that it is wrong for such inputs is told, and no fault.
    assert any(f.kind == "strided" for f in result.liberties)


def test_a_wrong_program_is_wrong(pool, tmp_path):
    (first, *_) = judged(pool, WRONG, tmp_path).faults
    assert re.search("elements are wrong", first.text)


@pytest.mark.parametrize("cheat", CHEATS, ids=NAMES)
def test_an_attack_is_refused(pool, tmp_path, cheat: Cheat):
    faults = judged(pool, cheat.attacking, tmp_path, shapes=cheat.shapes).faults
    assert faults != []
    assert re.search(cheat.told, " | ".join(fault.text for fault in faults)), faults


HONEST = [cheat for cheat in CHEATS if cheat.control != RIGHT]


@pytest.mark.parametrize("cheat", HONEST, ids=[f"{c.number:02}-{c.name}" for c in HONEST])
def test_its_honest_form_is_accepted(pool, tmp_path, cheat: Cheat):
    assert judged(pool, cheat.control, tmp_path).faults == []


def test_a_liberty_that_the_baseline_does_not_take_is_a_fault(pool, tmp_path):
    """Inputs that are not contiguous: allowed to be wrong where the kernel before was wrong."""
    made_contiguous = program("return right(x.contiguous())")
    strict = judged(pool, made_contiguous, tmp_path / "a")
    assert strict.liberties == []
    result = judged(pool, RIGHT, tmp_path / "b", baseline=strict)
    assert {fault.kind for fault in result.faults} == {"strided"}
    assert "(normal, seed 0, strided): " in result.faults[0].text
    lax = judged(pool, RIGHT, tmp_path / "c")
    assert judged(pool, RIGHT, tmp_path / "d", baseline=lax).faults == []


def test_a_store_outside_shows_though_it_stores_what_was_there(pool, tmp_path):
    """NaN from behind the input, doubled, is the NaN that lies behind the output."""
    (cheat,) = (cheat for cheat in CHEATS if cheat.number == 20)
    told = [fault.text for fault in judged(pool, cheat.attacking, tmp_path).faults]
    assert "(37, 65) (normal, seed 1): 32 bytes outside a tensor were written" in told
