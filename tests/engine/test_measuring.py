"""When a run measures: only where the target itself is at hand; and what it accepts then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xesmith.cascade.correctness import Case, Reference, find_reference
from xesmith.cascade.device_check import PRELOAD
from xesmith.cascade.record import LevelResult
from xesmith.cli import app
from xesmith.device import load_device
from xesmith.engine.candidates import Candidates
from xesmith.engine.judge import Judge
from xesmith.engine.measuring import Measurer
from xesmith.engine.problem import Problem, load_problem
from xesmith.engine.session import Session
from xesmith.engine.state import State
from xesmith.engine.trials import keep_baseline
from xesmith.errors import InputKernelError
from xesmith.ghost.launch import TensorSpec
from xesmith.ledger import Ledger
from xesmith.pass_plan import PassEntry, PassPlan
from xesmith.stage_contract import load_stages
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.judged import Judged
from xesmith.stages.proposers.record import Proposal
from xesmith.timing.timer import Timer
from xesmith.toolchain import Toolchain
from xesmith.worker.client import WorkerPool


def test_without_a_device_nothing_is_started(tmp_path):
    said: list[str] = []
    nowhere = tmp_path / "no-python"
    assert Measurer.find(nowhere, load_device("bmg-g31"), said.append, root=tmp_path) is None
    assert said == []


def test_another_device_than_the_target_does_not_count(tmp_path, toolchain):
    (tmp_path / "nvidia0").touch()
    said: list[str] = []
    found = Measurer.find(toolchain.python, load_device("h200"), said.append, root=tmp_path)
    assert found is None
    assert said[0].endswith("so times are predicted")


class Clock(Measurer):
    """A stand-in for the timer: `seconds` by the number of warps in a text; it judges by them."""

    def __init__(self, seconds: dict[int, float], wrong: int | None = None) -> None:
        self.seconds = seconds
        self.raced: list[int] = []
        self.timed: list[int] = []
        self.checked: list[int] = []
        self.wrong = wrong

    def check(self, problem: Any, reference: Any, text: str, cases: Any, say: Any) -> LevelResult:
        self.checked.append(warps(text))
        faults = ("wrong there",) if warps(text) == self.wrong else ()
        status = "refused" if faults else "passed"
        return LevelResult("correctness", status, faults, {"device": {"calls": 3, "cases": []}})

    def race(self, problem: Any, reference: Any, texts: Any, before: Any, say: Any) -> list[float]:
        self.raced += [warps(text) for text in texts]
        return [self.seconds[warps(text)] for text in texts]

    def judge(
        self, problem: Any, reference: Any, text: str, before: str, *, must_improve: bool, say: Any
    ) -> LevelResult:
        self.timed.append(warps(text))
        faster = self.seconds[warps(text)] < 1.0
        return LevelResult("performance", "passed" if faster else "refused", (), {"measured": True})


def warps(text: str) -> int:
    return int(text.rpartition("num_warps=")[2].partition(",")[0].partition(")")[0])


@pytest.fixture(scope="module")
def started(repository: Path) -> Iterator[tuple[Session, Problem, Reference]]:
    problem = load_problem(repository / "bench" / "problems" / "softmax" / "kernel.py")
    with Session("bmg-g31") as session:
        yield session, problem, find_reference(problem.program(), None)


@pytest.fixture
def judged(started: tuple[Session, Problem, Reference], tmp_path: Path) -> Any:
    """Judges softmax with other numbers of warps: by a clock, the verdicts by number of warps."""
    session, problem, reference = started

    def by(clock: Clock, *warps: int, passes: PassPlan | None = None) -> dict[int, Judged]:
        judge = Judge(session, problem, reference, lambda _: None, clock)
        baseline = judge.baseline()
        with Ledger.create(tmp_path / "ledger.sqlite", {}) as ledger:
            draft = Draft(judge.kernel_file, "xpu")
            trial = keep_baseline(ledger, problem.source, baseline)
            state = State(draft, problem.source, baseline.examinations, trial)
            candidates = Candidates(judge, baseline, ledger, lambda _: None)
            plain = draft.plain_variant("softmax_kernel", ("out_ptr.shape[0]",))
            proposals = [
                Proposal(draft.with_variant(replace(plain, options={"num_warps": n})), f"{n} warps")
                for n in warps
            ]
            if passes is not None:
                proposals = [replace(p, draft=p.draft.with_passes(passes)) for p in proposals]
            found, unfit = candidates.judge(
                load_stages()["gpu_specific"], "rules", proposals, state
            )
        assert unfit == []
        return dict(zip(warps, found, strict=True))

    return by


def test_the_fastest_of_a_race_is_judged_in_full_and_the_others_are_not(judged: Any) -> None:
    clock = Clock({2: 0.9, 8: 0.7, 16: 0.8})
    found = judged(clock, 2, 8, 16)
    assert sorted(clock.raced) == [2, 8, 16]
    assert clock.timed == [8]
    assert {n for n, item in found.items() if item.verdict.accepted} == {8}
    assert found[8].verdict.level("performance").facts == {"measured": True}
    for n in (2, 16):
        assert found[n].verdict.level("correctness").messages == (
            "another candidate was faster in a race",
        )


def test_where_the_fastest_is_not_faster_nothing_is_accepted(judged: Any) -> None:
    clock = Clock({2: 1.2, 8: 1.1})
    found = judged(clock, 2, 8)
    assert clock.timed == [8]
    assert not any(item.verdict.accepted for item in found.values())


def test_what_is_wrong_on_the_device_alone_is_refused_and_the_next_is_asked(judged: Any) -> None:
    clock = Clock({2: 0.9, 8: 0.7}, wrong=8)
    found = judged(clock, 2, 8)
    assert (clock.checked, clock.timed) == ([8, 2], [2])
    refused = found[8].verdict.level("correctness")
    assert (refused.status, refused.messages) == ("refused", ("wrong there",))
    assert refused.facts["cases"]  # of the interpreter, where it was right
    assert found[2].verdict.accepted


def test_passes_are_predicted_since_the_timer_runs_sources(judged: Any) -> None:
    clock = Clock({8: 0.1})
    plan = PassPlan((PassEntry("softmax_kernel", pipeline="cse"),))
    found = judged(clock, 8, passes=plan)
    assert (clock.raced, clock.timed) == ([], [])
    assert found[8].verdict.level("performance").facts["measured"] is False


KERNEL = """
import torch, torch.nn as nn, triton, triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

