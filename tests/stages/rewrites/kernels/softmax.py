# ruff: noqa
# fmt: off
"""Row softmax: one program per row, no tile of two dimensions."""

import triton
import triton.language as tl


@triton.jit
def softmax(y_ptr, x_ptr, stride_y, stride_x, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    tl.store(y_ptr + row * stride_y + cols, e / tl.sum(e, axis=0), mask=mask)
