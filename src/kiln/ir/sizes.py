"""Dimensions: plain ints, or `Size` expressions over named axes.

A `Size` is a polynomial with integer coefficients over atoms: a name, a floor division by a
positive constant, or a maximum. It is kept in one normal form, so `n+n` and `2*n` are equal, and an
expression without names is always a plain int. Every name stands for a size >= 1.
`==` is structural and never raises; `<`, `<=`, `>`, `>=` and `equal` decide from bounds and raise
`InconclusiveSizeError` where the answer depends on the value of a name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from kiln.base.errors import InconclusiveSizeError, three_lines
from kiln.base.lazy import fractions
from kiln.ir.size_text import atom_text, terms_text

Atom = tuple[Any, ...]
"""A kind and its parts: "name", str; or "floordiv", Size, int; or "max", tuple of dims."""
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]
Poly = dict[Monomial, Any]


class Size:
    """A size that depends on named axes; immutable, never constant."""

    __slots__ = ("_hash", "_text", "terms")

    terms: Terms
    _hash: int
    _text: str

    def __init__(self, terms: Terms) -> None:
        set_ = object.__setattr__
        set_(self, "terms", terms)
        set_(self, "_hash", hash(terms))
        set_(self, "_text", terms_text(terms))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Size is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (self.terms,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is Size and self._hash == other._hash and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __add__(self, other: Dim) -> Dim:
        poly = dict(self.terms)
        for monomial, factor in _terms(other):
            poly[monomial] = poly.get(monomial, 0) + factor
        return _from_poly(poly)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return Size(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Dim) -> Dim:
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        return _from_poly(_times(dict(self.terms), dict(_terms(other))))

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Dim:
        return math.prod([self] * exponent)

    def __floordiv__(self, other: Dim) -> Dim:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return self - (self // other) * other

    def __rmod__(self, other: Dim) -> Dim:
        return other - (other // self) * self

    def __divmod__(self, other: Dim) -> tuple[Dim, Dim]:
        quotient = self // other
        return quotient, self - quotient * other

    def __rdivmod__(self, other: Dim) -> tuple[Dim, Dim]:
        quotient = other // self
        return quotient, other - quotient * self

    def __ge__(self, other: Dim) -> bool:
        return _compare(self, other, ">=")

    def __gt__(self, other: Dim) -> bool:
        return _compare(self, other, ">")

    def __le__(self, other: Dim) -> bool:
        return not _compare(self, other, ">", "<=")

    def __lt__(self, other: Dim) -> bool:
        return not _compare(self, other, ">=", "<")

    def __bool__(self) -> bool:
        return not equal(self, 0)

    def __index__(self) -> int:
        raise InconclusiveSizeError(
            three_lines(
                f"the size {self} was used as a Python int",
                f"its value depends on {_named(self)}, which is unknown while a program is traced",
                "keep the size symbolic, or leave the axis out of abstracted_axes",
            )
        )

    __int__ = __index__


Dim = int | Size


def symbol(name: str) -> Size:
    """Return the size of the named axis `name`."""
    if not name or type(name) is not str:
        raise TypeError(f"an axis name must be a non-empty string, got {name!r}")
    return Size((((("name", name),), 1),))


def product(dims: Iterable[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    return math.prod(dims)


def is_constant(shape: Iterable[Dim]) -> bool:
    """Tell whether every dimension is an int."""
    return not any(type(dim) is Size for dim in shape)


def names(*dims: Dim) -> tuple[str, ...]:
    """Return the axis names that dimensions depend on, in alphabetical order."""
    found: set[str] = set()
    for dim in dims:
        for monomial, _ in _terms(dim):
            for kind, *parts in monomial:
                if kind == "name":
                    found.add(parts[0])
                else:
                    found.update(names(*(parts[0] if kind == "max" else parts[:1])))
    return tuple(sorted(found))


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """Return the value of a dimension for given axis sizes.

    Raises: KeyError for a name that `env` lacks.
    """
    if type(dim) is not Size:
        return int(dim)
    missing = [name for name in names(dim) if name not in env]
    if missing:
        raise KeyError(f"size {dim}: no value for the axis {missing[0]!r}")
    return int(substitute(dim, env))


def substitute(dim: Dim, env: Mapping[str, Dim]) -> Dim:
    """Replace names by dimensions; names that `env` lacks stay."""
    if type(dim) is not Size:
        return dim
    out: Dim = 0
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            term = term * _substitute_atom(atom, env)
        out = out + term
    return out


def maximum(*dims: Dim) -> Dim:
    """Return the largest of some dimensions."""
    flat: list[Dim] = []
    for dim in dims:
        atom = _single_atom(dim)
        flat.extend(atom[1] if atom is not None and atom[0] == "max" else (dim,))
    kept: list[Dim] = []
    for dim in flat:
        if any(_known(other - dim) for other in kept):
            continue
        kept = [other for other in kept if not _known(dim - other)] + [dim]
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=lambda dim: (type(dim) is not Size, str(dim)))
    return _from_poly({(("max", tuple(kept)),): 1})


def minimum(*dims: Dim) -> Dim:
    """Return the smallest of some dimensions."""
    return -maximum(*(-dim for dim in dims))


def equal(a: Dim, b: Dim) -> bool:
    """Tell whether two dimensions are the same for all sizes, or for none.

    Raises: InconclusiveSizeError when that depends on the size of a named axis.
    """
    difference = a - b
    if type(difference) is not Size:
        return difference == 0
    low, high = bounds(difference)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    varying, constant = _split_constant(difference)
    if constant % math.gcd(*varying.values()):
        return False
    raise _inconclusive(a, "==", b)


def divides(divisor: Dim, dim: Dim) -> bool:
    """Tell whether `divisor` divides `dim` for all sizes, or for none.

    Raises: InconclusiveSizeError when that depends on the size of a named axis.
    """
    if type(divisor) is not Size and type(dim) is not Size:
        return divisor != 0 and dim % divisor == 0
    if type(divisor) is Size:
        if _exact_quotient(dim, divisor) is not None:
            return True
        raise _inconclusive(divisor, "divides", dim)
    if divisor == 0:
        return False
    varying, constant = _split_constant(dim)
    if all(factor % divisor == 0 for factor in varying.values()):
        return constant % divisor == 0
    if constant % math.gcd(divisor, *varying.values()):
        return False
    raise _inconclusive(divisor, "divides", dim)


@functools.lru_cache(maxsize=4096)
def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Return a lower and an upper bound; None where none was found."""
    if type(dim) is not Size:
        return dim, dim  # type: ignore[return-value]
    low = _lower(dict(dim.terms))
    negated = _lower({monomial: -factor for monomial, factor in dim.terms})
    return (
        None if low is None else math.ceil(low),
        None if negated is None else math.floor(-negated),
    )


