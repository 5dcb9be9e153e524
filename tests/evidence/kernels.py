"""Kernels whose evidence the tests know. As a script: launches the case that it is given."""

# ruff: noqa: N803, B007

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def gemm_pointer(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * num_n
    group = pid // per_group
    first_m = group * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % per_group) % size_m
    pid_n = (pid % per_group) // size_m
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c = acc.to(tl.float16)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=mask)


@triton.jit
def gemm_block(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * num_n
    group = pid // per_group
    first_m = group * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % per_group) % size_m
    pid_n = (pid % per_group) // size_m
    a_block = tl.make_block_ptr(
        a_ptr, (M, K), (stride_am, stride_ak), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0)
    )
    b_block = tl.make_block_ptr(
        b_ptr, (K, N), (stride_bk, stride_bn), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0)
    )
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1))
        b = tl.load(b_block, boundary_check=(0, 1))
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(
        c_ptr,
        (M, N),
        (stride_cm, stride_cn),
        (pid_m * BLOCK_M, pid_n * BLOCK_N),
        (BLOCK_M, BLOCK_N),
        (1, 0),
    )
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def gemm_block3(
    a_ptr,
    b_ptr,
    c_ptr,
    B,
    M,
    N,
    K,
    stride_ab,
    stride_am,
    stride_ak,
    stride_bb,
    stride_bk,
    stride_bn,
    stride_cb,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    pid_b = tl.program_id(2)
    a_block = tl.make_block_ptr(
        a_ptr,
        (B, M, K),
        (stride_ab, stride_am, stride_ak),
        (pid_b, pid_m * BLOCK_M, 0),
        (1, BLOCK_M, BLOCK_K),
        (2, 1, 0),
    )
    b_block = tl.make_block_ptr(
        b_ptr,
        (B, K, N),
        (stride_bb, stride_bk, stride_bn),
        (pid_b, 0, pid_n * BLOCK_N),
        (1, BLOCK_K, BLOCK_N),
        (2, 1, 0),
    )
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.reshape(tl.load(a_block, boundary_check=(1, 2)), (BLOCK_M, BLOCK_K))
        b = tl.reshape(tl.load(b_block, boundary_check=(1, 2)), (BLOCK_K, BLOCK_N))
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, 0, BLOCK_K))
        b_block = tl.advance(b_block, (0, BLOCK_K, 0))
    c_block = tl.make_block_ptr(
        c_ptr + pid_b * stride_cb,
        (M, N),
        (stride_cm, stride_cn),
        (pid_m * BLOCK_M, pid_n * BLOCK_N),
        (BLOCK_M, BLOCK_N),
        (1, 0),
    )
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def softmax_pointer(x_ptr, y_ptr, stride_x, stride_y, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x.to(tl.float32))
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * stride_y + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_block(
    x_ptr, y_ptr, stride_x, stride_y, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0) * ROWS
    x_block = tl.make_block_ptr(
        x_ptr, (n_rows, n_cols), (stride_x, 1), (row, 0), (ROWS, BLOCK), (1, 0)
    )
    x = tl.load(x_block).to(tl.float32)
    x = x - tl.max(x, axis=1)[:, None]
    e = tl.exp(x)
    y = e / tl.sum(e, axis=1)[:, None]
    y_block = tl.make_block_ptr(
        y_ptr, (n_rows, n_cols), (stride_y, 1), (row, 0), (ROWS, BLOCK), (1, 0)
    )
    tl.store(y_block, y.to(y_ptr.dtype.element_ty))


@triton.jit
def layer_norm_f64(x_ptr, w_ptr, b_ptr, y_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float64)
        total += x
    mean = tl.sum(total, axis=0) / n_cols
    var = tl.zeros((BLOCK,), dtype=tl.float64)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float64)
        d = tl.where(cols < n_cols, x - mean, 0.0)
        var += d * d
    rstd = 1.0 / tl.sqrt(tl.sum(var, axis=0) / n_cols + eps)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_row + cols, mask=mask, other=0.0).to(tl.float64)
        w = tl.load(w_ptr + cols, mask=mask).to(tl.float64)
        b = tl.load(b_ptr + cols, mask=mask).to(tl.float64)
        y = (x - mean) * rstd * w + b
        tl.store(y_ptr + row * stride + cols, y.to(tl.float16), mask=mask)


