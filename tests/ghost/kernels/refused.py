import torch
import triton
import triton.language as tl


@triton.jit
def fill(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0, mask=i < n)


x = torch.empty(1000, device="xpu")
fill[(8,)](x, 1000, 128, num_warps=3)
fill[(8,)](x, 1000, 128, num_warps=64)
fill[(8,)](x, 1000, 128, num_warps=64, grf_mode="256")
fill[(8,)](x, 1000, 128, grf_mode="huge")
fill[(8,)](x, 1000, 128, num_wraps=4)
fill[(8,)](x, 1000, 128, grf_mode="512")
fill[(8,)](x, 1000, 128, warp_size=16)
