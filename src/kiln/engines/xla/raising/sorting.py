"""sort and top_k.

A region says which of two rows comes first. It is raised if it compares a key of one row with the
same key of the other, and, where these are equal, a second key, and so on. A key is an operand, or
a part of a complex one; of floats it may be settled: zeros made one zero, and nans one nan. That is
kiln's own order; others are sorted by keys of integers, beside the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.bodies import Tree, expressions
from kiln.engines.xla.raising.elementwise import (
    converted,
    is_bool,
    is_complex,
    is_float,
    total_order,
)
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, repeated
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.elements import elementwise as elements
from kiln.ops.elements.conversion import imag_p, real_p
from kiln.ops.reductions import sorting as ops

_PARTS = ("real", "imag")
_REFUSED = "stablehlo.sort by a function that does not compare operands has no counterpart in kiln"


class _Key(NamedTuple):
    """What rows are ordered by: an operand, or a part of it, in ascending order or not."""

    operand: int
    part: str
    is_settled: bool
    is_total: bool
    is_descending: bool


def _sort(r: Raiser, operation: Operation, *xs: Any) -> Any:
    axis = operation.attributes["dimension"]
    is_stable = bool(operation.attributes.get("is_stable", False))
    found = expressions(operation.regions[0], r.operation_of)
    keys = _keys(found[0]) if found else None
    if keys is None:
        raise NotRaised(_REFUSED)
    arrays = _arrays(keys, xs)
    count = len(arrays)
    if all(i < len(xs) and x is xs[i] for i, x in enumerate(arrays)):
        return ops.sort_p.bind(*xs, dimension=axis, is_stable=is_stable, num_keys=count)
    outs = ops.sort_p.bind(*arrays, *xs, dimension=axis, is_stable=is_stable, num_keys=count)
    return outs[count:]


def _keys(tree: Tree) -> list[_Key] | None:
    """Return the keys that an expression compares, the first one first."""
    keys: list[_Key] = []
    rest: Tree | None = tree
    while rest is not None:
        equal, less, rest = _divided(rest)
        key = _compared(less)
        if key is None:
            return None
        if equal is not None and _compared(("LT", *equal[1:])) != key._replace(is_descending=False):
            return None
        keys.append(key)
    return keys


def _divided(tree: Tree) -> tuple[Tree | None, Tree, Tree | None]:
    """Return an expression as: where keys are equal, which is less, what decides if equal."""
    if tree[0] == "select" and tree[2][0] == "EQ":
        return tree[2], tree[4], tree[3]
    if tree[0] == "or":
        less, tied = tree[2:]
        if tied[0] == "and" and tied[2][0] == "EQ":
            return tied[2], less, tied[3]
    return None, tree, None


def _compared(tree: Tree) -> _Key | None:
    """Return the key that an expression compares between the two rows."""
    if tree[0] not in ("LT", "GT") or len(tree) != 4:
        return None
    direction, is_total, *sides = tree
    found = [_operand(side) for side in sides]
    if None in found:
        return None
    (x, part, is_settled), (y, *other) = found  # type: ignore[misc]
    # The elements of the first row have even numbers, those of the second odd ones.
    if [part, is_settled] != other or x // 2 != y // 2 or x == y:
        return None
    is_descending = (direction == "GT") != (x > y)
    return _Key(x // 2, part, is_settled, bool(is_total), is_descending)


def _operand(tree: Tree) -> tuple[int, str, bool] | None:
    """Return the argument that a key is, which part of it, and whether it is settled."""
    inner = _unsettled(tree)
    if inner is not None:
        tree = inner
    part = ""
    if tree[0] in _PARTS:
        part, tree = tree[0], tree[2]
    return (tree[1], part, inner is not None) if tree[0] == "argument" else None


def _unsettled(tree: Tree) -> Tree | None:
    """Return x, for an expression that makes the zeros of x one zero, and its nans one nan."""
    if tree[0] != "select":
        return None
    _, _, is_nan, nan, rest = tree
    if is_nan[0] != "NE" or nan[0] != "constant" or rest[0] != "select":
        return None
    _, _, is_zero, zero, x = rest
    if zero[0] != "constant":
        return None
    value = np.frombuffer(nan[2], np.dtype(nan[1]))[0]
    tests = is_nan[2:] in ((x, x), (rest, rest)) and is_zero == ("EQ", False, x, zero)
    # In the total order, only a positive nan is above all numbers.
    values = zero[2] == bytes(len(zero[2])) and np.isnan(value) and not np.signbit(value)
    return x if tests and values else None


def _arrays(keys: Sequence[_Key], xs: Sequence[Any]) -> list[Any]:
    """Return arrays whose order in kiln is that of the keys."""
    arrays = []
    left = list(keys)
    while left:
        first = left.pop(0)
        x = xs[first.operand]
        pair = [first._replace(part=part) for part in _PARTS]
        if is_complex(x) and [first, *left[:1]] == pair and _is_plain(first):
            # Real parts first, then imaginary ones: the order of complex numbers.
            left.pop(0)
            arrays.append(x)
        else:
            arrays.append(_array(first, x))
    return arrays


def _is_plain(key: _Key) -> bool:
    return key.is_settled and not key.is_descending


def _array(key: _Key, x: Any) -> Any:
    if key.part:
        x = (real_p if key.part == "real" else imag_p).bind(x)
    if is_complex(x):
        raise NotRaised(_REFUSED)
    if is_float(x):
        # Comparisons that are not total put no number before or after nan.
        is_settled = key.is_settled or not key.is_total
        if is_settled and not key.is_descending:
            return x
        x = total_order(_settled(x) if is_settled else x)
    if not key.is_descending:
        return x
    return elements.not_p.bind(converted(x, np.uint8) if is_bool(x) else x)


def _settled(x: Any) -> Any:
    """Return floats with one zero and one nan."""
    aval = aval_of(x)
    zero, nan = (repeated(each, aval.dtype, aval.shape) for each in (0, np.nan))
    x = elements.select_n_p.bind(elements.eq_p.bind(x, zero), x, zero)
    return elements.select_n_p.bind(elements.ne_p.bind(x, x), x, nan)


def _top_k(r: Raiser, operation: Operation, x: Any) -> Any:
    if not operation.attributes.get("largest", True):
        raise NotRaised(f"{operation.name} of the smallest elements has no counterpart in kiln")
    return ops.top_k_p.bind(x, k=operation.attributes["k"], axis=aval_of(x).ndim - 1)


RAISINGS: dict[str, Raising] = {"stablehlo.sort": _sort, "chlo.top_k": _top_k}
