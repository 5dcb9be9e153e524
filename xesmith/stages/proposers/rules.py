"""The proposer "rules": deterministic rewrites, no model.

A rewrite is made for each launched kernel alone, be it of the file or a model's, launched by its
plan. Where several kernels gain from a stage, their rewrites are proposed together first, then
one by one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from xesmith.contracts import ProgramEvidence
from xesmith.ghost.launch import Launch
from xesmith.launch_plan import PlanError
from xesmith.stages.draft import Draft, Variant
from xesmith.stages.proposers.record import NoProposal, Proposal, Situation
from xesmith.stages.rewrites.autotuning import autotuning, without_autotune
from xesmith.stages.rewrites.block_pointers import block_pointers
from xesmith.stages.rewrites.dtype_fix import dtype_fix
from xesmith.stages.rewrites.exp2 import exp2
from xesmith.stages.rewrites.gpu_specific import (
    Configuration,
    SearchSpace,
    insert_group,
    search_space,
)
from xesmith.stages.rewrites.memory_access import memory_access
from xesmith.stages.rewrites.result import KernelFacts, Refusal, Rewrite
from xesmith.stages.rewrites.roles import infer_grid
from xesmith.stages.translation import is_over_tiles, names_in

Answer = Proposal | NoProposal
Round = Callable[[Situation], Iterator[Answer]]


class Probe(Protocol):
    """Launches of a kernel at sizes of our choosing, beside those of the spec.

    `text`: of the program; None is the baseline.
    """

    def __call__(self, kernel: str, text: str | None = None) -> Sequence[Launch]: ...


#: configurations that a search lowers per kernel
SEARCH_LIMIT = 24
#: configurations that an autotune decorator is given
TUNED_CONFIGURATIONS = 4

_NO_GRID = "the grid that the wrapper passes is not understood, so no launch plan can guard it"
_NO_PLANNED_GRID = "the grid of the launch plan is not understood"
_REBOUND = "the launch plan rebinds it, so what it leaves to the kernel itself stays as it is"

_REWRITES: dict[str, Callable[[str, KernelFacts], Rewrite | Refusal]] = {
    "discovery": exp2,
    "dtype_fix": dtype_fix,
    "memory_access": memory_access,
}


class RulesProposer:
    """Answers with proposals, or with why there is none."""

    name = "rules"

    def __init__(
        self,
        probe: Probe,
        *,
        search_limit: int = SEARCH_LIMIT,
        tuned_configurations: int = TUNED_CONFIGURATIONS,
    ) -> None:
        self._probe = probe
        self._search_limit = search_limit
        self._tuned_configurations = tuned_configurations

    def knows(self, stage: str) -> bool:
        return stage in _REWRITES or stage in ("block_pointers", "gpu_specific", "autotuning")

    def rounds(self, stage: str, situation: Situation) -> list[Round]:
        """The stage's rounds. Each is asked with the situation that the one before has left."""
        if stage == "block_pointers":
            return [self._block_pointers]
        if stage in _REWRITES:
            return [partial(self._rewrites, _REWRITES[stage])]
        kernels = _launched(situation)
        if stage == "autotuning":
            return [partial(self._autotune, kernel) for kernel in kernels]
        return [partial(ask, kernel) for kernel in kernels for ask in (self._search, self._swizzle)]

    def _rewrites(
        self, rewrite: Callable[[str, KernelFacts], Rewrite | Refusal], situation: Situation
    ) -> Iterator[Answer]:
        singles: list[Proposal] = []
        together = situation.draft
        for kernel in _launched(situation):
            found = self._variant(kernel, situation)
            base = None if isinstance(found, Refusal) else found
            made = self._made(rewrite, kernel, base, situation)
            if isinstance(made, Refusal):
                yield NoProposal(f"{kernel}: {made.reason}", made.line)
                continue
            draft = situation.draft.with_rewrite(kernel, made, base)
            both = together.with_rewrite(kernel, made, base)
            if draft is None or both is None:
                assert isinstance(found, Refusal)
                yield NoProposal(f"{kernel}: {found.reason}")
                continue
            answer = _fitting(
                Proposal(draft, f"{kernel}: {_told(made, kernel, situation)}"), kernel
            )
            if isinstance(answer, NoProposal):
                yield answer
                continue
            together = both
            singles.append(answer)
        if len(singles) > 1:
            yield Proposal(together, "; ".join(proposal.note for proposal in singles))
        yield from singles

    def _made(
        self,
        rewrite: Callable[[str, KernelFacts], Rewrite | Refusal],
        kernel: str,
        base: Variant | None,
        situation: Situation,
    ) -> Rewrite | Refusal:
        """The rewrite of the kernel's fast path; of an autotuned kernel as it stands where that
        always holds, else without its decorator, at its best configuration."""
        source = situation.draft.source_of(kernel)
        made = rewrite(source, self._facts(kernel, situation, base))
        if base is None or base.source == source:
            return made
        if isinstance(made, Rewrite) and made.holds_always:
            return made
        return rewrite(base.source, self._facts(kernel, situation, base, at_best=True))

    def _block_pointers(self, situation: Situation) -> Iterator[Answer]:
        """Without address arithmetic more registers hold tiles, and 128 may no longer do: each
        rewrite is proposed with the options as they are, and with 256 registers."""
        for answer in self._rewrites(block_pointers, situation):
            yield answer
            if isinstance(answer, Proposal) and situation.device.kind == "xpu":
                yield from _with_larger_grf(answer, situation)

    def _search(self, kernel: str, situation: Situation) -> Iterator[Answer]:
        variant = self._variant(kernel, situation)
        if isinstance(variant, Refusal):
            yield NoProposal(f"{kernel}: {variant.reason}")
            return
        facts = self._facts(kernel, situation, variant, at_best=True)
        space = search_space(
            variant.source,
            facts,
            situation.device,
            guards=variant.guard,
            limit=self._search_limit,
        )
        if isinstance(space, Refusal):
            yield NoProposal(f"{kernel}: {space.reason}", space.line)
            return
        unlike: list[str] = []
        for configuration in space.configurations:
            guard = _guard_of_tiles(space, configuration, variant, facts, situation.draft)
            if isinstance(guard, Refusal):
                unlike.append(guard.reason)
                continue
            made = replace(
                variant,
                guard=tuple(dict.fromkeys(variant.guard + guard)),
                metas={**variant.metas, **configuration.metas},
                options={**variant.options, **configuration.options},
            )
            yield _fitting(
                Proposal(
                    situation.draft.with_variant(made), f"{kernel}: {_configuration(made)}", kernel
                ),
                kernel,
            )
        for reason in dict.fromkeys(unlike):
            yield NoProposal(f"{kernel}: {reason}")

    def _swizzle(self, kernel: str, situation: Situation) -> Iterator[Answer]:
        variant = self._variant(kernel, situation)
        if isinstance(variant, Refusal):
            yield NoProposal(f"{kernel}: {variant.reason}")
            return
        if variant.grid is None:
            yield NoProposal(f"{kernel}: {_NO_PLANNED_GRID}")
            return
        facts = self._facts(kernel, situation, variant, at_best=True)
        made = insert_group(variant.source, facts)
        if isinstance(made, Refusal):
            yield NoProposal(f"{kernel}: {made.reason}", made.line)
            return
        descriptor = variant.descriptor_source
        if descriptor is not None:
            again = insert_group(descriptor, facts)
            descriptor = None if isinstance(again, Refusal) else again.kernel_source
            if descriptor is None:
                yield NoProposal(f"{kernel}: the descriptor form cannot be regrouped")
                return
        draft = situation.draft.with_variant(
            replace(
                variant,
                source=made.kernel_source,
                descriptor_source=descriptor,
                guard=tuple(dict.fromkeys(variant.guard + made.guard)),
                metas={**variant.metas, **made.metas},
                grid=made.grid or variant.grid,
            )
        )
        yield _fitting(Proposal(draft, f"{kernel}: {'; '.join(made.notes)}"), kernel)

    def _autotune(self, kernel: str, situation: Situation) -> Iterator[Answer]:
        ranked = situation.ranked.get(kernel, ())
        variant = situation.draft.variants.get(kernel)
        if variant is None or len(ranked) < 2:
            yield NoProposal(f"{kernel}: there are no two configurations to choose from")
            return
        configurations = [
            Configuration(
                metas={**variant.metas, **choice.metas},
                num_warps=choice.options["num_warps"],
                num_stages=choice.options["num_stages"],
                grf_mode=choice.options.get("grf_mode"),
            )
            for choice in ranked[: self._tuned_configurations]
        ]
        facts = self._facts(kernel, situation, variant)
        chosen = (variant, *ranked[: self._tuned_configurations])
        guards = tuple(dict.fromkeys(part for choice in chosen for part in choice.guard))

        def tuned(source: str) -> Rewrite | Refusal:
            return autotuning(source, facts, configurations, guards=guards)

        made = tuned(variant.source)
        descriptor = tuned(variant.descriptor_source) if variant.descriptor_source else None
        for form in (made, descriptor):
            if isinstance(form, Refusal):
                yield NoProposal(f"{kernel}: {form.reason}", form.line)
                return
        assert isinstance(made, Rewrite)
        assert not isinstance(descriptor, Refusal)
        draft = situation.draft.with_variant(
            replace(
                variant,
                source=made.kernel_source,
                descriptor_source=descriptor.kernel_source if descriptor else None,
                guard=made.guard,
                tuned=True,
                inherit_options=False,
            )
        )
        yield _fitting(Proposal(draft, f"{kernel}: {'; '.join(made.notes)}"), kernel)

    def _facts(
        self, kernel: str, situation: Situation, base: Variant | None, *, at_best: bool = False
    ) -> KernelFacts:
        """`at_best`: with the launches of an autotuned kernel's best configuration alone."""
        function = situation.draft.jit(kernel)
        source = situation.draft.source_of(kernel)
        launches = situation.launches(kernel)
        if at_best and (best := _best_configuration(kernel, situation)) is not None:
            source = without_autotune(source)
            launches = tuple(launch for launch in launches if launch.config == best)
        return KernelFacts(
            launches=launches,
            findings=situation.findings_of(kernel),
            helpers=frozenset(function.calls),
            first_line=_first_line(kernel, source, situation.draft),
            original_source=function.source,
            grid_is_known=base is None or base.original_grid is not None,
        )

    def _variant(self, kernel: str, situation: Situation) -> Variant | Refusal:
        """The kernel's variant, else one that changes nothing.

        A wrapper's grid must be understood, or the variant would be launched with another. What
        a plan launches keeps the plan's grid where that is not understood.
        """
        draft = situation.draft
        if kernel in draft.variants:
            return draft.variants[kernel]
        if draft.given_plan.rebinding(kernel) is not None and not draft.is_planned(kernel):
            return Refusal(_REBOUND)
        grid = self._grid(kernel, situation)
        if grid is None and not draft.is_planned(kernel):
            return Refusal(_NO_GRID)
        return draft.plain_variant(kernel, grid, _best_configuration(kernel, situation))

    def _grid(self, kernel: str, situation: Situation) -> tuple[int | str, ...] | None:
        """The grid that a wrapper, or the given plan, passes, over the kernel's parameters."""
        draft = situation.draft
        launches = [*situation.launches(kernel)]
        if draft.is_planned(kernel):
            for name in draft.launched_forms(kernel):
                launches += self._probe(name, draft.given_text)
        else:
            launches += self._probe(kernel)
        found = infer_grid(draft.jit(kernel).source, launches)
        return None if isinstance(found, Refusal) else found


