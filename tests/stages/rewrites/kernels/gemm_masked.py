# ruff: noqa
# fmt: off
"""A gemm with a 2-D grid, every access masked, pointers advanced by the loop."""

import triton
import triton.language as tl


@triton.jit
def gemm_masked(
    A, B, C, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    A = A + rm[:, None] * sam + rk[None, :] * sak
    B = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(A, mask=(rm[:, None] < M) & (rk[None, :] + k < K), other=0.0)
        b = tl.load(B, mask=(rk[:, None] + k < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        A += BK * sak
        B += BK * sbk
    tl.store(C + rm[:, None] * scm + rn[None, :] * scn, acc.to(C.dtype.element_ty),
             mask=(rm[:, None] < M) & (rn[None, :] < N))
