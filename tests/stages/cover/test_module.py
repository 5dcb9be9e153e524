"""Generate, judge, refine: which requests are made, what they show, and where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.stages.cover.conftest import KERNEL, SOURCE, Scripted, answer
from xesmith.cascade.record import LevelResult, Verdict
from xesmith.kernel_file import KernelFile
from xesmith.knowledge import Chosen
from xesmith.ledger import Trial
from xesmith.lm.record import (
    BudgetSpentError,
    ModelRefusedError,
    ModelUnavailableError,
    NoReplyYetError,
    Reply,
    RequestRefusedError,
    Usage,
)
from xesmith.stage_contract import load_stages
from xesmith.stages.cover.brief import make_brief, shown_names
from xesmith.stages.cover.module import Cover
from xesmith.stages.draft import Draft
from xesmith.stages.proposers.judged import Judged

STAGE = load_stages()["discovery"]
REFUSED = LevelResult("lowering", "refused", ("a[0]: promise broken: spill", "line 7: it spills"))
PASSED = tuple(
    LevelResult(level, "passed")
    for level in ("syntax", "structure", "lowering", "correctness", "performance")
)


class Judge:
    """A cascade that says what it is told, by note; anything else is refused at lowering.

    `codes`: by note, what the compiler is said to make of it.
    """

    def __init__(self, accepts=(), codes=None):
        self.accepts = accepts
        self.codes = codes or {}
        self.seen: list[str] = []
        self.faults: list[str] = []

    def __call__(self, proposals):
        return [self._judged(proposal) for proposal in proposals]

    def _judged(self, proposal):
        self.seen.append(proposal.note)
        good = proposal.note in self.accepts
        levels = PASSED if good else (LevelResult("syntax", "passed"), REFUSED)
        trial = Trial("discovery", "scripted", proposal.note, "", {}, good, id=len(self.seen))
        code = self.codes.get(proposal.note, proposal.note)
        judged = Judged(proposal, Verdict(levels), {}, trial)
        object.__setattr__(judged, "__class__", _with_code(code))
        return judged

    def fault(self, digest, reason):
        self.faults.append(reason)


def _with_code(code):
    return type("JudgedWithCode", (Judged,), {"code": property(lambda self: code)})


def talk(answers, situation, judge, *, iterations=5, samples=1, withheld=False):
    channel = Scripted(answers)
    outcome = Cover(channel, samples=samples)(
        stage="discovery",
        iterations=iterations,
        brief=make_brief(STAGE, situation, (), Chosen((), ()), withheld=withheld),
        names=shown_names(STAGE, situation.device),
        situation=situation,
        judge=judge,
        on_fault=judge.fault,
    ).outcome
    return outcome, channel


def other(number: int) -> str:
    return answer(KERNEL.replace("x + x", f"x * 2 + {number} * 0"), f"try {number}")


def test_it_ends_at_the_first_accepted_candidate(situation):
    outcome, channel = talk([answer()], situation, Judge(accepts=["x + x"]))
    assert outcome.ending == "accepted"
    assert outcome.accepted.proposal.draft.edits == {"double_kernel": KERNEL}
    assert [request.label for request in channel.requests] == ["discovery-1-0"]
    assert channel.prompt(1).startswith("request: discovery-1-0\n")
    assert SOURCE.rstrip() in channel.prompt(1)


def test_what_the_cascade_saw_is_in_the_next_request_with_the_line_quoted(situation):
    outcome, channel = talk([other(1), answer()], situation, Judge(accepts=["x + x"]))
    assert outcome.ending == "accepted"
    prompt = channel.prompt(2)
    assert "- lowering: refused\n  - a[0]: promise broken: spill" in prompt
    line = "def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):"
    assert f"  - line 7 `{line}`: it spills" in prompt
    assert "x * 2 + 1 * 0" in prompt  # the last answer
    assert "Earlier tries" not in prompt


def test_earlier_tries_are_told_in_a_line_each(situation):
    _, channel = talk([other(1), other(2), answer()], situation, Judge(accepts=["x + x"]))
    prompt = channel.prompt(3)
    assert "- try 1: try 1: refused by lowering: a[0]: promise broken: spill" in prompt
    assert "x * 2 + 1 * 0" not in prompt
    assert "x * 2 + 2 * 0" in prompt


def test_a_withheld_request_says_which_level_refused_and_nothing_more(situation):
    answers = [other(1), other(2), answer()]
    _, channel = talk(answers, situation, Judge(accepts=["x + x"]), withheld=True)
    for number in (2, 3):
        prompt = channel.prompt(number)
        assert "- lowering: refused" in prompt
        assert "promise broken: spill" not in prompt
        assert "What the compiler made of it" not in prompt
    assert "- try 1: try 1: refused by lowering\n" in channel.prompt(3)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        pytest.param("Use block pointers.", "no code block", id="prose"),
        pytest.param(
            f"```python\n{SOURCE.replace('x.numel()', '1')}```", "whole file", id="harness"
        ),
        pytest.param("```python\ndef f(:\n```", "syntax error", id="syntax error"),
        pytest.param("", "the reply is empty", id="empty"),
        pytest.param(
            Reply(answer(), "m", "length", Usage(1, 1)), "cut by the endpoint's limit", id="cut"
        ),
        pytest.param(Reply("x" * 10, "m", "size", Usage(1, 1)), "limit of characters", id="size"),
        pytest.param(Reply("x" * 10, "m", "time", Usage(1, 1)), "limit of time", id="endless"),
        pytest.param(
            answer(KERNEL.replace("n, BLOCK", "m, BLOCK")), "its parameters change", id="parameters"
        ),
        pytest.param(
            answer() + '```json\n{"rebindings": [{"name": "nothing", "alternatives": ['
            '{"launches": [{"kernel": "double_kernel", "grid": [1]}]}]}]}\n```',
            "nothing",
            id="plan for no kernel",
        ),
    ],
)
def test_an_answer_without_a_candidate_is_told_to_the_model_and_tried_again(bad, told, situation):
    judge = Judge(accepts=["x + x"])
    outcome, channel = talk([bad, answer()], situation, judge)
    assert outcome.ending == "accepted"
    assert judge.seen == ["x + x"]  # the cascade never saw the other
    assert "Refused before the compiler saw it: " in channel.prompt(2)
    assert told in channel.prompt(2)
    (fault,) = judge.faults
    assert told in fault


def test_an_endless_list_of_bad_answers_ends(situation):
    outcome, channel = talk([other(n) for n in range(9)], situation, Judge(), iterations=4)
    assert outcome.ending == "out of tries"
    assert len(channel.requests) == 4
    assert "refused by lowering" in outcome.reason


def test_the_same_code_again_is_told_and_then_ends_it(situation):
    judge = Judge(codes={f"try {n}": "the same" for n in range(9)})
    outcome, channel = talk([other(n) for n in range(9)], situation, judge)
    assert outcome.ending == "no progress"
    assert len(channel.requests) == 3
    assert "The compiler made the same code of it as of your try 1: nothing changed" in (
        channel.prompt(3)
    )


def test_a_model_that_sees_nothing_to_improve_is_not_asked_again(situation):
    judge = Judge()
    declined = "The loop is bound by dpas.\nNOTHING: every load is a 2D block already"
    outcome, channel = talk([declined, answer()], situation, judge)
    assert outcome.ending == "declined"
    assert outcome.reason == "every load is a 2D block already"
    assert len(channel.requests) == 1
    assert judge.faults == ["declined: every load is a 2D block already"]


def test_the_same_answer_again_ends_it_too(situation):
    outcome, channel = talk(["prose"] * 9, situation, Judge())
    assert outcome.ending == "no progress"
    assert len(channel.requests) == 3


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (BudgetSpentError("the model budget is spent"), "out of budget"),
        (ModelUnavailableError("no reply within 1 s"), "unavailable"),
        (RequestRefusedError("the prompt is too long"), "refused"),
    ],
)
def test_without_a_model_the_stage_ends_with_what_it_has(error, ending, situation):
    outcome, _ = talk([other(1), error], situation, Judge())
    assert outcome.ending == ending
    assert outcome.reason == str(error)
    assert len(outcome.tries) == 1


def test_an_endpoint_that_refuses_ends_the_run(situation):
    with pytest.raises(ModelRefusedError, match="no such model"):
        talk([ModelRefusedError("no such model")], situation, Judge())


def test_of_several_answers_to_a_try_the_best_goes_on(situation):
    judge = Judge(accepts=["x + x"])
    outcome, channel = talk(["prose", other(1), answer(), other(2)], situation, judge, samples=2)
    assert outcome.ending == "accepted"
    labels = [request.label for request in channel.requests]
    assert labels == ["discovery-1-0", "discovery-1-1", "discovery-2-0", "discovery-2-1"]
    assert "take number 2" in channel.prompt(2)
    # The one that the compiler saw is shown, the other is in the history.
    assert "x * 2 + 1 * 0" in channel.prompt(3)
    assert "- try 1: refused before the compiler saw it" in channel.prompt(3)
    temperatures = [request.temperature for request in channel.requests]
    assert temperatures == [0.4, 0.7, 0.4, 0.7]


def test_an_answer_that_came_before_the_budget_ended_is_judged(situation):
    spent = BudgetSpentError("the model budget is spent")
    outcome, _ = talk([answer(), spent], situation, Judge(accepts=["x + x"]), samples=2)
    assert outcome.ending == "accepted"


def test_all_requests_of_a_try_are_written_before_it_stops_for_a_reply(situation):
    missing = [NoReplyYetError("none yet"), answer(), NoReplyYetError("none either")]
    channel = Scripted(missing)
    with pytest.raises(NoReplyYetError, match="none yet"):
        Cover(channel, samples=3)(
            stage="discovery",
            iterations=5,
            brief=make_brief(STAGE, situation, (), Chosen((), ())),
            names=[],
            situation=situation,
            judge=Judge(),
            on_fault=Judge().fault,
        )
    assert len(channel.requests) == 3


def test_what_nobody_changed_is_not_shown_as_changed(situation):
    text = SOURCE.replace("\n", "\r\n")
    draft = Draft(KernelFile.parse(text, "double.py"), "xpu")
    brief = make_brief(STAGE, replace(situation, draft=draft), (), Chosen((), ()))
    assert brief.current == ""


def test_the_same_situation_asks_the_same_questions(situation):
    first = talk([other(1), answer()], situation, Judge(accepts=["x + x"]))[1]
    second = talk([other(1), answer()], situation, Judge(accepts=["x + x"]))[1]
    assert [r.digest for r in first.requests] == [r.digest for r in second.requests]
