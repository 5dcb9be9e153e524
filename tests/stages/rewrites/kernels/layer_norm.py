# ruff: noqa
# fmt: off
"""Layer norm that sums in float64."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, y_ptr, row_stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float64)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    total += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(total, axis=0) / n_cols + eps)
    tl.store(y_ptr + row * row_stride + cols, (centred * rstd).to(tl.float16), mask=mask)