def _terms(dim: Dim) -> Terms:
    if type(dim) is Size:
        return dim.terms
    if not hasattr(type(dim), "__index__"):
        raise TypeError(f"a dimension must be an int or a named size, got {dim!r}")
    return (((), int(dim)),) if dim else ()


def _from_poly(poly: Poly) -> Dim:
    kept = [(monomial, factor) for monomial, factor in poly.items() if factor]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return int(kept[0][1])
    kept.sort(key=lambda term: (-len(term[0]), [atom_text(atom) for atom in term[0]]))
    return Size(tuple(kept))


def _times(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for left, left_factor in a.items():
        for right, right_factor in b.items():
            monomial = (
                tuple(sorted(left + right, key=atom_text)) if left and right else left + right
            )
            out[monomial] = out.get(monomial, 0) + left_factor * right_factor
    return out


def _single_atom(dim: Dim) -> Atom | None:
    if type(dim) is Size and len(dim.terms) == 1:
        monomial, factor = dim.terms[0]
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def _split_constant(dim: Dim) -> tuple[dict[Monomial, int], int]:
    poly = dict(_terms(dim))
    constant = poly.pop((), 0)
    return poly, constant


def _substitute_atom(atom: Atom, env: Mapping[str, Dim]) -> Dim:
    kind = atom[0]
    if kind == "name":
        return env[atom[1]] if atom[1] in env else _from_poly({(atom,): 1})
    if kind == "floordiv":
        return substitute(atom[1], env) // atom[2]  # type: ignore[no-any-return]
    return maximum(*(substitute(dim, env) for dim in atom[1]))


def _floordiv(a: Dim, b: Dim) -> Dim:
    if type(b) is not Size:
        return _floordiv_by_constant(a, int(b))
    exact = _exact_quotient(a, b)
    if exact is not None:
        return exact
    if _known(a) and _known(b - a - 1):
        return 0
    raise _inconclusive(a, "//", b)


def _floordiv_by_constant(dim: Dim, divisor: int) -> Dim:
    if divisor == 0:
        raise ZeroDivisionError(f"the size {dim} was divided by 0")
    if divisor < 0:
        return _floordiv_by_constant(-dim, -divisor)
    if type(dim) is not Size:
        return dim // divisor
    outside: Poly = {}
    inside: Poly = {}
    for monomial, factor in dim.terms:
        quotient, rest = divmod(factor, divisor)
        if not monomial or not rest:
            outside[monomial] = quotient
        else:
            rest = factor
        if rest:
            inside[monomial] = rest
    rest_dim = _from_poly(inside)
    if type(rest_dim) is not Size:
        return _from_poly(outside) + rest_dim // divisor
    varying, constant = _split_constant(rest_dim)
    common = math.gcd(divisor, *varying.values())
    if common > 1:
        reduced = {monomial: factor // common for monomial, factor in varying.items()}
        reduced[()] = constant // common
        return _from_poly(outside) + _floordiv_by_constant(_from_poly(reduced), divisor // common)
    if len(varying) == 1:
        # (a//j + c)//k = (a + c*j)//(j*k)
        ((monomial, factor),) = varying.items()
        if factor == 1 and len(monomial) == 1 and monomial[0][0] == "floordiv":
            _, inner, inner_divisor = monomial[0]
            numerator = inner + constant * inner_divisor
            return _from_poly(outside) + _floordiv_by_constant(numerator, inner_divisor * divisor)
    low, high = bounds(rest_dim)
    if low is not None and high is not None and low // divisor == high // divisor:
        return _from_poly(outside) + low // divisor
    outside[(("floordiv", rest_dim, divisor),)] = 1 + outside.get(
        (("floordiv", rest_dim, divisor),), 0
    )
    return _from_poly(outside)


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Divide polynomials; None unless the remainder is zero."""
    if _terms(b) == ():
        return None
    rest, quotient = a, 0  # type: Dim, Dim
    lead, lead_factor = _terms(b)[0]
    for _ in range(64):
        if type(rest) is not Size and rest == 0:
            return quotient
        for monomial, factor in _terms(rest):
            left = _without(monomial, lead)
            if left is not None and factor % lead_factor == 0:
                step = _from_poly({left: factor // lead_factor})
                break
        else:
            return None
        quotient = quotient + step
        rest = rest - step * b
    return None


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _known(dim: Dim) -> bool:
    """Tell whether `dim >= 0` is certain."""
    low = bounds(dim)[0]
    return low is not None and low >= 0


def _compare(a: Dim, b: Dim, relation: str, shown: str | None = None) -> bool:
    if type(b) is not Size and not hasattr(type(b), "__index__"):
        raise TypeError(f"the size {a} cannot be compared with {b!r}")
    low, high = bounds(a - b)
    limit = 0 if relation == ">=" else 1
    if low is not None and low >= limit:
        return True
    if high is not None and high < limit:
        return False
    raise _inconclusive(a, shown or relation, b)


def _lower(poly: Poly) -> Any:
    """Return a lower bound of a polynomial with rational coefficients, or None.

    A maximum is at least each of its arguments and equal to one of them; a//k lies between
    (a-k+1)/k and a/k. What is left is a polynomial in names n = 1 + n', n' >= 0.
    """
    for monomial in poly:
        for atom in monomial:
            if atom[0] != "name":
                return _lower_without(poly, atom)
    shifted: Poly = {}
    for monomial, factor in poly.items():
        expanded: Poly = {(): factor}
        for atom in monomial:
            expanded = _times(expanded, {(): 1, (atom,): 1})
        for part, value in expanded.items():
            shifted[part] = shifted.get(part, 0) + value
    constant = shifted.pop((), 0)
    if any(factor < 0 for factor in shifted.values()):
        return None
    return fractions.Fraction(constant)


def _lower_without(poly: Poly, atom: Atom) -> Any:
    cofactor, rest = Poly(), Poly()
    for monomial, factor in poly.items():
        left = _without(monomial, (atom,))
        if left is None:
            rest[monomial] = factor
        elif atom in left:
            return None
        else:
            cofactor[left] = factor

    def with_(replacement: Poly) -> Any:
        out = dict(rest)
        for monomial, factor in _times(cofactor, replacement).items():
            out[monomial] = out.get(monomial, 0) + factor
        return _lower({monomial: factor for monomial, factor in out.items() if factor})

    low = _lower(cofactor)
    positive = low is not None and low >= 0
    if atom[0] == "max":
        found = [with_(dict(_terms(dim))) for dim in atom[1]]
        if positive:
            return max((bound for bound in found if bound is not None), default=None)
        return None if None in found else min(bound for bound in found if bound is not None)
    _, inner, divisor = atom
    low = _lower({monomial: -factor for monomial, factor in cofactor.items()})
    if not positive and not (low is not None and low >= 0):
        return None
    numerator = inner - (divisor - 1) if positive else inner
    replacement = {
        monomial: fractions.Fraction(factor, divisor) for monomial, factor in _terms(numerator)
    }
    found = [with_(replacement)]
    constant = bounds(inner)[0 if positive else 1]
    if constant is not None:
        found.append(with_({(): constant // divisor}))
    return max((bound for bound in found if bound is not None), default=None)


def _named(*dims: Dim) -> str:
    found = names(*dims)
    return ("the named axis " if len(found) == 1 else "the named axes ") + ", ".join(found)


def _inconclusive(a: Dim, relation: str, b: Dim) -> InconclusiveSizeError:
    return InconclusiveSizeError(
        three_lines(
            f"sizes: {a} {relation} {b}",
            f"the answer depends on the value of {_named(a, b)}",
            "compare sizes whose order is the same for every value, "
            "or leave the axis out of abstracted_axes",
        )
    )
