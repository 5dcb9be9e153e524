"""out = x * 3, launched by position, by keyword, through run, assigned, and from forward."""

# ruff: noqa: E731
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr = 16, FLIP: tl.constexpr = False):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * scale, mask=at < n)


def by_position(x):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), 3.0, 32, num_warps=2)
    return out


def by_keyword(x):
    out = torch.empty_like(x)
    grid = lambda META: (triton.cdiv(x.numel(), META["BLOCK"]), 1)
    scale_kernel[grid](x_ptr=x, out_ptr=out, n=x.numel(), scale=3.0, num_stages=1)
    return out


def by_run(x):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 64),)
    scale_kernel.run(x, out, x.numel(), 3.0, BLOCK=64, grid=grid, warmup=False)
    return out


def assigned(x):
    out = torch.empty_like(x)
    launch = scale_kernel[(triton.cdiv(x.numel(), 16),)]
    launch(x, out, x.numel(), scale=3.0)
    return out


def other_grid(x):
    out = torch.zeros_like(x)
    scale_kernel[(1,)](x, out, x.numel(), 3.0)
    return out


class Model(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), 3.0)
        return out
