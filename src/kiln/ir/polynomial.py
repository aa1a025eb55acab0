"""Polynomials in named sizes: products, terms, and bounds of their values.

Sizes are made of them. A dimension is an int, or anything with `terms` (a `Size`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from kiln.base.lazy import fractions
from kiln.ir.size_text import atom_text

Atom = tuple[Any, ...]
"""A kind and its parts: "name", str; or "floordiv", Size, int; or "max", tuple of dims."""
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]
Poly = dict[Monomial, Any]
MOST_ATOMS = 3
"""The number of floor divisions and maxima to eliminate first when searching for the best bound."""


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


@functools.lru_cache(maxsize=4096)
def bounds(dim: Any, least: int = 1) -> tuple[int | None, int | None]:
    """Return a lower and an upper bound if each name is at least `least`; None if not found."""
    if isinstance(dim, int):
        return dim, dim
    low = _lower(dict(dim.terms), least)
    negated = _lower({monomial: -factor for monomial, factor in dim.terms}, least)
    return (
        None if low is None else math.ceil(low),
        None if negated is None else math.floor(-negated),
    )


def _lower(poly: Poly, least: int) -> Any:
    """Return a lower bound of a polynomial with rational coefficients, or None.

    A maximum is at least each of its arguments and equal to one of them; a//k lies between
    (a-k+1)/k and a/k. The remainder is a polynomial in names n = least + n', n' >= 0.
    """
    compound = [atom for monomial in poly for atom in monomial if atom[0] != "name"]
    if compound:
        # The order of elimination matters; beyond a few the search is not worthwhile.
        tried = list(dict.fromkeys(compound))[:MOST_ATOMS]
        found = [_lower_without(poly, atom, least) for atom in tried]
        return max((bound for bound in found if bound is not None), default=None)
    shifted: Poly = {}
    for monomial, factor in poly.items():
        expanded: Poly = {(): factor}
        for atom in monomial:
            expanded = times(expanded, {(): least, (atom,): 1})
        for part, value in expanded.items():
            shifted[part] = shifted.get(part, 0) + value
    constant = shifted.pop((), 0)
    if any(factor < 0 for factor in shifted.values()):
        return None
    return fractions.Fraction(constant)


def _lower_without(poly: Poly, atom: Atom, least: int) -> Any:
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
        return _lower({monomial: factor for monomial, factor in out.items() if factor}, least)

    low = _lower(cofactor, least)
    positive = low is not None and low >= 0
    if atom[0] == "max":
        found = [with_(dict(terms_of(dim))) for dim in atom[1]]
        if positive:
            return max((bound for bound in found if bound is not None), default=None)
        return None if None in found else min(bound for bound in found if bound is not None)
    _, inner, divisor = atom
    low = _lower({monomial: -factor for monomial, factor in cofactor.items()}, least)
    if not positive and not (low is not None and low >= 0):
        return None
    numerator = inner - (divisor - 1) if positive else inner
    replacement = {
        monomial: fractions.Fraction(factor, divisor) for monomial, factor in terms_of(numerator)
    }
    found = [with_(replacement)]
    constant = bounds(inner, least)[0 if positive else 1]
    if constant is not None:
        found.append(with_({(): constant // divisor}))
    return max((bound for bound in found if bound is not None), default=None)
