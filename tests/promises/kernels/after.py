"""What good stages make of the problems under bench/, written by hand; each launched once."""

import torch
import triton
import triton.language as tl


@triton.jit
def gemm_blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    ap = tl.make_block_ptr(a, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
    bp = tl.make_block_ptr(b, (K, N), (N, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(ap, boundary_check=(0, 1))
        y = tl.load(bp, boundary_check=(0, 1))
        acc += tl.dot(x, y)
        ap = tl.advance(ap, (0, BK))
        bp = tl.advance(bp, (BK, 0))
    cp = tl.make_block_ptr(c, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(cp, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def gemm_best(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    gemm_blocks(a, b, c, M, N, K, BM, BN, BK)


@triton.jit
def gemm_even(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    ap = a + rm[:, None] * sam + rk[None, :] * sak
    bp = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap)
        y = tl.load(bp)
        acc += tl.dot(x, y)
        ap += BK * sak
        bp += BK * sbk
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc.to(tl.float16))


@triton.jit
def linear_blocks(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    n_tiles = tl.cdiv(N, BN)
    pm = pid // n_tiles
    pn = pid % n_tiles
    xp = tl.make_block_ptr(x, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
    wp = tl.make_block_ptr(w, (K, N), (1, K), (0, pn * BN), (BK, BN), (0, 1))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(
            tl.load(xp, boundary_check=(0, 1)),
            tl.load(wp, boundary_check=(0, 1)),
        )
        xp = tl.advance(xp, (0, BK))
        wp = tl.advance(wp, (BK, 0))
    yp = tl.make_block_ptr(y, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(yp, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def attention_blocks(
    q, k, v, o, scale, HEADS, SEQ, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    start = tl.program_id(0) * BM
    base = tl.program_id(1).to(tl.int64) * SEQ * D
    qp = tl.make_block_ptr(q + base, (SEQ, D), (D, 1), (start, 0), (BM, D), (1, 0))
    kp = tl.make_block_ptr(k + base, (D, SEQ), (1, D), (0, 0), (D, BN), (0, 1))
    vp = tl.make_block_ptr(v + base, (SEQ, D), (D, 1), (0, 0), (BN, D), (1, 0))
    m_i = tl.full((BM,), -float("inf"), dtype=tl.float32)
    l_i = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    x = tl.load(qp, boundary_check=(0,))
    for _ in range(0, SEQ, BN):
        scores = tl.dot(x, tl.load(kp, boundary_check=(1,))) * scale
        m_new = tl.maximum(m_i, tl.max(scores, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(scores - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(tl.float16), tl.load(vp, boundary_check=(0,)))
        m_i = m_new
        kp = tl.advance(kp, (0, BN))
        vp = tl.advance(vp, (BN, 0))
    acc = acc / l_i[:, None]
    op = tl.make_block_ptr(o + base, (SEQ, D), (D, 1), (start, 0), (BM, D), (1, 0))
    tl.store(op, acc.to(tl.float16), boundary_check=(0,))


@triton.jit
def bmm_blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pn = tl.program_id(0)
    pm = tl.program_id(1)
    z = tl.program_id(2).to(tl.int64)
    ap = tl.make_block_ptr(a + z * M * K, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
    bp = tl.make_block_ptr(b + z * K * N, (K, N), (N, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(ap, boundary_check=(0, 1))
        y = tl.load(bp, boundary_check=(0, 1))
        acc = tl.dot(x, y, acc)
        ap = tl.advance(ap, (0, BK))
        bp = tl.advance(bp, (BK, 0))
    cp = tl.make_block_ptr(c + z * M * N, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(cp, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def norm_f32(x_ptr, y_ptr, weight_ptr, bias_ptr, row_stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * row_stride
    y_ptr += row * row_stride
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        centred = tl.where(cols < n_cols, x - mean, 0.0)
        squares += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask)
        bias = tl.load(bias_ptr + cols, mask=mask)
        tl.store(y_ptr + cols, ((x - mean) * rstd * weight + bias).to(tl.float16), mask=mask)


@triton.jit
def gemm_gelu(
    a, b, bias, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    ap = a + rm[:, None] * sam + rk[None, :] * sak
    bp = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(ap, mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
        y = tl.load(bp, mask=(rk[:, None] < left) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
        ap += BK * sak
        bp += BK * sbk
    acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]
    acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc.to(tl.float16), mask=mask)


@triton.jit
def gemm_persistent(
    a, b, c, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    n_tiles = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * n_tiles, programs):
        pm = tile // n_tiles
        pn = tile % n_tiles
        ap = tl.make_block_ptr(a, (M, K), (K, 1), (pm * BM, 0), (BM, BK), (1, 0))
        bp = tl.make_block_ptr(b, (K, N), (N, 1), (0, pn * BN), (BK, BN), (1, 0))
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(0, K, BK):
            x = tl.load(ap, boundary_check=(0, 1))
            y = tl.load(bp, boundary_check=(0, 1))
            acc += tl.dot(x, y)
            ap = tl.advance(ap, (0, BK))
            bp = tl.advance(bp, (BK, 0))
        cp = tl.make_block_ptr(c, (M, N), (N, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
        tl.store(cp, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def softmax_rows(x_ptr, y_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    start = tl.program_id(0) * ROWS
    xp = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (start, 0), (ROWS, COLS), (1, 0))
    x = tl.load(xp, boundary_check=(0, 1)).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = x / tl.sum(x, axis=1)[:, None]
    yp = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (start, 0), (ROWS, COLS), (1, 0))
    tl.store(yp, y.to(tl.float16), boundary_check=(0, 1))


def empty(*shape):
    return torch.empty(*shape, dtype=torch.float16, device="xpu")


if __name__ == "__main__":
    n = 4096
    a, b, c, bias = empty(n, n), empty(n, n), empty(n, n), empty(n)
    tile = {"BM": 128, "BN": 128, "BK": 32, "num_warps": 16}
    best = {"BM": 256, "BN": 256, "BK": 32, "num_warps": 32, "grf_mode": "large"}
    gemm_blocks[(32, 32)](a, b, c, n, n, n, **tile)
    gemm_best[(16, 16)](a, b, c, n, n, n, **best)
    gemm_even[(32, 32)](a, b, c, n, n, n, n, 1, n, 1, n, 1, **tile)
    # At 128 registers the epilogue makes the loop spill more than the fusion saves.
    large = {**tile, "grf_mode": "large"}
    gemm_gelu[(32, 32)](a, b, bias, c, n, n, n, n, 1, n, 1, n, 1, **large)
    gemm_persistent[(32,)](a, b, c, n, n, n, 32, **best)
    linear_blocks[(512,)](empty(2048, n), b, empty(2048, n), 2048, n, n, **tile)
    t = empty(4, 16, 4096, 64)
    attention_blocks[(32, 64)](t, t, t, t, 0.125, 16, 4096, D=64, BM=128, BN=64, num_warps=8)
    u, v, w = empty(32, 1024, 512), empty(32, 512, 1024), empty(32, 1024, 1024)
    bmm_blocks[(16, 16, 32)](u, v, w, 1024, 1024, 512, BM=64, BN=64, BK=32, num_warps=8)
    rows, out = empty(8192, 4096), empty(8192, 4096)
    norm_f32[(8192,)](rows, out, empty(4096), empty(4096), 4096, 4096, 1e-5, BLOCK=1024)
    softmax_rows[(8192,)](rows, out, 8192, 4096, ROWS=1, COLS=4096)
