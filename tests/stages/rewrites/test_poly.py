"""Polynomials over scalars: the algebra against arithmetic on numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xesmith.stages.rewrites.poly import ONE, ZERO, Atom, Poly

NAMES = ("a", "b", "c")
ATOMS = {name: Atom(name, needs=((name, 0),), kind="parameter") for name in NAMES}

monomials = st.lists(st.sampled_from(NAMES), max_size=3)
polys = st.lists(st.tuples(monomials, st.integers(-5, 5)), max_size=4).map(
    lambda terms: sum_of([product_of(names, coefficient) for names, coefficient in terms])
)
values = st.fixed_dictionaries({name: st.integers(-9, 9) for name in NAMES})


def sum_of(items: list[Poly]) -> Poly:
    result = ZERO
    for item in items:
        result = result + item
    return result


def product_of(names: list[str], coefficient: int) -> Poly:
    result = Poly.const(coefficient)
    for name in names:
        result = result * Poly.atom(ATOMS[name])
    return result


def at(poly: Poly, numbers: dict[str, int]) -> int:
    return eval(poly.source(), {}, dict(numbers))


@given(polys, polys, values)
def test_text_means_the_polynomial(p: Poly, q: Poly, numbers: dict[str, int]) -> None:
    x, y = at(p, numbers), at(q, numbers)
    assert at(p + q, numbers) == x + y
    assert at(p - q, numbers) == x - y
    assert at(p * q, numbers) == x * y
    assert eval(f"3 * {p.factor()} * 2", {}, dict(numbers)) == 6 * x


@given(polys, polys)
def test_equal_values_have_equal_form(p: Poly, q: Poly) -> None:
    assert (p + q) * (p - q) == p * p - q * q
    assert p - p == ZERO


@given(polys, monomials.filter(bool))
def test_exact_division(p: Poly, names: list[str]) -> None:
    divisor = product_of(names, 1)
    assert (p * divisor).divided_by(divisor) == p
    assert (p * divisor + ONE).divided_by(divisor) is None


@given(polys, polys, values)
def test_substitution(p: Poly, q: Poly, numbers: dict[str, int]) -> None:
    replaced = p.substitute(ATOMS["a"], q)
    assert at(replaced, numbers) == at(p, {**numbers, "a": at(q, numbers)})


def test_casts_matter_where_they_are_written_only() -> None:
    wide = product_of(["a", "b"], 2).widen()
    assert wide.source() == "a.to(tl.int64) * b * 2"
    assert wide.narrow() == product_of(["a", "b"], 2)


def test_coefficients() -> None:
    a = ATOMS["a"]
    assert (product_of(["a", "b"], 3) + product_of(["c"], 1)).coefficient_of(a) == product_of(
        ["b"], 3
    )
    assert product_of(["a", "a"], 1).coefficient_of(a) is None  # not linear
