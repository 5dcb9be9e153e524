"""What Triton IR can hold, in small kernels: run by round_trip.py and the tests, never on a GPU.

Each kernel names in its docstring what it is for. Not every release of Triton takes every one.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def descriptors(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tensor descriptors."""
    a = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    b = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        b.store([row, column], a.load([row, column]) * 2)


@triton.jit
def block_pointers(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Block pointers that a loop carries."""
    a = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, N, BN):
        acc += tl.load(a, boundary_check=(0, 1), padding_option="zero")
        a = tl.advance(a, (0, BN))
    b = tl.make_block_ptr(y, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    tl.store(b, acc.to(tl.float16), boundary_check=(0,))


@triton.jit
def smaller_of_both(value_a, index_a, value_b, index_b):
    take = (value_a < value_b) | ((value_a == value_b) & (index_a < index_b))
    return tl.where(take, value_a, value_b), tl.where(take, index_a, index_b)


@triton.jit
def reductions(x, y, n, B: tl.constexpr):
    """Reductions: of one value, of two, with indices."""
    i = tl.arange(0, B)
    v = tl.load(x + i[:, None] * n + i[None, :]).to(tl.float32)
    most, where = tl.max(v, axis=1, return_indices=True)
    least, place = tl.reduce((v, tl.broadcast_to(i[None, :], (B, B))), 1, smaller_of_both)
    all_ones = tl.xor_sum(i, axis=0)
    tl.store(y + i, (most + where + least + place + all_ones + tl.sum(v, 1)).to(tl.float16))


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def scans(x, y, n, B: tl.constexpr):
    """Scans, forward and reverse, of one value and of two; histogram, sort and gather."""
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1.0).to(tl.float32)
    v = tl.cumsum(v, 0) + tl.associative_scan(v, 0, product, reverse=True)
    least, place = tl.associative_scan((v, i), 0, smaller_of_both)
    counts = tl.histogram(i % 16, B)
    v = tl.sort(v + least + counts + place)
    tl.store(y + i, tl.gather(v, (i + 1) % B, 0).to(tl.float16))


@triton.jit
def atomics(x, counter, lock, n, B: tl.constexpr):
    """Atomics with masks, semantics and scopes."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(counter + i, 1, mask=i < n, sem="relaxed", scope="gpu")
    tl.atomic_max(counter + i, i, mask=i < n)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    before = tl.atomic_add(x + i, 0.5, mask=i < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")
    tl.store(counter + i, before.to(tl.int32), mask=i < n)


@triton.jit
def control(x, y, n, B: tl.constexpr):
    """Early return, while, if with results, nested loops, a loop with hints."""
    pid = tl.program_id(0)
    if pid * B >= n:
        return
    i = pid * B + tl.arange(0, B)
    v = tl.load(x + i).to(tl.float32)
    steps = n
    while (steps > 1) & (tl.max(v, 0) > 0.5):
        steps = steps // 2
        for k in tl.range(0, steps, num_stages=3):
            if k % 3 == 0:
                v = v * 0.5
            elif k % 3 == 1:
                v = v + 1
        v -= steps
    for _ in tl.static_range(2):
        v = tl.where(v > 0, v, -v)
    tl.store(y + i, v.to(tl.float16))


@triton.jit
def assembly(x, y, n, B: tl.constexpr):
    """Inline assembly; its text holds what elsewhere is an alias, a location, or an end."""
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n).to(tl.float32)
    w, z = tl.inline_asm_elementwise(
        asm="""
        {
            // #blocked = #loc1, loc("a":1:2) <{ }> %0 = "tt.load"( \\" \\\\ xe_force_generic
            mov.b32 $0, $2;
            mov.b32 $1, $3;
        }
        """,
        constraints="=r,=r,r,r",
        args=[v, i],
        dtype=(tl.float32, tl.int32),
        is_pure=False,
        pack=1,
    )
    tl.store(y + i, (w + z).to(tl.float16), mask=i < n)


@triton.jit(noinline=True)
def leaf(v, scale):
    if scale > 2:
        return v * scale
    return v + scale


@triton.jit(noinline=True)
def inner(v, scale):
    return leaf(v, scale) * 2, leaf(scale, scale)


@triton.jit
def functions(x, y, n):
    """Functions that are called and not inlined, one in another."""
    v = tl.load(x + n).to(tl.float32)
    a, b = inner(v, 3.0)
    tl.store(y + n, (a + b).to(tl.float16))


@triton.jit
def scaled_dot(a, b, s, t, y, B: tl.constexpr, K: tl.constexpr):
    """dot_scaled: float8 by float8 and its scales."""
    i = tl.arange(0, B)
    k = tl.arange(0, K)
    g = tl.arange(0, K // 32)
    u = tl.load(a + i[:, None] * K + k[None, :])
    v = tl.load(b + k[:, None] * B + i[None, :])
    us = tl.load(s + i[:, None] * (K // 32) + g[None, :])
    vs = tl.load(t + i[:, None] * (K // 32) + g[None, :])
    r = tl.dot_scaled(u, us, "e5m2", v, vs, "e4m3")
    tl.store(y + i[:, None] * B + i[None, :], r.to(tl.float16))


@triton.jit
def dots(a, b, y, B: tl.constexpr):
    """Dots in a pipelined loop: of float32 with a precision, of int8, of float8; transposes."""
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, 4):
        u = tl.load(a + at + k * B * B)
        v = tl.load(b + at + k * B * B)
        acc = tl.dot(u.to(tl.float32), v.to(tl.float32).T, acc, input_precision="tf32x3")
        acc += tl.dot(u.to(tl.int8), v.to(tl.int8), out_dtype=tl.int32)
        acc = tl.dot(u.to(tl.float8e5), v.to(tl.float8e5), acc)
    tl.store(y + at, acc.to(tl.float16))


@triton.jit
def shapes(x, y, n, B: tl.constexpr):
    """join, split, cat, reshape, permute, interleave; numbers that text could lose."""
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float32)
    both = tl.join(v, v * 3.0000001)
    a, b = tl.split(tl.reshape(tl.permute(both, (1, 0)), (B, 2)))
    c = tl.interleave(a, b) * float("inf") - float("nan") + 1e-45
    c = tl.where(c == -0.0, 3.4028234e38, c)
    d = tl.reshape(tl.cat(c, c, can_reorder=True), (4, B))
    e = tl.sum(d, 0) + tl.rand(7, i) + tl.umulhi(i, i) + (i.to(tl.int64) * 0x7FFFFFFFFFFFFFFF)
    tl.store(y + i, e.to(tl.bfloat16).to(tl.float16), eviction_policy="evict_first")


@triton.jit
def said(x, n, B: tl.constexpr):
    """Prints and assertions: text with quotes and escapes; hints; volatile and cached loads."""
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, B), 8), 8)
    v = tl.load(x + i, volatile=True) + tl.load(x + i, cache_modifier=".cg")
    tl.device_print('said "#blocked" \\ 100%', v)
    tl.device_assert(n > 0, 'not "positive": loc(#loc)\ttab')
    tl.assume(n % 2 == 0)
    tl.store(x + i, tl.math.rsqrt(tl.abs(v.to(tl.float32))).to(tl.float16), mask=i < n)


@triton.jit
def specialized(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """A loop whose work is to be split among warps."""
    a = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    acc = tl.zeros((BM, BM), tl.float32)
    for column in tl.range(0, N, BN, warp_specialize=True):
        tile = a.load([0, column])
        acc = tl.dot(tile, tile.T, acc)
    i = tl.arange(0, BM)
    tl.store(y + i[:, None] * N + i[None, :], acc.to(tl.float16))


@triton.jit
def squared(v):
    return v * v if v > 0 else -v


@triton.jit
def mapped(x, y, B: tl.constexpr):
    """A function with branches on each element."""
    i = tl.arange(0, B)
    v = tl.load(x + i).to(tl.float32)
    tl.store(y + i, tl.map_elementwise(squared, v).to(tl.float16))


f16 = torch.empty(64 * 1024, dtype=torch.float16, device="xpu")
i32 = torch.empty(4096, dtype=torch.int32, device="xpu")
f32 = torch.empty(4096, dtype=torch.float32, device="xpu")
u8 = torch.empty(64 * 1024, dtype=torch.uint8, device="xpu")
e5 = torch.empty(64 * 1024, dtype=torch.float8_e5m2, device="xpu")
e4 = torch.empty(64 * 1024, dtype=torch.float8_e4m3fn, device="xpu")

triton.set_allocator(lambda size, align, stream: torch.empty(size, device="xpu"))

B = {"B": 128}
TILE = {"BM": 64, "BN": 64}
#: by kernel: its grid, arguments and options
LAUNCHES = {
    "descriptors": ((4,), (f16, f16, 256, 256), TILE),
    "block_pointers": ((4,), (f16, f16, 256, 256), {**TILE, "num_stages": 3}),
    "reductions": ((1,), (f16, f16, 128), B),
    "scans": ((1,), (f16, f16, 100), B),
    "atomics": ((4,), (f32, i32, i32, 500), B),
    "control": ((4,), (f16, f16, 500), B),
    "assembly": ((1,), (f16, f16, 100), B),
    "functions": ((1,), (f16, f16, 100), {}),
    "scaled_dot": ((1,), (e5, e4, u8, u8, f16), {"B": 64, "K": 64}),
    "dots": ((1,), (f16, f16, f16), {"B": 64}),
    "shapes": ((1,), (f16, f16, 100), B),
    "said": ((1,), (f16, 100), {"B": 128, "debug": True}),
    "specialized": ((1,), (f16, f16, 256, 256), TILE),
    "mapped": ((1,), (f16, f16), B),
}


def launch(name):
    grid, arguments, options = LAUNCHES[name]
    globals()[name][grid](*arguments, **options)
