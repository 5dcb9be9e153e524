"""Tensors of pointers -> block pointers, and the descriptor form of the same.

A load or store is rewritten where the analysis finds a tile of two dimensions, one of them
contiguous, whose bounds are its mask, its modulus or known extents. Each fact of a captured
launch that the tile needs (a stride of 1, divisibility, a pitch that 2D block messages can
take) becomes a guard; dimensions whose divisibility is not guarded are checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import libcst as cst
import numpy as np
from libcst import matchers as m

from xesmith.stages.rewrites.analysis import Access, Analysis, Loop
from xesmith.stages.rewrites.edits import (
    Edits,
    call_text,
    drop_dead_assignments,
    names_in,
    unique_name,
)
from xesmith.stages.rewrites.poly import ONE, ZERO, Atom, Poly
from xesmith.stages.rewrites.proofs import Proofs
from xesmith.stages.rewrites.result import (
    ELEMENT_BYTES,
    TRITON_NAMES,
    KernelFacts,
    Refusal,
    Rewrite,
    guard_holds,
)
from xesmith.stages.rewrites.symbolic import analyse
from xesmith.stages.rewrites.values import Affine, Condition, Mask, Opaque, State, Term

#: 2D block messages: the pitch is a multiple of 16 B, the surface at least 64 B wide and its
#: base aligned to 64 B
PITCH_BYTES, WIDTH_BYTES, BASE_BYTES = 16, 64, 64


@dataclass(frozen=True)
class Dimension:
    """One dimension of a tile; all sizes in elements.

    start: offset of the tile, with the innermost loop's counter in it.
    shape: extent of the tensor. checked: needs a boundary check.
    """

    stride: Poly
    start: Poly
    length: Poly
    shape: Poly
    checked: bool


@dataclass(frozen=True)
class Tile:
    """A load or store as a block of a tensor of two dimensions."""

    access: Access
    base: str
    base_offset: Poly
    dimensions: tuple[Dimension, Dimension]
    contiguous: int  # 0 or 1
    element_type: str  # as Triton source
    guards: tuple[str, ...]

    @property
    def counter(self) -> Atom | None:
        """The counter of the innermost loop, where the tile moves with it."""
        if not self.access.loops:
            return None
        counter = self.access.loops[-1].counter
        moves = any(counter in d.start.atoms for d in self.dimensions)
        return counter if moves else None


class _NotATileError(Exception):
    """Why an access stays as it is."""


def block_pointers(source: str, facts: KernelFacts) -> Rewrite | Refusal:
    """Rewrite what can be rewritten; the notes name what could not and why."""
    analysis = analyse(source, facts)
    if isinstance(analysis, Refusal):
        return analysis
    tiles: list[Tile] = []
    notes: list[str] = []
    refusals: list[Refusal] = []
    for access in analysis.accesses:
        if _already_blocked(access) or _is_scalar_access(access):
            continue
        try:
            tiles.append(_Reader(analysis, facts, access).tile())
        except _NotATileError as error:
            refusals.append(Refusal(f"{access.op} stays as it is: {error}", access.line))
    forms = {
        name: _write(analysis, tiles, form)
        for name, form in (("block", _BlockForm), ("descriptor", _DescriptorForm))
    }
    written, failures = forms["block"]
    refusals += failures
    if written is None:
        if refusals and all("one dimension" in refusal.reason for refusal in refusals):
            return Refusal(
                "row-wise or elementwise kernel: no access has two dimensions, so no 2D tile",
                refusals[0].line,
            )
        if not refusals:
            return Refusal("no load or store through a tensor of pointers")
        reasons = "; ".join(f"line {r.line}: {r.reason}" for r in refusals)
        return Refusal(f"no access could be rewritten: {reasons}", refusals[0].line)
    refused = {refusal.line for refusal in failures}
    kept = [tile for tile in tiles if tile.access.line not in refused]
    guards = list(dict.fromkeys(guard for tile in kept for guard in tile.guards))
    for tile in kept:
        how = _how(tile)
        notes.append(f"line {tile.access.line}: {tile.access.op} of {tile.base} as a block{how}")
    notes += [f"line {refusal.line}: {refusal.reason}" for refusal in refusals]
    return Rewrite(
        kernel_source=written,
        guard=tuple(guards),
        notes=tuple(notes),
        descriptor_source=forms["descriptor"][0],
    )


def _how(tile: Tile) -> str:
    checked = [str(i) for i, d in enumerate(tile.dimensions) if d.checked]
    return f", dimension {' and '.join(checked)} checked" if checked else ", no check needed"


def _already_blocked(access: Access) -> bool:
    return "boundary_check" in access.keywords


def _is_scalar_access(access: Access) -> bool:
    return isinstance(access.pointer, Affine) and not access.pointer.shape


class _Reader:
    """Reads one access as a tile, or says why not."""

    def __init__(self, analysis: Analysis, facts: KernelFacts, access: Access) -> None:
        self.analysis = analysis
        self.facts = facts
        self.access = access
        self.guards: list[str] = []
        self.proofs = Proofs(analysis, facts)
        self.counter = access.loops[-1].counter if access.loops else None

    def tile(self) -> Tile:
        pointer = self.access.pointer
        if isinstance(pointer, Opaque):
            raise _NotATileError(f"its address is not understood ({pointer.why})")
        if not isinstance(pointer, Affine) or pointer.base is None:
            raise _NotATileError("its address does not go back to a pointer argument")
        if len(pointer.shape) == 1:
            raise _NotATileError("it has one dimension, no 2D tile")
        if len(pointer.shape) > 2:
            raise _NotATileError(
                f"it has {len(pointer.shape)} dimensions; only blocks of two become 2D messages"
            )
        if self.access.keywords.keys() - {"cache_modifier", "eviction_policy"}:
            extra = ", ".join(sorted(self.access.keywords))
            raise _NotATileError(f"its arguments {extra} have no block form")
        if isinstance(self.access.stored, cst.BaseNumber):
            raise _NotATileError("it stores one constant")
        if ONE in (self.access.stored_shape or ()):
            raise _NotATileError("what it stores is broadcast, which a block cannot do")
        terms = [self.term_of(pointer, axis) for axis in (0, 1)]
        contiguous = self.contiguous_axis(terms)
        strides = [ONE if axis == contiguous else terms[axis].coefficient for axis in (0, 1)]
        starts, base_offset = self.distribute(pointer, terms, strides, contiguous)
        dimensions = (
            self.dimension(0, terms[0], strides[0], starts[0]),
            self.dimension(1, terms[1], strides[1], starts[1]),
        )
        if any(d.checked for d in dimensions) and not self.pads_with_zero():
            other = self.analysis.code(self.access.other) if self.access.other else ""
            raise _NotATileError(f"masked elements become {other}, a block gives 0 there")
        element_type = self.message_guards(pointer.base, base_offset, dimensions, contiguous)
        return Tile(
            self.access,
            pointer.base,
            base_offset,
            dimensions,
            contiguous,
            element_type,
            tuple(dict.fromkeys(self.guards)),
        )

    def term_of(self, pointer: Affine, axis: int) -> Term:
        terms = [t for t in pointer.terms if t.axis == axis]
        if len(terms) != 1 or terms[0].coefficient == ZERO:
            raise _NotATileError(f"its address does not depend on dimension {axis}")
        return terms[0]

    def contiguous_axis(self, terms: list[Term]) -> int:
        for axis in (1, 0):
            if terms[axis].coefficient == ONE:
                return axis
        for axis in (1, 0):
            stride = terms[axis].coefficient
            values = self.analysis.numbers.of(stride)
            if self.proofs.is_guardable(stride) and values and all(_is_one(v) for v in values):
                self.guards.append(f"{stride.source()} == 1")
                return axis
        written = " and ".join(
            f"`{t.coefficient.source()}` = {_shown(self.analysis.numbers.of(t.coefficient))}"
            for t in terms
        )
        raise _NotATileError(f"no dimension has stride 1: {written} in the captured launches")

    def distribute(
        self, pointer: Affine, terms: list[Term], strides: list[Poly], contiguous: int
    ) -> tuple[list[Poly], Poly]:
        """Starts per dimension, and what stays with the base (free of the inner counter).

        The scalar part of the address moves into a dimension where the innermost loop
        advances it, or where the mask counts from there.
        """
        starts = [terms[0].index.start, terms[1].index.start]
        rest = pointer.scalar
        order = [1 - contiguous, contiguous]
        if self.counter is not None:
            counter = self.counter
            moving, rest = rest.split(lambda monomial: counter in monomial)
            # the author's stride and its guarded value 1 both count as the contiguous stride
            moving = self.with_unit_stride(moving, terms[contiguous].coefficient)
            for axis in order:
                stride = strides[axis]
                part, moving = moving.split(lambda mono, s=stride: _divides(s, mono))
                quotient = part.divided_by(stride)
                assert quotient is not None
                starts[axis] = starts[axis] + quotient
            if any((s.coefficient_of(counter)) is None for s in starts):
                raise _NotATileError("its address is not linear in the loop's counter")
        for axis in order:
            for condition in self.conditions(axis):
                ahead = (condition.index.start - starts[axis]).narrow()
                shift = terms[axis].coefficient * ahead
                if not shift.terms or terms[axis].index.modulus is not None:
                    continue
                available = dict(rest.narrow().terms)
                if all(available.get(mono) == c for mono, c in shift.terms):
                    wide = dict(rest.terms)
                    for mono in list(wide):
                        if Poly.of({mono: 1}).narrow().terms[0][0] in dict(shift.terms):
                            del wide[mono]
                    rest = Poly.of(wide)
                    starts[axis] = starts[axis] + ahead
        return starts, rest

    def with_unit_stride(self, poly: Poly, stride: Poly) -> Poly:
        atom = stride.single
        return poly if atom is None else poly.substitute(atom, ONE)

    def conditions(self, axis: int) -> list[Condition]:
        mask = self.access.mask
        if mask is None:
            return []
        if isinstance(mask, Opaque):
            raise _NotATileError(f"its mask is not understood ({mask.why})")
        if not isinstance(mask, Mask):
            raise _NotATileError("its mask is not a mask of indices")
        if mask.opaque is not None:
            raise _NotATileError(f"its mask `{mask.opaque}` does not compare an index to a bound")
        if mask.rank != 2:
            raise _NotATileError("its mask has other dimensions than its address")
        return [c for c in mask.conditions if c.axis == axis]

    def pads_with_zero(self) -> bool:
        other = self.access.other
        return other is None or self.analysis.code(other) in {"0", "0.0", "0.", "None"}

    def dimension(self, axis: int, term: Term, stride: Poly, start: Poly) -> Dimension:
        length = term.index.length
        if length == ONE:
            raise _NotATileError(f"its dimension {axis} is one element long")
        start = start.narrow()
        self.not_before_zero(axis, start)
        modulus = term.index.modulus
        if modulus is not None:
            if start != term.index.start.narrow():
                raise _NotATileError(f"it moves along dimension {axis}, which wraps by a modulus")
            if not self.inside(start, length, modulus):
                raise _NotATileError(
                    f"dimension {axis} wraps by `% {modulus.factor()}`; needless only where "
                    f"{modulus.factor()} % {length.factor()} == 0, but {modulus.factor()} = "
                    f"{_shown(self.analysis.numbers.of(modulus))}"
                )
            return Dimension(stride, start, length, modulus, checked=False)
        conditions = self.conditions(axis)
        if not conditions:
            return self.unmasked(axis, length, stride, start)
        if any(c.index.length != length for c in conditions):
            raise _NotATileError(f"its mask of dimension {axis} has another length")
        shapes = {(c.bound - c.index.start).narrow() + start for c in conditions}
        shape = shapes.pop()
        if shapes:
            raise _NotATileError(f"dimension {axis} has two different bounds")
        if any(loop.counter in shape.atoms for loop in self.access.loops[-1:]):
            raise _NotATileError(f"its mask of dimension {axis} does not move with its address")
        inside = self.inside(start, length, shape)
        return Dimension(stride, start, length, shape, checked=not inside)

    def not_before_zero(self, axis: int, start: Poly) -> None:
        """A block reads 0 before the tensor's start, a pointer reads what stands there."""
        if all(coefficient > 0 for _, coefficient in start.terms):
            return
        first = start if self.counter is None else start.substitute(self.counter, ZERO)
        step = None if self.counter is None else start.coefficient_of(self.counter)
        lowest = [None if n is None else int(np.min(n)) for n in self.analysis.numbers.of(first)]
        backwards = step is not None and any(c < 0 for _, c in step.terms)
        unknown = backwards or not self.facts.grid_is_known
        if unknown or any(n is None or n < 0 for n in lowest):
            raise _NotATileError(f"its dimension {axis} may start before element 0")
        pinned = self.proofs.pinned(first)
        if pinned is None:
            raise _NotATileError(f"its dimension {axis} may start before element 0")
        self.guards += pinned

    def unmasked(self, axis: int, length: Poly, stride: Poly, start: Poly) -> Dimension:
        """No mask: known extents where they divide, else just what the tiles cover."""
        for bound in self.proofs.bounds(start, length, self.access.loops):
            if self.inside(start, length, bound):
                return Dimension(stride, start, length, bound, checked=False)
        if self.counter is None or self.counter not in start.atoms:
            return Dimension(stride, start, length, start + length, checked=False)
        step = start.coefficient_of(self.counter)
        trips = self.access.loops[-1].trips
        if trips is None or step is None or self.counter in trips[0].atoms:
            raise _NotATileError(
                f"neither a mask nor the loop tells the extent of dimension {axis}"
            )
        first = start - step * Poly.atom(self.counter)
        needs = {need for poly in trips for atom in poly.atoms for need in atom.needs}
        count = Atom(f"tl.cdiv({trips[0].source()}, {trips[1].source()})", tuple(sorted(needs)))
        covered = first + (Poly.atom(count) - ONE) * step + length
        return Dimension(stride, start, length, covered, checked=False)

    def inside(self, start: Poly, length: Poly, bound: Poly) -> bool:
        guard = self.proofs.inside(start, length, bound, self.access.loops)
        if guard:
            self.guards.append(guard)
        return guard is not None

    def require(self, guard: str, otherwise: str) -> None:
        if not any(guard_holds(guard, launch) for launch in self.facts.launches):
            raise _NotATileError(otherwise)
        self.guards.append(guard)

    def message_guards(
        self, base: str, offset: Poly, dimensions: tuple[Dimension, Dimension], contiguous: int
    ) -> str:
        """Guard what 2D block messages need of the pitch, the width and the base.

        Returns the element type, as Triton source.
        """
        tensors = self.facts.tensors(base)
        if not tensors:
            raise _NotATileError(f"{base} was no tensor in the captured launches")
        names = sorted({tensor.dtype for tensor in tensors})
        sizes = {ELEMENT_BYTES.get(name) for name in names}
        size = sizes.pop()
        if sizes or size is None:
            raise _NotATileError(f"{base} has element types {', '.join(names)}")
        same = f"== '{names[0]}'" if len(names) == 1 else f"in {tuple(names)}"
        self.guards.append(f"{base}.dtype {same}")
        numbers = self.analysis.numbers
        pitch, row = dimensions[1 - contiguous].stride, dimensions[contiguous]
        if not self.proofs.is_guardable(pitch):
            raise _NotATileError(f"its pitch `{pitch.source()}` is not made of parameters")
        if size < PITCH_BYTES:
            self.require(
                f"{pitch.factor()} % {PITCH_BYTES // size} == 0",
                f"its pitch `{pitch.source()}` = {_shown(numbers.of(pitch))} elements of {size} B "
                f"is no multiple of {PITCH_BYTES} B, which 2D block messages need",
            )
        self.require(
            f"{pitch.source()} >= {WIDTH_BYTES // size}",
            f"its pitch `{pitch.source()}` = {_shown(numbers.of(pitch))} elements is below the "
            f"{WIDTH_BYTES} B that 2D block messages need",
        )
        width = row.shape if self.proofs.is_guardable(row.shape) else row.length
        self.require(
            f"{width.source()} >= {WIDTH_BYTES // size}",
            f"its rows of `{width.source()}` = {_shown(numbers.of(width))} elements are narrower "
            f"than the {WIDTH_BYTES} B that 2D block messages need",
        )
        if width != pitch:
            self.require(
                f"{pitch.source()} >= {width.source()}",
                f"its rows of `{width.source()}` = {_shown(numbers.of(width))} elements overlap: "
                f"its pitch `{pitch.source()}` is {_shown(numbers.of(pitch))}",
            )
        self.require(f"aligned({base}, {BASE_BYTES})", f"{base} is not aligned to {BASE_BYTES} B")
        for monomial, coefficient in offset.narrow().terms:
            known = Poly.of({tuple(a for a in monomial if a.text in self.analysis.parameters): 1})
            known = known * Poly.const(coefficient)
            if size < BASE_BYTES:
                self.require(
                    f"{known.factor()} % {BASE_BYTES // size} == 0",
                    f"its base moves by `{known.source()}` = {_shown(numbers.of(known))} elements, "
                    f"no multiple of {BASE_BYTES} B",
                )
        if len(names) > 1:
            return f"{base}.dtype.element_ty"
        return f"tl.{TRITON_NAMES.get(names[0], names[0])}"


