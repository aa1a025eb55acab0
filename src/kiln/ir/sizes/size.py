"""Dimensions: plain ints, or `Size` expressions over named axes.

A `Size` is a polynomial with integer coefficients over atoms: a name, a floor division by a
positive size, or a maximum. It is kept in one normal form, so `n+n` and `2*n` are equal, and an
expression without names is always a plain int. Every name is assumed to be a size >= 1; decisions
that need this are recorded (`assumptions.py`). `==` never raises: sizes with different normal forms
differ, which is recorded too if a user's function compares them. `<`, `<=`, `>`, `>=` and `equal`
decide from bounds and raise `InconclusiveSizeError` if the answer depends on the value of a name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kiln.base.errors import InconclusiveSizeError
from kiln.base.pickled import pickled_as, reduced
from kiln.ir.sizes.assumptions import assume_not_zero, is_collecting, names_in_scope
from kiln.ir.sizes.errors import looked_up, undecided, used_as_int
from kiln.ir.sizes.facts import Facts, facts_of
from kiln.ir.sizes.numbers import as_number, by_number, limit, reflected, whole
from kiln.ir.sizes.polynomial import Poly, Terms, bounds, terms_of, times, without
from kiln.ir.sizes.polynomial import names as names
from kiln.ir.sizes.polynomial import single_atom as single_atom
from kiln.ir.sizes.polynomial import split_constant as split_constant
from kiln.ir.sizes.protocols import IntegerProtocol, is_asked_by_user
from kiln.ir.sizes.text import atom_text, terms_text


@pickled_as("Size")
class Size(IntegerProtocol):
    """A size that depends on named axes; immutable, never constant."""

    __slots__ = ("_hash", "_text", "terms")

    terms: Terms
    _hash: int
    _text: str

    def __init__(self, terms: Terms) -> None:
        set_ = object.__setattr__
        set_(self, "terms", terms)
        set_(self, "_hash", hash(terms))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Size is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("Size", self.terms)

    def __hash__(self) -> int:
        if names_in_scope() and is_asked_by_user():
            raise looked_up(str(self), names(self))
        return self._hash

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if _is_array(other):
            return NotImplemented
        if isinstance(other, np.ndarray) and other.ndim:
            return by_number(operator.eq, self, other)
        return self._is_equal(other, by_user=is_asked_by_user())

    def _is_equal(self, other: object, *, by_user: bool) -> bool:
        if type(other) is Size and self._hash == other._hash and self.terms == other.terms:
            return True
        if facts_of(self, other) is not None and _is_dim(other) and _vanishes(self - other):
            return True
        if is_collecting():
            assume_unequal(self, other, by_user=by_user)
        return False

    def __ne__(self, other: object) -> Any:
        if _is_array(other):
            return NotImplemented
        if isinstance(other, np.ndarray) and other.ndim:
            return by_number(operator.ne, self, other)
        return not self._is_equal(other, by_user=is_asked_by_user())

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            text = terms_text(self.terms)
            object.__setattr__(self, "_text", text)
            return text

    __repr__ = __str__

    def __add__(self, other: Any) -> Any:
        if not _is_dim(other):
            return by_number(operator.add, self, other)
        poly = dict(self.terms)
        for monomial, factor in terms_of(other):
            poly[monomial] = poly.get(monomial, 0) + factor
        return _from_poly(poly)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return Size(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + (-other) if _is_dim(other) else by_number(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if not _is_dim(other):
            return by_number(operator.mul, self, other)
        return _from_poly(times(dict(self.terms), dict(terms_of(other))))

    __rmul__ = __mul__

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is not None or type(exponent) is Size:
            return pow(operator.index(self), exponent, modulus)
        if not _is_dim(exponent):
            return by_number(operator.pow, self, exponent)
        return math.prod([self] * exponent) if exponent >= 0 else 1 / self ** (-exponent)

    def __rpow__(self, base: Any) -> Any:
        if _is_dim(base):
            # The result exceeds the range of every dtype.
            return base ** operator.index(self)
        return by_number(reflected(operator.pow), self, base)

    def __truediv__(self, other: Any) -> Any:
        _divide_by(self, other)
        return by_number(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        _divide_by(other, self)
        return by_number(reflected(operator.truediv), self, other)

    def __floordiv__(self, other: Any) -> Any:
        _divide_by(self, other)
        if not _is_dim(other):
            return by_number(operator.floordiv, self, other)
        return _floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        _divide_by(other, self)
        if not _is_dim(other):
            return by_number(reflected(operator.floordiv), self, other)
        return _floordiv(int(other), self)

    def __mod__(self, other: Any) -> Any:
        _divide_by(self, other)
        if not _is_dim(other):
            return by_number(operator.mod, self, other)
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        _divide_by(other, self)
        if not _is_dim(other):
            return by_number(reflected(operator.mod), self, other)
        return other - (other // self) * self

    def __divmod__(self, other: Dim) -> tuple[Dim, Dim]:
        quotient = self // other
        return quotient, self - quotient * other

    def __rdivmod__(self, other: Dim) -> tuple[Dim, Dim]:
        quotient = other // self
        return quotient, other - quotient * self

    def __ge__(self, other: Any) -> Any:
        return _ordered(operator.ge, self, other)

    def __gt__(self, other: Any) -> Any:
        return _ordered(operator.gt, self, other)

    def __le__(self, other: Any) -> Any:
        return _ordered(operator.le, self, other)

    def __lt__(self, other: Any) -> Any:
        return _ordered(operator.lt, self, other)

    def __bool__(self) -> bool:
        return not equal(self, 0)

    def __index__(self) -> int:
        raise used_as_int(str(self), names(self))

    __int__ = __index__

    def __jax_array__(self) -> Any:
        return as_number(self)


Dim = int | Size


def _is_array(x: object) -> bool:
    return hasattr(x, "aval")


def _is_dim(x: object) -> bool:
    return type(x) is Size or (isinstance(x, (int, np.integer)) and type(x) is not bool)


def _divide_by(a: Any, b: Any) -> None:
    """Raise for division by 0, or record that a size must not be 0."""
    if isinstance(a, (np.generic, np.ndarray)) or _is_array(a):
        return
    if type(b) is Size:
        if not _note_difference(b) and is_collecting():
            assume_not_zero([b])
    elif isinstance(b, (int, float, complex)) and not isinstance(b, np.generic) and b == 0:
        raise ZeroDivisionError(f"the size {a} was divided by 0")


def symbol(name: str, facts: Facts | None = None) -> Size:
    """Return the size of the named axis `name`, of which facts are known."""
    if not name or type(name) is not str:
        raise TypeError(f"an axis name must be a non-empty string, got {name!r}")
    return Size((((("name", name) if facts is None else ("name", name, facts),), 1),))


def product(dims: Iterable[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    return math.prod(dims)


def is_constant(shape: Iterable[Dim]) -> bool:
    """Tell whether every dimension is an int."""
    return not any(type(dim) is Size for dim in shape)


def as_ints(shape: Iterable[Dim]) -> tuple[int, ...]:
    """Return the sizes of a shape without names.

    Raises: the errors of `int` of a named size.
    """
    return tuple([int(dim) for dim in shape])


def as_dim(number: Any) -> Dim:
    """Return a number as an int, unless it is a size with a name."""
    return number if type(number) is Size else int(number)


def maximum(*dims: Dim) -> Dim:
    """Return the largest of some dimensions."""
    flat: list[Dim] = []
    for dim in dims:
        atom = single_atom(dim)
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
    """Tell whether two dimensions are equal for all sizes, or for none.

    Raises: InconclusiveSizeError if that depends on the size of a named axis.
    """
    difference = a - b
    if type(difference) is not Size:
        return difference == 0
    varying, constant = split_constant(difference)
    if constant % math.gcd(*varying.values()):
        return False
    if _note_difference(difference):
        return False
    if _vanishes(difference):
        return True
    raise inconclusive(a, "==", b)


def _vanishes(difference: Dim) -> bool:
    """Tell whether facts say that a difference is 0."""
    return bounds(difference, 0) == (0, 0)


def _is_at_least(dim: Dim, limit: int) -> bool | None:
    """Tell whether `dim >= limit`; None if that depends on the value of a name."""
    answer = _side(bounds(dim), limit)
    if answer is not None and is_collecting() and _side(bounds(dim, 0), limit) is None:
        assume_not_zero(names(dim))
    return answer


def _side(found: tuple[int | None, int | None], limit: int) -> bool | None:
    low, high = found
    if low is not None and low >= limit:
        return True
    return False if high is not None and high < limit else None


def assume_unequal(a: Size, b: object, *, by_user: bool) -> None:
    """Record that a size was taken to be unequal to a number, or to another size.

    kiln's own code for unequal sizes is correct for equal ones too, unless they are 0. A user's
    function may not be.
    """
    if type(b) is Size and not by_user:
        return
    number = b if type(b) is Size else whole(b)
    if number is None:
        return
    difference: Dim = a - number
    if type(difference) is not Size or _note_difference(difference):
        return
    if by_user and not _cannot_be_zero(difference):
        assume_not_zero([difference])


def _cannot_be_zero(difference: Size) -> bool:
    varying, constant = split_constant(difference)
    return bool(constant % math.gcd(*varying.values()))


def _note_difference(difference: Dim) -> bool:
    """Tell whether a difference of sizes is certainly not 0."""
    if _excludes_zero(bounds(difference)):
        if is_collecting() and not _excludes_zero(bounds(difference, 0)):
            assume_not_zero(names(difference))
        return True
    return False


def _excludes_zero(found: tuple[int | None, int | None]) -> bool:
    low, high = found
    return (low is not None and low > 0) or (high is not None and high < 0)


def _from_poly(poly: Poly) -> Dim:
    kept = [(monomial, factor) for monomial, factor in poly.items() if factor]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return int(kept[0][1])
    kept.sort(key=lambda term: (-len(term[0]), [atom_text(atom) for atom in term[0]]))
    moved = _with_sum_inside(dict(kept))
    return Size(tuple(kept)) if moved is None else moved


def _with_sum_inside(poly: Poly) -> Dim | None:
    """Return k*max(a, b) + k*c + rest as k*max(a+c, b+c) + rest, so that sizes have one form.

    Returns None if nothing moves, or there are several maxima.
    """
    found = [monomial for monomial in poly if any(atom[0] == "max" for atom in monomial)]
    if len(poly) == 1 or len(found) != 1 or len(found[0]) != 1:
        return None
    ((atom,),) = found
    factor = poly[(atom,)]
    sign, most = (1 if factor > 0 else -1), abs(factor)
    rest = {monomial: value for monomial, value in poly.items() if monomial != (atom,)}
    inside = _from_poly({monomial: sign * (value // most) for monomial, value in rest.items()})
    if type(inside) is not Size and inside == 0:
        return None
    left = {monomial: value % most for monomial, value in rest.items()}
    largest: Size = maximum(*(dim + inside for dim in atom[1])) * factor
    return largest + _from_poly(left)  # type: ignore[no-any-return]


def _floordiv(a: Dim, b: Dim) -> Dim:
    if type(b) is not Size:
        return _floordiv_by_constant(a, int(b))
    quotient, rest = _divided(a, b)
    if type(rest) is not Size and rest == 0:
        return quotient
    tried: list[tuple[Dim, Dim]] = [(quotient, rest), (0, a), (quotient - 1, rest + b)]
    for found, left in tried:
        if _known(left) and _known(b - left - 1):
            return found
    if not _known(b - 1):
        raise inconclusive(a, "//", b)
    total: Dim = quotient + Size((((("floordiv", rest, b),), 1),))
    return total


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
    varying, constant = split_constant(rest_dim)
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
            return _from_poly(outside) + _floordiv(numerator, inner_divisor * divisor)
    low, high = bounds(rest_dim)
    if low is not None and high is not None and low // divisor == high // divisor:
        assume_not_zero(names(rest_dim))
        return _from_poly(outside) + low // divisor
    outside[(("floordiv", rest_dim, divisor),)] = 1 + outside.get(
        (("floordiv", rest_dim, divisor),), 0
    )
    return _from_poly(outside)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Divide polynomials; None unless the remainder is zero."""
    if terms_of(b) == ():
        return None
    quotient, rest = _divided(a, b)
    return quotient if type(rest) is not Size and rest == 0 else None