def _fitting(proposal: Proposal, kernel: str) -> Answer:
    """The proposal, where its variants can be launched by what the draft was given."""
    try:
        _ = proposal.draft.plan
    except PlanError as error:
        return NoProposal(f"{kernel}: {error.what}")
    return proposal


def _guard_of_tiles(
    space: SearchSpace,
    configuration: Configuration,
    variant: Variant,
    facts: KernelFacts,
    draft: Draft,
) -> tuple[str, ...] | Refusal:
    """What must hold besides for other tiles of a kernel that the given plan launches.

    The plan's guard speaks of the tiles that the plan was written for: where it may ask for
    sizes that these divide, others need to divide them too.
    """
    planned = draft.planned(variant.kernel)
    over_tiles = any(is_over_tiles(alternative.guard) for alternative, _ in planned)
    guard: list[str] = []
    for name, length in configuration.metas.items():
        tile = space.roles.tiles.get(name)
        old = {launch.constexprs.get(name) for launch in facts.launches}
        if not planned or tile is None or old == {length}:
            continue
        follows = all(name in names_in(launch.grid) for _, launch in planned)
        if variant.grid is None and tile.placed_by == "grid" and not (follows or tile.loops):
            return Refusal(f"{_NO_PLANNED_GRID}, and does not name {name}")
        if not over_tiles or all(isinstance(size, int) and size % length == 0 for size in old):
            continue
        # Where no mask tells what tiles divide, roles guess it from the spec's launches alone.
        bound = tile.bound
        if tile.placed_by == "grid":
            bound = _counted(variant.original_grid or (), name)
        if bound is None:
            return Refusal(f"the plan's guard may be over {name}, and what it divides is unknown")
        guard.append(f"({bound}) % {name} == 0")
    return tuple(guard)


