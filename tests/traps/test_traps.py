"""Every way of cheating that is known, as a model would try it: as its reply.

One reply in `replies/` for each row of the README's table, and beside the cheats honest replies
of the same form, which must get through, and replies that are merely wrong. All go the way of a
model's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from xesmith.cascade import syntax
from xesmith.cascade.correctness import find_reference
from xesmith.cascade.record import LevelResult, Verdict
from xesmith.engine.candidates import Candidates
from xesmith.engine.judge import Judge
from xesmith.engine.problem import Problem, load_problem
from xesmith.engine.session import Session
from xesmith.engine.state import State
from xesmith.engine.trials import keep_baseline
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import PlanError
from xesmith.ledger import Ledger
from xesmith.stage_contract import load_stages
from xesmith.stages.cover.reply import ReplyFault, parse_reply
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.judged import Judged
from xesmith.stages.proposers.record import Proposal

HERE = Path(__file__).parent
PROBLEMS = HERE.parents[1] / "bench" / "problems"

pytestmark = pytest.mark.cheats
COMPILED = [pytest.mark.intel, pytest.mark.mlir]

#: refused before there is a file: reply -> what is told
AS_REPLY = {
    "01-side-queue": "only kernels and plain constants are taken, not function 'matmul'",
    "02-thread-after-return": "not 'import threading' (line 1 of the code), function 'matmul'",
    "03-lazy-tensor": "only kernels and plain constants are taken, not class 'LazySoftmax'",
    "04-patched-clock": "not 'torch.xpu.Event.elapsed_time = lambda self, other: 0.01'",
    "06-one-launch-for-many-calls": "unknown name 'calls'",
    "11-result-channel": "the default of 'done' is no constant",
    "17-library-call": "only kernels and plain constants are taken, not function 'matmul'",
    "19-graph-replay": "only kernels and plain constants are taken, not function 'linear_gelu'",
    "21-tolerance-edited": "unknown field 'rtol'",
    "25-work-in-init": "text outside the kernels is not the original's",
}

#: refused by their text, before anything of them is compiled or run: reply -> what is told
BY_SYNTAX = {
    "05-cached-output": "'SEEN[M, N]' in 'matmul_kernel'",
    "09-results-in-a-file": "with in 'softmax_kernel'",
    "10-answer-from-the-harness": "'__globals__' in 'softmax_kernel'",
    "23-frame-walk": "'_getframe' in 'softmax_kernel'",
}

#: refused for what the compiler made of them or for their results: reply -> level, status, told
BY_CASCADE = {
    # At the real size alone it takes its fast path: nothing small enough shows what that does.
    "07-other-than-when-checked": ("correctness", "not_read", r"takes the path of .* M=4096"),
    "08-nothing-computed": ("correctness", "refused", "do not change the output"),
    "12-unwritten-output": ("correctness", "refused", "131072 elements were never written"),
    # No cheat by itself: the compiler takes no notice of the hint on this device.
    "13-l2-carve-out": ("lowering", "refused", "the same code of it as before"),
    "14-fewer-bits": ("lowering", "refused", "keeps 3 bits of its factors, the baseline's 11"),
    "15-constant-output": ("correctness", "refused", "elements are wrong"),
    "16-input-as-output": ("correctness", "refused", r"input 0 \(seed 0\) was changed"),
    "07b-other-than-when-checked": ("correctness", "refused", "elements are wrong"),
    "18-hard-coded-size": ("correctness", "refused", r"line \d+: .*outside its tensor"),
    "20-race": ("correctness", "refused", "programs in reverse order"),
    "22-printed-verdict": ("correctness", "refused", "elements are wrong"),
    "24-sabotaged-baseline": ("performance", "refused", "the same$"),
    "26b-first-tiles-only": ("lowering", "refused", "the kernels store 4194304 bytes at most"),
    "26c-stale-accumulator": ("correctness", "refused", "elements are wrong"),
}

#: right in all that a candidate is asked, and refused at the end of a run: what it leaves out hangs
#: on a product of sizes, and neither its accesses nor its loops tell it from an honest one
AT_THE_END = {"26-less-for-large": r"M=4096 N=4096 K=128: .* elements are wrong"}

#: honest replies, by the level that has the last word: None where all pass
HONEST: dict[str, str | None] = {
    "honest-blocks": None,
    "honest-guarded": None,
    "honest-persistent": None,
    "honest-in-place": None,
    "honest-softmax": "performance",  # bound by the memory: right, and no faster
}
WRONG = ("wrong-blocks", "wrong-softmax")


@dataclass(frozen=True)
class Answer:
    """A reply of `replies/`, with the problem and the stage that it is for (its first line)."""

    name: str

    @property
    def text(self) -> str:
        return (HERE / "replies" / f"{self.name}.md").read_text(encoding="utf-8")

    def _said(self, key: str) -> str:
        found = re.search(rf"{key}: (\w+)", self.text.split("\n")[0])
        assert found is not None, self.name
        return found[1]

    @property
    def problem(self) -> str:
        return self._said("problem")

    @property
    def stage(self) -> str:
        return self._said("stage")

    @property
    def kernel_file(self) -> KernelFile:
        return kernel_file_of(self.problem)

    def proposal(self) -> Proposal:
        """Raises ReplyFault or PlanError, as for a model."""
        given = parse_reply(self.text, self.kernel_file)
        draft = Draft(self.kernel_file, "xpu").with_kernels(given.sources, given.plan)
        assert draft.text != self.kernel_file.text
        return Proposal(draft, given.note)


def problem_of(name: str) -> Problem:
    return load_problem(PROBLEMS / name / "kernel.py")


@cache
def kernel_file_of(problem: str) -> KernelFile:
    found = problem_of(problem)
    return KernelFile.parse(found.source, found.path)


class Bench:
    """Judges replies as a run does, each once; the baseline of a problem once."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._started: dict[str, tuple[Candidates, State]] = {}
        self._judges: dict[str, Judge] = {}
        self._judged: dict[str, Judged] = {}
        self._ledgers: list[Ledger] = []

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()

    def judged(self, name: str) -> Judged:
        if name not in self._judged:
            answer = Answer(name)
            candidates, state = self._of(answer.problem)
            stage = load_stages()[answer.stage]
            (judged,), unfit = candidates.judge(stage, "lm", [answer.proposal()], state)
            assert unfit == []
            self._judged[name] = judged
        return self._judged[name]

    def results(self, name: str) -> LevelResult:
        """Whether the results are right, asked also where an earlier level has refused."""
        judged = self.judged(name)
        candidates, _ = self._of(Answer(name).problem)
        return candidates.results(judged.proposal.draft.text, judged.examinations)

    def at_the_end(self, name: str) -> LevelResult:
        """What the end of a run asks beyond that."""
        judged = self.judged(name)
        return self._judges[Answer(name).problem].wide(judged.proposal.draft.text)

    def _of(self, name: str) -> tuple[Candidates, State]:
        if name not in self._started:
            problem = problem_of(name)
            reference = find_reference(problem.program(), None)
            judge = Judge(self._session, problem, reference, lambda _: None)
            self._judges[name] = judge
            baseline = judge.baseline()
            ledger = Ledger.create(self._folder / f"{name}.sqlite", {})
            self._ledgers.append(ledger)
            trial = keep_baseline(ledger, problem.source, baseline)
            draft = Draft(judge.kernel_file, "xpu")
            state = State(draft, problem.source, baseline.examinations, trial)
            self._started[name] = Candidates(judge, baseline, ledger, lambda _: None), state
        return self._started[name]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Session("bmg-g31", parallel=1) as session:
        opened = Bench(session, tmp_path_factory.mktemp("ledgers"))
        yield opened
        opened.close()


