"""Counts: Poisson, binomial, multinomial; by rejection, or by simpler methods for small means."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.loops import scan, while_loop
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.elements.arithmetic import clip
from kiln.numpy.elements.logic import isinf, isnan
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands, promote_dtypes_inexact, shape_of
from kiln.numpy.shapes import moveaxis
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import abs, ceil, floor, log, log1p, sqrt
from kiln.ops.elements.families import full_like
from kiln.ops.elements.special import lgamma
from kiln.ops.out_sharding import sharded
from kiln.ops.random.random_bits import KEY, name_of, random_clone_p, random_split
from kiln.ops.reductions.cumulative import cumsum
from kiln.ops.reductions.reduction import reduce_or
from kiln.ops.shape import full
from kiln.random.arguments import (
    Shape,
    check_broadcast,
    filled_to,
    float_dtype,
    int_dtype,
    sampled,
    sampler,
)
from kiln.random.keys import single, typed
from kiln.random.uniform import uniform_floats

_FLOAT32 = np.dtype(np.float32)
_SMALL = 10.0
"""Means below this are drawn by the simpler methods."""


def _any(flags: Any) -> Any:
    return reduce_or(flags, range(len(shape_of(flags))))


def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Poisson variates of mean `lam`.

    Source: Knuth, volume 2, section 3.4.1, for small means; Hörmann 1993 (PTRS) for others.

    Raises: NotImplementedError for keys of another generator than Threefry-2x32, as in JAX.
    Example:
        >>> random.poisson(random.key(0), 4.0, (4,))
        Array([2, 4, 5, 6], dtype=int32)
    """
    return sharded(
        sampled(_poisson, "poisson", key, shape, dtype, lam, of=int_dtype), out_sharding, "poisson"
    )


@sampler
def _poisson(key: Any, lam: Any, *, shape: Shape, dtype: Any) -> Any:
    key, lam = typed(key), filled_to(lam, shape, _FLOAT32)
    given = aval_of(key).dtype
    if given != KEY:
        raise NotImplementedError(
            three_lines(
                f"poisson: key of dtype {given} at {current_source()}",
                f"`poisson` is only implemented for the threefry2x32 RNG, not {name_of(given)}",
                "draw the counts with a key of random.key(seed, impl='threefry2x32')",
            )
        )
    small = isnan(lam) | (lam < _SMALL)
    few = _by_waiting_times(key, where(small, lam, full_like(lam, 0)), dtype)
    # Elements drawn by the other method get a mean with fast acceptance.
    many = _by_rejection(random_clone_p.bind(key), where(small, full_like(lam, 1e5), lam), dtype)
    found = where(small, few, many)
    return where(lam == 0, full_like(found, 0), found)


def _by_waiting_times(key: Any, lam: Any, dtype: Any) -> Any:
    most = dtypes.iinfo(dtype).max

    def going_on(state: Any) -> Any:
        step, _, _, time = state
        return _any(time > -lam) & (convert_element_type(step, dtype) < most)

    def wait(state: Any) -> Any:
        step, count, key, time = state
        keys = random_split(key, (2,))
        count = where(time > -lam, count + 1, count)
        time = time + log(uniform_floats(keys[1], shape_of(lam), _FLOAT32))
        return step + 1, count, keys[0], time

    start = (np.int32(0), full(shape_of(lam), 0, dtype), key, full_like(lam, 0))
    return while_loop(going_on, wait, start)[1] - 1


def _by_rejection(key: Any, lam: Any, dtype: Any) -> Any:
    log_lam = log(lam)
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        u_shifted = 0.5 - abs(u)
        k = floor((2 * a / u_shifted + b) * u + lam + 0.43)
        s = log(v * inverse_alpha / (a / (u_shifted * u_shifted) + b))
        t = -lam + k * log_lam - lgamma(k + 1)
        at_once = (u_shifted >= 0.07) & (v <= v_r)
        refused = (k < 0) | ((u_shifted < 0.013) & (v > u_shifted))
        return k, at_once | (~refused & (s <= t))

    counts = _until_accepted(key, lam, propose, dtypes.iinfo(dtype).max, dtype)
    return convert_element_type(counts, dtype)


def _until_accepted(
    key: Any, like: Any, propose: Callable[..., tuple[Any, Any]], most: Any, counter: Any
) -> Any:
    """Propose with u in [-0.5, 0.5) and v in [0, 1) until each element is accepted once.

    An element that is accepted again takes the later value, since the loop runs over all of them.
    """
    shape, dtype = shape_of(like), aval_of(like).dtype

    def going_on(state: Any) -> Any:
        step, _, accepted, _ = state
        return _any(~accepted) & (convert_element_type(step, counter) < most)

    def draw(state: Any) -> Any:
        step, found, accepted, key = state
        keys = random_split(key, (3,))
        u = uniform_floats(keys[1], shape, dtype) - 0.5
        v = uniform_floats(keys[2], shape, dtype)
        proposed, accept = propose(u, v)
        return step + 1, where(accept, proposed, found), accepted | accept, keys[0]

    start = (np.int32(0), full_like(like, -1), full(shape, False, np.dtype(bool)), key)
    return while_loop(going_on, draw, start)[1]


