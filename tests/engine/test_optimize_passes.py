"""Optimising without touching the source: passes in the search, and their plan judged again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from xesmith.ledger import Ledger
from xesmith.pass_plan import PassPlan, read_plan

pytestmark = [pytest.mark.intel, pytest.mark.mlir]

KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def totals(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, n, B):
        total += tl.load(x + k + i, mask=k + i < n, other=0.0)
    tl.store(y + tl.program_id(0) * B + i, total, mask=i < n)


class Model(nn.Module):
    def forward(self, x):
        y = torch.empty((4, 128), device=x.device, dtype=x.dtype)
        totals[(4,)](x, y, x.numel(), B=128)
        return y


def get_inputs():
    return [torch.randn(1024, device="xpu")]


def get_init_inputs():
    return []
"""

KERNEL_TEXT = KERNEL.split("\n\n\n")[1]


def xesmith(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xesmith.cli.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("totals")
    (made / "kernel.py").write_text(KERNEL)
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    asked = ("--proposer", "passes", "--stages", "analysis,memory_access")
    done = xesmith("optimize", folder / "kernel.py", *asked, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    assert f"python -m xesmith.hook --passes {folder / 'run' / 'passes.json'}" in done.stdout
    return folder / "run"


def test_the_file_stays_as_it_is_and_a_plan_stands_beside_it(run: Path):
    assert (run / "kernel.optimized.py").read_text() == KERNEL
    assert not (run / "changes.diff").exists()
    (entry,) = read_plan(run / "passes.json").entries
    assert (entry.kernel, entry.values, entry.grid) == ("totals", {"n": 1024}, (4, 1, 1))
    assert "xesmith-drop-true-masks{launch}" in entry.pipeline
    assert (
        "4 of 4 programs store the same before and after, bit for bit"
        in (run / "report.md").read_text()
    )


def test_the_ledger_tells_candidates_of_one_text_apart(run: Path):
    with Ledger.open(run / "ledger.sqlite") as ledger:
        trials = ledger.trials()
    assert len({trial.source for trial in trials}) == 1
    candidates = [trial for trial in trials if trial.stage == "memory_access"]
    # Three are listed; on top of the one that was accepted two are left.
    assert len({trial.passes for trial in candidates}) == len(candidates) == 5
    (accepted,) = [trial for trial in candidates if trial.accepted]
    final = trials[-1]
    assert accepted.passes == final.passes
    # The file holds the same, for a kernel of this very text alone.
    plan = read_plan(run / "passes.json")
    assert plan == PassPlan.from_text(final.passes).bound({"totals": KERNEL_TEXT})
    assert plan.entries[0].source
    assert (trials[0].passes, trials[0].lowered_hash) != (accepted.passes, accepted.lowered_hash)
    assert accepted.predicted_seconds < trials[0].predicted_seconds
    passes = next(x for x in final.verdict["levels"] if x["level"] == "correctness")["facts"]
    assert passes["passes"]["launches"][0]["programs"] == 4
    assert "trusted" in passes["passes"]["trusted"]


def test_the_pair_is_judged_again(folder: Path, run: Path):
    done = xesmith("verify", folder / "kernel.py", "--passes", run / "passes.json", "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["accepted"]
    level = next(x for x in verdict["levels"] if x["level"] == "correctness")
    assert "4 of 4 programs store the same with passes, bit for bit" in level["messages"][0]


def test_verify_needs_something_to_judge(folder: Path):
    done = xesmith("verify", folder / "kernel.py")
    assert done.returncode == 2
    assert "nothing is to be judged" in done.stderr
