"""Named sizes from the shapes of a call: `f32[b, 2*b]` and `f32[3, 6]` give b = 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kiln.ir.polynomial import terms_of
from kiln.ir.sizes import Dim, Size, divides, equal, names, substitute

Shapes = Sequence[Sequence[Dim]]


class Misfit(NamedTuple):
    """An axis whose size is not what the pattern says, and what it should be."""

    array: int
    axis: int
    wanted: Dim


def solve(patterns: Shapes, shapes: Shapes) -> dict[str, Dim]:
    """Return the values of the names of `patterns`, which are shapes of the same ranks.

    A name is found where a dimension is linear in it and holds no other unknown; it is left out
    where none is, or where the size does not divide. The values may disagree with other dimensions:
    ask `misfits`.
    """
    pairs = [
        (pattern, dim)
        for row, shape in zip(patterns, shapes, strict=True)
        for pattern, dim in zip(row, shape, strict=True)
        if type(pattern) is Size
    ]
    found: dict[str, Dim] = {}
    # Dimensions that are a name alone come first: they always have a solution.
    pairs.sort(key=lambda pair: len(str(pair[0])))
    while True:
        before = len(found)
        for pattern, dim in pairs:
            rest = substitute(pattern, found)
            left = names(rest)
            if len(left) == 1 and (value := _solved(rest, left[0], dim)) is not None:
                found[left[0]] = value
        if len(found) == before:
            return found


def _solved(pattern: Dim, name: str, dim: Dim) -> Dim | None:
    """Return n where `pattern`, which is factor * n + constant, is `dim`."""
    factor, constant = 0, 0
    for monomial, number in terms_of(pattern):
        if not monomial:
            constant = number
        elif monomial == (("name", name),):
            factor = number
        else:
            return None
    if not factor:
        return None
    difference = dim - constant
    return difference // factor if divides(abs(factor), difference) else None


def misfits(patterns: Shapes, shapes: Shapes, values: dict[str, Dim]) -> list[Misfit]:
    """Return the axes whose sizes are not those of the patterns for values of all names.

    Raises: InconclusiveSizeError if that depends on a named axis.
    """
    found = []
    for i, (row, shape) in enumerate(zip(patterns, shapes, strict=True)):
        for axis, (pattern, dim) in enumerate(zip(row, shape, strict=True)):
            wanted = substitute(pattern, values)
            if not equal(wanted, dim):
                found.append(Misfit(i, axis, wanted))
    return found
