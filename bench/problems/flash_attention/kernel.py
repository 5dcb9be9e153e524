"""Flash attention, forward, fp16: tensors of pointers, natural exponent, masks everywhere."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    scale,
    stride_qz,
    stride_qh,
    stride_qm,
    stride_qd,
    stride_kz,
    stride_kh,
    stride_kn,
    stride_kd,
    stride_vz,
    stride_vh,
    stride_vn,
    stride_vd,
    stride_oz,
    stride_oh,
    stride_om,
    stride_od,
    HEADS,
    SEQ_LEN,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0)
    zh = tl.program_id(1)
    z = (zh // HEADS).to(tl.int64)
    h = (zh % HEADS).to(tl.int64)
    q_base = q_ptr + z * stride_qz + h * stride_qh
    k_base = k_ptr + z * stride_kz + h * stride_kh
    v_base = v_ptr + z * stride_vz + h * stride_vh
    o_base = o_ptr + z * stride_oz + h * stride_oh

    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    q_ptrs = q_base + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    k_ptrs = k_base + offs_n[None, :] * stride_kn + offs_d[:, None] * stride_kd
    v_ptrs = v_base + offs_n[:, None] * stride_vn + offs_d[None, :] * stride_vd

    m_i = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    l_i = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    q = tl.load(q_ptrs, mask=offs_m[:, None] < SEQ_LEN, other=0.0)
    for start_n in range(0, SEQ_LEN, BLOCK_N):
        cols = start_n + offs_n
        k = tl.load(k_ptrs + start_n * stride_kn, mask=cols[None, :] < SEQ_LEN, other=0.0)
        scores = tl.dot(q, k) * scale
        scores = tl.where(cols[None, :] < SEQ_LEN, scores, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(scores, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(scores - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + start_n * stride_vn, mask=cols[:, None] < SEQ_LEN, other=0.0)
        acc += tl.dot(p.to(tl.float16), v)
        m_i = m_new

    acc = acc / l_i[:, None]
    o_ptrs = o_base + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    tl.store(o_ptrs, acc.to(tl.float16), mask=offs_m[:, None] < SEQ_LEN)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    batch, heads, seq_len, head_dim = q.shape
    o = torch.empty_like(q)
    grid = lambda meta: (triton.cdiv(seq_len, meta["BLOCK_M"]), batch * heads, 1)
    attention_kernel[grid](
        q,
        k,
        v,
        o,
        1.0 / math.sqrt(head_dim),
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *o.stride(),
        heads,
        seq_len,
        HEAD_DIM=head_dim,
        BLOCK_M=128,
        BLOCK_N=64,
        num_warps=8,
    )
    return o


class Model(nn.Module):
    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        return attention(Q, K, V)


BATCH = 4
HEADS = 16
SEQ_LEN = 4096
HEAD_DIM = 64


def get_inputs():
    shape = (BATCH, HEADS, SEQ_LEN, HEAD_DIM)
    return [torch.randn(shape, device="xpu", dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
