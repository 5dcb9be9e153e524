"""Candidates that look right and are not, through the command line, each with what was seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xesmith.cli import app

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

GEMM_SPEC = """\
inputs:
  A: {{shape: [M, K], dtype: float16}}
  B: {{shape: [K, N], dtype: float16}}
inits: []
ci:
  - {{params: [A, B], dtype: float16, dims: {{M: 256, N: {n}, K: 128}}, flop: "2*M*N*K"}}
"""

#: the body of `matmul_kernel` with a block pointer for every access, checked at every edge
BLOCKS = """\
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    a_block = tl.make_block_ptr(
        a_ptr, (M, K), (stride_am, 1), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0)
    )
    b_block = tl.make_block_ptr(
        b_ptr, (K, N), (stride_bk, 1), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0)
    )
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1))
        b = tl.load(b_block, boundary_check=(0, 1))
        acc += tl.dot(a, b)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(
        c_ptr,
        (M, N),
        (stride_cm, 1),
        (pid_m * BLOCK_M, pid_n * BLOCK_N),
        (BLOCK_M, BLOCK_N),
        (1, 0),
    )
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))
"""

#: the body of `softmax_kernel` with block pointers of one row
ROW_BLOCKS = """\
    row = tl.program_id(0)
    x_block = tl.make_block_ptr(
        in_ptr, (8192, n_cols), (in_row_stride, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    y_block = tl.make_block_ptr(
        out_ptr, (8192, n_cols), (out_row_stride, 1), (row, 0), (1, BLOCK_SIZE), (1, 0)
    )
    x = tl.load(x_block, boundary_check=(1,)).to(tl.float32)
    x = tl.where((tl.arange(0, BLOCK_SIZE) < n_cols)[None, :], x, -float("inf"))
    x = x - tl.max(x, axis=1)[:, None]
    numerator = tl.exp(x)
    y = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(y_block, y.to(tl.float16), boundary_check=(1,))
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = app.run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert code in (0, 1), err
    return code, out


def with_body(source: str, kernel: str, body: str) -> str:
    """`source` with another body for its jit function `kernel`."""
    found = re.search(rf"def {kernel}\(.*?\):\n", source, re.S)
    assert found is not None
    end = source.index("\n\n\n", found.end())
    return source[: found.end()] + body.rstrip("\n") + source[end:]


def unmasked(source: str) -> str:
    found = re.subn(r", mask=[^\n]*\)\n", ")\n", source)
    assert found[1] == 3
    return found[0]


@pytest.fixture
def gemm(repository: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Writes the gemm problem with tiles of 128 and another N; answers its kernel file."""

    def write(n: int) -> Path:
        folder = repository / "bench" / "problems" / "gemm"
        for name in ("kernel.py", "reference.py"):
            (tmp_path / name).write_text((folder / name).read_text())
        (tmp_path / "spec.yaml").write_text(GEMM_SPEC.format(n=n))
        return tmp_path / "kernel.py"

    return write


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Judges a candidate's text against a base file; answers its levels by name."""

    def judge(base: Path, text: str, tmp_path: Path, *more: object) -> dict[str, Any]:
        candidate = tmp_path / "candidate.py"
        candidate.write_text(text)
        code, out = run(capsys, "verify", base, candidate, "--json", *more)
        verdict = json.loads(out)
        assert code == (0 if verdict["accepted"] else 1)
        return {level["level"]: level for level in verdict["levels"]}

    return judge


def test_a_pitch_of_8190_bytes_is_refused_though_only_the_store_is_2d(gemm, verify, tmp_path):
    # The load of B falls back; the compiler leaves the store of C a 2D block all the same.
    base = gemm(4095)
    levels = verify(base, with_body(base.read_text(), "matmul_kernel", BLOCKS), tmp_path)
    assert levels["lowering"]["status"] == "refused"
    (message,) = levels["lowering"]["messages"]
    assert "2D block store of 'c_ptr': pitch 8190 B is no multiple of 16 B" in message
    # The interpreter alone would have let it through.
    assert levels["correctness"]["status"] == "passed"


def test_optimize_at_a_pitch_of_8190_bytes_leaves_no_illegal_operation(gemm, capsys, tmp_path):
    base, out = gemm(4095), tmp_path / "run"
    _, text = run(
        capsys, "optimize", base, "--out", out, "--stages", "memory_access,block_pointers", "--json"
    )
    result = json.loads(text)
    for path in (out / "evidence").glob("*.json"):
        for shape in json.loads(path.read_text())["shapes"].values():
            assert [f for f in shape["findings"] if f["kind"] == "2d-op-illegal"] == []
    if result["improved"]:
        (after,) = result["after"].values()
        assert after["native.stores_2d"] == 0


def test_an_unmasked_gemm_is_refused_where_no_tile_divides(gemm, verify, tmp_path):
    base = gemm(256)
    levels = verify(base, unmasked(base.read_text()), tmp_path)
    assert levels["lowering"]["status"] == "passed"
    correctness = levels["correctness"]
    assert correctness["status"] == "refused"
    # At the spec's own shape it is right; only the odd one shows it.
    assert all("(odd)" in message for message in correctness["messages"])
    assert any("is nan where" in message for message in correctness["messages"])


def test_a_size_in_anothers_place_is_refused_though_the_spec_is_a_square(gemm, verify, tmp_path):
    base, spec = gemm(256), tmp_path / "spec.yaml"
    spec.write_text(spec.read_text().replace("K: 128", "K: 256"))  # M = N = K
    text = base.read_text()
    assert text.count("tl.cdiv(K, BLOCK_K)") == 1
    levels = verify(base, text.replace("tl.cdiv(K, BLOCK_K)", "tl.cdiv(N, BLOCK_K)"), tmp_path)
    correctness = levels["correctness"]
    assert correctness["status"] == "refused"
    # The spec's shape and its odd one are squares too; only sizes beyond the spec's can tell.
    assert all("=512" in message for message in correctness["messages"])


def test_nothing_of_a_candidate_runs_before_its_text_is_judged(gemm, verify, tmp_path):
    base, ran = gemm(256), tmp_path / "ran"
    attack = (
        f"@(lambda f: (open({str(ran)!r}, 'w').close(), f)[1])\n@triton.jit\ndef matmul_kernel("
    )
    text = base.read_text().replace("@triton.jit\ndef matmul_kernel(", attack)
    levels = verify(base, text, tmp_path)
    assert levels.keys() == {"syntax"}
    assert not ran.exists()


def test_a_row_softmax_gains_no_2d_load_from_block_pointers(repository, verify, tmp_path):
    base = repository / "bench" / "problems" / "softmax" / "kernel.py"
    text = with_body(base.read_text(), "softmax_kernel", ROW_BLOCKS)
    levels = verify(base, text, tmp_path, "--stage", "block_pointers")
    lowering = levels["lowering"]
    assert lowering["status"] == "refused"
    assert any("promise broken: after.native.loads_2d > before" in m for m in lowering["messages"])
    (outcomes,) = lowering["facts"]["promises"].values()
    assert outcomes[0]["values"]["after.native.loads_2d"] == 0


def test_inspect_tells_intent_without_outcome(repository, capsys):
    path = repository / "tests" / "findings" / "kernels" / "blocks.py"
    _, out = run(capsys, "inspect", path)
    lines = path.read_text().splitlines()
    kind = "block-io-intent-without-outcome"
    told = re.findall(rf"warning\[{kind}\] batched line (\d+) \(#3\): (.*)", out)
    assert [lines[int(number) - 1].strip()[:4] for number, _ in told] == ["x = ", "y = "]
    assert all("marks this load" in text and "native" in text for _, text in told)
    assert "error[2d-op-illegal] gemm" in out
    assert "2D block store of 'c': pitch 8190 B is no multiple of 16 B" in out


def test_inspect_tells_a_spill_per_thread_and_per_lane(repository, toolchain, capsys, tmp_path):
    source = (repository / "tests" / "lowering" / "kernels" / "gemm_block.py").read_text()
    path = tmp_path / "gemm_block.py"
    path.write_text(source.replace('"GRF"', '"128"'))
    _, out = run(capsys, "inspect", path, "--json")
    (shape,) = json.loads(out)["shapes"].values()
    (evidence,) = shape["evidence"]
    native = evidence["native"]
    assert native["grf_count"] == 128
    assert native["spill_bytes_per_lane"] == native["spill_bytes_per_thread"] / 16
    (spill,) = (f for f in shape["findings"] if f["kind"] == "spill")
    assert spill["numbers"]["spilled_registers"] * 64 == native["spill_bytes_per_thread"]
    if toolchain.native.versions["ocloc"].startswith("26.27"):
        assert "spills 6848 B per thread (428 B per lane, 107 registers)" in spill["message"]
    path.write_text(source.replace('"GRF"', '"256"'))
    _, out = run(capsys, "inspect", path, "--json")
    (shape,) = json.loads(out)["shapes"].values()
    (evidence,) = shape["evidence"]
    # 3.3.0b1 would ignore "256" as it stands, and give 128 registers.
    assert evidence["native"]["grf_count"] == 256
    assert evidence["native"]["spill_bytes_per_thread"] == 0