def _divides(divisor: Poly, monomial: tuple[Atom, ...]) -> bool:
    return Poly.of({monomial: 1}).divided_by(divisor) is not None


def _is_one(value: object) -> bool:
    return isinstance(value, int) and value == 1


def _shown(values: Sequence[object]) -> str:
    known = [str(v) for v in values if isinstance(v, int)]
    return " or ".join(dict.fromkeys(known)) or "unknown"


# --- writing


@dataclass(frozen=True)
class _Place:
    """Where a block pointer is made, with its parts written for that place."""

    statement: cst.BaseStatement
    base: str
    shape: tuple[str, str]
    strides: tuple[str, str]
    offsets: tuple[str, str]


class _Writer(ABC):
    """Common to both forms: where to make the pointer, under which name."""

    suffix: ClassVar[str]

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.edits = Edits()
        self.taken = names_in(analysis.module)
        self.before = _preceding(analysis.function)
        self.made: dict[tuple[cst.CSTNode, str], str] = {}

    @abstractmethod
    def write(self, tile: Tile) -> None:
        """Replaces the tile's access, and makes what it needs."""

    def make(self, tile: Tile, place: _Place, function: str, arguments: dict[str, str]) -> str:
        """Make the pointer at its place, once for equal ones, and give its name."""
        text = call_text(function, arguments)
        moving = tile.access.loops[-1].node if tile.counter is not None else None
        key = (place.statement, f"{text} {id(moving)}")
        if key not in self.made:
            stem = tile.base.lower().removesuffix("_ptr").removesuffix("ptr") or tile.base.lower()
            name = unique_name(f"{stem}_{self.suffix}", self.taken)
            self.made[key] = name
            self.edits.insert_before(place.statement, call_text(function, arguments, target=name))
        return self.made[key]

    def place(self, tile: Tile, *, with_offsets: bool) -> _Place:
        for statement in self.candidates(tile):
            found = self.written_at(tile, statement, with_offsets=with_offsets)
            if found is not None:
                return found
        raise _NotATileError(
            "its offsets depend on values that are not known where the block pointer is made"
        )

    def candidates(self, tile: Tile) -> Iterator[cst.BaseStatement]:
        """Statements before which the pointer can be made, best first."""
        loops = [loop.node for loop in tile.access.loops]
        if tile.counter is not None:
            yield loops[-1]
            yield from self.before[loops[-1]]
            return
        yield from loops
        yield tile.access.statement
        yield from self.before[tile.access.statement]

    def written_at(
        self, tile: Tile, statement: cst.BaseStatement, *, with_offsets: bool
    ) -> _Place | None:
        state = self.analysis.states[statement]
        base = _write_base(tile, state)
        if base is None:
            return None
        starts = [d.start if with_offsets else ZERO for d in tile.dimensions]
        if tile.counter is not None:
            starts = [start.substitute(tile.counter, ZERO) for start in starts]
        polys = [
            *(d.shape for d in tile.dimensions),
            *(d.stride for d in tile.dimensions),
            *starts,
            *(d.length for d in tile.dimensions),
        ]
        texts: list[str] = []
        for poly in polys:
            expressed = state.express(poly)
            if expressed is None:
                return None
            texts.append(expressed.source())
        return _Place(
            statement,
            base,
            (texts[0], texts[1]),
            (texts[2], texts[3]),
            (texts[4], texts[5]),
        )


