"""`xesmith inspect` on dumps: every level of a gemm as the compiler made it, and damaged files."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from xesmith.cli.app import run
from xesmith.engine.problem import load_problem
from xesmith.lowering.record import Lowering

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

SAME_IN_BOTH = (
    *("grf_count", "simd_size", "spill_bytes_per_thread", "dpas", "loads_2d", "stores_2d"),
    *("prefetches_2d", "global_loads", "global_stores", "atomics", "slm_messages"),
    *("scratch_messages", "main_loop", "f64_instructions", "int64_instructions"),
)


@pytest.fixture(scope="module")
def lowering(lowerer: Any, repository: Path) -> Lowering:
    problem = load_problem(repository / "bench" / "problems" / "gemm" / "kernel.py", None, None)
    (program,) = problem.programs().values()
    return lowerer.run(program).lowerings[0]


@pytest.fixture
def dumps(lowering: Lowering, tmp_path: Path) -> Path:
    """The files of the levels alone, under names of their own."""
    for path in lowering.levels.values():
        shutil.copyfile(path, tmp_path / Path(path).name)
    return tmp_path


def inspect(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["inspect", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def evidence_of(capsys: Any, *arguments: object) -> dict[str, Any]:
    code, out, err = inspect(capsys, *arguments, "--json")
    assert code == 0, err
    ((evidence,),) = (shape["evidence"] for shape in json.loads(out)["shapes"].values())
    return evidence


def test_a_folder_is_one_evidence(capsys, dumps, lowering):
    code, out, err = inspect(capsys, dumps, "--json")
    assert code == 0, err
    told = json.loads(out)["shapes"]["as dumped"]
    (evidence,) = told["evidence"]
    assert evidence["not_read"] == {}
    assert evidence["kernel"] == "matmul_kernel"
    assert evidence["launch"]["grid"] is None
    assert evidence["launch"]["file"] == lowering.launch.file
    assert evidence["derived"]["prediction"]["seconds"] is None
    kinds = {finding["kind"]: finding for finding in told["findings"]}
    lines = Path(lowering.launch.file).read_text().splitlines()
    assert "tl.load" in lines[kinds["load-not-2d-block"]["line"] - 1]
    # What hangs on the launch is not claimed: its sizes make no mask needless here.
    assert "needless-mask" not in kinds


def test_a_zebin_alone_tells_what_the_listing_does(capsys, dumps):
    listing = evidence_of(capsys, dumps / "kernel.asm", dumps / "kernel.ze_info")["native"]
    binary = evidence_of(capsys, dumps / "kernel.zebin")
    assert {key: binary["native"][key] for key in SAME_IN_BOTH} == {
        key: listing[key] for key in SAME_IN_BOTH
    }
    # IGC's listing goes on behind the end of the thread by four words that never run.
    assert binary["native"]["instructions"] == listing["instructions"] - 4
    # Its own line table: the loop's line is that of the listing.
    for ours, theirs in zip(binary["native"]["loops"], listing["loops"], strict=True):
        assert ours["site"]["line"] == theirs["site"]["line"]
    assert binary["native"]["bank_conflicts"] is None
    # Triton passes SLM as an argument: the binary has messages to it and no size.
    assert binary["native"]["slm_bytes"] is None
    assert binary["spirv"] is not None  # the binary carries it
    assert set(binary["not_read"]) == {"ttir", "ttgir"}


def test_a_listing_alone(capsys, dumps):
    whole = evidence_of(capsys, dumps / "kernel.asm", dumps / "kernel.ze_info")["native"]
    alone = evidence_of(capsys, dumps / "kernel.asm")["native"]
    differ = {key for key in whole if alone[key] != whole[key]}
    unknown = {"hardware_threads_per_xve", "private_bytes_per_thread", "barrier_count"}
    # Without .ze_info the arguments' places are not known either.
    assert differ <= unknown | {"sends_2d"}
    assert {alone[key] for key in unknown} == {None}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("kernel.spv", "spirv"),
        ("kernel.spvasm", "spirv"),
        ("kernel.generic.ttir", "ttir"),
        ("kernel.ttgir", "ttgir"),  # as Triton prints it
    ],
)
def test_one_file_is_one_level(capsys, dumps, name, level):
    evidence = evidence_of(capsys, dumps / name)
    levels = {"ttir", "ttgir", "spirv", "native"}
    assert {one for one in levels if evidence[one] is not None} == {level}
    assert set(evidence["not_read"]) == levels - {level}


def test_a_file_is_told_by_what_it_holds(capsys, dumps):
    shutil.move(dumps / "kernel.spv", dumps / "dump.bin")
    assert evidence_of(capsys, dumps / "dump.bin")["spirv"] is not None


def test_values_and_a_grid_that_the_user_states(capsys, dumps):
    arguments = [f"--arg=arg{index}=4096" for index in (3, 4, 5)]
    known = evidence_of(capsys, dumps / "kernel.generic.ttir", *arguments, "--grid=1024")
    (loop,) = known["ttir"]["loops"]
    assert (loop["trip_count"], known["launch"]["grid"]) == (128, [1024, 1, 1])
    assert known["ttir"]["flop_per_program"] == pytest.approx(2 * 128 * 128 * 4096, rel=0.01)
    unknown = evidence_of(capsys, dumps / "kernel.generic.ttir")["ttir"]
    assert unknown["loops"][0]["trip_count"] is None
    assert unknown["loops"][0]["trip_mean"] is None
    assert unknown["flop_per_program"] is None
    assert unknown["program_groups"] == []


def test_native_code_is_built_where_it_is_asked_for(capsys, dumps, lowering):
    metadata = {"num_warps": 4, "shared": lowering.metadata["shared"], "triton_version": "3.3.0b1"}
    (dumps / "kernel.json").write_text(json.dumps(metadata))
    built = evidence_of(capsys, dumps / "kernel.spv", dumps / "kernel.json", "--native")
    assert built["compiler"] == "triton-xpu 3.3.0b1"
    assert built["native"]["slm_bytes"] == lowering.metadata["shared"]
    assert any("was built here" in note for note in built["notes"])


def test_what_a_kernel_does_at_its_first_program_alone_is_not_proven(capsys, tmp_path):
    """A mask by constants that holds for program 0, and a loop over the grid."""
    (tmp_path / "k.ttir").write_text(
        '"builtin.module"() ({\n'
        '  "tt.func"() <{function_type = (!tt.ptr<f32>) -> (), sym_name = "k", '
        'sym_visibility = "public"}> ({\n'
        "  ^bb0(%p: !tt.ptr<f32>):\n"
        '    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32\n'
        '    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32\n'
        '    %pid = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32\n'
        '    %all = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32\n'
        '    %size = "arith.constant"() <{value = 64 : i32}> : () -> i32\n'
        '    %end = "arith.constant"() <{value = dense<100> : tensor<64xi32>}> : '
        "() -> tensor<64xi32>\n"
        '    %start = "arith.muli"(%pid, %size) : (i32, i32) -> i32\n'
        '    %r = "tt.make_range"() <{start = 0 : i32, end = 64 : i32}> : () -> tensor<64xi32>\n'
        '    %s = "tt.splat"(%start) : (i32) -> tensor<64xi32>\n'
        '    %i = "arith.addi"(%s, %r) : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>\n'
        '    %m = "arith.cmpi"(%i, %end) <{predicate = 2 : i64}> : '
        "(tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>\n"
        '    %b = "tt.splat"(%p) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>>\n'
        '    %a = "tt.addptr"(%b, %i) : (tensor<64x!tt.ptr<f32>>, tensor<64xi32>) -> '
        "tensor<64x!tt.ptr<f32>>\n"
        '    "scf.for"(%zero, %all, %one) ({\n'
        "    ^bb1(%n: i32):\n"
        '      %v = "tt.load"(%a, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : '
        "(tensor<64x!tt.ptr<f32>>, tensor<64xi1>) -> tensor<64xf32>\n"
        '      "tt.store"(%a, %v, %m) : '
        "(tensor<64x!tt.ptr<f32>>, tensor<64xf32>, tensor<64xi1>) -> ()\n"
        '      "scf.yield"() : () -> ()\n'
        "    }) : (i32, i32, i32) -> ()\n"
        '    "tt.return"() : () -> ()\n'
        "  }) : () -> ()\n"
        "}) : () -> ()\n"
    )
    evidence = evidence_of(capsys, tmp_path / "k.ttir")
    assert not any(access["mask_always_true"] for access in evidence["ttir"]["accesses"])
    assert evidence["ttir"]["loops"][0]["trip_count"] is None
    assert evidence["ttir"]["bytes_loaded_per_program"] is None
    known = evidence_of(capsys, tmp_path / "k.ttir", "--grid", "1")
    assert all(access["mask_always_true"] for access in known["ttir"]["accesses"])
    assert known["ttir"]["loops"][0]["trip_count"] == 1


@pytest.mark.parametrize(
    ("arguments", "said", "remedy"),
    [
        (["none.spv"], "can't be read", "name a dump"),
        (["kernel.ll"], "LLVM IR is not read", ".spv or .ptx"),
        (["kernel.ze_info"], ".ze_info is not read", "zebin"),
        (["empty.spv"], "it is empty", "TTIR, TTGIR"),
        (["host.elf"], "for machine 62", "zebin"),
        (["empty"], "no dump is in it", ".ttir"),
        (["kernel.spv", "other.spv"], "two files hold SPIR-V", "one kernel only"),
        (["kernel.generic.ttir", "other.spvasm"], "of different kernels", "one kernel only"),
        (["kernel.spv", "--kernel", "matmul"], "no kernel 'matmul'", "matmul_kernel"),
        (["kernel.spv", "--arg", "M"], "gives no argument a number", "--arg M=4096"),
        (["kernel.spv", "--grid", "4,x"], "is no grid", "--grid 256"),
        (["kernel.ttir", "--spec", "spec.yaml"], "dumps have no spec", "leave out"),
        (["kernel.py", "--grid", "4"], "are for dumps", "leave them out"),
        (["kernel.generic.ttir", "--arg", "M=3"], "no argument 'M'", "arg0"),
        (["kernel.spv", "--target", "h200"], "is cuda", ""),
    ],
)
def test_bad_input_is_one_error(capsys, dumps, monkeypatch, arguments, said, remedy):
    monkeypatch.chdir(dumps)
    Path("empty.spv").touch()
    Path("empty").mkdir()
    Path("kernel.py").touch()
    Path("host.elf").write_bytes(b"\x7fELF" + bytes(14) + b"\x3e\x00" + bytes(44))
    shutil.copy("kernel.spv", "other.spv")
    text = Path("kernel.spvasm").read_text()
    Path("other.spvasm").write_text(text.replace('"matmul_kernel"', '"another"'))
    code, out, err = inspect(capsys, *arguments)
    assert (code, out) == (2, "")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert remedy in err


@pytest.mark.parametrize(
    "name", ["kernel.spv", "kernel.zebin", "kernel.asm", "kernel.spvasm", "kernel.generic.ttgir"]
)
def test_a_file_that_was_cut_off_or_overwritten_is_one_error(capsys, dumps, name):
    whole = (dumps / name).read_bytes()
    some = random.Random(7)
    damaged = [whole[: len(whole) * part // 50] for part in range(1, 50)]
    damaged += [some.randbytes(4096), whole[:64] + some.randbytes(4096)]
    for _ in range(8):
        changed = bytearray(whole)
        for _ in range(some.choice((1, 20, 300))):
            changed[some.randrange(len(whole))] = some.randrange(256)
        damaged.append(bytes(changed))
    refused = 0
    for data in damaged:
        (dumps / name).write_bytes(data)
        code, _, err = inspect(capsys, dumps / name)
        assert code in (0, 2, 3), err  # 3: ocloc cannot decode an instruction
        assert err.count("error: ") == (code != 0), err
        refused += code != 0
    assert refused >= 49  # a file that was cut off is never read as a whole one


def test_a_binary_that_no_triton_made_with_two_kernels(capsys, tmp_path, toolchain):
    """OpenCL: SLM is in the binary's own description, and each kernel is read by its name."""
    (tmp_path / "k.cl").write_text(
        "kernel void one(global float* a) { local float t[64]; int i = get_local_id(0);\n"
        "  t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); a[i] = t[63 - i]; }\n"
        "kernel void two(global float* a) { a[get_global_id(0)] *= 2.0f; }\n"
    )
    command = [*toolchain.native.ocloc, "compile", "-file", "k.cl", "-device", "bmg-g31"]
    subprocess.run([*command, "-output", "k"], cwd=tmp_path, check=True, capture_output=True)
    (binary,) = tmp_path.glob("k*.bin")
    code, _, err = inspect(capsys, binary)
    assert code == 2
    assert "it holds 2 kernels: one, two" in err
    one = evidence_of(capsys, binary, "--kernel", "one")
    two = evidence_of(capsys, binary, "--kernel", "two")
    assert (one["native"]["slm_bytes"], two["native"]["slm_bytes"]) == (64 * 4, 0)
    assert (one["native"]["slm_messages"] > 0, two["native"]["slm_messages"]) == (True, 0)
    assert one["kernel"] == "one"
