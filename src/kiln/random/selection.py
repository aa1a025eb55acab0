"""Choosing at random: categories by log-probabilities, elements, permutations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.loops import fori_loop
from kiln.core.array_type import Array, ArrayLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim, Size, maximum, product
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.creation.filling import zeros
from kiln.numpy.indexing.taking import take
from kiln.numpy.promotion import operands, promote_dtypes_inexact, shape_of
from kiln.numpy.search import searchsorted
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, gt, log
from kiln.ops.indexing.static_slicing import index_in_dim, slice_in_dim
from kiln.ops.out_sharding import sharded
from kiln.ops.random.random_bits import random_bits, random_split
from kiln.ops.reductions.cumulative import cumsum
from kiln.ops.reductions.reduction import argmax
from kiln.ops.reductions.sorting import sort_key_val, top_k
from kiln.ops.shape import canonical_axis, expand_dims, reshape
from kiln.ops.size_value import as_index
from kiln.random.arguments import Shape, check_broadcast
from kiln.random.inversion import gumbel_values
from kiln.random.keys import single, typed
from kiln.random.uniform import check_mode, randint, uniform_floats


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw categories with probabilities softmax(logits) along an axis.

    With `replace=False`, draws along the leading axes of `shape`, which logits do not have, are
    distinct.

    Shapes: (..., n) -> shape, which ends in the axes of logits without `axis`
    Raises: ValueError for another shape, or for more draws without replacement than categories.
    Example:
        >>> logits = jnp.array([0.0, 100.0, 0.0])
        >>> random.categorical(random.key(0), logits, shape=(3,))
        Array([1, 1, 1], dtype=int32)
    """
    key = single("categorical", key)
    (logits,) = operands("categorical", logits)
    aval = aval_of(logits)
    if not dtypes.issubdtype(aval.dtype, np.floating):
        raise ValueError(
            three_lines(
                f"categorical: logits {aval} at {current_source()}",
                f"logits must have a float dtype, got {dtypes.long_name(aval.dtype)}",
                "convert them first: logits.astype('float32')",
            )
        )
    check_mode("categorical", mode or "low")
    axis = canonical_axis("categorical", axis, aval.ndim)
    inner = (*aval.shape[:axis], *aval.shape[axis + 1 :])
    wanted = inner if shape is None else canonical_shape("categorical", shape)
    check_broadcast("categorical", wanted, inner)
    if replace:
        return sharded(
            _categorical(key, logits, axis=axis, shape=wanted, mode=mode),
            out_sharding,
            "categorical",
        )
    prefix = wanted[: len(wanted) - len(inner)]
    _check_population("categorical", int(product(prefix)), int(aval.shape[axis]))
    return sharded(
        _distinct_categories(key, logits, axis=axis, shape=wanted, mode=mode),
        out_sharding,
        "categorical",
    )


_selecting = functools.partial(jit, static_argnames=("axis", "shape", "mode"), inline=True)


@_selecting
def _categorical(key: Any, logits: Any, *, axis: int, shape: Shape, mode: str | None) -> Any:
    aval = aval_of(logits)
    leading = len(shape) - (aval.ndim - 1)
    drawn = list(shape)
    drawn.insert(leading + axis, aval.shape[axis])
    noise = gumbel_values(typed(key), tuple(drawn), aval.dtype, mode)
    stretched = expand_dims(logits, range(leading)) if leading else logits
    return argmax(noise + stretched, leading + axis, dtypes.default_int_dtype())


@_selecting
def _distinct_categories(
    key: Any, logits: Any, *, axis: int, shape: Shape, mode: str | None
) -> Any:
    aval = aval_of(logits)
    count = int(product(shape[: len(shape) - (aval.ndim - 1)]))
    noisy = logits + gumbel_values(typed(key), aval.shape, aval.dtype, mode)
    _, found = top_k(noisy, count, axis=axis)
    order = [axis, *[i for i in range(aval.ndim) if i != axis]]
    return reshape(found, shape, order)


