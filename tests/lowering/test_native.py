"""Native code: what the driver would build, its listing, and every way ocloc can fail."""

import re
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from xesmith.ghost.launch import Launch
from xesmith.lowering.native import RetryRule, add_native, read_zebin, retry_rule
from xesmith.lowering.record import Lowering
from xesmith.toolchain import NativeTools


def text_of(lowering, level):
    return Path(lowering.levels[level]).read_text(errors="replace")


def number(text, name):
    found = re.search(rf"^\s*{name}:\s*(\d+)", text, re.M)
    return int(found.group(1)) if found else 0


@pytest.mark.intel
def test_block_pointers_spill_at_128_registers_and_not_at_256(uncached, program, toolchain):
    run_128, run_256 = uncached.run_many(
        [program("gemm_block.py", GRF=grf) for grf in ("128", "256")]
    )
    (small,), (large,) = run_128.lowerings, run_256.lowerings
    assert small.failure is None
    assert large.failure is None

    info = text_of(small, "ze_info")
    assert number(info, "grf_count") == 128
    assert number(info, "eu_thread_count") == 8
    spilled = re.search(r"spilled around (\d+)", text_of(small, "native_log"))
    assert spilled is not None
    # IGC counts registers of 64 bytes, .ze_info bytes per hardware thread.
    assert number(info, "spill_size") == int(spilled.group(1)) * 64
    if toolchain.native.versions["ocloc"].startswith("26.27"):
        assert (int(spilled.group(1)), number(info, "spill_size")) == (107, 6848)

    # grf_mode='256' on 3.3.0b1: translated, not ignored.
    info = text_of(large, "ze_info")
    assert number(info, "grf_count") == 256
    assert number(info, "eu_thread_count") == 4
    assert number(info, "spill_size") == 0
    assert large.launch.options["grf_mode"] == "256"
    assert large.metadata["build_flags"] == "-cl-intel-256-GRF-per-thread"
    listing = text_of(large, "asm")
    assert listing.count("dpas.8x8") == 32
    assert "load_block2d" in listing
    assert set(large.levels) >= {"ttir", "ttgir", "llir", "spirv", "spirv_text", "zebin", "asm"}
    assert large.not_read == {}


@pytest.mark.intel
def test_tensors_of_pointers_over_the_slm_limit_still_have_native_code(uncached, program):
    (lowering,) = uncached.run(program("gemm_pointers.py", GRF="128")).lowerings
    assert lowering.metadata["shared"] == 135168
    assert lowering.failure is not None
    assert lowering.failure.kind == "out_of_resources"
    assert lowering.failure.numbers == {"required_bytes": 135168, "limit_bytes": 131072}
    info = text_of(lowering, "ze_info")
    spilled = re.search(r"spilled around (\d+)", text_of(lowering, "native_log"))
    assert spilled is not None
    assert number(info, "spill_size") == int(spilled.group(1)) * 64 > 8192
    # IGC tried twice here; its listing is that of the build that counts.
    listing = text_of(lowering, "asm")
    assert f"//.spill size {number(info, 'spill_size')}" in listing
    assert re.search(r"^// Line \d+:  x = tl.load", listing, re.M)


@pytest.mark.intel
def test_default_mode_tells_what_the_loader_runs(uncached, program):
    (lowering,) = uncached.run(program("gemm_block.py", GRF="default")).lowerings
    assert number(text_of(lowering, "ze_info"), "grf_count") == 128
    assert any(
        "spills 6848 B per thread at 128 GRF" in note and "runs the first build" in note
        for note in lowering.notes
    ) or not any("spills" in note for note in lowering.notes)


@pytest.mark.intel
def test_the_listing_quotes_the_program_and_not_the_file_of_the_same_name(uncached, program):
    original = program("gemm_block.py", GRF="256")
    load = "x = tl.load(a, boundary_check=(0, 1))"
    changed = replace(original, source=original.source.replace(load, f"{load}  # of A"))
    nowhere = replace(changed, path="/nowhere/gemm.py")
    for run in uncached.run_many([changed, nowhere]):
        (lowering,) = run.lowerings
        text = text_of(lowering, "asm")
        assert re.search(r"^// Line \d+:  x = tl.load.*# of A$", text, re.M)


