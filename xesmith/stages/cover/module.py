"""CoVeR as a DSPy module: generate, let the cascade judge, refine with what it saw.

The model is reached through a channel (an endpoint, a folder, a recording) by an engine of DSPy's;
an adapter renders the signatures as sections of one message and takes the reply apart. So DSPy's
optimisers can work on the signatures, and nothing but `reply.KernelReply` comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from xesmith.assets import asset_folder
from xesmith.kernel_file import KernelFile
from xesmith.launch_plan import LaunchPlan, PlanError
from xesmith.lm.record import (
    BudgetSpentError,
    Channel,
    Message,
    ModelUnavailableError,
    NoReplyYetError,
    Reply,
    Request,
    RequestRefusedError,
)
from xesmith.stages.cover.brief import Brief, told_change, told_verdict
from xesmith.stages.cover.dspy_facade import (
    Adapter,
    Module,
    Predict,
    Prediction,
    Signature,
    dspy,
    input_field,
    lm15,
    output_field,
)
from xesmith.stages.cover.reply import Declined, KernelReply, ReplyFault, parse_reply, told
from xesmith.stages.proposers.judged import Judged, Judging
from xesmith.stages.proposers.record import Proposal, Situation

#: tries in a row that bring nothing new, after which asking again is a waste
_STALE_TRIES = 2

Ending = Literal[
    "accepted",
    "declined",
    "no progress",
    "out of tries",
    "out of budget",
    "unavailable",
    "refused",
]


@cache
def instructions() -> str:
    """What every request begins with: llm_stages/REPLY.md."""
    return (asset_folder("llm_stages") / "REPLY.md").read_text(encoding="utf-8").strip()


class Generate(Signature):
    """Propose kernels for one stage."""

    request: str = input_field("request")
    stage: str = input_field("Task")
    device: str = input_field("The device")
    problem: str = input_field("What it runs on")
    original: str = input_field("The program")
    current: str = input_field("Its kernels as they are now, after earlier stages")
    findings: str = input_field("What is wrong, by the compiler's evidence (lines of the file)")
    evidence: str = input_field("What the compiler made of it")
    knowledge: str = input_field("What is known about this device and compiler")
    hint: str = input_field("This answer")
    note: str = output_field("one line, what was done")
    kernels: dict[str, str] = output_field("source of each kernel, by name")
    launch_plan: LaunchPlan | None = output_field("what is launched instead")


class Refine(Generate):
    """Propose kernels for one stage, after a proposal that was not accepted."""

    history: str = input_field("Earlier tries, all refused")
    last_try: str = input_field("Your last answer")
    verdict: str = input_field("What became of it")
    change: str = input_field("What the compiler made of it: before -> after")


class KernelAdapter(Adapter):
    """Renders a signature's inputs as sections of one message; reads kernels from the reply."""

    def __init__(self, kernel_file: KernelFile, engine: ChannelEngine) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._kernel_file = kernel_file
        self._engine = engine

    def format(
        self, signature: Any, demos: Sequence[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, str]]:
        del demos
        parts = [f"request: {inputs['request']}"]
        for name, info in signature.input_fields.items():
            text = str(inputs.get(name) or "").strip()
            if name != "request" and text:
                parts.append(f"## {info.json_schema_extra['desc']}\n\n{text}")
        return [
            {"role": "system", "content": instructions()},
            {"role": "user", "content": "\n\n".join(parts)},
        ]

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        del signature
        finish = self._engine.last.finish if self._engine.last else "stop"
        reply = parse_reply(completion, self._kernel_file, finish)
        return {"note": reply.note, "kernels": reply.sources, "launch_plan": reply.plan}


