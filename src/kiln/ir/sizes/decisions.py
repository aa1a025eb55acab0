"""Decisions that hold for all sizes; the others get programs of their own."""

from __future__ import annotations

import math

from kiln.ir.sizes.assumptions import assume_not_zero, is_collecting
from kiln.ir.sizes.facts import facts_of
from kiln.ir.sizes.polynomial import bounds
from kiln.ir.sizes.size import (
    Dim,
    Size,
    assume_unequal,
    equal,
    exact_quotient,
    inconclusive,
    maximum,
    single_atom,
    split_constant,
)


def divides(divisor: Dim, dim: Dim) -> bool:
    """Tell whether `divisor` divides `dim` for all sizes, or for none.

    Raises: InconclusiveSizeError if that depends on the size of a named axis.
    """
    if type(divisor) is not Size and type(dim) is not Size:
        return divisor != 0 and dim % divisor == 0
    if type(divisor) is Size:
        if exact_quotient(dim, divisor) is not None:
            return True
        raise inconclusive(divisor, "divides", dim)
    if divisor == 0:
        return False
    varying, constant = split_constant(dim)
    if all(factor % divisor == 0 for factor in varying.values()):
        return constant % divisor == 0
    if constant % math.gcd(divisor, *varying.values()):
        return False
    if facts_of(dim) is not None:
        return equal(dim % divisor, 0)
    raise inconclusive(divisor, "divides", dim)


def is_surely(a: Dim, b: Dim) -> bool:
    """Tell whether two dimensions are equal for all sizes; others get a program of their own.

    For functions whose result has another shape where they are equal.
    """
    if a == b:
        return True
    if type(a) is Size or type(b) is Size:
        assume_unequal(a if type(a) is Size else b, b if type(a) is Size else a, by_user=True)  # type: ignore[arg-type]
    return False


def assume_between(size: Size, least: int, most: int) -> None:
    """Let sizes that are not between two numbers, both included, get a program of their own.

    Axes themselves are: positions along them are numbers of the same type.
    """
    atom = single_atom(size)
    if not is_collecting() or (atom is not None and atom[0] == "name"):
        return
    low, high = bounds(size, 0)
    if low is None or low < least:
        assume_not_zero([_above_zero(size - (least - 1))])
    if high is None or high > most:
        assume_not_zero([_above_zero((most + 1) - size)])


def _above_zero(size: Size) -> Size:
    """Return max(size, 0): with the names of the size, even where it is 0 whatever they are."""
    found = maximum(size, 0)
    return found if type(found) is Size else Size((((("max", (size, 0)),), 1),))
