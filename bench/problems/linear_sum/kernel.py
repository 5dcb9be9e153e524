"""Linear layer, then the sum over its output features: two kernels, all features through memory."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    h_ptr,
    M,
    N,
    K,
    stride_xm,
    stride_xk,
    stride_wn,
    stride_wk,
    stride_hm,
    stride_hn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :] * stride_xk
    # the weight is stored [N, K]; its transpose is the right operand
    w_ptrs = w_ptr + offs_k[:, None] * stride_wk + offs_n[None, :] * stride_wn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        k_left = K - k * BLOCK_K
        x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < k_left), other=0.0)
        w = tl.load(w_ptrs, mask=(offs_k[:, None] < k_left) & (offs_n[None, :] < N), other=0.0)
        acc += tl.dot(x, w)
        x_ptrs += BLOCK_K * stride_xk
        w_ptrs += BLOCK_K * stride_wk

    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    acc += bias[None, :]
    h_ptrs = h_ptr + offs_m[:, None] * stride_hm + offs_n[None, :] * stride_hn
    h_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(h_ptrs, acc.to(tl.float16), mask=h_mask)


@triton.jit
def row_sum_kernel(h_ptr, y_ptr, stride_hm, N, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, N, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        h = tl.load(h_ptr + row * stride_hm + cols, mask=cols < N, other=0.0)
        total += h.to(tl.float32)
    tl.store(y_ptr + row, tl.sum(total, axis=0).to(tl.float16))


def linear_sum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    M, K = x.shape
    N = weight.shape[0]
    h = torch.empty((M, N), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    linear_kernel[grid](
        x,
        weight,
        bias,
        h,
        M,
        N,
        K,
        x.stride(0),
        x.stride(1),
        weight.stride(0),
        weight.stride(1),
        h.stride(0),
        h.stride(1),
        BLOCK_M=128,
        BLOCK_N=128,
        BLOCK_K=32,
        num_warps=16,
    )
    y = torch.empty((M,), device=x.device, dtype=x.dtype)
    row_sum_kernel[(M,)](h, y, h.stride(0), N, BLOCK_SIZE=1024)
    return y


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        scale = in_features**-0.5
        weight = torch.randn(out_features, in_features) * scale
        bias = torch.randn(out_features) * scale
        self.weight = nn.Parameter(weight.to(device="xpu", dtype=torch.float16))
        self.bias = nn.Parameter(bias.to(device="xpu", dtype=torch.float16))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return linear_sum(X, self.weight, self.bias)


BATCH = 4096
IN_FEATURES = 2048
OUT_FEATURES = 4096


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