class ChannelEngine:
    """DSPy's way to a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.label = ""
        self.temperature: float | None = None
        self.digest = ""  # of the last request
        self.last: Reply | None = None

    def complete(self, request: Any) -> Any:
        user = [_text(message) for message in request.messages]
        asked = Request(
            self.label,
            (Message("system", request.system or ""), *(Message("user", text) for text in user)),
            self.temperature,
        )
        self.digest, self.last = asked.digest, None
        self.last = reply = self._channel.ask(asked)
        # DSPy takes an empty reply for a fault of its own; the adapter is to say what it is.
        part = lm15.TextPart(reply.text or " ")
        usage = reply.usage
        return lm15.Response(
            id=asked.digest,
            model=request.model,
            message=lm15.Message(role="assistant", parts=(part,)),
            finish_reason="stop",
            usage=lm15.Usage(
                input_tokens=usage.prompt_tokens,
                output_tokens=usage.completion_tokens,
                total_tokens=usage.tokens,
            ),
        )


def _text(message: Any) -> str:
    return "".join(part.text for part in message.parts)


@dataclass(frozen=True)
class Try:
    """One answer and what became of it: a verdict, or why it holds no candidate."""

    number: int
    request: str  # its digest
    answer: str  # as it was understood, else as it came, cut
    note: str
    fault: str | None = None
    judged: Judged | None = None
    declined: bool = False

    def told(self, *, withheld: bool = False) -> str:
        """One line for the history. `withheld`: without what the compiler said."""
        if self.judged is None:
            return f"- try {self.number}: refused before the compiler saw it: {self.fault}"
        refused = self.judged.verdict.refused_by
        if refused is None:
            unread = ", ".join(level.level for level in self.judged.verdict.not_read)
            why = f"could not be judged here ({unread})" if unread else "another answer was better"
        else:
            facts = "" if withheld else f": {'; '.join(refused.messages[:2])[:300]}"
            why = f"refused by {refused.level}{facts}"
        return f"- try {self.number}: {self.note}: {why}"

    @property
    def levels_passed(self) -> int:
        if self.judged is None:
            return -1
        return sum(level.status == "passed" for level in self.judged.verdict.levels)


@dataclass(frozen=True)
class Outcome:
    """What a stage's conversation came to."""

    ending: Ending
    reason: str
    tries: tuple[Try, ...]
    accepted: Judged | None = None


@dataclass
class _Conversation:
    """The state of one stage's conversation."""

    brief: Brief
    situation: Situation
    names: Sequence[str]
    tries: list[Try] = field(default_factory=list[Try])
    seen: dict[str, int] = field(default_factory=dict[str, int])  # lowered code -> try
    stale: int = 0


