"""Linear layer y = x @ W^T, fp16: the weight is stored [N, K], as nn.Linear stores it."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32


@triton.jit
def linear_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    M,
    N,
    K,
    stride_xm,
    stride_xk,
    stride_wn,
    stride_wk,
    stride_ym,
    stride_yn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        cols = k + offs_k
        x_ptrs = x_ptr + offs_m[:, None] * stride_xm + cols[None, :] * stride_xk
        # W is [N, K]; read it as its transpose [K, N]
        w_ptrs = w_ptr + offs_n[None, :] * stride_wn + cols[:, None] * stride_wk
        x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (cols[None, :] < K), other=0.0)
        w = tl.load(w_ptrs, mask=(offs_n[None, :] < N) & (cols[:, None] < K), other=0.0)
        acc += tl.dot(x, w)

    y_ptrs = y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn
    y_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(y_ptrs, acc.to(tl.float16), mask=y_mask)


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        weight = torch.randn(out_features, in_features) * in_features**-0.5
        self.weight = nn.Parameter(weight.to(device="xpu", dtype=torch.float16))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        M, K = X.shape
        N = self.weight.shape[0]
        Y = torch.empty((M, N), device=X.device, dtype=X.dtype)
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
        linear_kernel[grid](
            X,
            self.weight,
            Y,
            M,
            N,
            K,
            X.stride(0),
            X.stride(1),
            self.weight.stride(0),
            self.weight.stride(1),
            Y.stride(0),
            Y.stride(1),
            BLOCK_M,
            BLOCK_N,
            BLOCK_K,
            num_warps=16,
        )
        return Y


BATCH = 2048
IN_FEATURES = 4096
OUT_FEATURES = 4096


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
