"""Replacing loads from a buffer by the stored expressions, in terms of another nest's axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kiln.engines.native.loop_ir.extents import (
    at_least,
    estimate,
    is_named,
    is_positive,
    quotient,
    whole,
)
from kiln.engines.native.loop_ir.scalars import Value, number, postorder, rebuilt
from kiln.engines.native.loop_ir.statements import Axis, Buffer, Index, load
from kiln.ir.sizes.size import Dim, maximum, minimum

Moving = Callable[[Buffer, Index], tuple[Buffer, Index]]
"""Maps an element of a buffer, at an index, to its new location."""


def solved(stored: Index, read: Index) -> dict[Axis, Index] | None:
    """Return the axes of a store, as indices of the reader, at which it writes what is read.

    None if no such point is certainly within the axes.
    """
    if stored == read:
        return {}
    axes = sorted(stored.axes(), key=lambda term: -estimate(term[1]))
    if not all(is_positive(factor) for _, factor in axes):
        return None
    rest = read.const - stored.const
    consts: dict[Axis, Dim] = {}
    for axis, factor in axes:
        # Any choice is correct that adds up and stays within the axes.
        times = whole(rest, factor) if at_least(rest, 0) else 0
        consts[axis] = 0 if times is None else times
        rest -= consts[axis] * factor
    terms: dict[Axis, list[tuple[Axis | Value, Dim]]] = {axis: [] for axis, _ in axes}
    for term, coefficient in read.terms:
        for axis, factor in axes:
            times = quotient(coefficient, factor)
            if times is not None:
                terms[axis].append((term, times))
                break
        else:
            return None
    if rest != 0:
        return None
    found = {}
    for axis, _ in axes:
        index = Index(consts[axis], terms[axis])
        low, high = bounds(index)
        if low is None or high is None or not is_within(low, high, axis.size):
            return None
        found[axis] = index
    return found


def is_within(low: Dim, high: Dim, size: Dim) -> bool:
    """Tell whether 0 <= low and high < size for certain."""
    return at_least(low, 0) and at_least(size, high + 1)


def within(index: Index, start: Index, size: Dim) -> bool:
    """Tell whether an index is certainly within `size` elements from another one on."""
    low, high = bounds(index + start * -1)
    return low is not None and high is not None and is_within(low, high, size)


def bounds(index: Index) -> tuple[Dim | None, Dim | None]:
    """Return the least and the greatest number an index can be; None if unknown."""
    low, high = index.const, index.const
    for term, factor in index.terms:
        first, last = (0, term.size - 1) if isinstance(term, Axis) else value_bounds(term)
        if first is None or last is None:
            return None, None
        if not at_least(factor, 0):
            if not at_least(0, factor):
                return None, None
            first, last = last, first
        low += first * factor
        high += last * factor
    return low, high


def value_bounds(x: Value) -> tuple[Dim | None, Dim | None]:
    """Return bounds of an integer value that was clamped; None if unknown."""
    if x.op == "constant":
        return int(number(x)), int(number(x))
    if x.op == "index":
        return bounds(x.attr)
    if x.op == "within":
        return value_bounds(x.operands[0])
    if x.op == "size":
        return x.attr, x.attr
    if x.op in ("min", "max"):
        (a, b), (c, d) = value_bounds(x.operands[0]), value_bounds(x.operands[1])
        lows, highs = [n for n in (a, c) if n is not None], [n for n in (b, d) if n is not None]
        if x.op == "max":
            low = maximum(*lows) if lows else None
            return low, maximum(*highs) if len(highs) == 2 else None
        high = minimum(*highs) if highs else None
        return minimum(*lows) if len(lows) == 2 else None, high
    if x.op == "convert" and x.operands[0].dtype[0] in "iu" and x.dtype in ("i64", "i32"):
        first, last = value_bounds(x.operands[0])
        if first is None or last is None:
            return None, None
        # Sizes of named axes are below 2**63.
        fits = at_least(first, -(2**31)) and at_least(2**31 - 1, last)
        if fits or (x.dtype == "i64" and at_least(first, 0) and is_named(last)):
            return first, last
    return None, None


def substituted(
    roots: Sequence[Value],
    axes: Mapping[Axis, Index],
    loads: Mapping[Value, Value],
    move: Moving | None = None,
) -> list[Value]:
    """Return expressions with axes replaced by indices, and loads by other expressions.

    `move` says where loads read instead.
    """
    found: dict[Value, Value] = dict(loads)
    stack = list(roots)
    while stack:
        x = stack[-1]
        if x in found:
            stack.pop()
            continue
        height = len(stack)
        for y in x.operands:
            if y not in found:
                stack.append(y)
        if len(stack) > height:
            continue
        stack.pop()
        found[x] = moved(x, axes, found, move)
    return [found[x] for x in roots]


def moved(
    x: Value,
    axes: Mapping[Axis, Index],
    found: Mapping[Value, Value],
    move: Moving | None = None,
) -> Value:
    """Return a node whose operands have been rewritten."""
    if x.op == "load":
        buffer, index = x.attr
        index = index.replaced(axes, found)
        return load(x.scope, *(move(buffer, index) if move else (buffer, index)))
    if x.op == "index":
        moved = x.attr.replaced(axes, found)
        if not moved.terms:
            return x.scope.constant(moved.const, x.dtype)
        return x.scope.node("index", x.dtype, moved.operands, moved)
    return rebuilt(x, tuple([found[y] for y in x.operands]))


def leaves(roots: Sequence[Value]) -> list[Value]:
    """Return the loads among the nodes of expressions."""
    return [x for x in postorder(roots) if x.op == "load"]