class Cover(Module):
    """Generate, judge, refine.

    Args:
        channel: answers the requests.
        samples: answers per try, of which the best is kept (best-of-k).
    """

    def __init__(self, channel: Channel, *, samples: int = 1) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.channel = channel
        self.samples = samples
        self.generate = Predict(Generate)
        self.refine = Predict(Refine)

    def forward(
        self,
        *,
        stage: str,
        iterations: int,
        brief: Brief,
        names: Sequence[str],
        situation: Situation,
        judge: Judging,
        on_fault: Callable[[str, str], None],
    ) -> Any:
        """One stage's conversation.

        Args:
            stage: its name, for the labels of requests.
            names: contract names whose values are shown after each try.
            judge: puts the answers of one try through the cascade.
            on_fault: told the digest of a request whose answer holds no candidate, and why.

        Returns:
            A Prediction whose `outcome` is an Outcome.

        Raises:
            ModelRefusedError, NoReplyYetError: nothing more can come from this channel.
        """
        talk = _Conversation(brief, situation, names)
        outcome = None
        for number in range(1, iterations + 1):
            answers: list[tuple[Try, Proposal | None]] = []
            ending: tuple[Ending, str] | None = None
            missing: NoReplyYetError | None = None
            try:
                for sample in range(self.samples):
                    try:
                        answer = self._ask(talk, stage, number, sample)
                    except NoReplyYetError as error:
                        missing = missing or error  # all of a try can be written together
                        continue
                    answers.append(answer)
                    if (fault := answer[0].fault) is not None:
                        on_fault(answer[0].request, fault)
            except BudgetSpentError as error:
                ending = "out of budget", error.what
            except ModelUnavailableError as error:
                ending = "unavailable", error.what
            except RequestRefusedError as error:
                ending = "refused", error.what
            if missing is not None:
                raise missing
            # What came before the end counts all the same.
            outcome = self._judged(talk, answers, judge) if answers else None
            if outcome is None and ending is not None:
                outcome = Outcome(*ending, tuple(talk.tries))
            if outcome is not None:
                break
        if outcome is None:
            reason = (
                talk.tries[-1].told().removeprefix("- ") if talk.tries else "no try was allowed"
            )
            outcome = Outcome("out of tries", reason, tuple(talk.tries))
        return Prediction(outcome=outcome)

    # -- asking -------------------------------------------------------------------------------

    def _ask(
        self, talk: _Conversation, stage: str, number: int, sample: int
    ) -> tuple[Try, Proposal | None]:
        """One answer, as a proposal where it holds one."""
        engine = ChannelEngine(self.channel)
        engine.label = f"{stage}-{number}-{sample}"
        engine.temperature = None if self.samples == 1 else min(1.0, 0.4 + 0.3 * sample)
        adapter = KernelAdapter(talk.situation.draft.kernel_file, engine)
        asked = self.refine if talk.tries else self.generate
        inputs = {"request": engine.label, "hint": self._hint(sample), **_inputs(talk)}
        model = dspy.LM("xesmith/channel", engine=engine, cache=False, num_retries=0)
        fault: str
        declined = False
        try:
            with dspy.context(lm=model, adapter=adapter, disable_history=True):
                answer = asked(**inputs)
        except ReplyFault as error:
            declined = isinstance(error, Declined)
            fault = f"declined: {error}" if declined else str(error)
        except Exception as error:  # DSPy wraps what its engine raises
            if isinstance(error.__cause__, Exception) and engine.last is None:
                raise error.__cause__ from None
            raise
        else:
            given = KernelReply(answer.note, answer.kernels, answer.launch_plan)
            try:
                draft = talk.situation.draft.with_kernels(given.sources, given.plan)
            except PlanError as error:
                return Try(number, engine.digest, given.text, given.note, told(error)), None
            proposal = Proposal(draft, given.note, request=engine.digest)
            return Try(number, engine.digest, given.text, given.note), proposal
        came = engine.last.text if engine.last else ""
        note = "nothing to improve" if declined else "no candidate"
        return Try(number, engine.digest, _excerpt(came), note, fault, declined=declined), None

    def _hint(self, sample: int) -> str:
        if self.samples == 1:
            return ""
        return (
            f"It is one of {self.samples} that are asked for independently and judged together. "
            f"List to yourself the approaches that fit, best first, and take number {sample + 1}."
        )

    # -- judging ------------------------------------------------------------------------------

    def _judged(
        self,
        talk: _Conversation,
        answers: Sequence[tuple[Try, Proposal | None]],
        judge: Judging,
    ) -> Outcome | None:
        """Puts the answers of a try to the cascade; an Outcome where the conversation ends."""
        proposals = [proposal for _, proposal in answers if proposal is not None]
        verdicts = iter(judge(proposals) if proposals else [])
        accepted: Judged | None = None
        fresh = False
        made: list[Try] = []
        for attempt, proposal in answers:
            judged = next(verdicts) if proposal is not None else None
            attempt = replace(attempt, judged=judged)
            fresh = self._is_new(talk, attempt) or fresh
            made.append(attempt)
            if judged is not None and judged.accepted:
                accepted = judged
        # The best answer of a try is the one that the next request shows.
        talk.tries += sorted(made, key=lambda attempt: attempt.levels_passed)
        talk.stale = 0 if fresh else talk.stale + 1
        if accepted is not None:
            note = accepted.proposal.note
            return Outcome("accepted", note, tuple(talk.tries), accepted)
        if all(attempt.declined for attempt in made):
            reason = (made[0].fault or "").removeprefix("declined: ")
            return Outcome("declined", reason, tuple(talk.tries))
        if talk.stale >= _STALE_TRIES:
            reason = talk.tries[-1].told().removeprefix("- ")
            return Outcome("no progress", f"nothing new came: {reason}", tuple(talk.tries))
        return None

    def _is_new(self, talk: _Conversation, attempt: Try) -> bool:
        """Whether the compiler has not seen this code in the conversation; of an answer without
        code, whether its text is another than before."""
        code = attempt.judged.code if attempt.judged else ""
        key = code or f"{attempt.fault} {attempt.answer}"
        if key in talk.seen:
            return False
        talk.seen[key] = attempt.number
        return True


def _inputs(talk: _Conversation) -> dict[str, str]:
    brief = talk.brief
    shown = {
        "stage": brief.stage,
        "device": brief.device,
        "problem": brief.problem,
        "original": brief.original,
        "current": brief.current,
        "findings": brief.findings,
        "evidence": brief.evidence,
        "knowledge": brief.knowledge,
    }
    if not talk.tries:
        return shown
    last, earlier = talk.tries[-1], talk.tries[:-1]
    shown["history"] = "\n".join(a.told(withheld=brief.withheld) for a in earlier)
    shown["last_try"] = last.answer
    if last.judged is None:
        shown["verdict"] = f"Refused before the compiler saw it: {last.fault}"
        return shown
    text = last.judged.proposal.draft.text
    shown["verdict"] = told_verdict(last.judged.verdict, text, withheld=brief.withheld)
    if (known := talk.seen.get(last.judged.code)) is not None and known != last.number:
        shown["verdict"] += (
            f"\nThe compiler made the same code of it as of your try {known}: nothing changed. "
            "Try something else."
        )
    if not brief.withheld and last.judged.examinations:
        before = talk.situation.examinations
        shown["change"] = told_change(before, last.judged.examinations, talk.names)
    return shown


def _excerpt(text: str, characters: int = 2000) -> str:
    return text if len(text) <= characters else f"{text[:characters]}\n[...]"