def binomial(
    key: ArrayLike,
    n: Any,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw the number of successes in `n` trials of probability `p`, as floats.

    Source: Kachitvichyanukul and Schmeiser 1988 for few successes; Hörmann 1993 (BTRS) for many.
    Example:
        >>> random.binomial(random.key(0), 10, 0.5, (4,))
        Array([2., 6., 6., 2.], dtype=float32)
    """
    return sampled(_binomial, "binomial", key, shape, dtype, n, p)


@sampler
def _binomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    (p,) = promote_dtypes_inexact(p)
    computed = aval_of(p).dtype
    found = binomial_values(
        typed(key), filled_to(n, shape, computed), filled_to(p, shape, computed)
    )
    return convert_element_type(found, dtype)


def binomial_values(key: Any, n: Any, p: Any) -> Any:
    """Draw numbers of successes with a typed key; nan for a negative `n` or `p`, or `p` > 1."""
    rare = p < 0.5
    q = where(rare, p, 1 - p)
    no_count, endless = isnan(n) | (n < 0), isinf(n)
    no_chance, negative = isnan(q), q < 0
    q = where(no_chance | negative, full_like(q, 0.01), q)
    few = no_count | (n * q <= _SMALL)
    count = floor(n)
    by_inversion = _by_geometric_sums(key, where(few, count, full_like(count, 0)), q)
    # Elements drawn by the other method get parameters with fast acceptance.
    many, q_of_many = where(few, full_like(count, 1e4), count), where(few, full_like(q, 0.5), q)
    by_rejection = _binomial_by_rejection(random_clone_p.bind(key), many, q_of_many)
    found = where(few, by_inversion, by_rejection)
    invalid = negative | no_chance | no_count
    found = where(invalid, full_like(found, np.nan), found)
    found = where(endless & ~invalid, full_like(found, np.inf), found)
    return where(rare | no_count | no_chance | endless, found, count - found)


def _by_geometric_sums(key: Any, count: Any, p: Any) -> Any:
    rate = log1p(-p)
    shape, dtype = shape_of(count), aval_of(count).dtype

    def going_on(state: Any) -> Any:
        return _any(state[1] <= count)

    def step(state: Any) -> Any:
        successes, trials, key = state
        keys = random_split(key, (2,))
        successes = where(trials <= count, successes + 1, successes)
        waited = ceil(log(uniform_floats(keys[0], shape, dtype)) / rate)
        return successes, trials + waited, keys[1]

    return while_loop(going_on, step, (full_like(count, 0), full_like(count, 0), key))[0] - 1


def _binomial_by_rejection(key: Any, n: Any, p: Any) -> Any:
    spread = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * spread
    mode = floor((n + 1) * p)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        u_shifted = 0.5 - abs(u)
        at_once = (u_shifted >= 0.07) & (v <= v_r)
        k = floor((2 * a / u_shifted + b) * u + c)
        refused = (k < 0) | (k > n)
        # Where it is refused, the bound is of another number: logarithms would be nan.
        near = where(refused, mode, k)
        v = log(v * alpha / (a / (u_shifted * u_shifted) + b))
        bound = (
            (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * log((n - mode + 1) / (n - near + 1))
            + (near + 0.5) * log(odds * (n - near + 1) / (near + 1))
            + _stirling_rest(mode)
            + _stirling_rest(n - mode)
            - _stirling_rest(near)
            - _stirling_rest(n - near)
        )
        return k, at_once | (~refused & (v <= bound))

    dtype = aval_of(n).dtype
    return _until_accepted(key, n, propose, dtypes.finfo(dtype).max, dtype)


def _rest(k: int) -> float:
    return math.lgamma(k + 1) - (
        (k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)
    )


_RESTS = tuple(_rest(k) for k in range(10))


def _stirling_rest(k: Any) -> Any:
    """Return the remainder of Stirling's formula for log k!."""
    dtype = aval_of(k).dtype
    held = clip(k, 0, 9)
    square = (held + 1) * (held + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (held + 1)
    table = full_like(k, _RESTS[0])
    for i, rest in enumerate(_RESTS):
        table = where(floor(held) == i, dtype.type(rest), table)
    return where(k <= 9, table, series)


def multinomial(
    key: ArrayLike,
    n: Any,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """Draw how many of `n` trials fall in each of k categories with probabilities `p`.

    Shapes: `shape` is that of the result, (..., k), by default that of `p`; `n` broadcasts to (...)
    Raises: ValueError unless n and p broadcast so.
    Example:
        >>> random.multinomial(random.key(0), 10, jnp.array([0.2, 0.3, 0.5])).sum()
        Array(10., dtype=float32)
    """
    key = single("multinomial", key)
    found = float_dtype("multinomial", dtype)
    n, p = operands("multinomial", n, p)
    wanted = shape_of(p) if shape is None else canonical_shape("multinomial", shape)
    if not wanted or not shape_of(p):
        raise ValueError(
            three_lines(
                f"multinomial(..., shape={wanted}) with p of shape {shape_of(p)} "
                f"at {current_source()}",
                "the last axis of p and of the result holds the categories, and there is none",
                "give p one probability for each category",
            )
        )
    check_broadcast("multinomial", wanted, shape_of(p))
    check_broadcast("multinomial", wanted[:-1], shape_of(n))
    return _multinomial(key, n, p, shape=wanted, dtype=found, unroll=unroll)


@partial(jit, static_argnames=("shape", "dtype", "unroll"), inline=True)
def _multinomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: Any, unroll: int | bool) -> Any:
    n = filled_to(n, shape[:-1], dtype)
    p = moveaxis(filled_to(p, shape, dtype), -1, 0)
    left = cumsum(p, 0, reverse=True)
    chances = p / where(left == 0, full_like(left, 1), left)

    def draw(remaining: Any, category: Any) -> tuple[Any, Any]:
        chance, key = category
        found = binomial_values(key, remaining, clip(chance, 0, 1))
        return remaining - found, found

    keys = random_split(typed(key), shape_of(p)[:1])
    _, counts = scan(draw, n, (chances, keys), unroll=unroll)
    return moveaxis(counts, 0, -1)
