"""The estimates of local memory and registers, held to what the compilers then say."""

from __future__ import annotations

from pathlib import Path

import pytest

from xesmith.device import Device
from xesmith.engine.problem import load_problem
from xesmith.evidence.read import read
from xesmith.lowering import Lowerer
from xesmith.passes.dump import with_device
from xesmith.passes.pipeline import run_pipeline

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

KERNEL = Path(__file__).parent / "kernels" / "block_gemm.py"
PLACE = 'TILE, WARPS, GRF = (256, 256), 32, "128"'


@pytest.mark.parametrize(
    "problem",
    ["gemm", "flash_attention", "layer_norm", "softmax", "batched_gemm", "linear_sum"],
)
def test_local_memory_is_what_triton_then_allocates(
    problem: str, lowerer: Lowerer, device: Device, repository: Path
) -> None:
    loaded = load_problem(repository / "bench" / "problems" / problem / "kernel.py")
    program = next(iter(loaded.programs().values()))
    for lowering in lowerer.run(program, native=False).lowerings:
        text = Path(lowering.levels["ttgir_generic"]).read_text()
        (finding,) = run_pipeline(text, with_device("xesmith-check-slm", device)).findings
        allocated = lowering.metadata["shared"]
        assert finding["numbers"] == {
            "estimated": True, "limit_bytes": 131072, "slm_bytes": allocated
        }  # fmt: skip
        assert finding["kind"] == ("slm-footprint" if allocated <= 131072 else "slm-over-limit")


@pytest.mark.parametrize(
    ("configuration", "live_bytes"),
    # Accumulator, A and B of a sub-group, and four registers of block pointers.
    [
        ('(256, 256), 32, "128"', 8192 + 2048 + 4096 + 4 * 64),
        ('(256, 256), 32, "256"', None),
        ('(128, 128), 32, "128"', None),
    ],
)
def test_register_pressure_is_told_where_native_code_spills(
    configuration: str, live_bytes: int | None, lowerer: Lowerer, device: Device, tmp_path: Path
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.read_text().replace(PLACE, f"TILE, WARPS, GRF = {configuration}"))
    program = next(iter(load_problem(path).programs().values()))
    (lowering,) = lowerer.run(program).lowerings
    text = Path(lowering.levels["ttgir_generic"]).read_text()
    pipeline = with_device("xesmith-check-registers", device, lowering.launch)
    findings = run_pipeline(text, pipeline).findings
    native = read(lowering).native
    assert native is not None
    assert bool(findings) == (native.spill_bytes_per_thread > 0)
    if live_bytes is not None:
        assert findings[0]["numbers"]["live_bytes_per_thread"] == live_bytes
        assert findings[0]["numbers"]["grf_bytes_per_thread"] == 128 * 64
        assert "256x256xf32 of tt.dot" in findings[0]["why"]
        line = KERNEL.read_text().splitlines().index("        acc = tl.dot(a, b, acc)") + 1
        assert findings[0]["line"] == line


def test_what_stands_after_a_check_is_kept(device: Device) -> None:
    given = "xesmith-check-slm{slm-bytes=64},xesmith-check-registers{registers=64}"
    assert with_device(given, device) == f"builtin.module({given})"
    plain = with_device("xesmith-check-slm,xesmith-check-registers", device)
    assert plain == ("builtin.module(xesmith-check-slm{slm-bytes=131072},xesmith-check-registers)")
