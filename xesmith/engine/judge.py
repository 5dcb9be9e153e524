"""The noun Judge: puts one program of a problem through the levels of the cascade."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xesmith.cascade import coverage, structure, syntax
from xesmith.cascade.correctness import DEFAULT_SEEDS, QUICK, Case, Effort, Reference
from xesmith.cascade.examine import Examination
from xesmith.cascade.exercise import needs
from xesmith.cascade.lowering import judge_lowering
from xesmith.cascade.performance import judge_performance
from xesmith.cascade.record import LEVELS, LevelResult, Verdict
from xesmith.engine.measuring import Measurer
from xesmith.engine.problem import AS_WRITTEN, Problem, shape_name
from xesmith.engine.session import Session
from xesmith.errors import InputKernelError
from xesmith.ghost.launch import Launch, Program
from xesmith.kernel_file import KernelFile
from xesmith.pass_plan import NO_PASSES, PassPlan
from xesmith.spec import CountPrograms, Shape

Say = Callable[[str], None]

#: one is enough where the question is whether a size is computed at all
UNSEEN_SEEDS = (7,)

#: of a wide case, which is left out where this is too little
WIDE = Effort(quick=True, natively=False, timeout_s=20.0)
#: of the original in a wide case that the candidate gets wrong
_WIDE_ORIGINAL = replace(WIDE, timeout_s=None)
#: of all shapes together
_MOST_WIDE_CASES = 4


@dataclass(frozen=True)
class Baseline:
    """The given kernel, lowered and found right: what candidates are held against."""

    examinations: Mapping[str, Examination]
    correctness: LevelResult
    cases: tuple[Case, ...]


class Judge:
    """Judges candidates for one problem.

    Args:
        reference: what results are compared with.
        say: told about progress.
        measurer: times candidates, where the target is at hand; None: times are predicted.
    """

    def __init__(
        self,
        session: Session,
        problem: Problem,
        reference: Reference,
        say: Say,
        measurer: Measurer | None = None,
    ) -> None:
        self._measurer = measurer
        self.session = session
        self.problem = problem
        self.reference = reference
        self.kernel_file = KernelFile.parse(problem.source, problem.path)
        self._say = say
        self._syntax: dict[str, LevelResult] = {}

    def baseline(self) -> Baseline:
        """Lowers the problem's own kernel and checks its results.

        Raises:
            InputKernelError: it does not lower, cannot launch, or computes something wrong.
        """
        problem = self.problem
        self._say(f"lowering the baseline {problem.path}")
        (examinations,) = self.session.examine(problem, [problem.source])
        for name, item in examinations.items():
            _raise_for(item, name, problem)
        self._say("checking the baseline's results")
        cases = self._scaled_cases()
        program = problem.program()
        result = self.session.checker.check(program, self.reference, cases)
        if too_much := result.facts["over_limit"]:
            raise InputKernelError(
                f"the kernel's results cannot be checked: {too_much[0]}",
                where=str(problem.path),
                remedy="give a spec, whose shapes are scaled down, or more time with --timeout",
            )
        if result.status == "refused":
            if all(message.endswith("was changed") for message in result.messages):
                raise InputKernelError(
                    f"the kernel works in place, which is not checked: {result.messages[0]}",
                    where=str(problem.path),
                    remedy="let Model.forward copy that input first (x = x.clone())",
                )
            raise InputKernelError(
                f"the kernel's results are wrong before anything is changed: {result.messages[0]}",
                where=str(problem.path),
                remedy="mend the kernel or its reference; only a correct kernel can be optimised",
            )
        odd = [case for case in self._odd_cases() if case not in cases]
        if odd:
            cases += odd
            result = self.session.checker.check(program, self.reference, cases)
        return Baseline(examinations, result, tuple(cases))

    def _scaled_cases(self) -> list[Case]:
        spec = self.problem.spec
        if spec is None:
            return [Case(AS_WRITTEN)]
        return list(
            dict.fromkeys(
                Case.of(spec.scale(shape, programs=self._programs_near(shape)))
                for shape in self.problem.shapes
            )
        )

    def _programs_near(self, shape: Shape) -> CountPrograms:
        """Counts what the baseline launches at smaller shapes that take its path at `shape`."""
        return partial(self.session.checker.programs, self.problem.program(), shape)

    def _odd_cases(self) -> list[Case]:
        """For each shape of the spec, the oddest that the baseline itself computes rightly."""
        spec, checker = self.problem.spec, self.session.checker
        if spec is None:
            return []
        found: list[Case] = []
        for shape in self.problem.shapes:
            for odd in spec.odd_shapes(shape, programs=self._programs_near(shape)):
                case = Case.of(odd)
                if checker.passing(self.problem.program(), self.reference, [case]):
                    found.append(case)
                    break
        return list(dict.fromkeys(found))

    def generality(self, text: str) -> LevelResult:
        """The results of `text` where a program made for the spec's sizes alone would be wrong.

        Shapes at which the baseline itself is wrong do not count.
        """
        checker, program = self.session.checker, self.problem.program(text)
        baseline = self.problem.program()
        cases = self._unseen_cases(baseline)
        if cases:
            self._say("checking the results at sizes that the spec does not have")
            try:
                result = checker.check(program, self.reference, cases, UNSEEN_SEEDS, effort=QUICK)
            except InputKernelError:  # not all of them are shapes that the reference takes
                result = None
            if result is not None and result.status == "passed":
                return result
            cases = checker.passing(baseline, self.reference, cases, UNSEEN_SEEDS)
        if not cases:
            reason = "no shape beyond the spec's is right before and small enough to interpret"
            return LevelResult("correctness", "passed", (), {"cases": [], "note": reason})
        return checker.check(program, self.reference, cases, UNSEEN_SEEDS, effort=QUICK)

    def wide(self, text: str) -> LevelResult:
        """The results of `text` where all sizes but one are the spec's, as far as that is no great
        work: what hangs on a condition on several sizes shows nowhere else.

        A case that the original gets wrong, or that takes too long, is left out; "not_read" where
        the candidate is wrong and whether the original is right would take too long to tell.
        """
        checker, program, spec = self.session.checker, self.problem.program(text), self.problem.spec
        found = [
            case
            for shape in self.problem.shapes
            if spec is not None
            for case in checker.wide_cases(program, spec, shape)
        ]
        cases = list(dict.fromkeys(found))[:_MOST_WIDE_CASES]
        if not cases:
            reason = "no case with all sizes but one as in the spec is small enough to interpret"
            return LevelResult("correctness", "passed", (), {"cases": [], "note": reason})
        self._say("checking the results with all sizes but one as in the spec")
        with contextlib.suppress(InputKernelError):  # all at once; each is asked for below
            checker.check(program, self.reference, cases, UNSEEN_SEEDS, effort=WIDE)
        records: list[Any] = []
        left_out: dict[str, str] = {}
        refused: list[str] = []
        unknown: list[str] = []
        for case in cases:
            result = self._at(case, program, WIDE)
            if isinstance(result, str):
                left_out[case.name] = result
                continue
            records += result.facts["cases"]
            if result.status == "passed":
                continue
            original = self._at(case, self.problem.program(), _WIDE_ORIGINAL)
            if isinstance(original, str):
                unknown += [f"not checked for the original, {text}" for text in result.messages]
            elif original.status == "passed":
                refused += result.messages
            else:
                left_out[case.name] = "the original is not right there"
        status = "refused" if refused else "not_read" if unknown else "passed"
        facts = {"cases": records, "left_out": left_out}
        return LevelResult("correctness", status, (*refused, *unknown), facts)

    def _at(self, case: Case, program: Program, effort: Effort) -> LevelResult | str:
        """The results of `program` in one case, or why there are none."""
        try:
            result = self.session.checker.check(
                program, self.reference, [case], UNSEEN_SEEDS, effort=effort
            )
        except InputKernelError as error:
            return error.what
        without = (*result.facts["over_limit"], *result.facts["not_interpreted"])
        return without[0] if without else result

    def _unseen_cases(self, baseline: Program) -> list[Case]:
        """Cases beyond the spec's sizes that the interpreter can afford."""
        spec, cases = self.problem.spec, dict[Case, None]()
        if spec is None:
            return []
        for shape in self.problem.shapes:
            for choice in coverage.unseen_shapes(spec, shape):
                counts = self.session.checker.programs(baseline, shape, choice)
                for unseen, count in zip(choice, counts, strict=True):
                    if count is not None and count <= coverage.UNSEEN_PROGRAM_COUNT:
                        cases[Case.of(unseen)] = None
                        break
        return list(cases)

    def syntax(self, text: str) -> LevelResult:
        """Whether the text changes kernels alone. Asked before anything of it is lowered or run."""
        if text not in self._syntax:
            self._syntax[text] = syntax.check(text, self.kernel_file)
        return self._syntax[text]

    def performance(self, text: str, before: str, *, must_improve: bool) -> LevelResult:
        """The level "performance" as measured on the device at hand."""
        self._say("timing it")
        return self._at_hand.judge(
            self.problem, self.reference, text, before, must_improve=must_improve, say=self._say
        )

    def also_on_device(self, text: str, baseline: Baseline, result: LevelResult) -> LevelResult:
        """The level "correctness" of a text that passed elsewhere (`result`), on the device at hand
        too, at the spec's own sizes."""
        there = self._at_hand.check(
            self.problem, self.reference, text, baseline.cases, say=self._say
        )
        facts = {**result.facts, **there.facts}
        return replace(there, messages=(*result.messages, *there.messages), facts=facts)

    def race(self, texts: Sequence[str], before: str) -> list[float]:
        """Seconds of each text from a short race on the device at hand, which judges none."""
        return self._at_hand.race(self.problem, self.reference, texts, before, self._say)

    @property
    def _at_hand(self) -> Measurer:
        if self._measurer is None:
            raise ValueError("nothing is measured here: ask `measures` first")
        return self._measurer

    @property
    def measures(self) -> bool:
        """Whether the level "performance" can be measured."""
        return self._measurer is not None

    def lowered_levels(
        self,
        before: Mapping[str, Examination],
        after: Mapping[str, Examination],
        *,
        promises: Sequence[str] = (),
        must_improve: bool = True,
        predict: bool = True,
    ) -> list[LevelResult]:
        """Structure, lowering and performance, up to the first refusal.

        Args:
            predict: False where performance is measured later.
        """
        checks: list[Callable[[], LevelResult]] = [
            lambda: structure.check(_launches(after.values()), self.session.device),
            lambda: judge_lowering(before, after, promises),
        ]
        if predict:
            checks.append(lambda: judge_performance(before, after, must_improve=must_improve))
        results: list[LevelResult] = []
        for check in checks:
            results.append(check())
            if results[-1].status == "refused":
                break
        return results

    def static_levels(
        self,
        text: str,
        before: Mapping[str, Examination],
        after: Mapping[str, Examination],
        *,
        promises: Sequence[str] = (),
        must_improve: bool = True,
        predict: bool = True,
    ) -> list[LevelResult]:
        """Syntax and, where that passes, `lowered_levels`."""
        first = self.syntax(text)
        if first.status == "refused":
            return [first]
        lowered = self.lowered_levels(
            before, after, promises=promises, must_improve=must_improve, predict=predict
        )
        return [first, *lowered]

    def correctness(
        self,
        text: str,
        baseline: Baseline,
        seeds: Sequence[int] = DEFAULT_SEEDS,
        *,
        examinations: Mapping[str, Examination] | None = None,
        unseen: bool = True,
        wide: bool = False,
        passes: PassPlan = NO_PASSES,
    ) -> LevelResult:
        """The results of `text` at every case of the baseline, against the reference.

        Where none of these takes the path of a shape of the spec, one that does is added.

        Args:
            examinations: of `text`, by shape name; what runs there must have run in a case.
                None: it is lowered for that. With `passes` they do not count, since the
                interpreter runs the source.
            unseen: also at shapes beyond the spec's.
            wide: also where all sizes but one are the spec's, which takes some ten seconds: for
                the one text that counts.
            passes: what is done to the TTIR of its kernels: what it makes of them is compared
                with what they were.
        """
        known = None if passes else examinations
        known = known or self.session.examine(self.problem, [text])[0]
        needed = {
            shape.label: needs(known[name])
            for shape in self.problem.shapes
            if (name := shape_name(shape)) in known
        }
        result = self.session.checker.check(
            self.problem.program(text),
            self.reference,
            baseline.cases,
            seeds,
            baseline=baseline.correctness,
            spec=self.problem.spec,
            shapes=self.problem.shapes,
            needed=needed,
        )
        further = {"unseen": (unseen, self.generality), "wide": (wide, self.wide)}
        for name, (asked, check) in further.items():
            if asked and result.status == "passed":
                more = check(text)
                facts = {**result.facts, name: more.facts}
                result = replace(more, facts=facts)
        if passes and result.status == "passed":
            more = self.same_after_passes(text, passes)
            result = replace(more, facts={**result.facts, "passes": more.facts})
        return result

    def same_after_passes(self, text: str, passes: PassPlan) -> LevelResult:
        """Whether the kernels of `text` store with passes what they store without, at the spec's
        shapes."""
        self._say("comparing what the kernels store before and after the passes")
        session = self.session
        before, after = (session.runs(self.problem, text, plan) for plan in (NO_PASSES, passes))
        return session.translation.check(before, after, passes, session.device.kind)


def verdict(levels: Iterable[LevelResult]) -> Verdict:
    """The levels in the cascade's order."""
    return Verdict(tuple(sorted(levels, key=lambda result: LEVELS.index(result.level))))


def _raise_for(item: Examination, name: str, problem: Problem) -> None:
    failure = item.first_failure
    if failure is None and item.evidence:
        return
    line = "" if failure is None or failure.line is None else f":{failure.line}"
    what = "no Triton kernel is launched" if failure is None else failure.message
    raise InputKernelError(
        f"the kernel fails before anything is changed, at {name}: {what}",
        where=f"{problem.path}{line}",
        remedy=f"xesmith inspect {problem.path} shows what the compiler makes of it",
    )


def _launches(examinations: Iterable[Examination]) -> list[Launch]:
    return [Launch.from_json(e.launch) for item in examinations for e in item.evidence]