class _BlockForm(_Writer):
    suffix = "block_ptr"

    def write(self, tile: Tile) -> None:
        if tile.counter is not None:
            self.count_with_for(tile.access.loops[-1])
        place = self.place(tile, with_offsets=True)
        lengths = [d.length.source() for d in tile.dimensions]
        order = (1, 0) if tile.contiguous == 1 else (0, 1)
        arguments = {
            "base": place.base,
            "shape": _tuple(place.shape),
            "strides": _tuple(place.strides),
            "offsets": _tuple(place.offsets),
            "block_shape": _tuple(lengths),
            "order": str(order),
        }
        fresh = len(self.made)
        name = self.make(tile, place, "tl.make_block_ptr", arguments)
        if tile.counter is not None and len(self.made) > fresh:
            loop = tile.access.loops[-1]
            steps = [d.start.coefficient_of(tile.counter) or ZERO for d in tile.dimensions]
            step = _tuple([s.source() for s in steps])
            self.edits.append_to(loop.node, f"{name} = tl.advance({name}, {step})")
        checks = tuple(i for i, d in enumerate(tile.dimensions) if d.checked)
        checked = {"boundary_check": _tuple([str(i) for i in checks])} if checks else {}
        padding = {"padding_option": '"zero"'} if checks and tile.access.op == "load" else {}
        kept = {k: self.analysis.code(v) for k, v in tile.access.keywords.items()}
        tail = "".join(f", {k}={v}" for k, v in {**checked, **padding, **kept}.items())
        value = ", __value__" if tile.access.op == "store" else ""
        self.edits.replace[tile.access.node] = _replacement(
            f"tl.{tile.access.op}({name}{value}{tail})", tile.element_type
        )

    def count_with_for(self, loop: Loop) -> None:
        """Turn a `while` into a `for`: the compiler refuses block pointers carried by `while`."""
        node = loop.node
        if not isinstance(node, cst.While) or node in self.edits.replace:
            return
        name, start, step = loop.variable, loop.start, loop.step
        written = [None if p is None else loop.before.express(p) for p in (start, step)]
        advance = None if name is None else _last_advance(node.body, name)
        if (
            name is None
            or written[0] is None
            or written[1] is None
            or advance is None
            or not isinstance(node.test, cst.Comparison)
            or name in _read_after(self.analysis.function, node)
        ):
            raise _NotATileError(
                "the compiler refuses block pointers that a `while` carries, and this one is no "
                "plain count"
            )
        bound = self.analysis.code(node.test.comparisons[0].comparator)
        count = f"range({written[0].source()}, {bound}, {written[1].source()})"
        self.edits.remove.add(advance)

        def counted(updated: cst.CSTNode) -> cst.CSTNode:
            old = cst.ensure_type(updated, cst.While)
            return cst.For(
                target=cst.Name(name),
                iter=cst.parse_expression(count),
                body=old.body,
                leading_lines=old.leading_lines,
            )

        self.edits.replace[node] = counted