@triton.jit
def histogram(x_ptr, out_ptr, n, bins, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.atomic_add(out_ptr + x % bins, 1, mask=offs < n)
    i = pid
    while i > 0:
        tl.atomic_add(out_ptr, 1)
        i = i // 2


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    scale,
    stride_h,
    stride_m,
    stride_d,
    N_CTX,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    pid_m = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * stride_h
    if BLOCKS:
        q_block = tl.make_block_ptr(
            q_ptr + base,
            (N_CTX, HEAD_DIM),
            (stride_m, stride_d),
            (pid_m * BLOCK_M, 0),
            (BLOCK_M, HEAD_DIM),
            (1, 0),
        )
        k_block = tl.make_block_ptr(
            k_ptr + base,
            (HEAD_DIM, N_CTX),
            (stride_d, stride_m),
            (0, 0),
            (HEAD_DIM, BLOCK_N),
            (0, 1),
        )
        v_block = tl.make_block_ptr(
            v_ptr + base,
            (N_CTX, HEAD_DIM),
            (stride_m, stride_d),
            (0, 0),
            (BLOCK_N, HEAD_DIM),
            (1, 0),
        )
        q = tl.load(q_block)
        m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
        l_i = tl.zeros((BLOCK_M,), tl.float32)
        acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        for n in range(0, N_CTX, BLOCK_N):
            k = tl.load(k_block)
            s = tl.dot(q, k) * scale
            m_new = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None]
            v = tl.load(v_block)
            acc = tl.dot(p.to(tl.float16), v, acc)
            m_i = m_new
            k_block = tl.advance(k_block, (0, BLOCK_N))
            v_block = tl.advance(v_block, (BLOCK_N, 0))
        acc = acc / l_i[:, None]
        o_block = tl.make_block_ptr(
            o_ptr + base,
            (N_CTX, HEAD_DIM),
            (stride_m, stride_d),
            (pid_m * BLOCK_M, 0),
            (BLOCK_M, HEAD_DIM),
            (1, 0),
        )
        tl.store(o_block, acc.to(tl.float16))
    else:
        offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tl.arange(0, BLOCK_N)
        offs_d = tl.arange(0, HEAD_DIM)
        q = tl.load(q_ptr + base + offs_m[:, None] * stride_m + offs_d[None, :] * stride_d)
        m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
        l_i = tl.zeros((BLOCK_M,), tl.float32)
        acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        for n in range(0, N_CTX, BLOCK_N):
            rows = n + offs_n
            k = tl.load(
                k_ptr + base + rows[None, :] * stride_m + offs_d[:, None] * stride_d,
                mask=rows[None, :] < N_CTX,
                other=0.0,
            )
            s = tl.dot(q, k) * scale
            m_new = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp2(s - m_new[:, None])
            alpha = tl.exp2(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None]
            v = tl.load(
                v_ptr + base + rows[:, None] * stride_m + offs_d[None, :] * stride_d,
                mask=rows[:, None] < N_CTX,
                other=0.0,
            )
            acc = tl.dot(p.to(tl.float16), v, acc)
            m_i = m_new
        acc = acc / l_i[:, None]
        tl.store(
            o_ptr + base + offs_m[:, None] * stride_m + offs_d[None, :] * stride_d,
            acc.to(tl.float16),
            mask=offs_m[:, None] < N_CTX,
        )


@triton.jit
def gemm_f32(a_ptr, b_ptr, c_ptr, stride, PRECISION: tl.constexpr, SIZE: tl.constexpr):
    """One tile of float32: DPAS takes it as tf32 only."""
    rows = tl.arange(0, SIZE)
    offsets = rows[:, None] * stride + rows[None, :]
    a = tl.load(a_ptr + offsets)
    b = tl.load(b_ptr + offsets)
    c = tl.dot(a, b, input_precision=PRECISION)
    tl.store(c_ptr + offsets, c)


@triton.jit
def triangle(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """Program i runs i + 1 iterations of the outer loop, and j + 1 of the inner one."""
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, pid + 1):
        for j in range(0, i + 1):
            total += tl.load(x_ptr + (i + j) * stride + cols)
    tl.store(y_ptr + pid * stride + cols, total)


def empty(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="xpu")


def gemm(
    kernel: Any,
    tile: tuple[int, int, int],
    num_warps: int,
    grf_mode: str,
    *,
    size: tuple[int, int, int] = (4096, 4096, 4096),
    a_strided: bool = False,
    a_transposed: bool = False,
    b_transposed: bool = False,
) -> None:
    m, n, k = size
    a = empty(m, 2 * k)[:, ::2] if a_strided else empty(m, k)
    if a_transposed:
        a = empty(k, m).t()
    b = empty(n, k).t() if b_transposed else empty(k, n)
    c = empty(m, n)
    grid = (triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]),)
    strides = (*a.stride(), *b.stride(), *c.stride())
    options = {"num_warps": num_warps, "grf_mode": grf_mode}
    kernel[grid](a, b, c, m, n, k, *strides, *tile, 4, **options)


