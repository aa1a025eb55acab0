"""Extents of loops: ints, or sizes of named axes that a call supplies.

A program with named axes is compiled once. Decisions at compile time must hold for all sizes from 1
on, so the predicates here answer with certainty or not at all; `estimate` is for decisions that
only affect speed. A size of 0 has a separate program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kiln.base.errors import InconclusiveSizeError
from kiln.base.records import Record
from kiln.ir.sizes.polynomial import Atom, bounds, terms_of
from kiln.ir.sizes.size import Dim, Size, exact_quotient, names
from kiln.ir.sizes.values import evaluate

TYPICAL = 1 << 10
"""The assumed size of a named axis where only speed depends on it."""


def estimate(dim: Dim) -> int:
    """Return a dimension, assuming that named axes are long."""
    return dim if dim.__class__ is int else _estimate(dim)


@functools.lru_cache(maxsize=4096)
def _estimate(dim: Size) -> int:
    return evaluate(dim, dict.fromkeys(names(dim), TYPICAL))


def at_least(x: Dim, y: Dim) -> bool:
    """Tell whether x >= y certainly holds."""
    if x.__class__ is int and y.__class__ is int:
        return x >= y
    if x == y:
        return True
    low = bounds(x - y)[0]
    return low is not None and low >= 0


def is_positive(dim: Dim) -> bool:
    """Tell whether a dimension is certainly at least 1."""
    return dim > 0 if dim.__class__ is int else at_least(dim, 1)


def magnitude(factor: Dim) -> Dim | None:
    """Return the absolute value of a factor; None if its sign is not known."""
    if factor.__class__ is int:
        return abs(factor)
    if at_least(factor, 0):
        return factor
    return -factor if at_least(0, factor) else None


def smallest(dims: Iterable[Dim]) -> Dim | None:
    """Return the least of some dimensions; None if it is not known which."""
    found = sorted(dims, key=estimate)
    return found[0] if found and all(at_least(dim, found[0]) for dim in found) else None


def quotient(x: Dim, y: Dim) -> Dim | None:
    """Return x / y if y certainly divides x; None otherwise."""
    if x.__class__ is int and y.__class__ is int:
        return None if y == 0 or x % y else x // y
    try:
        found: Dim = x // y
    except (InconclusiveSizeError, ZeroDivisionError):
        return None
    return found if found * y == x else None


def whole(x: Dim, y: Dim) -> Dim | None:
    """Return x // y for y > 0 and x >= 0; None if it is not known symbolically."""
    if y.__class__ is int:
        return x // y
    found = exact_quotient(x, y)
    if found is not None:
        return found
    return 0 if at_least(y, x + 1) else None


def is_named(*dims: Any) -> bool:
    """Tell whether a dimension depends on the size of a named axis."""
    return any(type(dim) is Size for dim in dims)


class Grain(Record):
    """This many points, in units of `points`, rounded up to a multiple: known at call time."""

    most: int
    points: Dim
    multiple: int = 1


def evaluator(
    dims: Sequence[Dim | Grain], arguments: Sequence[str]
) -> Callable[..., tuple[int, ...]]:
    """Return a function of the sizes of named axes that computes dimensions and grains."""
    variables = {name: f"v{i}" for i, name in enumerate(arguments)}
    text = "".join(f"{_text(dim, variables)}, " for dim in dims)
    made: Callable[..., tuple[int, ...]] = eval(
        f"lambda {', '.join(variables.values())}: ({text})", {"max": max}
    )
    return made


def _text(dim: Dim | Grain, variables: Mapping[str, str]) -> str:
    if isinstance(dim, Grain):
        steps = f"max(1, {dim.most}//max(1, {_text(dim.points, variables)}))"
        return f"-(-{steps}//{dim.multiple})*{dim.multiple}"
    terms = [
        "*".join([str(factor), *[_atom_text(atom, variables) for atom in monomial]])
        for monomial, factor in terms_of(dim)
    ]
    return "+".join(terms) or "0"


def _atom_text(atom: Atom, variables: Mapping[str, str]) -> str:
    kind, *parts = atom
    if kind == "name":
        return variables[parts[0]]
    if kind == "floordiv":
        return f"(({_text(parts[0], variables)})//({_text(parts[1], variables)}))"
    return f"max({', '.join([_text(dim, variables) for dim in parts[0]])})"