class _DescriptorForm(_Writer):
    suffix = "desc"

    def write(self, tile: Tile) -> None:
        place = self.place(tile, with_offsets=False)
        offsets: list[str] = []
        for dimension in tile.dimensions:
            expressed = tile.access.state.express(dimension.start)
            if expressed is None:
                raise _NotATileError("its offset cannot be written where it is used")
            offsets.append(expressed.source())
        lengths = [d.length.source() for d in tile.dimensions]
        transposed = tile.contiguous == 0
        name = self.make(
            tile,
            place,
            "tl.make_tensor_descriptor",
            {
                "base": place.base,
                "shape": _list(place.shape, transposed),
                "strides": _list(place.strides, transposed),
                "block_shape": _list(lengths, transposed),
            },
        )
        at = _list(offsets, transposed)
        if tile.access.op == "load":
            text = f"{name}.load({at})" + (".T" if transposed else "")
        else:
            text = f"{name}.store({at}, __value__{'.T' if transposed else ''})"
        self.edits.replace[tile.access.node] = _replacement(text, tile.element_type)


def _write(
    analysis: Analysis, tiles: Sequence[Tile], form: type[_Writer]
) -> tuple[str | None, list[Refusal]]:
    writer = form(analysis)
    refusals: list[Refusal] = []
    for tile in tiles:
        try:
            writer.write(tile)
        except _NotATileError as error:
            refusals.append(Refusal(f"{tile.access.op} stays as it is: {error}", tile.access.line))
    if not writer.edits.replace:
        return None, refusals
    module = writer.edits.apply(analysis.module)
    return drop_dead_assignments(module, analysis.module).code, refusals