def _check_population(name: str, draws: Any, population: Any) -> None:
    if draws > population:
        raise ValueError(
            three_lines(
                f"{name}: {draws} draws of {population} at {current_source()}",
                f"Cannot take a larger sample (size {draws}) than population (size {population}) "
                "when 'replace=False'",
                "draw fewer, or with replace=True",
            )
        )


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Draw elements of an array along an axis, or of range(a) for an integer a.

    `p` holds the probabilities of the elements, which are equal by default.

    Raises: ValueError for an empty population, too many draws without replacement, or a `p` of
        another length.
    Example:
        >>> random.choice(random.key(0), 5, (3,), replace=False).shape
        (3,)
    """
    key = single("choice", key)
    among = a
    a, *given = operands("choice", a, *(() if p is None else (p,)))
    aval = aval_of(a)
    wanted = canonical_shape("choice", shape)
    draws = product(wanted)
    population: Any
    if aval.ndim:
        axis = canonical_axis("choice", axis, aval.ndim)
        population = aval.shape[axis]
        full = (*aval.shape[:axis], *wanted, *aval.shape[axis + 1 :])
    else:
        axis, population, full = 0, _whole(among, a), wanted
    if draws == 0:
        return zeros(full, aval.dtype)
    if population <= 0:
        raise ValueError(
            three_lines(
                f"choice: {draws} draws of {aval} at {current_source()}",
                "a must be greater than 0 unless no samples are taken",
                "choose among something",
            )
        )
    if not replace:
        _check_population("choice", draws, population)
    if given:
        places = _weighted(key, given[0], wanted, population, replace, mode)
    elif replace:
        places = randint(key, wanted, 0, population)
    else:
        orders = permutation(key, a if aval.ndim else population, axis)
        return reshape(slice_in_dim(orders, 0, draws, axis=axis), full)
    chosen = take(a, places, axis=axis) if aval.ndim else places
    return reshape(chosen, full)


def _weighted(
    key: Any, p: Any, shape: Shape, population: Dim, replace: bool, mode: str | None
) -> Any:
    if shape_of(p) != (population,):
        raise ValueError(
            three_lines(
                f"choice: p {aval_of(p)} at {current_source()}",
                "p must be None or a 1D vector with the same size as a.shape[axis]. p has shape "
                f"{shape_of(p)} and a.shape[axis] is {population}.",
                "give one probability for each element",
            )
        )
    (p,) = promote_dtypes_inexact(p)
    if replace:
        return _weighted_with_replacement(key, p, shape=shape)
    return _weighted_without(key, p, count=product(shape), mode=mode)


@functools.partial(jit, static_argnames=("shape",), inline=True)
def _weighted_with_replacement(key: Any, p: Any, *, shape: Shape) -> Any:
    sums = cumsum(p, 0)
    total = index_in_dim(sums, -1, keepdims=False)
    drawn = total * (1 - uniform_floats(typed(key), shape, aval_of(p).dtype))
    return searchsorted(sums, drawn).astype(dtypes.default_int_dtype())


@functools.partial(jit, static_argnames=("count", "mode"), inline=True)
def _weighted_without(key: Any, p: Any, *, count: Dim, mode: str | None) -> Any:
    noisy = gumbel_values(typed(key), shape_of(p), aval_of(p).dtype, mode) + log(p)
    if type(count) is Size:
        places = sort_key_val(-noisy, iota(dtypes.default_int_dtype(), shape_of(p)[0]))[1]
        return slice_in_dim(places, 0, count)
    return top_k(noisy, int(count))[1].astype(dtypes.default_int_dtype())


def permutation(
    key: ArrayLike,
    x: ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Shuffle an array along an axis, or range(x) for an integer x.

    With `independent`, each line along the axis is shuffled on its own.

    Raises: TypeError for a scalar that is not an integer.
    Example:
        >>> jnp.sort(random.permutation(random.key(0), 4))
        Array([0, 1, 2, 3], dtype=int32)
        >>> sorted(random.permutation(random.key(0), jnp.array([[1, 2], [3, 4]])).tolist())
        [[1, 2], [3, 4]]
    """
    key = single("permutation", key)
    among = x
    (x,) = operands("permutation", x)
    aval = aval_of(x)
    if not aval.ndim:
        if not dtypes.issubdtype(aval.dtype, np.integer):
            raise _not_shuffled(aval)
        size = maximum(_whole(among, x), 0)
        return sharded(_shuffled_range(key, size=size), out_sharding, "permutation")
    axis = canonical_axis("permutation", axis, aval.ndim)
    return sharded(
        _permutation(key, x, axis=axis, together=not independent and aval.ndim > 1),
        out_sharding,
        "permutation",
    )


def _not_shuffled(aval: ShapedArray) -> TypeError:
    return TypeError(
        three_lines(
            f"permutation: x {aval} at {current_source()}",
            "x must be an integer or at least 1-dimensional",
            "pass an int n for a permutation of range(n)",
        )
    )


@functools.partial(jit, static_argnames=("size",), inline=True)
def _shuffled_range(key: Any, *, size: Dim) -> Any:
    return _shuffled(typed(key), iota(dtypes.default_int_dtype(), size), 0)


@functools.partial(jit, static_argnames=("axis", "together"), inline=True)
def _permutation(key: Any, x: Any, *, axis: int, together: bool) -> Any:
    key = typed(key)
    if not together:
        return _shuffled(key, x, axis)
    places = _shuffled(key, iota(dtypes.default_int_dtype(), shape_of(x)[axis]), 0)
    return take(x, places, axis=axis, unique_indices=True)


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    """Sort by random words, often enough to make ties improbable."""

    def sorted_again(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        key, x = state
        keys = random_split(key, (2,))
        _, x = sort_key_val(random_bits(keys[1], 32, shape_of(x)), x, axis)
        return keys[0], x

    size = product(shape_of(x))
    if type(size) is Size:
        # As often as for that number.
        times: Any = np.int32(0)
        for limit in _LARGEST_OF_ROUNDS:
            times = add(times, convert_element_type(gt(as_index(size), np.int32(limit)), np.int32))
        return fori_loop(np.int32(0), times, sorted_again, (key, x))[1]
    for _ in range(sum(size > limit for limit in _LARGEST_OF_ROUNDS)):
        key, x = sorted_again(None, (key, x))
    return x


def _whole(asked: Any, x: Any) -> Dim:
    """Return the number that a scalar is; a named size stays one."""
    return asked if type(asked) is Size else int(x)


_LARGEST_OF_ROUNDS = (1, 1625, 2_642_245)
"""Up to these sizes the cube is at most (2**32 - 1)**i: so many rounds are enough."""
