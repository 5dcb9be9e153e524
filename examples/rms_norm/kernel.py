"""RMS norm over the last dimension, autotuned by its author, in float64 for safety."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (8, 16)],
    key=["n_columns"],
)
@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, n_columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=mask, other=0.0).to(tl.float64)
    mean_square = tl.sum(x * x, axis=0) / n_columns
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    y = x / tl.sqrt(mean_square + eps) * weight
    tl.store(out_ptr + row * n_columns + columns, y.to(tl.float16), mask=mask)


class Model(nn.Module):
    def __init__(self, n_columns: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n_columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        rows, n_columns = x.shape
        block = triton.next_power_of_2(n_columns)
        rms_norm_kernel[(rows,)](x, self.weight, out, n_columns, self.eps, BLOCK=block)
        return out


def get_inputs():
    return [torch.randn(8192, 4096, device="xpu", dtype=torch.float16)]


def get_init_inputs():
    return [4096]
