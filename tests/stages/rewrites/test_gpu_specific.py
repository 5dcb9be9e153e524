"""Roles of constexprs, the grid, the search space and the order of tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from xesmith.device import load_device
from xesmith.stages.rewrites import (
    Refusal,
    Rewrite,
    SearchSpace,
    block_pointers,
    find_roles,
    infer_grid,
    insert_group,
    search_space,
)
from xesmith.stages.rewrites.result import evaluate

GEMMS = {
    "gemm": ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_SIZE_M"),
    "gemm_masked": ("BM", "BN", "BK", None),
    "gemm_bt": ("BLOCK_M", "BLOCK_N", "BLOCK_K", None),
    "gemm_bias_gelu": ("BLOCK_M", "BLOCK_N", "BLOCK_K", None),
}


@pytest.mark.parametrize("kernel", GEMMS)
def test_roles_of_a_gemm_before_and_after_block_pointers(kernels: Any, kernel: str) -> None:
    launch = getattr(kernels, kernel)(64, 96, 128)
    source = kernels.source(kernel)
    blocks = block_pointers(source, kernels.facts(launch))
    assert isinstance(blocks, Rewrite)
    for text in (source, blocks.kernel_source, blocks.descriptor_source):
        assert text is not None
        roles = find_roles(text, kernels.facts(launch))
        assert not isinstance(roles, Refusal)
        assert roles.kind == "gemm"
        assert (roles.block_m, roles.block_n, roles.block_k, roles.group) == GEMMS[kernel]
        assert [roles.tiles[n].bound for n in GEMMS[kernel][:3] if n] == ["M", "N", "K"]


def test_roles_of_attention(kernels: Any) -> None:
    roles = find_roles(kernels.source("attention"), kernels.facts(kernels.attention(1, 2, 96, 64)))
    assert not isinstance(roles, Refusal)
    assert (roles.kind, roles.block_m, roles.block_n) == ("attention", "BLOCK_M", "BLOCK_N")
    assert set(roles.tunable) == {"BLOCK_M", "BLOCK_N"}  # HEAD_DIM follows from the shape


def test_a_row_is_no_tile_to_choose(kernels: Any) -> None:
    roles = find_roles(kernels.source("softmax"), kernels.facts(kernels.softmax(8, 1000)))
    assert not isinstance(roles, Refusal)
    assert roles.kind == "other"
    assert roles.tunable == ()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda k, n: k.gemm(64 * n, 96, 64), ("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",)),
        (lambda k, n: k.gemm_masked(64 * n, 96, 64), ("cdiv(M, BM)", "cdiv(N, BN)")),
        (lambda k, n: k.gemm_bt(64 * n, 96, 64), ("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",)),
        (
            lambda k, n: k.batched(2 + n, 64, 96, 64),
            ("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)", "a_ptr.shape[0]"),
        ),
        (
            lambda k, n: k.attention(n, 3, 96, 32),
            ("cdiv(N_CTX, BLOCK_M)", "Q.shape[0] * H"),
        ),
        (lambda k, n: k.softmax(5 + n, 100), ("y_ptr.shape[0]",)),
    ],
    ids=["grouped", "two axes", "unmasked", "batched", "attention", "rows"],
)
def test_the_grid_in_terms_of_the_arguments(kernels: Any, make: Any, expected: Any) -> None:
    """Inferred from two shapes, right at a third."""
    launches = [make(kernels, 1), make(kernels, 2)]
    source = kernels.source(launches[0].kernel)
    found = infer_grid(source, launches)
    assert found == expected
    third = make(kernels, 4)
    values = [evaluate(text, third) for text in found]
    assert (*values, 1, 1)[:3] == third.grid


def test_a_grid_that_fits_nothing_is_refused(kernels: Any) -> None:
    launch = replace(kernels.gemm_masked(64, 96, 64), grid=(7, 3, 1))
    found = infer_grid(kernels.source("gemm_masked"), [launch])
    assert isinstance(found, Refusal)
    assert "axis 0" in found.reason


def space(kernels: Any, launch: Any, device: str = "bmg-g31", **options: Any) -> SearchSpace:
    source = kernels.source(launch.kernel)
    found = search_space(source, kernels.facts(launch), load_device(device), **options)
    assert isinstance(found, SearchSpace), found
    return found


def test_the_best_known_configuration_leads(kernels: Any) -> None:
    """A large fp16 product: 256x256x32, 32 warps, 256 registers, groups of 4 and of 1."""
    launch = kernels.gemm(4096, 4096, 4096, block=(128, 128, 32))
    first, second = space(kernels, launch).configurations[:2]
    assert first.metas == {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 32, "GROUP_SIZE_M": 4}
    assert first.options == {"num_warps": 32, "num_stages": 2, "grf_mode": "256"}
    assert second.metas["GROUP_SIZE_M"] == 1


def test_a_skinny_product_gets_small_rows(kernels: Any) -> None:
    launch = kernels.gemm(16, 8192, 8192, block=(128, 128, 32))
    found = space(kernels, launch).configurations[:12]
    assert {c.metas["BLOCK_M"] for c in found} == {16}
    assert {c.metas["BLOCK_N"] for c in found} & {64, 128}


def test_hard_limits(kernels: Any) -> None:
    found = space(kernels, kernels.gemm(4096, 4096, 4096, block=(128, 128, 32)), limit=1000)
    for c in found.configurations:
        tile = c.metas["BLOCK_M"] * c.metas["BLOCK_N"]
        assert c.num_warps & (c.num_warps - 1) == 0
        assert c.grf_mode in ("128", "256")
        assert c.num_warps <= (32 if c.grf_mode == "256" else 64)
        assert tile >= 8 * 16 * c.num_warps  # one DPAS result for each warp
        assert tile * 4 // c.num_warps <= int(c.grf_mode) * 64  # fp32 accumulator, 64 B registers
    assert sum(found.pruned.values()) > 0
    assert len(set(map(str, found.configurations))) == len(found.configurations)


def test_guards_prune(kernels: Any) -> None:
    launch = kernels.gemm(4096, 4096, 48, block=(128, 128, 16))
    found = space(kernels, launch, guards=["K % BLOCK_K == 0"])
    assert {c.metas["BLOCK_K"] for c in found.configurations} == {16}  # 48 = 3 * 16


def test_attention_keeps_rows_whole_in_a_warp(kernels: Any) -> None:
    launch = kernels.attention(4, 16, 4096, 64, block=(128, 64))
    for c in space(kernels, launch).configurations:
        assert c.metas["BLOCK_M"] >= 8 * c.num_warps


def test_a_row_kernel_has_warps_to_choose(kernels: Any) -> None:
    found = space(kernels, kernels.softmax(64, 1000))
    assert {c.num_warps for c in found.configurations} >= {4, 8, 16}
    assert all(c.metas == {} for c in found.configurations)


def test_the_best_known_configuration_leads_on_hopper(kernels: Any) -> None:
    """128x256x64 with two warp groups: of a thread's registers, half hold the accumulator."""
    launch = kernels.gemm(4096, 4096, 4096, block=(128, 128, 32))
    found = space(kernels, launch, device="h200", limit=24)
    first = [c for c in found.configurations if c.metas["GROUP_SIZE_M"] == 4][:4]
    assert {(c.metas["BLOCK_M"], c.metas["BLOCK_N"]) for c in first} == {(128, 256), (256, 128)}
    assert {c.metas["BLOCK_K"] for c in first} == {64}
    assert {c.num_warps for c in first} == {8}
    assert {c.num_stages for c in first} == {3, 4}
    assert all("grf_mode" not in c.options for c in found.configurations)


