import torch
import triton
import triton.language as tl


@triton.jit
def fill(x, n, value, BLOCK: tl.constexpr = 128):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, value, mask=i < n)


x = torch.empty(64, 1000, device="xpu", dtype=torch.bfloat16)
fill[(8, 2)](x, 1000, 2.0)
fill[(8,)](x[1:], n=16, value=1.0, BLOCK=256)
fill[lambda m: (m["n"] // m["BLOCK"],)](x.view(-1)[16:], 64000, 1.0)
for _ in range(5):
    fill[(9,)](x.T, 1, 1.0)
warm = fill.warmup(x, 1000, 1.0, BLOCK=64, grid=(1,))
warm[(7, 1, 1)](x, 1000, 1.0, 64)
triton.testing.do_bench(lambda: fill[(3,)](x, 7, 1.0))
