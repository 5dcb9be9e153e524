"""A product through block pointers; the tests fill in tile, warps and registers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sbk, scm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM
    col = tl.program_id(1) * BN
    a_block = tl.make_block_ptr(a_ptr, (M, K), (sam, 1), (row, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (sbk, 1), (0, col), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1))
        b = tl.load(b_block, boundary_check=(0, 1))
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (scm, 1), (row, col), (BM, BN), (1, 0))
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


TILE, WARPS, GRF = (256, 256), 32, "128"


class Model(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        C = torch.empty((M, N), device=A.device, dtype=A.dtype)
        kernel[(triton.cdiv(M, TILE[0]), triton.cdiv(N, TILE[1]))](
            A, B, C, M, N, K, A.stride(0), B.stride(0), C.stride(0),
            BM=TILE[0], BN=TILE[1], BK=32, num_warps=WARPS, grf_mode=GRF,
        )  # fmt: skip
        return C


def get_inputs():
    return [torch.randn(1024, 1024, device="xpu", dtype=torch.float16) for _ in range(2)]


def get_init_inputs():
    return []