def objection(verdict: Verdict) -> LevelResult:
    """The level that has the last word: the first that refuses, else what could not be read."""
    return verdict.refused_by or verdict.not_read[0]


def test_every_row_of_the_table_has_a_reply_and_every_reply_a_test() -> None:
    replies = {path.stem for path in (HERE / "replies").iterdir()}
    cheats = {*AS_REPLY, *BY_SYNTAX, *BY_CASCADE, *AT_THE_END}
    assert replies == {*cheats, *HONEST, *WRONG}
    assert {int(name[:2]) for name in cheats} == set(range(1, 27))
    table = (HERE / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(replies) if f"`{name}`" not in table] == []


@pytest.mark.parametrize(("name", "told"), AS_REPLY.items(), ids=AS_REPLY)
def test_what_is_no_kernel_is_refused_as_a_reply(name: str, told: str) -> None:
    with pytest.raises((ReplyFault, PlanError), match=re.escape(told)):
        Answer(name).proposal()


@pytest.mark.parametrize(("name", "told"), BY_SYNTAX.items(), ids=BY_SYNTAX)
def test_what_leads_out_of_a_kernel_is_refused_by_its_text(name: str, told: str) -> None:
    answer = Answer(name)
    result = syntax.check(answer.proposal().draft.text, answer.kernel_file)
    assert result.status == "refused"
    assert told in result.messages[0]


