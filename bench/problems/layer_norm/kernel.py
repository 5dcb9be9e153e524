"""Layer norm over the last dimension; mean and variance are summed in float64 "to be safe"."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    row_stride,
    n_cols,
    eps,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0)
    x_ptr += row * row_stride
    y_ptr += row * row_stride

    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float64)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float64)
        total += x
    mean = tl.sum(total, axis=0) / n_cols

    squares = tl.zeros((BLOCK_SIZE,), dtype=tl.float64)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float64)
        centred = tl.where(cols < n_cols, x - mean, 0.0)
        squares += centred * centred
    variance = tl.sum(squares, axis=0) / n_cols
    rstd = 1.0 / tl.sqrt(variance + eps)

    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float64)
        weight = tl.load(weight_ptr + cols, mask=mask)
        bias = tl.load(bias_ptr + cols, mask=mask)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + cols, y.to(tl.float16), mask=mask)


class Model(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        weight = 1.0 + 0.1 * torch.randn(features)
        bias = 0.1 * torch.randn(features)
        self.weight = nn.Parameter(weight.to(device="xpu", dtype=torch.float16))
        self.bias = nn.Parameter(bias.to(device="xpu", dtype=torch.float16))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        rows, features = X.shape
        Y = torch.empty_like(X)
        layer_norm_kernel[(rows,)](
            X,
            Y,
            self.weight,
            self.bias,
            X.stride(0),
            features,
            self.eps,
            BLOCK_SIZE=1024,
            num_warps=8,
        )
        return Y


ROWS = 8192
FEATURES = 4096


def get_inputs():
    return [torch.randn(ROWS, FEATURES, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [FEATURES]
