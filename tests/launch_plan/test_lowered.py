"""A rendered file on the ghost device: the compiler makes of it what the plan says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from xesmith.assets import asset_folder
from xesmith.ghost.launch import Program, TensorSpec
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan, render

if TYPE_CHECKING:
    from xesmith.lowering import Lowerer

pytestmark = pytest.mark.intel

GEMM = (asset_folder("bench") / "problems" / "gemm" / "kernel.py").read_text("utf-8")
BLOCK_POINTERS = """
@triton.jit
def matmul_blocks(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    columns = tl.cdiv(N, BLOCK_N)
    m = (tl.program_id(0) // columns) * BLOCK_M
    n = (tl.program_id(0) % columns) * BLOCK_N
    a = tl.make_block_ptr(a_ptr, (M, K), (stride_am, 1), (m, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, 1), (0, n), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc += tl.dot(tl.load(a), tl.load(b))
        a = tl.advance(a, (0, BLOCK_K))
        b = tl.advance(b, (BLOCK_K, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, 1), (m, n), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c, acc.to(tl.float16))
"""
PLAN: dict[str, Any] = {
    "rebindings": [
        {
            "name": "matmul_kernel",
            "original_grid": ["cdiv(M, BLOCK_M)", "cdiv(N, BLOCK_N)"],
            "alternatives": [
                {
                    "guard": "M % 128 == 0 and N % 128 == 0 and K % 32 == 0 and stride_ak == 1 "
                    "and stride_bn == 1 and stride_cn == 1 and aligned(a_ptr, 64) "
                    "and aligned(b_ptr, 64) and aligned(c_ptr, 64)",
                    "reason": "whole tiles, rows without gaps",
                    "launches": [
                        {
                            "kernel": "matmul_blocks",
                            "grid": ["cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)"],
                            "metas": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
                            "options": {"num_warps": 32, "grf_mode": "256"},
                        }
                    ],
                }
            ],
        }
    ]
}


def program(text: str, m: int, n: int, k: int) -> Program:
    inputs = (TensorSpec("A", (m, k), "float16"), TensorSpec("B", (k, n), "float16"))
    return Program(source=text, path=str(Path("gemm.py")), inputs=inputs, inits=())


def test_the_guard_decides_what_is_compiled(lowerer: Lowerer) -> None:
    text = render(
        KernelFile.parse(GEMM, "gemm.py"), {}, [BLOCK_POINTERS], LaunchPlan.from_data(PLAN)
    )
    for sizes, kernel, grid in [
        ((256, 512, 64), "matmul_blocks", (8, 1, 1)),  # 2 x 4 tiles
        ((256, 500, 64), "matmul_kernel", (2, 4, 1)),
    ]:
        run = lowerer.run(program(text, *sizes), native=False)
        assert run.failure is None
        (lowering,) = run.lowerings
        assert lowering.failure is None
        launch = lowering.launch
        assert (launch.kernel, launch.grid) == (kernel, grid)
        if kernel == "matmul_blocks":
            assert launch.options["num_warps"] == 32
            assert launch.options["grf_mode"] == "256"
            assert launch.constexprs["BLOCK_M"] == 128
            spirv = Path(lowering.levels["spirv"]).read_bytes()
            assert b"2DBlockLoad" in spirv or b"2d_block_read" in spirv
        else:
            assert launch.options["num_warps"] == 16  # as the wrapper wrote it


def test_every_configuration_of_an_added_autotuned_kernel(lowerer: Lowerer) -> None:
    configs = (
        "@triton.autotune(configs=["
        'triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "grf_mode": "256"}, '
        "num_warps=32), "
        'triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32, "grf_mode": "128"}, '
        'num_warps=16)], key=["M", "N", "K"])\n'
    )
    plan = LaunchPlan.from_data(PLAN).rebindings[0]
    (alternative,) = plan.alternatives
    (launch,) = alternative.launches
    tuned = type(launch)(kernel="matmul_blocks", grid=list(launch.grid))
    alternative = alternative.model_copy(update={"launches": [tuned]})
    plan = plan.model_copy(update={"alternatives": [alternative]})
    text = render(
        KernelFile.parse(GEMM, "gemm.py"),
        {},
        [configs + BLOCK_POINTERS.strip()],
        LaunchPlan(rebindings=[plan]),
    )
    run = lowerer.run(program(text, 256, 512, 64), native=False)
    assert run.failure is None
    assert all(item.failure is None for item in run.lowerings)
    found = {
        (item.launch.constexprs["BLOCK_M"], item.launch.options["grf_mode"], item.launch.grid)
        for item in run.lowerings
    }
    assert found == {(128, "256", (8, 1, 1)), (64, "128", (16, 1, 1))}
