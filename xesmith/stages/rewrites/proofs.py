"""What the captured launches and the kernel's own bounds prove about its tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xesmith.stages.rewrites.analysis import Analysis, Loop
from xesmith.stages.rewrites.poly import ZERO, Atom, Poly
from xesmith.stages.rewrites.programs import integer_argument
from xesmith.stages.rewrites.result import KernelFacts, Refusal, guard_holds
from xesmith.stages.rewrites.symbolic import analyse
from xesmith.stages.rewrites.values import Affine, Mask


@dataclass(frozen=True)
class Proofs:
    """Proofs over one kernel. A guard of "" means that nothing needs to be guarded."""

    analysis: Analysis
    facts: KernelFacts

    def is_guardable(self, poly: Poly) -> bool:
        """Whether a guard can be written over it: only parameters occur."""
        return all(a.kind == "parameter" and a.text in self.analysis.parameters for a in poly.atoms)

    def inside(self, start: Poly, length: Poly, bound: Poly, loops: Sequence[Loop]) -> str | None:
        """The guard under which every tile `start .. start + length` ends within the bound.

        Tiles that a loop steps through are inside by its trip count; those that program ids
        place, by the captured grids. None where neither shows it.
        """
        start, bound = start.narrow(), bound.narrow()
        if start == ZERO and length == bound:
            return ""
        if not (self.is_guardable(bound) and self.is_guardable(length)):
            return None
        guard = f"{bound.factor()} % {length.factor()} == 0"
        if not all(guard_holds(guard, launch) for launch in self.facts.launches):
            return None
        loop = next((lo for lo in loops if lo.counter in start.atoms), None)
        if loop is not None:
            steps = start == Poly.atom(loop.counter) * length
            counts = loop.trips is not None and [p.narrow() for p in loop.trips] == [bound, length]
            return guard if steps and counts else None
        tile = start.divided_by(length)
        if tile is None or not self.facts.grid_is_known or not self._within(start, length, bound):
            return None
        pinned = self.pinned(tile)
        return None if pinned is None else " and ".join([guard, *pinned])

    def pinned(self, start: Poly) -> list[str] | None:
        """Guards that hold a start to what was captured, beyond what the grid decides.

        The plan checks the grid, and with it where program ids place a tile. An argument that
        moves every tile (`(pid + first_tile) * BLOCK`) is checked by nobody: a proof by captured
        numbers holds only for its captured value. None where it had several.
        """
        guards: list[str] = []
        for name in sorted(self._moving(start)):
            values = {integer_argument(launch, name) for launch in self.facts.launches}
            value = values.pop()
            if values or value is None:
                return None
            guards.append(f"{name} == {value}")
        return guards

    def _moving(self, start: Poly) -> set[str]:
        """Parameters by which tiles move: sizes that tiles are counted by are not among them."""
        names: set[str] = set()
        for monomial, _ in start.terms:
            placed = any(atom.program_axes for atom in monomial)
            for atom in monomial:
                if atom.kind == "parameter":
                    # of a constexpr, only a shift: as a factor it is a count of tiles (GROUP_M)
                    if not (placed and atom.text in self.analysis.constexprs):
                        names.add(atom.text)
                elif atom.operation in ("=", "min", "max"):
                    names |= {name for part in atom.arguments for name in self._moving(part)}
                elif atom.operation in ("//", "%"):
                    names |= self._moving(atom.arguments[0])
        return names

    def _within(self, start: Poly, length: Poly, bound: Poly) -> bool:
        """At every captured launch, no program's tile passes the bound."""
        numbers = self.analysis.numbers
        for first, size, end in zip(
            numbers.of(start), numbers.of(length), numbers.of(bound), strict=True
        ):
            if first is None or size is None or end is None:
                return False
            if int(np.max(first)) + int(np.max(size)) > int(np.max(end)):
                return False
        return True

    def bounds(self, start: Poly, length: Poly, loops: Sequence[Loop]) -> Iterator[Poly]:
        """What other accesses, the loops and the counts of tiles say that such tiles end at."""
        for access in self.analysis.accesses:
            if isinstance(access.mask, Mask):
                for condition in access.mask.conditions:
                    index = condition.index
                    if index.start.narrow() == start and index.length == length:
                        yield condition.bound.narrow()
            if isinstance(access.pointer, Affine):
                for term in access.pointer.terms:
                    index = term.index
                    same = index.start.narrow() == start and index.length == length
                    if same and index.modulus is not None:
                        yield index.modulus.narrow()
        for loop in loops:
            if loop.trips is not None and loop.counter in start.atoms:
                yield loop.trips[0].narrow()
        if start == ZERO:
            yield length
        for atom in self.analysis.quotients:  # as in num_pid_m = tl.cdiv(M, BLOCK_M)
            rounded = atom.cdiv
            if rounded is not None and rounded[1] == length and start.divided_by(length):
                yield rounded[0].narrow()
        yield from self._bounds_before(start, length)

    def _bounds_before(self, start: Poly, length: Poly) -> Iterator[Poly]:
        """The bounds of the same tiles in the kernel before earlier rewrites, by their text."""
        original = self.facts.original_source
        if original is None or original == self.analysis.module.code:
            return
        analysis = analyse(original, replace(self.facts, original_source=None))
        if isinstance(analysis, Refusal):
            return
        for use in tile_uses(analysis):
            same = (use.start.narrow().source(), use.length) == (start.source(), length)
            if same and use.bound is not None and self.is_guardable(use.bound):
                yield use.bound


@dataclass(frozen=True)
class TileUse:
    """One tile along one dimension: it covers `start .. start + length`, up to `bound`."""

    start: Poly
    length: Poly
    bound: Poly | None
    loops: tuple[Loop, ...]


def tile_uses(analysis: Analysis) -> Iterator[TileUse]:
    """Every tile that an access or a block pointer takes, dimension by dimension."""
    for access in analysis.accesses:
        pointer = access.pointer
        if isinstance(access.mask, Mask):
            for condition in access.mask.conditions:
                index, bound = condition.index, condition.bound.narrow()
                ahead, _ = bound.split(_of_a_counter)
                start = index.start.narrow() - ahead
                yield TileUse(start, index.length, bound - ahead, access.loops)
        if isinstance(pointer, Affine):
            for term in pointer.terms:
                index = term.index
                bound = None if index.modulus is None else index.modulus.narrow()
                yield TileUse(index.start.narrow(), index.length, bound, access.loops)
    for block in analysis.blocks:
        offsets = block.offsets or (None,) * len(block.block_shape)
        bounds = block.shape or (None,) * len(block.block_shape)
        for start, length, bound in zip(offsets, block.block_shape, bounds, strict=True):
            if start is not None:
                yield TileUse(start.narrow(), length, bound and bound.narrow(), ())


def _of_a_counter(monomial: tuple[Atom, ...]) -> bool:
    return any(atom.kind == "iteration" for atom in monomial)
