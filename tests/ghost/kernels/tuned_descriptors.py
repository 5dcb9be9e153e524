import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def set_blocks(arguments):
    arguments["a"].block_shape = [arguments["BM"], arguments["BN"]]
    arguments["c"].block_shape = [arguments["BM"], arguments["BN"]]


@triton.autotune(
    [
        triton.Config({"BM": 32, "BN": 64}, pre_hook=set_blocks),
        triton.Config({"BM": 16, "BN": 32}, pre_hook=set_blocks),
    ],
    key=[],
)
@triton.jit
def copy(a, c, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    c.store([m, n], a.load([m, n]))


x = torch.randn(1024, 1024, dtype=torch.float16, device="xpu")
a, c = TensorDescriptor.from_tensor(x, [1, 1]), TensorDescriptor.from_tensor(x.clone(), [1, 1])
copy[lambda m: (1024 // m["BM"], 1024 // m["BN"])](a, c)