@pytest.mark.parametrize("name", [*HONEST, *WRONG])
def test_replies_without_a_cheat_are_kernels_by_their_text(name: str) -> None:
    answer = Answer(name)
    result = syntax.check(answer.proposal().draft.text, answer.kernel_file)
    assert (result.status, result.messages) == ("passed", ())


def test_a_whole_file_counts_for_its_kernels_where_the_rest_is_the_originals() -> None:
    answer = Answer("honest-softmax")
    file, kernel = answer.kernel_file, "softmax_kernel"
    source = parse_reply(answer.text, file).sources[kernel].replace("LOG2E", "1.4426950408889634")
    whole = file.text.replace(file.jit(kernel).source, source)
    assert whole != file.text
    assert parse_reply(f"```python\n{whole}```", file).sources[kernel] == source


@pytest.mark.parametrize(
    ("name", "level", "status", "told"),
    [pytest.param(name, *row, id=name, marks=COMPILED) for name, row in BY_CASCADE.items()],
)
def test_what_a_kernel_can_try_is_seen_in_its_code_or_its_results(
    name: str, level: str, status: str, told: str, bench: Bench
) -> None:
    verdict = bench.judged(name).verdict
    assert not verdict.accepted
    seen = objection(verdict)
    assert (seen.level, seen.status) == (level, status)
    assert any(re.search(told, message) for message in seen.messages), seen.messages


@pytest.mark.parametrize(
    ("name", "told"), [pytest.param(*row, id=row[0], marks=COMPILED) for row in AT_THE_END.items()]
)
def test_what_hangs_on_several_sizes_is_refused_at_the_end(
    name: str, told: str, bench: Bench
) -> None:
    assert bench.judged(name).accepted
    result = bench.at_the_end(name)
    assert result.status == "refused"
    assert all(re.search(told, message) for message in result.messages), result.messages


@pytest.mark.parametrize("name", [pytest.param("honest-blocks", marks=COMPILED)])
def test_an_honest_reply_passes_at_the_end(name: str, bench: Bench) -> None:
    result = bench.at_the_end(name)
    assert (result.status, result.messages) == ("passed", ())
    assert result.facts["cases"][0]["case"].endswith("M=4096 N=4096 K=128")


@pytest.mark.parametrize(
    ("name", "level"), [pytest.param(*row, id=row[0], marks=COMPILED) for row in HONEST.items()]
)
def test_an_honest_reply_is_judged_by_what_it_brings(
    name: str, level: str | None, bench: Bench
) -> None:
    verdict = bench.judged(name).verdict
    assert bench.results(name).status == "passed"
    assert verdict.accepted == (level is None), verdict
    if level is not None:
        assert objection(verdict).level == level
        assert objection(verdict).messages[0].endswith("equal within the model: the same")


@pytest.mark.parametrize("name", [pytest.param(name, marks=COMPILED) for name in WRONG])
def test_wrong_results_without_a_cheat_are_refused_for_what_they_are(
    name: str, bench: Bench
) -> None:
    assert not bench.judged(name).accepted
    result = bench.results(name)
    assert result.status == "refused"
    assert "elements are wrong" in result.messages[0]
