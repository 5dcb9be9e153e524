"""What the hook's tests compile: kernels of a few lines, on the ghost of a GPU."""

from __future__ import annotations

import json

import triton
import triton.language as tl

from xesmith.device import load_device
from xesmith.ghost.driver import GhostDriver, Target, make_backend_class
from xesmith.lowering.lowerer import target_json


def _ghost() -> None:
    name = "bmg-g31" if "intel" in triton.backends.backends else "h200"
    target = Target.from_json(target_json(load_device(name)))
    make_backend_class(target)
    driver = GhostDriver(target, lambda *_: lambda *_: None, lambda *_, **__: [1.0])
    triton.runtime.driver.set_active(driver)


_ghost()


@triton.jit
def helper(v):
    return v + 1.0


@triton.jit
def scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, helper(v * 2.5), mask=i < n)


@triton.jit
def exponential(x, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i)))


class _Tensor:
    """Enough of a tensor for Triton to compile for; importing torch takes longer than that."""

    dtype = "float32"

    @staticmethod
    def data_ptr() -> int:
        return 0


def compile_scale(block: int = 64):
    """The compiled kernel, as a launch gets it."""
    x = _Tensor()
    return scale.warmup(x, x, 4096, B=block, grid=(4,))


def compile_exponential():
    x = _Tensor()
    return exponential.warmup(x, x, B=64, grid=(4,))


def constants(kernel) -> list[str]:
    """Which of the constants that a test knows stand in the TTIR that was compiled."""
    return [text for text in ("2.500000e+00", "3.500000e+00") if text in kernel.asm["ttir"]]


def answer(value) -> None:
    print(json.dumps(value))


@triton.jit
def doubled(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n).to(tl.float64)
    tl.store(y + i, (v * v + v).to(tl.float32), mask=i < n)


def compile_doubled(block: int = 64):
    """The compiled kernel, which computes in float64."""
    x = _Tensor()
    return doubled.warmup(x, x, 4096, B=block, grid=(4,))
