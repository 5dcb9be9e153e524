"""A script as people write them: no Model, no spec, a kernel launched from top-level code.

xesmith inspect examples/script.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_rows(x_ptr, scale_ptr, out_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = row * n_columns + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < n_columns
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * tl.load(scale_ptr + row), mask=mask)


def main():
    device = "xpu" if torch.xpu.is_available() else "cpu"
    x = torch.randn(4096, 1000, device=device)
    scale = torch.rand(4096, device=device)
    out = torch.empty_like(x)
    scale_rows[(x.shape[0],)](x, scale, out, x.shape[1], BLOCK=1024, num_warps=8)
    print(out.shape)


if __name__ == "__main__":
    main()
