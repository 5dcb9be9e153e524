from __future__ import annotations

from typing import Any

import pytest

from xesmith.cascade import structure
from xesmith.device import load_device
from xesmith.ghost.launch import Launch

B70 = load_device("bmg-g31")


def launch(options: dict[str, Any], constexprs: dict[str, Any] | None = None) -> Launch:
    return Launch(
        index=0,
        kernel="k",
        file="k.py",
        line=1,
        grid=(4, 1, 1),
        signature={},
        values={},
        constexprs=constexprs or {},
        divisible_by_16=(),
        options=options,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"num_warps": 1},
        {"num_warps": 64, "grf_mode": "128"},  # 64 sub-groups of 16 lanes: 1024 work-items
        {"num_warps": 32, "grf_mode": "256"},
        {"num_warps": 64, "grf_mode": "default"},  # the compiler begins with 128 registers
        {"num_warps": 32, "grf_mode": "auto", "num_stages": 2, "num_ctas": 1},
        {"num_warps": 32, "threads_per_warp": 32},
    ],
)
def test_legal_launches_pass(options):
    assert structure.check([launch(options)], B70).status == "passed"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_warps": 12}, "num_warps is 12, not a power of two"),
        ({"num_warps": 0}, "num_warps is 0"),
        ({"num_warps": 64, "grf_mode": "256"}, "at most 32"),
        ({"num_warps": 128, "grf_mode": "128"}, "at most 64"),
        ({"num_warps": 8, "grf_mode": "512"}, "no mode of 512 registers; it has 128, 256"),
        ({"num_warps": 8, "grf_mode": "huge"}, "grf_mode 'huge' does not exist"),
        ({"num_warps": 64, "threads_per_warp": 32}, "2048 work-items"),
        ({"num_warps": 8, "threads_per_warp": 8}, "threads_per_warp is 8"),
        ({"num_warps": 8, "num_ctas": 2}, "no clusters"),
        ({"num_warps": 8, "num_stages": -1}, "num_stages is -1"),
    ],
)
def test_illegal_launches_are_refused_with_the_number(options, said):
    result = structure.check([launch(options)], B70)
    assert result.status == "refused"
    assert any(said in message for message in result.messages), result.messages


@pytest.mark.parametrize("name", ["BLOCK_M", "BLOCK_SIZE_K", "BLOCK", "BM", "XBLOCK", "TILE_N"])
def test_block_sizes_are_powers_of_two(name):
    assert structure.check([launch({}, {name: 48})], B70).status == "refused"
    assert structure.check([launch({}, {name: 64})], B70).status == "passed"


@pytest.mark.parametrize("name", ["HEAD_DIM", "NUM_BLOCKS", "GROUP_SIZE_M", "BETA", "BIAS"])
def test_other_constants_may_be_anything(name):
    assert structure.check([launch({}, {name: 48})], B70).status == "passed"


def test_a_configuration_is_named_and_each_fault_said_once():
    bad = launch({"num_warps": 3})
    result = structure.check([bad, bad], B70)
    assert len(result.messages) == 1
    assert result.messages[0].startswith("k: ")


def test_nothing_captured_is_not_read():
    assert structure.check([], B70).status == "not_read"
