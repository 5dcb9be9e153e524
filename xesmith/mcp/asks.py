"""What tools are asked with: the kernel, its problem, and a candidate for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from xesmith.cascade import syntax
from xesmith.engine.problem import Problem, load_problem
from xesmith.engine.session import DEFAULT_TARGET
from xesmith.errors import UsageError
from xesmith.kernel_file import KernelFile, read_source
from xesmith.launch_plan import LaunchPlan, render
from xesmith.mcp.tool import Ask
from xesmith.stages.cover.reply import MAX_CHARACTERS, ReplyFault, parse_reply


class KernelAsk(Ask):
    """A kernel file with the shapes that it is to be good at, and a device."""

    kernel: str = Field(description="Path of the kernel file that is known to be right.")
    spec: str | None = Field(
        default=None, description="Path of the spec; default: spec.yaml beside the kernel."
    )
    variant: str | None = Field(default=None, description="Variant of the spec; default: its own.")
    target: str = Field(default=DEFAULT_TARGET, description="Device; see devices.")

    def problem(self) -> Problem:
        """The kernel with its spec. Raises as `load_problem` does."""
        spec = None if self.spec is None else Path(self.spec)
        return load_problem(Path(self.kernel), spec, self.variant)


class CandidateAsk(KernelAsk):
    """A kernel, and what may stand in for it: a file, or kernels with a launch plan."""

    candidate: str | None = Field(
        default=None, description="Path of a candidate file; or give kernels and plan instead."
    )
    kernels: str | None = Field(
        default=None,
        max_length=MAX_CHARACTERS,
        description="Jit functions as Python text: the name of one of the file replaces it, a new "
        "name is added and needs a plan. See guide.",
    )
    plan: dict[str, Any] | str | None = Field(
        default=None, description="The whole launch plan, {'rebindings': [...]}. See guide."
    )

    def candidate_text(self, problem: Problem) -> str | None:
        """The candidate's file; None where none is given. Its text is not judged here.

        Raises:
            UsageError: both forms are given, the file cannot be read, or the kernels hold
                something else than kernels.
            PlanError: the plan is faulty or does not fit the file.
        """
        parts = self.kernels is not None or self.plan is not None
        if self.candidate is not None:
            if parts:
                raise UsageError(
                    "the candidate is given twice",
                    where="candidate",
                    remedy="give either candidate, or kernels and plan",
                )
            return read_source(self.candidate)
        return self._rendered(KernelFile.parse(problem.source, problem.path)) if parts else None

    def checked_text(self, problem: Problem) -> str | None:
        """`candidate_text`, when the level "syntax" has passed it: then it may be lowered.

        Raises also:
            UsageError: the level refuses it.
        """
        text = self.candidate_text(problem)
        if text is None:
            return None
        level = syntax.check(text, KernelFile.parse(problem.source, problem.path))
        if level.status != "passed":
            raise UsageError(
                f"the candidate is refused by syntax: {'; '.join(level.messages[:3])}",
                where=self.candidate or "kernels",
                remedy="change kernels only; guide says what they may hold",
            )
        return text

    def _rendered(self, kernel_file: KernelFile) -> str:
        """The original file with these kernels and this plan, and nothing else changed."""
        sources: dict[str, str] = {}
        if self.kernels is not None:
            try:
                sources = parse_reply(_fenced(self.kernels), kernel_file).sources
            except ReplyFault as fault:
                raise UsageError(str(fault), where="kernels", remedy="see guide") from fault
        edits = {name: text for name, text in sources.items() if name in kernel_file.regions}
        added = [text for name, text in sources.items() if name not in edits]
        return render(kernel_file, edits, added, read_plan(self.plan))


def read_plan(plan: dict[str, Any] | str | None) -> LaunchPlan | None:
    """The plan as data, also where a client sends an object as text.

    Raises:
        PlanError: an unknown field (with the nearest), or a value out of range.
    """
    if plan is None:
        return None
    return LaunchPlan.from_json(plan if isinstance(plan, str) else json.dumps(plan), "plan")


def _fenced(code: str) -> str:
    """Bare code as the reply that it would be; one that comes in a fence already is left so."""
    return code if code.lstrip().startswith(("```", "~~~")) else f"```python\n{code}\n```\n"
