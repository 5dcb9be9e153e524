import torch
import triton
import triton.language as tl


@triton.jit
def epilogue(desc, rm, rn, acc):
    desc.store([rm, rn], acc.to(tl.float16))


@triton.jit
def gemm_desc(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    off_k = 0
    for k in range(0, tl.cdiv(K, BK)):
        x = a.load([pid_m * BM, k * BK])
        y = b.load([off_k, pid_n * BN])
        acc = tl.dot(x, y, acc)
        off_k += BK
    epilogue(c, pid_m * BM, pid_n * BN, acc)


def main():
    a = torch.randn(4096, 4096, dtype=torch.float16, device="cuda")
    b = torch.randn(4096, 4096, dtype=torch.float16, device="cuda")
    c = torch.empty(4096, 4096, dtype=torch.float16, device="cuda")
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda"))
    gemm_desc[(16, 16)](a, b, c, 4096, 4096, 4096, 256, 256, 32, num_warps=32, grf_mode="256")
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