class Model(nn.Module):
    def forward(self, X):
        X = X.contiguous()
        Y = torch.empty_like(X)
        double[(triton.cdiv(X.numel(), 64),)](X, Y, X.numel(), B=64)
        return Y

def get_inputs():
    return [torch.randn(200, device="xpu")]

def get_init_inputs():
    return []
"""
REFERENCE = """
import torch, torch.nn as nn

class Model(nn.Module):
    def forward(self, X):
        return X * 2

def get_inputs():
    return [torch.randn(200, device="xpu")]
"""


def test_results_are_checked_on_the_device_at_every_shape(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    """On this machine's CPU, which stands in for the device, by Triton's interpreter."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    problem = load_problem(tmp_path / "kernel.py")
    reference = find_reference(problem.program())
    odd = Case("odd", (), (TensorSpec("X", (67,), "float32"),), "float32")
    checks = WorkerPool(toolchain.python, "check", preload=PRELOAD, env={"TRITON_INTERPRET": "1"})
    measurer = Measurer(Timer(toolchain.python, kind="cpu"), load_device("h200"), checks)
    try:
        right = measurer.check(problem, reference, KERNEL, [odd], lambda _: None)
        assert (right.status, right.messages) == ("passed", ())
        assert right.facts["device"]["cases"] == ["as written", "odd"]
        assert right.facts["device"]["calls"] > 10
        short = KERNEL.replace("mask=i < n)\n\nclass", "mask=i < 128)\n\nclass")
        assert short != KERNEL
        wrong = measurer.check(problem, reference, short, [odd], lambda _: None)
        assert wrong.status == "refused"
        assert "72 of 200 elements are wrong" in wrong.messages[0]
        assert "outside a tensor" in next(text for text in wrong.messages if "odd" in text)
        (tmp_path / "kernel.py").write_text(short)  # now given as what others are held to
        given = load_problem(tmp_path / "kernel.py")
        with pytest.raises(InputKernelError, match="72 of 200 elements are wrong"):
            measurer.check(given, reference, KERNEL, [odd], lambda _: None)
    finally:
        measurer.close()


@pytest.mark.parametrize(
    ("clock", "code", "said"),
    [
        (Clock({4: 0.9}), 0, "accepted"),
        (Clock({4: 0.9}, wrong=4), 1, "wrong there"),
    ],
    ids=["faster", "wrong on the device"],
)
def test_verify_measures_where_the_target_is_at_hand(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    clock: Clock,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(Measurer, "find", lambda *_: clock)
    monkeypatch.setattr(clock, "close", lambda: None, raising=False)
    base, candidate = tmp_path / "kernel.py", tmp_path / "candidate.py"
    base.write_text(KERNEL.replace("B=64)", "B=64, num_warps=4)"))
    candidate.write_text(base.read_text().replace("mask=i < n) * 2", "mask=i < n) * 4 * 0.5"))
    (tmp_path / "reference.py").write_text(REFERENCE)
    assert app.run(["verify", str(base), str(candidate), "--target", "bmg-g31"]) == code
    output = capsys.readouterr().out
    assert "times are measured on Intel Arc Pro B70" in output
    assert said in output
    assert clock.checked == [4]
    assert clock.timed == ([] if clock.wrong else [4])
