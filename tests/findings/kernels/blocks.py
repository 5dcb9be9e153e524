"""Block pointers as the compiler meets them: rank 2 at an odd N, and rank 3."""

import torch
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    ap = tl.make_block_ptr(a, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
    bp = tl.make_block_ptr(b, (K, N), (N, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(ap, boundary_check=(0, 1))
        y = tl.load(bp, boundary_check=(0, 1))
        acc += tl.dot(x, y)
        ap = tl.advance(ap, (0, BK))
        bp = tl.advance(bp, (BK, 0))
    cp = tl.make_block_ptr(c, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(cp, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def batched(a, b, c, B, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    pb = tl.program_id(2)
    ap = tl.make_block_ptr(a, (B, M, K), (M * K, K, 1), (pb, pm * BM, 0), (1, BM, BK), (2, 1, 0))
    bp = tl.make_block_ptr(b, (B, K, N), (K * N, N, 1), (pb, 0, pn * BN), (1, BK, BN), (2, 1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.reshape(tl.load(ap), (BM, BK))
        y = tl.reshape(tl.load(bp), (BK, BN))
        acc += tl.dot(x, y)
        ap = tl.advance(ap, (0, 0, BK))
        bp = tl.advance(bp, (0, BK, 0))
    cp = tl.make_block_ptr(
        c, (B, M, N), (M * N, N, 1), (pb, pm * BM, pn * BN), (1, BM, BN), (2, 1, 0)
    )
    tl.store(cp, tl.reshape(acc.to(tl.float16), (1, BM, BN)))


def run(m, n, k):
    a = torch.empty(m, k, dtype=torch.float16, device="xpu")
    b = torch.empty(k, n, dtype=torch.float16, device="xpu")
    c = torch.empty(m, n, dtype=torch.float16, device="xpu")
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    gemm[grid](a, b, c, m, n, k, BM=128, BN=128, BK=32, num_warps=32)


if __name__ == "__main__":
    run(4096, 4096, 4096)
    run(4096, 4095, 4096)
    t = torch.empty(8, 512, 512, dtype=torch.float16, device="xpu")
    batched[(4, 4, 8)](t, t, t, 8, 512, 512, 512, BM=128, BN=128, BK=32, num_warps=32)
