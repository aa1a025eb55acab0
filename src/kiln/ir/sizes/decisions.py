"""Decisions that hold for all sizes; sizes that they do not hold for get separate programs."""

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
    """Tell whether two dimensions are equal for all sizes; exceptions get a separate program.

    For functions whose result has another shape if they are equal.
    """
    if a == b:
        return True
    if type(a) is Size or type(b) is Size:
        assume_unequal(a if type(a) is Size else b, b if type(a) is Size else a, by_user=True)  # type: ignore[arg-type]
    return False


def assume_between(size: Size, least: int, most: int) -> None:
    """Assume that a size is between two numbers, inclusive; others get a separate program.

    Sizes of axes are: positions along them have the same type.
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
    """Return max(size, 0) as an expression in the size's names, even if it is always 0."""
    found = maximum(size, 0)
    return found if type(found) is Size else Size((((("max", (size, 0)),), 1),))