def _replacement(text: str, element_type: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """The new call; `__value__` in it stands for what is stored.

    A store through pointers casts to their element type; a store of a block does not.
    """

    def replacement(node: cst.CSTNode) -> cst.CSTNode:
        new = cst.parse_expression(text)
        if "__value__" not in text:
            return new
        call = cst.ensure_type(node, cst.Call)
        value = next(
            (a.value for a in call.args if a.keyword is not None and a.keyword.value == "value"),
            call.args[1].value,
        )
        written = cst.Module([]).code_for_node(value)
        already = written.endswith((f".to({element_type})", ".dtype.element_ty)"))
        whole = isinstance(value, cst.Name | cst.Call | cst.Attribute) or bool(value.lpar)
        if not whole and (not already or ".T" in text):
            value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        if not already:
            cast = cst.Arg(cst.parse_expression(element_type))
            value = cst.Call(cst.Attribute(value, cst.Name("to")), [cast])
        return cst.ensure_type(m.replace(new, m.Name("__value__"), value), cst.BaseExpression)

    return replacement


def _write_base(tile: Tile, state: State) -> str | None:
    """The tile's base as text: a name that holds just it, else a pointer plus an offset."""
    written: list[tuple[int, str]] = []
    for name, value in state.values.items():
        if not isinstance(value, Affine) or value.shape or value.base != tile.base:
            continue
        rest = state.express(tile.base_offset - value.scalar)
        if rest is None:
            continue
        text = name if rest == ZERO else f"{name} + {rest.source()}"
        written.append((len(rest.terms), text))
    return min(written)[1] if written else None


def _preceding(function: cst.FunctionDef) -> dict[cst.CSTNode, list[cst.BaseStatement]]:
    """For each statement, those that always run before it, the nearest first."""
    result: dict[cst.CSTNode, list[cst.BaseStatement]] = {}

    def walk(body: cst.BaseSuite, outer: list[cst.BaseStatement]) -> None:
        seen: list[cst.BaseStatement] = []
        for statement in body.body:
            if not isinstance(statement, cst.BaseStatement):
                continue
            result[statement] = [*reversed(seen), *outer]
            inside = [statement, *result[statement]]
            branch: cst.CSTNode | None = statement
            while isinstance(branch, cst.If):
                walk(branch.body, inside)
                if isinstance(branch.orelse, cst.Else):
                    walk(branch.orelse.body, inside)
                branch = branch.orelse
                if isinstance(branch, cst.If):
                    result[branch] = inside
            if isinstance(statement, cst.For | cst.While):
                walk(statement.body, inside)
            seen.append(statement)

    walk(function.body, [])
    return result


def _last_advance(body: cst.BaseSuite, name: str) -> cst.SimpleStatementLine | None:
    """The line `name += step` of a loop's body, after which the body does not read `name`."""
    for statement in reversed(body.body):
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.AugAssign(target=cst.Name(value=target))
                    | cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))])
                ]
            ) if target == name:
                return statement
            case _:
                if m.findall(statement, m.Name(name)):
                    return None
    return None


def _read_after(function: cst.FunctionDef, node: cst.CSTNode) -> set[str]:
    """Names that stand behind a statement in the text of the function."""
    reader = _NamesAfter(node)
    function.body.visit(reader)
    return reader.names


class _NamesAfter(cst.CSTVisitor):
    def __init__(self, node: cst.CSTNode) -> None:
        super().__init__()
        self.node = node
        self.passed = False
        self.names: set[str] = set()

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if original_node is self.node:
            self.passed = True

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        if self.passed:
            self.names.add(node.value)


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _list(items: Sequence[str], reverse: bool) -> str:
    """A list; reversed where the contiguous dimension is the first: a descriptor has it last."""
    return f"[{', '.join(reversed(items) if reverse else items)}]"