def batched() -> None:
    a, b, c = empty(8, 1024, 1024), empty(8, 1024, 1024), empty(8, 1024, 1024)
    strides = (*a.stride(), *b.stride(), *c.stride())
    gemm_block3[(8, 8, 8)](
        a, b, c, 8, 1024, 1024, 1024, *strides, 128, 128, 32, num_warps=16, grf_mode="256"
    )


def softmax(rows: int, *, block: bool) -> None:
    x, y = empty(4096, 4096), empty(4096, 4096)
    options = {"num_warps": 8, "grf_mode": "128"}
    if block:
        softmax_block[(4096 // rows,)](x, y, 4096, 4096, 4096, 4096, rows, 4096, **options)
    else:
        softmax_pointer[(4096,)](x, y, 4096, 4096, 4096, 4096, **options)


def flash(*, block: bool) -> None:
    q, k, v, o = (empty(32, 2048, 64) for _ in range(4))
    attention[(16, 32)](
        q, k, v, o, 0.18, *q.stride(), 2048, 128, 64, 64, block, num_warps=8, grf_mode="256"
    )


def layer_norm(columns: int) -> None:
    x, y = empty(4096, columns), empty(4096, columns)
    w, b = empty(columns), empty(columns)
    layer_norm_f64[(4096,)](x, w, b, y, columns, columns, 1e-5, 1024, num_warps=4, grf_mode="128")


def atomics() -> None:
    x = empty(1 << 20, dtype=torch.int32)
    histogram[(1024,)](x, empty(256, dtype=torch.int32), 1 << 20, 256, 1024, num_warps=4)


def float32(precision: str) -> None:
    a, b, c = (empty(64, 64, dtype=torch.float32) for _ in range(3))
    gemm_f32[(1,)](a, b, c, 64, precision, 64, num_warps=4)


def triangular() -> None:
    triangle[(5,)](empty(64, 1024), empty(64, 1024), 1024, 1024, num_warps=4)


CASES = {
    "block 256x256x32 w32 g256": lambda: gemm(gemm_block, (256, 256, 32), 32, "256"),
    "block 256x256x32 w32 g128": lambda: gemm(gemm_block, (256, 256, 32), 32, "128"),
    "block 256x256x32 w64 g128": lambda: gemm(gemm_block, (256, 256, 32), 64, "128"),
    "block 128x128x32 w32 g128": lambda: gemm(gemm_block, (128, 128, 32), 32, "128"),
    "block 256x128x32 w16 g256": lambda: gemm(gemm_block, (256, 128, 32), 16, "256"),
    "pointer 256x256x32 w32 g128": lambda: gemm(gemm_pointer, (256, 256, 32), 32, "128"),
    "pointer 128x128x32 w32 g256": lambda: gemm(gemm_pointer, (128, 128, 32), 32, "256"),
    "pointer 64x64x32 w4 g256": lambda: gemm(gemm_pointer, (64, 64, 32), 4, "256"),
    "pointer a transposed": lambda: gemm(
        gemm_pointer, (128, 128, 32), 32, "256", a_transposed=True
    ),
    "pointer a strided": lambda: gemm(gemm_pointer, (128, 128, 32), 32, "256", a_strided=True),
    "pointer odd": lambda: gemm(gemm_pointer, (64, 64, 32), 4, "256", size=(1000, 1000, 1000)),
    "block n 4095": lambda: gemm(gemm_block, (256, 256, 32), 32, "256", size=(4096, 4095, 4096)),
    "block b transposed": lambda: gemm(gemm_block, (256, 256, 32), 32, "256", b_transposed=True),
    "block rank 3": batched,
    "softmax pointer": lambda: softmax(1, block=False),
    "softmax block": lambda: softmax(1, block=True),
    "softmax block 8 rows": lambda: softmax(8, block=True),
    "attention pointer": lambda: flash(block=False),
    "attention block": lambda: flash(block=True),
    "layer norm": lambda: layer_norm(4096),
    "layer norm odd": lambda: layer_norm(4000),
    "histogram": atomics,
    "float32 ieee": lambda: float32("ieee"),
    "float32 tf32": lambda: float32("tf32"),
    "triangle": triangular,
}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
