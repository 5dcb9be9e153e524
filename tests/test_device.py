"""Device files: the facts of hardware.md, and that what is unknown stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from xesmith.device import (
    FACTS,
    device_names,
    load_device,
    read_device,
    sycl_architecture,
)
from xesmith.errors import UsageError

XPU = ["bmg-g21", "bmg-g21-b60", "bmg-g31", "cri", "dg2", "lnl-m", "ptl-h", "pvc", "pvc-max-1100"]


def test_b70_has_the_published_figures() -> None:
    device = load_device("bmg-g31")
    assert (device.xe_cores, device.xves) == (32, 256)
    assert device.slm_bytes_per_work_group == 131072
    assert [device.threads_per_xve(grf) for grf in (128, 256)] == [8, 4]
    assert [device.max_sub_groups_per_work_group(grf) for grf in (128, 256)] == [64, 32]
    # 256 XVE x 256 FLOP/clock x 2.28 GHz
    assert device.peak_fp16_flop_per_second == pytest.approx(149.4e12, rel=1e-3)


def test_peaks_agree_with_the_vendor_figures() -> None:
    # 838.9 TFLOP/s for both stacks of Max 1550
    assert load_device("pvc").peak_fp16_flop_per_second == pytest.approx(838.9e12, rel=1e-3)
    # about 98.5 for Pro B60
    assert load_device("b60").peak_fp16_flop_per_second == pytest.approx(98.3e12, rel=1e-3)
    # 989.4 dense for H200
    assert load_device("h200").peak_fp16_flop_per_second == pytest.approx(989.4e12, rel=1e-2)


def test_unknown_stays_unknown() -> None:
    assert load_device("bmg-g31").l2_bytes is None  # B580's 18 MB must not be copied
    cri = load_device("cri")
    assert (cri.xe_cores, cri.clock_hz, cri.memory_bytes_per_second) == (None, None, None)
    assert cri.block_2d_base_alignment_bytes is None
    assert load_device("lnl-m").clock_hz is None


def test_crescent_island_has_its_own_thread_counts_and_slm() -> None:
    cri = load_device("cri")
    assert [cri.threads_per_xve(grf) for grf in (128, 256, 512)] == [8, 8, 4]
    assert cri.slm_bytes_per_work_group == 393216


def test_panther_lake_runs_ten_threads_with_few_registers() -> None:
    ptl = load_device("ptl-h")
    assert [ptl.threads_per_xve(grf) for grf in (64, 96, 128, 256)] == [10, 10, 8, 4]


def test_alchemist_has_no_2d_blocks_and_half_the_slm() -> None:
    dg2 = load_device("dg2")
    assert dg2.has_2d_block_io is False
    assert (dg2.slm_bytes_per_work_group, dg2.grf_bytes) == (65536, 32)
    assert dg2.dpas_execution_size == 8


@pytest.mark.parametrize("name", device_names())
def test_every_file_gives_a_source_for_each_fact(name: str) -> None:
    device = load_device(name)
    assert device.facts
    assert all(fact.source.strip() for fact in device.facts.values())


@pytest.mark.parametrize(("alias", "name"), [("b70", "bmg-g31"), ("B580", "bmg-g21")])
def test_aliases(alias: str, name: str) -> None:
    assert load_device(alias).name == name


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown device 'bmg-g32'") as caught:
        load_device("bmg-g32")
    assert "did you mean 'bmg-g31'?" in str(caught.value)


def test_an_unknown_fact_or_register_count_is_an_error() -> None:
    device = load_device("bmg-g31")
    with pytest.raises(UsageError, match="unknown device fact 'l2_byte'"):
        device.fact("l2_byte")
    with pytest.raises(UsageError, match="no mode of 512 registers"):
        device.threads_per_xve(512)


def test_sycl_architecture_of_known_parts() -> None:
    # The numbers of SYCL's architecture enumeration.
    assert sycl_architecture("12.60.7") == 0x030F000700  # intel_gpu_pvc
    assert sycl_architecture("20.1.0") == 0x0500400000  # intel_gpu_bmg_g21


@pytest.mark.parametrize("name", XPU)
def test_target_properties_have_every_key_that_triton_reads(name: str) -> None:
    properties = load_device(name).target_properties()
    assert set(properties) == {
        "architecture", "name", "platform_name", "vendor", "version", "gpu_eu_count",
        "gpu_subslice_count", "max_work_group_size", "max_num_sub_groups", "sub_group_sizes",
        "has_fp64", "has_subgroup_matrix_multiply_accumulate",
        "has_subgroup_matrix_multiply_accumulate_tensor_float32", "has_subgroup_2d_block_io",
        "has_bfloat16_conversions",
    }  # fmt: skip
    assert properties["max_num_sub_groups"] == 64
    assert properties["has_subgroup_2d_block_io"] is (name != "dg2")


def test_a_cuda_device_has_no_xpu_properties() -> None:
    with pytest.raises(UsageError, match="no Intel GPU"):
        load_device("h200").target_properties()


def test_slm_is_allocated_in_granules() -> None:
    device = load_device("bmg-g31")
    assert device.slm_allocated_bytes(0) == 0
    assert device.slm_allocated_bytes(34816) == 49152
    assert device.slm_allocated_bytes(135168) == 135168  # over the limit: not hidden


FILE = """\
name: x
title: X
kind: xpu
triton_arch: x
facts:
  xe_cores: {value: 8, source: "spec"}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: xpu", "kind: gpu", "kind 'gpu' is unknown"),
        ("title: X", "titel: X", "unknown field 'titel'"),
        ("xe_cores:", "xe_core:", "unknown fact 'xe_core'"),
        ('source: "spec"', 'source: ""', "a fact without a source"),
        ("value: 8", "value: true", "not int"),
        ("value: 8", "value: null", "not int"),
        ("value: 8", "value: 8, unit: cores", "unknown field 'unit'"),
        ("title: X\n", "", "the field 'title' is missing"),
        (FILE, "- 1", "is a mapping"),
        (FILE, "a: [", "cannot read"),
    ],
)
def test_a_faulty_file_is_one_clear_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UsageError, match=message) as caught:
        read_device(path)
    assert str(path) in (caught.value.where or "")


def test_a_correct_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(FILE)
    assert read_device(path).xe_cores == 8
    assert "xe_cores" in FACTS