def _counted(grid: Sequence[int | str], tile: str) -> str | None:
    """The size that the grid counts tiles of."""
    for size in grid:
        for node in ast.walk(ast.parse(str(size), mode="eval")):
            match node:
                case ast.Call(func=ast.Name(id="cdiv"), args=[bound, ast.Name(id=name)]):
                    if name == tile:
                        return ast.unparse(bound)
                case _:
                    pass
    return None


def _with_larger_grf(proposal: Proposal, situation: Situation) -> Iterator[Proposal]:
    """The proposal with 256 registers for its variants, where all their launches can have them."""
    draft = proposal.draft
    most = situation.device.max_sub_groups_per_work_group(256)
    for kernel, variant in proposal.draft.variants.items():
        warps = [launch.options.get("num_warps", 4) for launch in situation.launches(kernel)]
        if warps and max(warps) <= most and variant.options.get("grf_mode") is None:
            options = {**variant.options, "grf_mode": "256"}
            draft = draft.with_variant(replace(variant, options=options))
    if draft is not proposal.draft:
        yield Proposal(draft, f"{proposal.note}; 256 registers")


def _best_configuration(kernel: str, situation: Situation) -> dict[str, Any] | None:
    """Of a kernel that its author has autotuned, and that has no variant yet: what its best
    predicted configuration sets. None for any other."""
    if kernel in situation.draft.variants:
        return None
    tuned = [e for e in situation.evidence_of(kernel) if e.launch["config"] is not None]
    best = ProgramEvidence.of(tuned).launches
    return best[0].launch["config"] if best else None


