"""Every example does what examples/README.md says."""

import json
from pathlib import Path

import pytest

from xesmith.cli import app

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

pytestmark = [pytest.mark.intel, pytest.mark.mlir]


def test_a_script_without_a_model_is_inspected(capsys):
    assert app.run(["inspect", str(EXAMPLES / "script.py"), "--json"]) == 0
    (shape,) = json.loads(capsys.readouterr().out)["shapes"].values()
    (evidence,) = shape["evidence"]
    assert (evidence["kernel"], evidence["launch"]["grid"]) == ("scale_rows", [4096, 1, 1])
    assert {finding["kind"] for finding in shape["findings"]} >= {"i64-address-arithmetic"}


def test_a_kernel_that_its_author_has_autotuned_is_optimised(capsys, tmp_path):
    kernel = EXAMPLES / "rms_norm" / "kernel.py"
    arguments = ["--out", str(tmp_path / "run"), "--stages", "dtype_fix,gpu_specific", "--json"]
    assert app.run(["optimize", str(kernel), *arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["stages"][0]["status"] == "improved"
    (before,), (after,) = result["before"].values(), result["after"].values()
    # The float64 arithmetic of the row is gone, and the registers that it took.
    assert before["native.f64_instructions"] > after["native.f64_instructions"] == 0
    assert before["native.spill_bytes_per_thread"] > after["native.spill_bytes_per_thread"] == 0
