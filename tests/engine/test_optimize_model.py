"""A model in the pipeline, asked over HTTP: a local stand-in answers from the recordings.

The replies are kept under bench/recordings; the compiler, the interpreter and the HTTP are real.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.self.recordings import RECORDINGS, command, environment
from tests.small_spec import small_spec
from xesmith.ledger import Ledger
from xesmith.lm.stand_in import Fault, StandIn

ROOT = Path(__file__).resolve().parents[2]
FUSION = "gemm_bias_gelu"

pytestmark = [pytest.mark.intel, pytest.mark.mlir]


def small(out, *more):
    """The command of a run at small sizes: of its channel to the model, not of its result."""
    spec = small_spec(FUSION, out.parent)
    return command(FUSION, out, "--spec", str(spec), *more)


def optimize(server, out, *more):
    return finished(small(out, *more), server)


def finished(said, server):
    return subprocess.run(
        said,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env=environment(server),
    )


def ledger_of(out):
    with Ledger.open(out / "ledger.sqlite") as ledger:
        return ledger.trials(), ledger.exchanges(), ledger.finished


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("model") / "run"
    with StandIn([RECORDINGS / FUSION]) as server:
        done = finished(command(FUSION, out), server)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_refused_candidates_bring_the_compilers_facts_into_the_next_request(run):
    out, _ = run
    trials, exchanges, _ = ledger_of(out)
    refused = next(t for t in trials if t.stage == "fusion" and not t.accepted)
    following = next(e for e in exchanges if e.id == (refused.exchange or 0) + 1)
    prompt = following.request.messages[-1].content
    assert "- lowering: refused" in prompt
    broken = next(
        message
        for level in refused.verdict["levels"]
        for message in level["messages"]
        if "promise broken" in message
    )
    assert " ".join(broken.split()) in prompt
    assert "What the compiler made of it: before -> after" in prompt
    assert "native.spill_bytes_per_thread: " in prompt


def test_an_answer_that_passes_every_level_is_the_result(run):
    out, result = run
    (before,), (after,) = result["before"].values(), result["after"].values()
    assert (before["program.launches"], after["program.launches"]) == (3, 1)
    assert after["ttir.bytes"] < before["ttir.bytes"]
    assert after["derived.seconds"] < before["derived.seconds"]
    stages = {stage["name"]: stage for stage in result["stages"]}
    assert stages["fusion"]["status"] == "improved"
    trials, _, finished = ledger_of(out)
    won = next(t for t in trials if t.id == stages["fusion"]["trial"])
    assert won.proposer == "lm"
    assert won.exchange is not None
    assert finished


def test_the_rules_go_on_from_what_the_model_made(run):
    out, result = run
    won = next(stage["trial"] for stage in result["stages"] if stage["name"] == "fusion")
    trials, _, _ = ledger_of(out)
    tried = [t for t in trials if t.stage == "gpu_specific" and t.proposer == "rules"]
    # Other tiles, warps and registers for the kernel that the model has made.
    assert len(tried) > 10
    assert {t.parent for t in tried} == {won}
    assert all(t.note.startswith("linear_gelu_kernel: ") for t in tried)


def test_what_it_cost_is_told_per_stage(run):
    _, result = run
    (fusion, *_), whole = result["models"], result["models"][-1]
    assert fusion["stage"] == "fusion"
    assert whole["stage"] == "all"
    assert whole["prompt_tokens"] >= fusion["prompt_tokens"] > 1000
    assert fusion["accepted"] == 1


def test_the_key_is_in_no_file_of_the_run(run):
    out, _ = run
    for path in out.rglob("*"):
        if path.is_file():
            assert b"the-stand-in-asks-for-none" not in path.read_bytes(), path


def test_a_run_that_is_recorded_and_replayed_is_the_same_bit_for_bit(tmp_path):
    record = tmp_path / "recorded"
    with StandIn([RECORDINGS / FUSION]) as server:
        done = optimize(server, tmp_path / "again", "--record", str(record), "--stages", "fusion")
        assert done.returncode == 0, done.stderr
        replayed = subprocess.run(
            [
                *small(tmp_path / "replayed", "--stages", "fusion"),
                *("--proposer", f"replay:{record}"),
            ],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=ROOT,
        )
    assert replayed.returncode == 0, replayed.stderr
    (trials, exchanges, _), (trials_2, exchanges_2, _) = map(
        ledger_of, (tmp_path / "again", tmp_path / "replayed")
    )
    assert [t.source for t in trials] == [t.source for t in trials_2]
    assert [said(t) for t in trials] == [said(t) for t in trials_2]
    assert [e.request for e in exchanges] == [e.request for e in exchanges_2]
    assert [e.reply.text for e in exchanges] == [e.reply.text for e in exchanges_2]
    kept = [
        (tmp_path / name / "kernel.optimized.py").read_bytes() for name in ("again", "replayed")
    ]
    assert kept[0] == kept[1]


def said(trial):
    """The verdict without its seconds."""
    return [(v["level"], v["status"], v["messages"]) for v in trial.verdict["levels"]]


def test_kill_9_repeats_no_recorded_exchange_and_loses_no_trial(tmp_path):
    """Two kills of a short run; ten over the flash attention are bench/self/killed.py's."""
    out, generator = tmp_path / "run", random.Random(7)
    kept: tuple[list, list] = ([], [])
    asked_when_recorded: dict[str, int] = {}
    with StandIn([RECORDINGS / FUSION]) as server:
        for number in range(2):
            process = subprocess.Popen(
                small(out, "--stages", "fusion", *_resume(out)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env=environment(server),
            )
            _wait_for_exchanges(out, number + 1, process)
            time.sleep(generator.uniform(0, 1.5))
            process.kill()
            process.wait()
            trials, exchanges, _ = ledger_of(out)
            assert trials[: len(kept[0])] == kept[0]
            assert answers(exchanges)[: len(kept[1])] == kept[1]
            kept = trials, answers(exchanges)
            for exchange in exchanges:
                label = exchange.request.label
                asked_when_recorded.setdefault(label, server.count(label))
        done = optimize(server, out, "--stages", "fusion", *_resume(out))
        assert done.returncode == 0, done.stderr
        trials, exchanges, finished = ledger_of(out)
        assert finished
        assert trials[: len(kept[0])] == kept[0]
        assert answers(exchanges)[: len(kept[1])] == kept[1]
        # One that was on its way when the process died is asked for once more, no recorded one.
        assert len(asked_when_recorded) >= 2
        for label, count in asked_when_recorded.items():
            assert server.count(label) == count


def answers(exchanges):
    """What was asked and answered; why an answer held no candidate is noted a moment later."""
    return [(e.request, e.reply) for e in exchanges]


def _resume(out):
    return ["--resume"] if (out / "ledger.sqlite").exists() else []


def _wait_for_exchanges(out, count, process):
    ends = time.monotonic() + 120
    while time.monotonic() < ends and process.poll() is None:
        if (out / "ledger.sqlite").exists() and Ledger.is_begun(out / "ledger.sqlite"):
            with Ledger.open(out / "ledger.sqlite") as ledger:
                if len(ledger.exchanges()) >= count:
                    return
        time.sleep(0.1)


def test_a_budget_ends_the_asking_and_not_the_run(tmp_path):
    out = tmp_path / "run"
    with StandIn([RECORDINGS / FUSION]) as server:
        stages = "fusion,dtype_fix"
        done = optimize(server, out, "--stages", stages, "--budget-tokens", "2000")
        assert server.requests == []  # not even the first request fits
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    stages = {stage["name"]: stage for stage in result["stages"]}
    assert stages["fusion"]["status"] == "no proposal"
    assert "the model budget is spent" in stages["fusion"]["reason"]
    assert stages["dtype_fix"]["status"] == "skipped"  # it was come to


def test_without_the_endpoint_the_rules_go_on(tmp_path):
    out = tmp_path / "run"
    with StandIn([RECORDINGS / FUSION], [Fault(close=True, times=100)]) as server:
        done = optimize(server, out, "--stages", "fusion,memory_access")
    assert done.returncode == 0, done.stderr
    stages = {stage["name"]: stage for stage in json.loads(done.stdout)["stages"]}
    assert stages["fusion"]["status"] == "failed"
    assert "lm: unavailable after 0 answers" in stages["fusion"]["reason"]
    assert stages["memory_access"]["status"] == "improved"
    assert "the model gave no reply" in json.loads(done.stdout)["model_unreached"]


def test_a_request_that_the_endpoint_refuses_costs_its_stage_and_not_the_run(tmp_path):
    out = tmp_path / "run"
    too_long = Fault(label="fusion-1-0", status=400)
    with StandIn([RECORDINGS / FUSION], [too_long]) as server:
        done = optimize(server, out, "--stages", "fusion,dtype_fix")
    assert done.returncode == 3, done.stderr  # no improvement, and no answer
    stages = {stage["name"]: stage for stage in json.loads(done.stdout)["stages"]}
    assert stages["fusion"]["status"] == "failed"
    assert (
        "lm: refused after 0 answers: the model's endpoint refuses" in (stages["fusion"]["reason"])
    )
    assert stages["dtype_fix"]["status"] == "skipped"  # it was come to


def test_what_broken_replies_cost_counts_when_the_run_is_resumed(tmp_path):
    out = tmp_path / "run"
    breaking = Fault(close_after=400, times=100)
    said = ["--stages", "fusion", "--budget-tokens", "30000"]
    asked: list[int] = []
    for _ in range(2):
        with StandIn([RECORDINGS / FUSION], [breaking]) as server:
            done = optimize(server, out, *said, *_resume(out))
            assert done.returncode == 3, done.stderr  # no improvement, and no model
            asked.append(len(server.requests))
    # Four tries of some 8000 tokens spend the budget, and it stays spent.
    assert asked == [4, 0]
    with Ledger.open(out / "ledger.sqlite") as ledger:
        (lost,) = ledger.lost()
    assert lost.usage.tokens > 20_000


def test_each_model_of_several_is_asked(tmp_path):
    """Two models get the same first request; each has its own answer."""
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "fusion-1-0.reply.md").write_text(f"NOTHING: {folder.name} sees none")
    out = tmp_path / "run"
    done = subprocess.run(
        [
            *small(out, "--stages", "fusion"),
            *("--proposer", f"replay:{folders[0]},exchange:{folders[1]}"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env=_no_model(),
    )
    assert done.returncode == 1, done.stderr
    _, exchanges, _ = ledger_of(out)
    assert [(e.channel, e.fault) for e in exchanges] == [
        ("replay", "declined: a sees none"),
        ("exchange", "declined: b sees none"),
    ]


def test_an_endpoint_that_refuses_the_key_ends_the_run_and_it_can_be_resumed(tmp_path):
    out = tmp_path / "run"
    replies = tmp_path / "replies"
    replies.mkdir()
    (replies / "fusion-1-0.reply.md").write_text("NOTHING: it is good as it is")
    with StandIn([replies], [Fault(status=401)]) as server:
        done = optimize(server, out, "--stages", "fusion")
        assert done.returncode == 3
        error = json.loads(done.stderr)
        assert error["error"] == "ModelRefusedError"
        assert "Traceback" not in done.stderr
        done = optimize(server, out, "--stages", "fusion", "--resume")
    assert done.returncode == 1, done.stderr
    _, (exchange,), ended = ledger_of(out)
    assert (exchange.fault, ended) == ("declined: it is good as it is", True)


def test_a_person_can_be_the_model_with_files(tmp_path):
    out, folder = tmp_path / "run", tmp_path / "exchange"
    said = [*small(out, "--stages", "fusion"), "--proposer", f"exchange:{folder}"]

    def again(*more):
        return subprocess.run(
            [*said, *more], capture_output=True, text=True, timeout=600, cwd=ROOT, env=_no_model()
        )

    first = again()
    assert first.returncode == 5
    error = json.loads(first.stderr)
    assert error["error"] == "NoReplyYetError"
    assert "fusion-1-0.reply.md" in error["where"]
    assert (folder / "fusion-1-0.request.md").read_text().startswith("# system\n")
    for path in (RECORDINGS / FUSION).glob("fusion-*.reply.md"):
        shutil.copyfile(path, folder / path.name)
    done = again("--resume")
    assert done.returncode == 0, done.stderr
    trials, _, _ = ledger_of(out)
    assert {t.proposer for t in trials if t.stage == "fusion"} == {"exchange"}


def test_a_model_orders_the_stages_one_of_them_added_by_a_folder(tmp_path):
    stage = tmp_path / "more" / "epilogue"
    stage.mkdir(parents=True)
    (stage / "STAGE.md").write_text(
        "---\nname: epilogue\ndescription: Makes what follows a product cheaper.\n"
        "after: [fusion]\n---\nLess work after the loop.\n"
    )
    replies = tmp_path / "replies"
    replies.mkdir()
    (replies / "planner-1-0.reply.md").write_text('["epilogue", "fusion", "tuning"]')
    for name in ("epilogue", "fusion"):
        (replies / f"{name}-1-0.reply.md").write_text("NOTHING: it is good as it is")
    out = tmp_path / "run"
    done = subprocess.run(
        [
            *small(out, "--stages", "fusion,epilogue"),
            *("--stage-folder", str(tmp_path / "more"), "--planner", "model"),
            *("--proposer", f"replay:{replies}"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env=_no_model(),
    )
    assert done.returncode == 1, done.stderr  # nothing was improved
    result = json.loads(done.stdout)
    assert [stage["name"] for stage in result["stages"]] == ["fusion", "epilogue"]
    with Ledger.open(out / "ledger.sqlite") as ledger:
        planned, *_ = ledger.stages()
        exchanges = ledger.exchanges()
    assert planned.name == "planner"
    assert "replay proposed epilogue, fusion, tuning" in planned.reason
    assert "put by the contracts: fusion before epilogue" in planned.reason
    assert "left out tuning (unknown)" in planned.reason
    assert "- epilogue: Makes what follows" in exchanges[0].request.messages[-1].content
    assert "epilogue: Makes what follows" in exchanges[2].request.messages[-1].content
    assert {e.stage: e.fault for e in exchanges}["epilogue"] == "declined: it is good as it is"


def _no_model():
    return {name: value for name, value in os.environ.items() if not name.startswith("XESMITH_LM")}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--proposer", "lm"], "no model is given"),
        (["--proposer", "llm"], "unknown proposer 'llm'"),
        (["--proposer", "exchange"], "needs a folder"),
        (["--proposer", "rules:x"], "takes no folder"),
        (["--proposer", "rules,rules"], "named twice"),
        (["--proposer", ""], "unknown proposer ''"),
        (["--planner", "model"], "needs a proposer that is a model"),
        (["--planner", "modle"], "unknown planner 'modle'"),
        (["--samples", "2"], "an option of a model without a proposer that is one"),
        (["--wait", "5"], "--wait without the proposer 'exchange'"),
        (["--record", "x"], "--record without the proposer 'lm'"),
        (["--budget-tokens", "5"], "settings without the proposer 'lm'"),
        (["--stage-folder", "/nowhere"], "/nowhere"),
        (["--proposer", "replay:/nowhere"], "no such folder"),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is_lowered(arguments, told, tmp_path):
    kernel = ROOT / "bench" / "problems" / "softmax" / "kernel.py"
    out = tmp_path / "run"
    said = [sys.executable, "-m", "xesmith.cli.app", "optimize", str(kernel), "--out", str(out)]
    done = subprocess.run(
        [*said, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT, env=_no_model()
    )
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (out / "ledger.sqlite").exists()