def _first_line(kernel: str, source: str, draft: Draft) -> int:
    """The line of the draft's file at which `source`, a form of the kernel's fast path, begins
    when its `def` stands where that of the file does."""
    name = draft.launched_name(kernel)

    def line_of(text: str, function: str) -> int:
        lines = text.splitlines()
        return next(n for n, line in enumerate(lines) if re.match(rf"def {function}\b", line))

    return line_of(draft.text, name) - line_of(source, kernel) + 1


def _told(made: Rewrite, kernel: str, situation: Situation) -> str:
    """What a rewrite did. Its lines are left out where they are those of a block that an earlier
    stage generated: the user's file has no such lines, and the final one has others."""
    text = "; ".join(made.notes)
    draft = situation.draft
    in_block = kernel in draft.variants or kernel in draft.given
    return re.sub(r"\bline \d+: ", "", text) if in_block else text


def _launched(situation: Situation) -> list[str]:
    """Kernels that the program launches, of the file or given; what takes longest first."""

    def seconds(kernel: str) -> float:
        items = situation.evidence_of(kernel)
        known = [e.derived.prediction.seconds for e in items if e.derived and e.derived.prediction]
        return sum(value for value in known if value is not None)

    names = [function.name for function in situation.draft.jit_functions]
    return sorted((n for n in names if situation.launches(n)), key=seconds, reverse=True)


def _configuration(variant: Variant) -> str:
    values = {**variant.metas, **variant.options}
    return " ".join(f"{name}={value}" for name, value in values.items())
