"""`xesmith inspect` on files of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xesmith.cascade.examine import Examination
from xesmith.cli import app
from xesmith.cli.inspect import _PTX_COLUMNS, _row, _titles

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""
SCRIPT = """\
import torch
from kernels import double

x = torch.randn(4096, device="xpu")
y = torch.empty_like(x)
double[(16,)](x, y, 4096, BLOCK=256)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def inspect(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = app.run(["inspect", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_script_needs_no_model_and_quotes_the_file_of_its_kernel(capsys, script):
    code, out, _ = inspect(capsys, script)
    assert code == 0
    assert "as written: 1 launch" in out
    assert "BLOCK=256 num_warps=4" in out
    # The mask's line is in kernels.py, not in the script.
    assert "note[needless-mask] double line 8" in out
    assert "8 | tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)" in out


def test_json_holds_evidence_findings_and_what_judged(capsys, script):
    code, out, err = inspect(capsys, script, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["device"] == "bmg-g31"
    assert told["compiler"].startswith("triton-xpu 3.3.0")
    (shape,) = told["shapes"].values()
    (evidence,) = shape["evidence"]
    assert evidence["launch"]["grid"] == [16, 1, 1]
    assert evidence["native"]["grf_count"] == 128
    assert shape["failure"] is None
    assert {finding["kind"] for finding in shape["findings"]} >= {"needless-mask"}


@pytest.mark.parametrize(("severity", "code"), [("error", 0), ("warning", 0), ("note", 1)])
def test_fail_on_tells_by_the_exit_code(capsys, script, severity, code):
    assert inspect(capsys, script, "--fail-on", severity)[0] == code


def test_an_unknown_severity_offers_the_nearest(capsys, script):
    code, _, err = inspect(capsys, script, "--fail-on", "warn")
    assert code == 2
    assert "did you mean 'warning'?" in err


def test_a_file_that_launches_nothing_fails_by_itself(capsys, script):
    script.write_text("import torch\nfrom kernels import double\n")
    code, out, _ = inspect(capsys, script)
    assert code == 4
    assert "no Triton kernel is launched" in out


def test_a_script_that_raises_tells_where(capsys, script):
    script.write_text(SCRIPT + "raise ValueError('enough')\n")
    code, out, _ = inspect(capsys, script)
    assert code == 4
    assert "the program fails: line 7: ValueError: enough" in out
    assert "as written: 1 launch" in out  # what was launched before is shown


def test_findings_of_several_launches_name_theirs_and_say_why_nothing_is_predicted(capsys, script):
    # Two configurations, one of which masks nothing; lnl-m's device file has no clock.
    script.write_text(SCRIPT + "double[(10,)](x, y, 4000, BLOCK=512, num_stages=3)\n")
    code, out, _ = inspect(capsys, script, "--target", "lnl-m")
    assert code == 0
    assert "BLOCK=512 num_warps=4 num_stages=3" in out
    assert "note[needless-mask] double line 8 (#1)" in out
    assert "(#2)" not in out
    assert "no loop" in out
    assert "double: not predicted: " in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_how_a_descriptor_was_lowered_is_said(capsys, repository):
    code, out, _ = inspect(capsys, repository / "tests" / "ghost" / "kernels" / "descriptors.py")
    assert code == 0
    assert "gemm_desc: line 21: descriptor load lowered as a block pointer" in out


def test_a_launch_for_cuda_has_the_columns_of_ptx(evidence_maker):
    """None of Intel's, which would all be "not read"."""
    evidence = evidence_maker.make(
        native=None,
        spirv=None,
        ptx=evidence_maker.ptx(instructions=363, matrix_instructions=2, f64_instructions=0),
        ttgir=evidence_maker.ttgir(shared_bytes=49152),
    )
    item = Examination((evidence,), (), None)
    assert _titles(item) == _PTX_COLUMNS
    cells = dict(
        zip(("launch", "grid", "configuration", *_PTX_COLUMNS), _row(evidence, None), strict=True)
    )
    assert cells["PTX instr"] == "363"
    assert cells["matrix instr"] == "2"
    assert cells["shared memory B"] == "49152"
    assert "not read" not in cells.values()
