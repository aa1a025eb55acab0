"""`associative_scan`: all prefixes of an associative operation, in a logarithmic number of steps.

It is not a primitive: neighbors are combined, the combinations are scanned recursively, and the
prefixes in between are filled in. Source: Blelloch, Prefix sums and their applications (1990).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.source import api_boundary, current_source, definition_of
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.control.regions.bodies import arrays_of, check_callable
from kiln.core.trace import aval_of
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.shape import canonical_axis, expand_dims, reshape, rev

T = TypeVar("T")

Stacks = list[Any]


@api_boundary
@known_keywords
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: T, reverse: bool = False, axis: int = 0
) -> T:
    """Return the combinations of the first 1, 2, ..., n elements along an axis, in log n steps.

    `fn(a, b)` combines stacks of elements along that axis, and must be associative. `reverse`
    starts from the last element.

    Raises: ValueError for arrays without that axis, or with different sizes along it.
    Source: the documentation of `jax.lax.associative_scan`.
    Example:
        >>> lax.associative_scan(jnp.multiply, jnp.arange(1, 6))
        Array([  1,   2,   6,  24, 120], dtype=int32)
    """
    check_callable("associative_scan", "fn", fn)
    stacks, tree = arrays_of("associative_scan", "elems", elems)
    if not stacks:
        return elems
    axes = [canonical_axis("associative_scan", axis, len(aval_of(x).shape)) for x in stacks]
    sizes = [aval_of(x).shape[at] for x, at in zip(stacks, axes, strict=True)]
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            three_lines(
                f"associative_scan: elems {', '.join(str(aval_of(x)) for x in stacks)} at "
                f"{current_source()}",
                f"all arrays must have the same size along axis {axis}, got {sizes}",
                "slice them to one size",
            )
        )

    def combine(a: Stacks, b: Stacks) -> Stacks:
        out = fn(tree_unflatten(tree, a), tree_unflatten(tree, b))
        leaves, out_tree = tree_flatten(out)
        if out_tree != tree:
            raise TypeError(
                three_lines(
                    f"associative_scan: {definition_of(fn)}, called at {current_source()}",
                    f"fn must return the structure it is given: {tree}, got {out_tree}",
                    "return one combined value for each of the elems",
                )
            )
        return leaves

    if reverse:
        stacks = [rev(x, (at,)) for x, at in zip(stacks, axes, strict=True)]
    outs = _prefixes(combine, stacks, axes)
    if reverse:
        outs = [rev(x, (at,)) for x, at in zip(outs, axes, strict=True)]
    return tree_unflatten(tree, outs)


def _prefixes(
    combine: Callable[[Stacks, Stacks], Stacks], stacks: Stacks, axes: Sequence[int]
) -> Stacks:
    n = operator.index(aval_of(stacks[0]).shape[axes[0]])
    if n < 2:
        return stacks

    def part(xs: Stacks, start: int, stop: int | None, stride: int = 1) -> Stacks:
        return [slice_in_dim(x, start, stop, stride, at) for x, at in zip(xs, axes, strict=True)]

    pairs = combine(part(stacks, 0, n - 1, 2), part(stacks, 1, None, 2))
    odd = _prefixes(combine, pairs, axes)
    first = part(stacks, 0, 1)
    if n == 2:
        even = first
    else:
        before = odd if n % 2 else part(odd, 0, n // 2 - 1)
        later = combine(before, part(stacks, 2, None, 2))
        even = [concatenate(xs, at) for *xs, at in zip(first, later, axes, strict=True)]
    return [_interleaved(*xs) for xs in zip(even, odd, axes, strict=True)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """Return even[0], odd[0], even[1], ...; `even` may have one more element."""
    shape = list(aval_of(odd).shape)
    n = shape[axis]
    heads = slice_in_dim(even, 0, n, axis=axis)
    paired = concatenate([expand_dims(x, (axis + 1,)) for x in (heads, odd)], axis + 1)
    shape[axis] = 2 * n
    out = reshape(paired, shape)
    if aval_of(even).shape[axis] == n:
        return out
    return concatenate([out, slice_in_dim(even, n, None, axis=axis)], axis)
