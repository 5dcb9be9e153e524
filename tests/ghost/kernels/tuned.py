import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=4),
        triton.Config({"BLOCK": 1024, "grf_mode": "256"}, num_warps=8),
        triton.Config({"BLOCK": 2048}, num_warps=64),
        triton.Config({"BLOCK": 3000}, num_warps=4),
    ],
    key=["n"],
    reset_to_zero=["y"],
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i) + 1.0)
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


x = torch.rand(1 << 20, device=DEVICE)
y = torch.empty_like(x)
add[lambda m: (triton.cdiv(x.numel(), m["BLOCK"]),)](x, y, x.numel())
