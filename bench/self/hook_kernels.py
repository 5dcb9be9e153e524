"""Kernels, a model and a transform for bench/self/hook.py. Imported by its child processes."""

# ruff: noqa: N803 - Triton's own convention: block sizes in capitals
from __future__ import annotations

import re
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v / (1.0 + tl.exp(-1.702 * v)), mask=i < n)


@triton.jit
def softmax(x, y, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def layer_norm(x, w, b, y, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < columns
    v = tl.load(x + row * columns + i, mask=m, other=0.0)
    mean = tl.sum(v, 0) / columns
    d = tl.where(m, v - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, 0) / columns + 1e-5)
    tl.store(y + row * columns + i, d * scale * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), m)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total += tl.dot(tl.load(left), tl.load(right))
        left += BK
        right += BK * n
    out = c + rows[:, None] * n + columns[None, :]
    tl.store(out, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def compile_all(device: str) -> int:
    """Compiles 20 kernels (4 kernels in 5 configurations each), running none."""
    f32 = torch.empty(64 * 4096, device=device)
    f16 = torch.empty(64 * 4096, device=device, dtype=torch.float16)
    for block in (512, 1024, 2048, 4096, 8192):
        gelu.warmup(f32, f32, f32.numel(), B=block, grid=(8,))
        softmax.warmup(f32, f32, 500, B=block, grid=(8,))
        layer_norm.warmup(f32, f32, f32, f32, 500, B=block, grid=(8,))
    for block in ((32, 32, 32), (64, 32, 32), (32, 64, 32), (64, 64, 32), (64, 64, 64)):
        tiles = dict(zip(("BM", "BN", "BK"), block, strict=True))
        matmul.warmup(f16, f16, f32, 512, 512, 512, grid=(8, 8), **tiles)
    return 20


class Model(torch.nn.Module):
    """What torch.compile fuses into several Triton kernels."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return torch.softmax((x + y).float(), -1) * 2.5


def swap_factors(text: str) -> str:
    """A transform that fires wherever a kernel multiplies and changes no result."""
    return re.sub(r'"arith\.mulf"\((%[\w#]+), (%[\w#]+)\)', r'"arith.mulf"(\2, \1)', text)
