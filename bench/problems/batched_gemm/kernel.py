"""Batched matrix product C[b] = A[b] @ B[b], fp16, the batch on its own grid axis."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bmm_kernel(
    A,
    B,
    C,
    M,
    N,
    K,
    sab,
    sam,
    sak,
    sbb,
    sbk,
    sbn,
    scb,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)

    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    A = A + batch * sab
    B = B + batch * sbb
    C = C + batch * scb

    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a_mask = (rm[:, None] < M) & (rk[None, :] + k < K)
        b_mask = (rk[:, None] + k < K) & (rn[None, :] < N)
        a = tl.load(A + rm[:, None] * sam + (rk[None, :] + k) * sak, mask=a_mask, other=0.0)
        b = tl.load(B + (rk[:, None] + k) * sbk + rn[None, :] * sbn, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)

    c_mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(C + rm[:, None] * scm + rn[None, :] * scn, acc.to(tl.float16), mask=c_mask)


def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    batch, M, K = a.shape
    N = b.shape[2]
    c = torch.empty((batch, M, N), device=a.device, dtype=a.dtype)
    BM, BN, BK = 64, 64, 32
    grid = (triton.cdiv(N, BN), triton.cdiv(M, BM), batch)
    bmm_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BM=BM, BN=BN, BK=BK, num_warps=8
    )
    return c


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return bmm(A, B)


BATCH = 32
M = 1024
N = 1024
K = 512


def get_inputs():
    A = torch.randn(BATCH, M, K, device="xpu", dtype=torch.float16)
    B = torch.randn(BATCH, K, N, device="xpu", dtype=torch.float16)
    return [A, B]


def get_init_inputs():
    return []
