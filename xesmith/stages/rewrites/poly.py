"""Polynomials with integer coefficients over scalars of a kernel.

The index arithmetic of a kernel is polynomial in its parameters, program ids and loop
counters, apart from `//`, `%`, `min` and the like: those become atoms, named by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, order=True)
class Atom:
    """A scalar that is not taken apart.

    text: how it is written, fit to stand in a product; valid wherever each variable in `needs`
        still has that version.
    wide: cast to 64 bits; matters where it is written, not for what it is.
    operation, arguments: what it is made of, where it is "//", "%", "cdiv", "min", "max",
        "program_id" (of a constant axis) or "=" (a variable's right-hand side).
    kind: "parameter", "variable", "expression" or "iteration" (a loop's counter from 0).
    """

    text: str
    needs: tuple[tuple[str, int], ...] = ()
    wide: bool = False
    kind: str = field(default="expression", compare=False)
    operation: str = field(default="", compare=False)
    arguments: tuple[Poly, ...] = field(default=(), compare=False)

    @property
    def cdiv(self) -> tuple[Poly, Poly] | None:
        """Numerator and denominator where it is their quotient rounded up."""
        if self.operation == "cdiv":
            return self.arguments[0], self.arguments[1]
        single = self.arguments[0].single if self.operation == "=" else None
        return None if single is None else single.cdiv

    @property
    def program_axes(self) -> frozenset[int]:
        """The grid axes whose program ids it depends on."""
        if self.operation == "program_id":
            return frozenset({self.arguments[0].constant or 0})
        return frozenset(axis for poly in self.arguments for axis in poly.program_axes)

    @property
    def iterates(self) -> bool:
        """Whether it depends on a loop's counter."""
        parts = (atom for poly in self.arguments for atom in poly.atoms)
        return self.kind == "iteration" or any(atom.iterates for atom in parts)

    @property
    def source(self) -> str:
        return f"{self.text}.to(tl.int64)" if self.wide else self.text


Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Poly:
    """Sum of coefficient * product of atoms; normal form, so equality is structural."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Poly:
        return Poly(tuple(sorted((m, c) for m, c in terms.items() if c)))

    @staticmethod
    def const(value: int) -> Poly:
        return Poly.of({(): value})

    @staticmethod
    def atom(atom: Atom) -> Poly:
        return Poly.of({(atom,): 1})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Poly.of(terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                monomial = tuple(sorted(m1 + m2))
                terms[monomial] = terms.get(monomial, 0) + c1 * c2
        return Poly.of(terms)

    @property
    def constant(self) -> int | None:
        """Its value where it is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def single(self) -> Atom | None:
        """The atom where it is just one."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(a for m, _ in self.terms for a in m)

    @property
    def program_axes(self) -> frozenset[int]:
        """The grid axes whose program ids it depends on."""
        return frozenset(axis for atom in self.atoms for axis in atom.program_axes)

    def narrow(self) -> Poly:
        """The same value without regard to casts to 64 bits."""
        return self.map_atoms(lambda a: replace(a, wide=False))

    def widen(self) -> Poly:
        """Cast to 64 bits: one factor of each product is enough."""
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            runtime = [a for a in monomial if a.kind != "iteration"]
            chosen = next((a for a in runtime if a.wide or a.kind != "parameter"), None)
            chosen = chosen or next(iter(runtime), None)
            widened = tuple(sorted(replace(a, wide=True) if a is chosen else a for a in monomial))
            terms[widened] = terms.get(widened, 0) + coefficient
        return Poly.of(terms)

    def map_atoms(self, function: Callable[[Atom], Atom]) -> Poly:
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            mapped = tuple(sorted(function(a) for a in monomial))
            terms[mapped] = terms.get(mapped, 0) + coefficient
        return Poly.of(terms)

    def substitute(self, atom: Atom, value: Poly) -> Poly:
        result = Poly()
        for monomial, coefficient in self.terms:
            product = Poly.const(coefficient)
            for factor in monomial:
                product = product * (value if factor == atom else Poly.atom(factor))
            result = result + product
        return result

    def coefficient_of(self, atom: Atom) -> Poly | None:
        """The factor of `atom`, None where it occurs in a higher power than the first."""
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            count = monomial.count(atom)
            if count > 1:
                return None
            if count == 1:
                rest = list(monomial)
                rest.remove(atom)
                terms[tuple(rest)] = coefficient
        return Poly.of(terms)

    def divided_by(self, divisor: Poly) -> Poly | None:
        """Exact quotient by a single product, None where it does not divide every term."""
        if len(divisor.terms) != 1:
            return Poly.const(1) if self == divisor and self.terms else None
        (divisor_monomial, divisor_coefficient) = divisor.terms[0]
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            rest = list(monomial)
            for atom in divisor_monomial:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if coefficient % divisor_coefficient:
                return None
            terms[tuple(rest)] = coefficient // divisor_coefficient
        return Poly.of(terms)

    def split(self, keep: Callable[[Monomial], bool]) -> tuple[Poly, Poly]:
        """The terms whose product satisfies `keep`, and the others."""
        kept = {m: c for m, c in self.terms if keep(m)}
        rest = {m: c for m, c in self.terms if not keep(m)}
        return Poly.of(kept), Poly.of(rest)

    def source(self) -> str:
        """Python text, sums without outer parentheses; positive and higher terms first."""
        ordered = sorted(self.terms, key=lambda term: (term[1] < 0, -len(term[0])))
        text = ""
        for monomial, coefficient in ordered:
            factors = [a.source for a in sorted(monomial, key=_written_first)]
            if abs(coefficient) != 1 or not factors:
                factors.append(str(abs(coefficient)))
            product = " * ".join(factors)
            if not text:
                text = product if coefficient > 0 else f"-{product}"
            else:
                text += f" + {product}" if coefficient > 0 else f" - {product}"
        return text or "0"

    def factor(self) -> str:
        """Python text that can stand in a product or before a `%`."""
        text = self.source()
        plain = len(self.terms) <= 1 and "*" not in text and not text.startswith("-")
        return text if plain else f"({text})"


def _written_first(atom: Atom) -> tuple[int, str]:
    order = {"variable": 0, "expression": 0, "iteration": 1, "parameter": 2}
    return (order[atom.kind], atom.text)


def total(polys: Iterable[Poly]) -> Poly:
    result = Poly()
    for poly in polys:
        result = result + poly
    return result


ZERO = Poly()
ONE = Poly.const(1)