def test_hard_limits_of_hopper(kernels: Any) -> None:
    launch = kernels.gemm(4096, 4096, 4096, block=(128, 128, 32))
    found = space(kernels, launch, device="h200", limit=1000)
    for c in found.configurations:
        rows, columns, depth = (c.metas[f"BLOCK_{axis}"] for axis in "MNK")
        # wgmma: 64 rows by four warps; 65536 registers of an SM, 255 of a thread at most
        assert c.num_warps % 4 == 0
        assert rows * columns >= 64 * 16 * (c.num_warps // 4)
        registers = min(255, 65536 // (32 * c.num_warps))
        assert rows * columns / (32 * c.num_warps) <= registers
        # fp16 operands of all stages in the 227 KB of a work-group
        assert c.num_stages * (rows + columns) * depth * 2 <= 232448
    assert "the operands of two stages take more than the shared memory" in found.pruned


def test_attention_on_hopper_has_its_queries_beside_the_stages_in_shared_memory(
    kernels: Any,
) -> None:
    launch = kernels.attention(4, 16, 4096, 128, block=(128, 64))
    found = space(kernels, launch, device="h200", limit=1000)
    for c in found.configurations:
        rows, columns = c.metas["BLOCK_M"], c.metas["BLOCK_N"]
        assert rows >= 16 * c.num_warps  # 64 rows of a warp group's instruction
        assert (rows + 2 * c.num_stages * columns) * 128 * 2 <= 232448
    assert {c.metas["BLOCK_N"] for c in found.configurations} >= {32, 64}


@pytest.mark.intel
@pytest.mark.parametrize(
    ("make", "grid"),
    [
        (lambda k: k.gemm_bt(160, 96, 64), None),
        (lambda k: k.batched(2, 160, 96, 64), None),
        (lambda k: k.gemm_masked(160, 96, 64), ("cdiv(M, BM) * cdiv(N, BN)",)),
        (lambda k: k.gemm_bias_gelu(160, 96, 64), ("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",)),
    ],
    ids=["quotient and remainder", "beside a batch", "two axes", "epilogue"],
)
def test_grouped_tiles_are_the_same_tiles(
    kernels: Any, interpreter: Any, make: Any, grid: Any
) -> None:
    """5 x 3 tiles in groups of 4, 1 and 3 rows."""
    launch = make(kernels)
    original = kernels.source(launch.kernel)
    result = insert_group(original, kernels.facts(launch))
    assert isinstance(result, Rewrite), result
    assert result.grid == grid
    assert result.metas == {"GROUP_SIZE_M": 4}
    grids = {}
    if result.grid is not None:
        sizes = [int(evaluate(text, launch)) for text in result.grid]
        grids = dict.fromkeys((1, 2, 3), (*sizes, 1, 1)[:3])
    metas = {1: {"GROUP_SIZE_M": 4}, 2: {"GROUP_SIZE_M": 1}, 3: {"GROUP_SIZE_M": 3}}
    text = result.kernel_source
    assert interpreter.differences(
        launch, original, text, text, text, metas=metas, grids=grids
    ) == [0.0, 0.0, 0.0]


def test_grouping_both_forms_of_block_pointers(kernels: Any) -> None:
    launch = kernels.gemm_masked(160, 96, 64)
    blocks = block_pointers(kernels.source("gemm_masked"), kernels.facts(launch))
    assert isinstance(blocks, Rewrite)
    for text in (blocks.kernel_source, blocks.descriptor_source):
        assert text is not None
        grouped = insert_group(text, kernels.facts(launch))
        assert isinstance(grouped, Rewrite), grouped
        assert grouped.grid == ("cdiv(M, BM) * cdiv(N, BN)",)


def test_groups_are_not_nested(kernels: Any) -> None:
    result = insert_group(kernels.source("gemm"), kernels.facts(kernels.gemm(96, 64, 96)))
    assert isinstance(result, Refusal)
    assert "GROUP_SIZE_M already" in result.reason
