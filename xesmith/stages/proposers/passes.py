"""The proposer "passes": what a stage's contract lists, done to the TTIR of launched kernels.

The source stays as it is. What a pass takes for granted, values of arguments and the grid, are
those of the launches at the spec's shapes; launches with others are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from xesmith.ghost.launch import Launch
from xesmith.pass_plan import LAUNCH, PassEntry, PassPlan
from xesmith.stage_contract import Stage, StagePass
from xesmith.stages.proposers.record import Proposal, Situation

#: a kernel as it is launched, and what is done to it
Step = tuple[str, StagePass]


class PassesProposer:
    """Answers with proposals of the same text with longer plans of passes."""

    name = "passes"

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def knows(self, stage: Stage) -> bool:
        return any(item.backend in (None, self._backend) for item in stage.passes)

    def steps(self, stage: Stage, situation: Situation) -> list[Step]:
        """All that could be done at a stage, kernel by kernel."""
        kernels = dict.fromkeys(e.kernel for e in situation.evidence if e.failure is None)
        listed = [item for item in stage.passes if item.backend in (None, self._backend)]
        return [(kernel, item) for kernel in kernels for item in listed]

    def proposals(
        self, stage: Stage, steps: Sequence[Step], situation: Situation
    ) -> Iterator[tuple[Step, Proposal]]:
        """Each of the steps on top of what has been done."""
        for kernel, item in steps:
            launches = [
                Launch.from_json(e.launch) for e in situation.evidence if e.kernel == kernel
            ]
            plan = self._with(situation.draft.passes, kernel, item, launches, stage.name)
            draft = situation.draft.with_passes(plan)
            yield (kernel, item), Proposal(draft, f"{kernel}: {item}")

    def _with(
        self,
        plan: PassPlan,
        kernel: str,
        item: StagePass,
        launches: Sequence[Launch],
        stage: str,
    ) -> PassPlan:
        added = item.entry(kernel, self._backend, stage)
        own = [entry for entry in plan.entries if entry.kernel == kernel]
        others = [entry for entry in plan.entries if entry.kernel != kernel]
        if LAUNCH not in item.pipeline:
            made = [_joined(entry, added) for entry in own] or [added]
            return PassPlan((*others, *made))
        found: dict[str, PassEntry] = {}
        for launch in launches:
            before = plan.find(kernel, self._backend, launch.values, launch.grid)
            entry = added if before is None else _joined(before, added)
            entry = replace(entry, values=_values(launch), grid=launch.grid)
            found.setdefault(entry.key, entry)
        general = [entry for entry in own if entry.is_for_all_launches]
        return PassPlan((*others, *found.values(), *general))


def _joined(first: PassEntry, then: PassEntry) -> PassEntry:
    """Both, in this order, for the launches of the first."""
    pipelines = [text for text in (first.pipeline, then.pipeline) if text]
    reasons = [text for text in (first.reason, then.reason) if text]
    return replace(
        first,
        pipeline=",".join(pipelines),
        switches={**first.switches, **then.switches},
        rounds=first.rounds or then.rounds,
        reason=", ".join(dict.fromkeys(reasons)),
    )


def _values(launch: Launch) -> dict[str, int | float]:
    """The numbers that the launch passes; the compiler knows the others."""
    return {
        name: value
        for name, kind in launch.signature.items()
        if kind != "constexpr"
        and isinstance(value := launch.values.get(name), (int, float))
        and math.isfinite(value)
    }
