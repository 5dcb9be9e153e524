"""Matrix product C = A @ B, fp16, with block pointers that are made anew in every step."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K
        a_block = tl.make_block_ptr(
            a_ptr, (M, K), (stride_am, 1), (row, k), (BLOCK_M, BLOCK_K), (1, 0)
        )
        b_block = tl.make_block_ptr(
            b_ptr, (K, N), (stride_bk, 1), (k, col), (BLOCK_K, BLOCK_N), (1, 0)
        )
        a = tl.load(a_block, boundary_check=(0, 1))
        b = tl.load(b_block, boundary_check=(0, 1))
        acc = tl.dot(a, b, acc)
    c_block = tl.make_block_ptr(
        c_ptr, (M, N), (stride_cm, 1), (row, col), (BLOCK_M, BLOCK_N), (1, 0)
    )
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    matmul_kernel[grid](
        a,
        b,
        c,
        M,
        N,
        K,
        a.stride(0),
        b.stride(0),
        c.stride(0),
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=32,
        num_warps=32,
    )
    return c


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return matmul(A, B)


M = 4096
N = 4096
K = 4096


def get_inputs():
    A = torch.randn(M, K, device="xpu", dtype=torch.float16)
    B = torch.randn(K, N, device="xpu", dtype=torch.float16)
    return [A, B]


def get_init_inputs():
    return []
