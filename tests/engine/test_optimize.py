"""The main job through the command line, with the real compiler: gemm for Arc Pro B70."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.small_spec import small_spec
from xesmith.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "bench" / "problems" / "gemm" / "kernel.py"

pytestmark = [pytest.mark.intel, pytest.mark.mlir]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "xesmith.cli.app", *map(str, arguments)]


def optimize(out: Path, *more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("optimize", GEMM, "--out", out, "--json", *more),
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("gemm") / "run"
    done = optimize(out)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_the_gemm_becomes_what_the_facts_say_is_best(run):
    _, result = run
    (before,), (after,) = result["before"].values(), result["after"].values()
    assert result["improved"]
    # Baseline: tensors of pointers, operands through SLM (Triton's `shared`), 1 dot on DPAS.
    assert before["native.main.loads_2d"] == 0
    assert before["native.main.global_loads"] > 0
    assert before["native.slm_bytes"] == 34816
    assert before["native.main.slm_messages"] > 0
    # Result: all loads of the main loop are 2D blocks, no SLM, no spill, dpas at least 45 %.
    assert after["native.main.loads_2d"] > 0
    assert after["native.main.global_loads"] == 0
    assert after["native.slm_bytes"] == 0
    assert after["native.main.slm_messages"] == 0
    assert after["native.spill_bytes_per_thread"] == 0
    assert after["native.grf_count"] == 256
    assert after["native.main.dpas_share"] >= 0.45
    assert after["ttgir.dots_on_dpas"] == after["ttgir.dots"] == 1
    assert after["derived.seconds"] < before["derived.seconds"]


def test_the_last_stage_writes_the_best_configurations_into_an_autotune(run):
    out, result = run
    stages = {stage["name"]: stage["status"] for stage in result["stages"]}
    assert stages["autotuning"] == "improved"
    text = (out / "kernel.optimized.py").read_text()
    block = text.removeprefix(GEMM.read_text().rstrip("\n"))
    # Once for block pointers, once for descriptors; the register mode is inside the Config.
    assert block.count("@triton.autotune(") == 2
    assert '"grf_mode": "256"' in block
    (after,) = result["after"].values()
    assert after["program.configurations"] >= 2


def test_nothing_predicted_is_called_measured(run):
    out, result = run
    assert result["measured"] is False
    assert "predicted" in result["verdict"]
    for path in out.rglob("*"):
        if path.suffix in (".md", ".html", ".json"):
            assert "speedup" not in path.read_text().lower()


def test_every_accepted_candidate_kept_its_promise_and_passed_every_level(run):
    out, result = run
    accepted = 0
    for path in (out / "evidence").glob("*.json"):
        record = json.loads(path.read_text())
        if record["stage"] in ("baseline", "final"):
            continue
        accepted += 1
        levels = {level["level"]: level for level in record["verdict"]["levels"]}
        assert set(levels) == {"syntax", "structure", "lowering", "correctness", "performance"}
        assert {level["status"] for level in levels.values()} == {"passed"}
        promises = levels["lowering"]["facts"]["promises"]
        assert promises
        for outcomes in promises.values():
            assert all(outcome["status"] == "holds" for outcome in outcomes)
    assert accepted == sum(stage["status"] == "improved" for stage in result["stages"])


def test_the_harness_is_untouched(run):
    out, _ = run
    optimized = (out / "kernel.optimized.py").read_text()
    assert optimized.startswith(GEMM.read_text().rstrip("\n"))


def test_the_results_are_compared_with_pytorch_with_new_seeds_and_an_odd_shape(run):
    out, _ = run
    with Ledger.open(out / "ledger.sqlite") as ledger:
        final = next(t for t in ledger.trials() if t.stage == "final")
    (level,) = final.verdict["levels"]
    assert level["status"] == "passed"
    assert level["facts"]["reference"] == "reference.py"
    assert level["facts"]["seeds"] == [101, 102, 103]
    assert any("(odd)" in case["case"] for case in level["facts"]["cases"])


def test_the_report_has_a_row_per_stage_and_the_diff_applies(run, tmp_path):
    out, result = run
    report = (out / "report.md").read_text()
    table = report.partition("## Stage by stage")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if "| bench-gpu[0] |" in line]
    improved = [s["name"] for s in result["stages"] if s["status"] == "improved"]
    assert [row.split("|")[1].strip() for row in rows] == ["baseline", *improved]
    copy = tmp_path / "kernel.py"
    copy.write_text(GEMM.read_text())
    patch = (out / "changes.diff").read_text()
    subprocess.run(["git", "apply"], input=patch, text=True, check=True, cwd=tmp_path)
    assert copy.read_text() == (out / "kernel.optimized.py").read_text()


def test_resuming_a_finished_run_judges_nothing_again(run):
    out, result = run
    with Ledger.open(out / "ledger.sqlite") as ledger:
        before = ledger.trials()
    done = optimize(out, "--resume")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["after"] == result["after"]
    with Ledger.open(out / "ledger.sqlite") as ledger:
        assert ledger.trials() == before


STAGES = "memory_access,block_pointers"


@pytest.mark.parametrize("kills", [[2.5, 6.0, 4.0]])
def test_kill_9_loses_no_trial(tmp_path, kills):
    out = tmp_path / "run"
    small = ["--spec", str(small_spec("gemm", tmp_path))]
    kept: list = []
    for number, seconds in enumerate(kills):
        more = ["--resume"] if (out / "ledger.sqlite").exists() else []
        process = subprocess.Popen(
            command("optimize", GEMM, "--out", out, "--stages", STAGES, *small, *more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        time.sleep(seconds + number)
        process.kill()
        process.wait()
        if (out / "ledger.sqlite").exists():
            with Ledger.open(out / "ledger.sqlite") as ledger:
                trials = ledger.trials()
            assert trials[: len(kept)] == kept
            kept = trials
    more = ["--resume"] if (out / "ledger.sqlite").exists() else []
    done = optimize(out, "--stages", STAGES, *small, *more)
    assert done.returncode == 0, done.stderr
    with Ledger.open(out / "ledger.sqlite") as ledger:
        trials = ledger.trials()
        assert ledger.finished
    assert trials[: len(kept)] == kept
    assert len({(t.stage, t.source, t.parent) for t in trials}) == len(trials)
    accepted = [t.stage for t in trials if t.accepted]
    assert accepted == ["baseline", "memory_access", "block_pointers", "final"]


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path):
    out = tmp_path / "run"
    small = ["--spec", str(small_spec("gemm", tmp_path))]
    process = subprocess.Popen(
        command("optimize", GEMM, "--out", out, "--stages", STAGES, *small),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "checking the baseline" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"--resume --out {out}" in err
    assert "Traceback" not in err
    assert not _children_of(process.pid)
    done = optimize(out, "--stages", STAGES, *small, "--resume")
    assert done.returncode == 0, done.stderr


def _children_of(pid: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid or os.path.basename(stat.parent) == str(pid):
            found.append(stat.parent.name)
    return found


def test_a_gemm_that_its_author_has_autotuned_gets_block_pointers(tmp_path):
    folder = tmp_path / "tuned"
    folder.mkdir()
    text = GEMM.read_text()
    config = 'triton.Config({{"BLOCK_M": {0}, "BLOCK_N": {0}, "BLOCK_K": 32}}, num_warps={1})'
    decorator = (
        f"@triton.autotune([{config.format(128, 16)}, {config.format(64, 4)}], "
        'key=["M", "N", "K"])\n@triton.jit'
    )
    text = text.replace("@triton.jit", decorator)
    for line in ("BLOCK_M=128,", "BLOCK_N=128,", "BLOCK_K=32,", "num_warps=16,"):
        text = text.replace(f"        {line}\n", "")
    text = text.replace(
        "grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))",
        'grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))',
    )
    (folder / "kernel.py").write_text(text)
    (folder / "reference.py").write_text((GEMM.parent / "reference.py").read_text())
    small_spec("gemm", folder).rename(folder / "spec.yaml")
    out = tmp_path / "run"
    done = subprocess.run(
        command("optimize", folder / "kernel.py", "--out", out, "--stages", "block_pointers"),
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    optimized = (out / "kernel.optimized.py").read_text()
    assert optimized.startswith(text.rstrip("\n"))
    block = optimized.removeprefix(text.rstrip("\n"))
    assert "tl.make_block_ptr" in block
    assert "@triton.autotune" not in block  # the best configuration's values stand in the plan
