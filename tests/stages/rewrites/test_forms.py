"""Ways to write a product: whatever block_pointers and memory_access make of it, the result is
the original's. `blocks` says how many block pointers the form must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from xesmith.ghost.launch import Launch
from xesmith.stages.rewrites import Rewrite, block_pointers, memory_access
from xesmith.stages.rewrites.result import guards_hold

HEAD = """\
@triton.jit
def kernel(A, B, C, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EXTRA: tl.constexpr):
"""
PLACE = """\
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
"""
STORE = """\
    c_ptrs = C + rm[:, None] * scm + rn[None, :] * scn
    tl.store(c_ptrs, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))
"""


@dataclass(frozen=True)
class Form:
    body: str
    blocks: int
    extra: Any = 1
    programs: tuple[int, ...] | None = None
    head: str = PLACE
    tail: str = STORE


FORMS = {
    "base moved to the tile": Form(
        """\
    A += pid_m * BM * sam
    B += pid_n * BN * sbn
    a_ptrs = A + tl.arange(0, BM)[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + tl.arange(0, BN)[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(rm[:, None] < M) & (rk[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(rk[:, None] < K - k * BK) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
""",
        3,
    ),
    "a branch on a constexpr": Form(
        """\
    a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        if EXTRA:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BK, other=0.0)
            b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
""",
        3,
        extra=True,
    ),
    "unrolled": Form(
        """\
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in tl.static_range(0, 3):
        cols = i * BK + rk
        a = tl.load(A + rm[:, None] * sam + cols[None, :] * sak, mask=cols[None, :] < K, other=0.0)
        b = tl.load(B + cols[:, None] * sbk + rn[None, :] * sbn, mask=cols[:, None] < K, other=0.0)
        acc += tl.dot(a, b)
""",
        3,
    ),
    "one slice of K for each program": Form(
        """\
    part = tl.program_id(2)
    cols = part * BK + rk
    a_ptrs = A + rm[:, None] * sam + cols[None, :] * sak
    b_ptrs = B + cols[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK * EXTRA)):
        left = K - k * (BK * EXTRA)
        a = tl.load(a_ptrs, mask=cols[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=cols[:, None] < left, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * EXTRA * sak
        b_ptrs += BK * EXTRA * sbk
""",
        2,
        extra=2,
        programs=(2, 2, 2),
        tail="""\
    c_ptrs = C + rm[:, None] * scm + rn[None, :] * scn
    tl.atomic_add(c_ptrs, acc)
""",
    ),
    "persistent": Form(
        """\
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), EXTRA):
        pid_m = tile // tl.cdiv(N, BN)
        pid_n = tile % tl.cdiv(N, BN)
        rm = pid_m * BM + tl.arange(0, BM)
        rn = pid_n * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
        b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            a = tl.load(a_ptrs, mask=rk[None, :] < K - k, other=0.0)
            b = tl.load(b_ptrs, mask=rk[:, None] < K - k, other=0.0)
            acc += tl.dot(a, b)
            a_ptrs += BK * sak
            b_ptrs += BK * sbk
        tl.store(C + rm[:, None] * scm + rn[None, :] * scn, acc)
""",
        3,
        extra=3,
        programs=(3,),
        head="",
        tail="",
    ),
    "first tile loaded before the loop": Form(
        """\
    a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    a = tl.load(a_ptrs)
    b = tl.load(b_ptrs)
    for k in range(1, tl.cdiv(K, BK)):
        acc += tl.dot(a, b)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
    acc += tl.dot(a, b)
""",
        5,
    ),
    "from the end of K": Form(
        """\
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        cols = K - BK - k + rk
        a = tl.load(A + rm[:, None] * sam + cols[None, :] * sak)
        b = tl.load(B + cols[:, None] * sbk + rn[None, :] * sbn)
        acc += tl.dot(a, b)
""",
        1,  # the store: a tile may start before element 0 for all that is known
    ),
    "advanced twice": Form(
        """\
    a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, 2 * BK):
        acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
        if k + BK < K:
            acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
""",
        1,
    ),
    "advanced in a branch": Form(
        """\
    a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
        if k + BK < K:
            a_ptrs += BK * sak
            b_ptrs += BK * sbk
""",
        1,
    ),
    "a step that changes": Form(
        """\
    a_ptrs = A + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    step = BK
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
        a_ptrs += step * sak
        b_ptrs += step * sbk
        step = tl.where(k + 2 * BK < K, BK, 0)
""",
        1,
    ),
    "a name used again": Form(
        """\
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    first = rn
    rn = rn * 1
    for k in range(0, K, BK):
        cols = k + rk
        a = tl.load(A + rm[:, None] * sam + cols[None, :] * sak, mask=cols[None, :] < K, other=0.0)
        pid_m = k * 0 + tl.program_id(0)
        b = tl.load(B + cols[:, None] * sbk + first[None, :] * sbn)
        acc += tl.dot(a, b)
    rm = pid_m * BM + tl.arange(0, BM)
""",
        3,
    ),
    "hints round the indices": Form(
        """\
    rm = tl.max_contiguous(tl.multiple_of(rm % M, BM), BM)
    rn = tl.max_contiguous(tl.multiple_of(rn % N, BN), BN)
    a_ptrs = A + (rm[:, None] * sam + rk[None, :] * sak)
    b_ptrs = B + (rk[:, None] * sbk + rn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
""",
        3,
    ),
}


def launch_of(kernels: Any, form: Form) -> Launch:
    values = {"A": kernels.tensor(64, 96), "B": kernels.tensor(96, 64), "C": kernels.tensor(64, 64),
              "M": 64, "N": 64, "K": 96, "sam": 96, "sak": 1, "sbk": 64, "sbn": 1, "scm": 64,
              "scn": 1}  # fmt: skip
    constexprs = {"BM": 32, "BN": 32, "BK": 32, "EXTRA": form.extra}
    return kernels.launch("kernel", values, constexprs, *(form.programs or (2, 2)))


@pytest.mark.intel
@pytest.mark.parametrize("name", FORMS)
def test_equal_results(kernels: Any, interpreter: Any, name: str) -> None:
    form = FORMS[name]
    source = HEAD + form.head + form.body + form.tail
    launch = launch_of(kernels, form)
    facts = kernels.facts(launch)
    texts: list[str] = []
    blocks = block_pointers(source, facts)
    assert isinstance(blocks, Rewrite), blocks
    assert blocks.kernel_source.count("make_block_ptr") == form.blocks, blocks.notes
    assert guards_hold(blocks.guard, launch)
    texts.append(blocks.kernel_source)
    bare = memory_access(source, facts)
    if isinstance(bare, Rewrite):
        assert guards_hold(bare.guard, launch)
        texts.append(bare.kernel_source)
        both = block_pointers(bare.kernel_source, kernels.facts(launch, original_source=source))
        assert isinstance(both, Rewrite), both
        texts.append(both.kernel_source)
    for difference in interpreter.differences(launch, source, *texts):
        assert difference == 0.0
