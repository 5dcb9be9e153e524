"""What is known of a name: a polynomial, a vector of indices, an address, a mask, or nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from xesmith.stages.rewrites.poly import ONE, ZERO, Atom, Poly


@dataclass(frozen=True)
class Index:
    """`start + arange(0, length)`, taken modulo `modulus` where there is one."""

    start: Poly
    length: Poly
    modulus: Poly | None = None


@dataclass(frozen=True)
class Term:
    """`coefficient * index` along an axis."""

    axis: int
    coefficient: Poly
    index: Index


@dataclass(frozen=True)
class Affine:
    """base + scalar + sum of terms; a scalar has shape (). Shape entries of 1 broadcast."""

    scalar: Poly = ZERO
    shape: tuple[Poly, ...] = ()
    terms: tuple[Term, ...] = ()
    base: str | None = None

    @property
    def is_scalar(self) -> bool:
        return not self.shape and self.base is None


@dataclass(frozen=True)
class Condition:
    """`index < bound` along an axis (the index has no modulus)."""

    axis: int
    index: Index
    bound: Poly


@dataclass(frozen=True)
class Mask:
    """Conjunction of conditions; `opaque` is the text of one that was not understood."""

    rank: int
    conditions: tuple[Condition, ...]
    opaque: str | None = None


@dataclass(frozen=True)
class Opaque:
    """Not understood; `why` is said to the user when an access depends on it.

    shape: of a tensor of data or the block of a pointer to one, where it is known.
    extents, base: of the tensor that a block pointer or descriptor describes.
    """

    why: str
    shape: tuple[Poly, ...] | None = None
    extents: tuple[Poly, ...] | None = None
    base: str | None = None


@dataclass(frozen=True)
class Tuple:
    items: tuple[Value, ...]


Value = Affine | Mask | Opaque | Tuple


@dataclass
class State:
    """What each name means at one place, and which assignment gave it."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    versions: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> State:
        return State(dict(self.values), dict(self.versions))

    def express(self, poly: Poly) -> Poly | None:
        """`poly` in what can be written here, None where a variable has changed since.

        A loop's counter is written through a variable that advances with it.
        """
        for atom in poly.atoms:
            if atom.kind == "iteration":
                written = self._without_counter(poly, atom)
                return None if written is None else self.express(written)
            if atom.operation == "load":  # memory may have changed since
                return None
            if any(self.versions.get(name, 0) != version for name, version in atom.needs):
                return None
        return poly

    def _without_counter(self, poly: Poly, counter: Atom) -> Poly | None:
        factor = poly.coefficient_of(counter)
        if factor is None:
            return None
        for name, value in self.values.items():
            if not isinstance(value, Affine) or not value.is_scalar:
                continue
            step = value.scalar.coefficient_of(counter)
            if step is None or step == ZERO:
                continue
            rest = value.scalar - step * Poly.atom(counter)
            times = factor.divided_by(step)
            if times is None or counter in rest.atoms:
                continue
            variable = Atom(name, needs=((name, self.versions.get(name, 0)),), kind="variable")
            others = poly - factor * Poly.atom(counter)
            return others + times * (Poly.atom(variable) - rest)
        return None


# --- algebra


def shape_of(value: Value | None) -> tuple[Poly, ...] | None:
    """The shape of a tensor; () of a scalar."""
    match value:
        case Affine(shape=shape):
            return shape
        case Opaque(shape=shape):
            return shape
        case _:
            return None


def base_of(value: Value) -> str | None:
    """The pointer argument that an address goes back to."""
    return value.base if isinstance(value, Affine | Opaque) else None


def broadcast(
    left: tuple[Poly, ...] | None, right: tuple[Poly, ...] | None
) -> tuple[Poly, ...] | None:
    """The shape of an elementwise result; None where either is not known."""
    if left is None or right is None:
        return None
    if not left or not right:
        return left or right
    if len(left) != len(right):
        return None
    return tuple(b if a == ONE else a for a, b in zip(left, right, strict=True))


def polys_of(value: Value | None) -> tuple[Poly, ...] | None:
    """The scalars of a tuple or list, None where one is not known."""
    if not isinstance(value, Tuple):
        return None
    items = [item.scalar for item in value.items if isinstance(item, Affine) and item.is_scalar]
    return tuple(items) if len(items) == len(value.items) else None


def is_scalar(value: Value | None) -> bool:
    return isinstance(value, Affine) and value.is_scalar


def with_index(value: Affine, index: Index) -> Term:
    return replace(value.terms[0], index=index)


def index_vector(value: Affine) -> Index | None:
    """The index of a plain vector of indices (coefficient 1, no pointer), else None."""
    if value.base is not None or len(value.terms) != 1:
        return None
    term = value.terms[0]
    if term.coefficient != ONE:
        return None
    if value.scalar == ZERO:
        return term.index
    if term.index.modulus is not None:
        return None
    return replace(term.index, start=term.index.start + value.scalar)


def add_scalar(value: Affine, scalar: Poly) -> Affine:
    """A scalar added to a plain index vector moves its start; elsewhere it stands apart."""
    if value.base is None and value.shape and len(value.terms) == 1:
        index = index_vector(replace(value, scalar=value.scalar + scalar))
        if index is not None:
            return replace(value, scalar=ZERO, terms=(with_index(value, index),))
    return replace(value, scalar=value.scalar + scalar)


def scale(value: Affine, factor: Poly) -> Affine:
    terms = tuple(replace(t, coefficient=t.coefficient * factor) for t in value.terms)
    return replace(value, scalar=value.scalar * factor, terms=terms)


def add(left: Affine, right: Affine) -> Affine | None:
    if left.base is not None and right.base is not None:
        return None
    if right.is_scalar:
        return add_scalar(left, right.scalar)
    if left.is_scalar:
        return add_scalar(right, left.scalar)
    if left.shape and right.shape and len(left.shape) != len(right.shape):
        return None
    shape = tuple(
        a if b == ONE else b
        for a, b in itertools.zip_longest(left.shape, right.shape, fillvalue=ONE)
    )
    if any(
        len({a, b} - {ONE}) > 1
        for a, b in itertools.zip_longest(left.shape, right.shape, fillvalue=ONE)
    ):
        return None
    scalar = left.scalar + right.scalar
    terms = list(left.terms)
    for term in right.terms:
        same = next((t for t in terms if t.axis == term.axis), None)
        if same is None:
            terms.append(term)
            continue
        if same.index.modulus is not None or term.index.modulus is not None:
            return None
        # c1*(s1 + i) + c2*(s2 + i) = (c1 + c2)*(s1 + i) + c2*(s2 - s1)
        scalar = scalar + term.coefficient * (term.index.start - same.index.start)
        terms[terms.index(same)] = replace(same, coefficient=same.coefficient + term.coefficient)
    base = left.base or right.base
    return Affine(scalar, shape, tuple(sorted(terms, key=lambda t: t.axis)), base)


def looks_rounded_up(left: Poly, right: Poly) -> bool:
    """Whether `left` is X + right - 1 with X free of `right`."""
    rest = left - right + ONE
    if right.constant is not None:
        return any(m == () and c == right.constant - 1 for m, c in left.terms)
    return right.single is not None and right.single not in rest.atoms and bool(rest.terms)
