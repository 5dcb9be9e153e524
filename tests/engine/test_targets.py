"""The main job for devices of which no clock is known: accepted by the code, never predicted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xesmith.cli import app

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

SPEC = """\
inputs:
  A: {shape: [M, K], dtype: float16}
  B: {shape: [K, N], dtype: float16}
inits: []
ci: [{params: [A, B], dtype: float16, dims: {M: 256, N: 256, K: 64}, flop: "2*M*N*K"}]
"""


@pytest.mark.parametrize("target", ["lnl-m", "cri"])
def test_a_gemm_is_improved_by_the_code_where_time_is_not_predicted(
    target, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = repository / "bench" / "problems" / "gemm"
    for name in ("kernel.py", "reference.py"):
        (tmp_path / name).write_text((folder / name).read_text())
    (tmp_path / "spec.yaml").write_text(SPEC)
    arguments = ["--target", target, "--stages", "block_pointers", "--out", tmp_path / "run"]
    code = app.run(["optimize", str(tmp_path / "kernel.py"), "--json", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert code == 0, err
    told = json.loads(out)
    assert told["improved"]
    assert told["predicted_seconds"] == {"before": None, "after": None}
    assert told["verdict"].endswith("its time is not predicted")
    (before,), (after,) = told["before"].values(), told["after"].values()
    assert (before["native.loads_2d"], before["native.slm_messages"] > 0) == (0, True)
    assert (after["native.loads_2d"] > 0, after["native.slm_messages"]) == (True, 0)
    evidence = next((tmp_path / "run" / "evidence").glob("*-block_pointers.json"))
    levels = {x["level"]: x for x in json.loads(evidence.read_text())["verdict"]["levels"]}
    (reason,) = levels["performance"]["facts"]["not_predicted"].values()
    assert reason  # what the device file lacks