def test_retry_rules_follow_the_loaders():
    assert retry_rule("3.3.0b1") == RetryRule(threshold_bytes=1000, keeps_second=False)
    assert retry_rule("3.4.0+git1") == RetryRule(threshold_bytes=1000, keeps_second=True)
    assert retry_rule("3.8.0") == RetryRule(threshold_bytes=0, keeps_second=True)


def test_what_is_no_binary_is_told_apart():
    assert read_zebin(b"", "k")[1] is not None
    assert read_zebin(b"not an ELF file at all", "k")[1] is not None
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 205, 1, 0, 0, 0, 0, 64, 0, 0, 64, 0, 0)
    assert read_zebin(header, "k") == ("", "no code for 'k'")


def fake_tools(tmp_path, body):
    """An "ocloc" of a few Python lines; OUT is the folder that it is told to write to."""
    script = tmp_path / "ocloc.py"
    script.write_text("import sys, time\nOUT = sys.argv[sys.argv.index('-out_dir') + 1]\n" + body)
    return NativeTools(ocloc=(sys.executable, str(script)))


@pytest.fixture
def spirv_only(tmp_path):
    """A lowering that ends at SPIR-V."""
    folder = tmp_path / "levels"
    folder.mkdir()
    (folder / "kernel.spv").write_bytes(b"\x03\x02\x23\x07")
    launch = Launch(
        index=0, kernel="k", file="k.py", line=3, grid=(1, 1, 1), signature={}, values={},
        constexprs={}, divisible_by_16=(), options={"grf_mode": "128"},
    )  # fmt: skip
    return Lowering(
        launch=launch, device="bmg-g31", compiler="triton-xpu 3.3.0b1", native_compiler=None,
        levels={"spirv": str(folder / "kernel.spv")}, metadata={"name": "k"}, seconds={},
    )  # fmt: skip


def built(lowering, tools, **limits):
    return add_native(
        lowering, tools, ocloc_device="bmg-g31", triton_version="3.3.0b1", source="", **limits
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('error: no such device'); sys.exit(255)", "ocloc: error: no such device"),
        ("sys.exit(3)", "ocloc: exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", "ocloc: died by signal 11"),
        ("pass", "ocloc: exit code 0"),
        ("open(OUT + '/kernel_bmg.bin', 'wb').write(b'x')", "degenerate binary: no ELF file"),
    ],
)
def test_each_failure_of_ocloc_is_told_apart(spirv_only, tmp_path, body, message):
    done = built(spirv_only, fake_tools(tmp_path, body))
    assert done.failure is not None
    assert done.failure.kind == "native"
    assert message in done.failure.message
    assert {"zebin", "ze_info", "asm"} <= set(done.not_read)
    assert done.not_read["spirv_text"] == "spirv-dis is not on this machine"


def test_an_ocloc_that_hangs_is_ended(spirv_only, tmp_path):
    done = built(spirv_only, fake_tools(tmp_path, "time.sleep(60)"), timeout_s=0.5)
    assert done.failure is not None
    assert done.failure.kind == "timeout"
    assert done.seconds["native"] < 10


def test_without_spirv_there_is_no_native_code(spirv_only, tmp_path):
    done = built(replace(spirv_only, levels={}), fake_tools(tmp_path, "pass"))
    assert done.not_read["zebin"] == "no SPIR-V was made"
    assert done.failure is None


def test_a_failure_of_the_launch_is_kept_over_that_of_ocloc(spirv_only, tmp_path):
    from xesmith.lowering.record import Failure

    refused = Failure(kind="out_of_resources", level="launch", message="SLM")
    done = built(replace(spirv_only, failure=refused), fake_tools(tmp_path, "sys.exit(1)"))
    assert done.failure == refused
    assert "exit code 1" in done.not_read["zebin"]
