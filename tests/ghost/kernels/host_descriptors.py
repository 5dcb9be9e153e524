import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def gemm_persistent(
    a,
    b,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS):
        m = (tile // tiles_n) * BM
        n = (tile % tiles_n) * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            x = a.load([m, k])
            y = b.load([k, n])
            acc = tl.dot(x, y, acc)
        c.store([m, n], acc.to(tl.float16))


a = torch.randn(4096, 4096, dtype=torch.float16, device="xpu")
b = torch.randn(4096, 4096, dtype=torch.float16, device="xpu")
c = torch.empty(4096, 4096, dtype=torch.float16, device="xpu")
programs = torch.xpu.get_device_properties(0).gpu_subslice_count
gemm_persistent[(programs,)](
    TensorDescriptor.from_tensor(a, [128, 32]),
    TensorDescriptor(b, b.shape, b.stride(), [32, 128]),
    c,
    4096,
    4096,
    4096,
    128,
    128,
    32,
    programs,
    num_warps=16,
)
