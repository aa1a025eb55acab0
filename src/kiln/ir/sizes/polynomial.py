"""Polynomials in named sizes: products, terms, and bounds of their values.

Sizes consist of them. A dimension is an int, or anything with `terms` (a `Size`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.base.lazy import fractions
from kiln.ir.sizes.facts import Atom, Facts, Poly, bare, facts_of, parts_of
from kiln.ir.sizes.text import atom_text

Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]
MOST_ATOMS = 3
"""The most floor divisions and maxima that are eliminated in every order, since bounds differ."""
MOST_COMBINATIONS = 32
"""The number of sums with facts that are tried when searching for a bound."""


def terms_of(dim: Any) -> Terms:
    """Return the terms of a dimension."""
    terms = getattr(dim, "terms", None)
    if terms is not None:
        return terms  # type: ignore[no-any-return]
    if not hasattr(type(dim), "__index__"):
        raise TypeError(f"a dimension must be an int or a named size, got {dim!r}")
    return (((), int(dim)),) if dim else ()


def times(a: Poly, b: Poly) -> Poly:
    """Return the product of two polynomials."""
    out: Poly = {}
    for left, left_factor in a.items():
        for right, right_factor in b.items():
            monomial = (
                tuple(sorted(left + right, key=atom_text)) if left and right else left + right
            )
            out[monomial] = out.get(monomial, 0) + left_factor * right_factor
    return out


def without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Divide monomials; return None if `part` does not divide."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def split_constant(dim: Any) -> tuple[dict[Monomial, int], int]:
    """Return the terms of a dimension that have names, and its constant."""
    poly = dict(terms_of(dim))
    constant = poly.pop((), 0)
    return poly, constant


def single_atom(dim: Any) -> Atom | None:
    """Return the atom that a dimension consists of, if it is one."""
    terms: Terms = getattr(dim, "terms", ())
    if len(terms) == 1:
        monomial, factor = terms[0]
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def names(*dims: Any) -> tuple[str, ...]:
    """Return the axis names that dimensions depend on, in alphabetical order."""
    found: set[str] = set()
    for dim in dims:
        for monomial, _ in terms_of(dim):
            for atom in monomial:
                if atom[0] == "name":
                    found.add(atom[1])
                else:
                    found.update(names(*parts_of(atom)))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=4096)
def bounds(dim: Any, least: int = 1, facts: Facts | None = None) -> tuple[int | None, int | None]:
    """Return a lower and an upper bound if each name is at least `least`; None if not found.

    The facts are the given ones, or those that the names carry.
    """
    facts = facts or facts_of(dim)
    return _bounds(dim if facts is None else bare(dim, facts.solved), least, facts, _best)


def _bounds(
    dim: Any, least: int, facts: Facts | None, lower: Callable[[Poly, int, Facts | None], Any]
) -> tuple[int | None, int | None]:
    """Return the bounds of a dimension in names without facts."""
    if isinstance(dim, int):
        return dim, dim
    low = lower(dict(dim.terms), least, facts)
    negated = lower({monomial: -factor for monomial, factor in dim.terms}, least, facts)
    return (
        None if low is None else math.ceil(low),
        None if negated is None else math.floor(-negated),
    )


def _best(poly: Poly, least: int, facts: Facts | None) -> Any:
    """Return a lower bound of a polynomial with rational coefficients, or None."""
    if facts is None or not facts.compound:
        return _lower(poly, least, facts)
    sums = _less_facts(poly, facts.compound)
    return _largest(_lower(each, least, facts) for each in sums)


def _less_facts(poly: Poly, facts: Sequence[Poly]) -> Iterator[Poly]:
    """Yield polynomials that are at most `poly`: multiples of facts are subtracted from it."""
    found: list[tuple[Poly, int]] = [(poly, 0)]
    for each, used in found:
        yield each
        for number, fact in enumerate(facts):
            if used >> number & 1:
                continue
            for part in _multiples(each, fact):
                if len(found) >= MOST_COMBINATIONS:
                    continue
                rest = dict(each)
                for monomial, factor in part.items():
                    rest[monomial] = rest.get(monomial, 0) - factor
                found.append(({m: f for m, f in rest.items() if f or not m}, used | 1 << number))


def _multiples(poly: Poly, fact: Poly) -> Iterator[Poly]:
    """Yield multiples of a fact, by numbers > 0 and by names.

    They share a term with the polynomial, or might once floor divisions and maxima are eliminated.
    """
    compound = [atom for monomial in fact for atom in monomial if atom[0] != "name"]
    for divisor in (
        {1, *[n for kind, *_, n in compound if kind == "floordiv" and isinstance(n, int)]}
        if compound
        else ()
    ):
        yield times(fact, {(): divisor})
    for monomial, factor in poly.items():
        for part, own in fact.items():
            others = without(monomial, part) if part else None
            if others is None or factor * own <= 0 or any(atom[0] != "name" for atom in others):
                continue
            yield times(fact, {others: fractions.Fraction(factor, own)})


def _largest(found: Iterable[Any]) -> Any:
    return max((bound for bound in found if bound is not None), default=None)


def _lower(poly: Poly, least: int, facts: Facts | None) -> Any:
    """Return a lower bound of a polynomial with rational coefficients, or None.

    A maximum is at least each of its arguments and equal to one of them; a//k lies between
    (a-k+1)/k and a/k. The remainder is a polynomial in names n = least + n', n' >= 0.
    """
    compound = [atom for monomial in poly for atom in monomial if atom[0] != "name"]
    if compound:
        # The order of elimination matters; beyond a few the search takes too long.
        distinct = list(dict.fromkeys(compound))
        tried = distinct if len(distinct) <= MOST_ATOMS else distinct[:1]
        return _largest(_lower_without(poly, atom, least, facts) for atom in tried)
    if facts is None or not facts.simple:
        return _lower_of_names(poly, least, {})
    sums = _less_facts(poly, facts.simple)
    return _largest(_lower_of_names(each, least, facts.least) for each in sums)


def _lower_of_names(poly: Poly, least: int, known: Mapping[Atom, int]) -> Any:
    """Return a lower bound of a polynomial in names, some of which have other lower bounds."""
    shifted: Poly = {}
    for monomial, factor in poly.items():
        expanded: Poly = {(): factor}
        for atom in monomial:
            expanded = times(expanded, {(): max(least, known.get(atom, least)), (atom,): 1})
        for part, value in expanded.items():
            shifted[part] = shifted.get(part, 0) + value
    constant = shifted.pop((), 0)
    if any(factor < 0 for factor in shifted.values()):
        return None
    return fractions.Fraction(constant)


def _limits(atom: Atom, least: int, facts: Facts | None, *, lower: bool) -> Iterator[Poly]:
    """Yield lower, or upper, bounds of the quotient of a size and a positive size."""
    _, inner, divisor = atom
    low, high = _bounds(inner, least, facts, _lower)
    low_divisor, high_divisor = _bounds(divisor, least, facts, _lower)
    smallest = max(1, low_divisor or 1)
    # For a lower bound, divide a negative number by the smallest divisor, a positive one by the
    # largest.
    if lower and low is not None:
        by = smallest if low < 0 else high_divisor
        yield {(): 0 if by is None else low // by}
    elif not lower and high is not None:
        by = smallest if high >= 0 else high_divisor
        yield {(): -1 if by is None else high // by}
    if not lower and low is not None and low >= 0:
        yield {
            monomial: fractions.Fraction(factor, smallest) for monomial, factor in terms_of(inner)
        }


def _quotient(poly: Poly, divisor: Terms) -> Poly | None:
    """Divide polynomials with rational coefficients; None unless the remainder is zero."""
    rest, found = dict(poly), Poly()
    lead, lead_factor = divisor[0]
    for _ in range(16):
        if not rest:
            return found
        for monomial, factor in rest.items():
            left = without(monomial, lead)
            if left is not None:
                step = fractions.Fraction(factor, lead_factor)
                break
        else:
            return None
        found[left] = found.get(left, 0) + step
        for monomial, factor in times({left: step}, dict(divisor)).items():
            rest[monomial] = rest.get(monomial, 0) - factor
        rest = {monomial: factor for monomial, factor in rest.items() if factor}
    return None


def _lower_without(poly: Poly, atom: Atom, least: int, facts: Facts | None) -> Any:
    cofactor, rest = Poly(), Poly()
    for monomial, factor in poly.items():
        left = without(monomial, (atom,))
        if left is None:
            rest[monomial] = factor
        elif atom in left:
            return None
        else:
            cofactor[left] = factor

    def with_(replacement: Poly) -> Any:
        out = dict(rest)
        for monomial, factor in times(cofactor, replacement).items():
            out[monomial] = out.get(monomial, 0) + factor
        return _lower({m: factor for m, factor in out.items() if factor}, least, facts)

    low = _lower(cofactor, least, facts)
    positive = low is not None and low >= 0
    if atom[0] == "max":
        found = [with_(dict(terms_of(dim))) for dim in atom[1]]
        if positive:
            return _largest(found)
        return None if None in found else min(found)
    _, inner, divisor = atom
    low = _lower({monomial: -factor for monomial, factor in cofactor.items()}, least, facts)
    if not positive and not (low is not None and low >= 0):
        return None
    if not isinstance(divisor, int):
        found = [*map(with_, _limits(atom, least, facts, lower=positive))]
        often = _quotient(cofactor, terms_of(divisor))
        if often is not None:
            # (a//b)*b lies between a-b+1 and a.
            part = times(often, dict(terms_of(inner - divisor + 1 if positive else inner)))
            for monomial, factor in part.items():
                rest[monomial] = rest.get(monomial, 0) + factor
            found.append(_lower({m: factor for m, factor in rest.items() if factor}, least, facts))
        return _largest(found)
    numerator = inner - (divisor - 1) if positive else inner
    replacement = {
        monomial: fractions.Fraction(factor, divisor) for monomial, factor in terms_of(numerator)
    }
    found = [with_(replacement)]
    constant = _bounds(inner, least, facts, _lower)[0 if positive else 1]
    if constant is not None:
        found.append(with_({(): constant // divisor}))
    return _largest(found)