def _divided(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Return quotient and remainder of a polynomial division: a = quotient * b + remainder."""
    rest, quotient = a, 0  # type: Dim, Dim
    lead, lead_factor = terms_of(b)[0]
    for _ in range(64):
        for monomial, factor in terms_of(rest):
            left = without(monomial, lead)
            if left is not None and factor % lead_factor == 0:
                step = _from_poly({left: factor // lead_factor})
                break
        else:
            break
        quotient = quotient + step
        rest = rest - step * b
    return quotient, rest


def _known(dim: Dim) -> bool:
    """Tell whether `dim >= 0` is certain."""
    return _is_at_least(dim, 0) is True


_RELATIONS = {operator.ge: ">=", operator.gt: ">", operator.le: "<=", operator.lt: "<"}


def _ordered(relation: Callable[[Any, Any], Any], a: Size, b: Any) -> Any:
    """Tell which of a size and a number is larger; the answer for an array is an array."""
    if _is_array(b):
        return NotImplemented
    if isinstance(b, np.ndarray) and b.ndim:
        return by_number(relation, a, b)
    # a < b is the opposite of a >= b, and a <= b of a > b.
    above = relation in (operator.ge, operator.lt)
    number = b if type(b) is Size else limit(b, above=above)
    if number is None:
        raise TypeError(f"the size {a} cannot be compared with {b!r}")
    if type(number) is float:
        # Infinite or nan: the answer is the same for all sizes.
        return relation(1, number)
    answer = _is_at_least(a - number, 0 if above else 1)
    if answer is None:
        raise undecided(f"{a} {_RELATIONS[relation]} {b}", names(a - number))
    return answer if relation in (operator.ge, operator.gt) else not answer


def inconclusive(a: Dim, relation: str, b: Dim) -> InconclusiveSizeError:
    """Return the error for a relation that holds for some sizes but not for all."""
    return undecided(f"{a} {relation} {b}", names(a, b))
