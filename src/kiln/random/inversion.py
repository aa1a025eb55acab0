"""Sampling by inverting the distribution function: one uniform float per variate."""

from __future__ import annotations

import math
from typing import Any

from kiln.base import dtypes
from kiln.base.options.config import options
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.elements.arithmetic import power
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    abs,
    div,
    eq,
    exp,
    floor,
    ge,
    log,
    log1p,
    lt,
    mul,
    neg,
    sign,
    sqrt,
    sub,
    tan,
)
from kiln.ops.elements.families import full_like
from kiln.ops.out_sharding import sharded
from kiln.random.arguments import (
    Shape,
    filled_to,
    fitted,
    float_dtype,
    int_dtype,
    sampled,
    sampler,
)
from kiln.random.keys import single, typed
from kiln.random.uniform import check_mode, uniform_floats


def exponential(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw exponential variates of mean 1.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> random.exponential(random.key(0), (1000,)).mean().round()
        Array(1., dtype=float32)
    """
    return sharded(
        sampled(_exponential, "exponential", key, shape, dtype), out_sharding, "exponential"
    )


@sampler
def _exponential(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return exponential_values(typed(key), shape, dtype)


def exponential_values(key: Any, shape: Shape, dtype: Any) -> Any:
    """Draw exponential variates with a typed key."""
    # 1 - u lies in (0, 1], so the logarithm is finite.
    return neg(log1p(neg(uniform_floats(key, shape, dtype))))


def cauchy(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Cauchy variates.

    The density is 1 / (pi (1 + x**2)).
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> jnp.abs(jnp.median(random.cauchy(random.key(0), (1001,)))) < 0.1
        Array(True, dtype=bool)
    """
    return sharded(sampled(_cauchy, "cauchy", key, shape, dtype), out_sharding, "cauchy")


@sampler
def _cauchy(key: Any, *, shape: Shape, dtype: Any) -> Any:
    least = dtype.type(dtypes.finfo(dtype).eps)
    drawn = uniform_floats(typed(key), shape, dtype, least, dtype.type(1))
    return tan(mul(dtype.type(math.pi), sub(drawn, 0.5)))


def laplace(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Laplace variates of scale 1.

    The density is exp(-|x|) / 2.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> jnp.abs(random.laplace(random.key(0), (1000,))).mean().round()
        Array(1., dtype=float32)
    """
    return sharded(sampled(_laplace, "laplace", key, shape, dtype), out_sharding, "laplace")


@sampler
def _laplace(key: Any, *, shape: Shape, dtype: Any) -> Any:
    least = dtype.type(-1 + float(dtypes.finfo(dtype).epsneg))
    drawn = uniform_floats(typed(key), shape, dtype, least, dtype.type(1))
    return mul(sign(drawn), log1p(neg(abs(drawn))))


def logistic(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw logistic variates.

    The density is exp(-x) / (1 + exp(-x))**2.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> random.logistic(random.key(0), (1000,)).std().round(1)
        Array(1.8, dtype=float32)
    """
    return sharded(sampled(_logistic, "logistic", key, shape, dtype), out_sharding, "logistic")


@sampler
def _logistic(key: Any, *, shape: Shape, dtype: Any) -> Any:
    least = dtype.type(dtypes.finfo(dtype).tiny)
    drawn = uniform_floats(typed(key), shape, dtype, least, dtype.type(1))
    return sub(log(drawn), log1p(neg(drawn)))


def gumbel(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Gumbel variates; `mode="high"` resolves the tail better.

    The position of the largest of `logits + gumbel` is a draw of the categories.

    The position of the largest of `logits + gumbel` is a draw of the categories.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> logits = jnp.log(jnp.array([0.1, 0.9]))
        >>> draws = (logits + random.gumbel(random.key(0), (1000, 2))).argmax(axis=1)
        >>> draws.mean().round(1)
        Array(0.9, dtype=float32)
    """
    key = single("gumbel", key)
    found = float_dtype("gumbel", dtype)
    mode = mode or gumbel_mode()
    check_mode("gumbel", mode)
    draw = _precise_gumbel if mode == "high" else _gumbel
    return sharded(
        draw(key, shape=canonical_shape("gumbel", shape), dtype=found), out_sharding, "gumbel"
    )


@sampler
def _gumbel(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return gumbel_values(typed(key), shape, dtype, "low")


@sampler
def _precise_gumbel(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return gumbel_values(typed(key), shape, dtype, "high")


def gumbel_mode() -> str:
    """Return the mode of functions that are not given one: "low", unless an option says so."""
    return "high" if options().high_dynamic_range_gumbel else "low"


def gumbel_values(key: Any, shape: Shape, dtype: Any, mode: str | None = None) -> Any:
    """Draw Gumbel variates with a typed key.

    `mode` is 'high', 'low' or None, for what the option says.
    """
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    if (mode or gumbel_mode()) != "high":
        drawn = uniform_floats(key, shape, dtype, tiny, dtype.type(1))
        return neg(log(neg(log(drawn))))
    coarse, fine = uniform_floats(key, (2, *shape), dtype)
    joined = coarse + dtypes.finfo(dtype).eps * fine + tiny
    drawn = where(ge(coarse, 0.5), coarse, joined)
    return neg(log(neg(log1p(neg(drawn)))))


def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Pareto variates of shape `b`, at least 1.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.pareto(random.key(0), 3.0, (1000,)).min() >= 1
        Array(True, dtype=bool)
    """
    return sharded(sampled(_pareto, "pareto", key, shape, dtype, b), out_sharding, "pareto")


@sampler
def _pareto(key: Any, b: Any, *, shape: Shape, dtype: Any) -> Any:
    return exp(div(exponential_values(typed(key), shape, dtype), fitted(b, shape, dtype)))


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Weibull variates.

    `scale` multiplies the variates, `concentration` is the exponent of the density's tail,
    exp(-x**concentration).
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
    Example:
        >>> random.weibull_min(random.key(0), 2.0, 1.0, (1000,)).mean().round()
        Array(2., dtype=float32)
    """
    key = single("weibull_min", key)
    found = float_dtype("weibull_min", dtype)
    scale, concentration = operands("weibull_min", scale, concentration)
    wanted = canonical_shape("weibull_min", shape)
    return _weibull_min(key, scale, concentration, shape=wanted, dtype=found)


@sampler
def _weibull_min(key: Any, scale: Any, concentration: Any, *, shape: Shape, dtype: Any) -> Any:
    drawn = exponential_values(typed(key), shape, dtype)
    exponent = convert_element_type(1.0 / concentration, dtype)
    return power(drawn, exponent) * convert_element_type(scale, dtype)


def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Rayleigh variates.

    The density is `x / scale**2 exp(-x**2 / (2 scale**2))`.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.rayleigh(random.key(0), 2.0, (1000,)).mean().round(1)
        Array(2.5, dtype=float32)
    """
    return sharded(
        sampled(_rayleigh, "rayleigh", key, shape, dtype, scale), out_sharding, "rayleigh"
    )


@sampler
def _rayleigh(key: Any, scale: Any, *, shape: Shape, dtype: Any) -> Any:
    drawn = uniform_floats(typed(key), shape, dtype)
    return mul(fitted(scale, shape, dtype), sqrt(mul(log(drawn), -2)))


def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: Any,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw variates of the triangular density on [left, right] that peaks at `mode`.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> draws = random.triangular(random.key(0), 0.0, 1.0, 3.0, (1000,))
        >>> draws.min() >= 0, draws.max() <= 3
        (Array(True, dtype=bool), Array(True, dtype=bool))
    """
    return sharded(
        sampled(_triangular, "triangular", key, shape, dtype, left, mode, right),
        out_sharding,
        "triangular",
    )


@sampler
def _triangular(key: Any, left: Any, mode: Any, right: Any, *, shape: Shape, dtype: Any) -> Any:
    left, mode, right = (filled_to(x, shape, dtype) for x in (left, mode, right))
    drawn = uniform_floats(typed(key), shape, dtype)
    rising = left + sqrt(drawn * (right - left) * (mode - left))
    falling = right - sqrt((1 - drawn) * (right - left) * (right - mode))
    return where(lt(drawn, (mode - left) / (right - left)), rising, falling)


def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw the number of trials, each successful with probability `p`, up to the first success.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.geometric(random.key(0), 0.5, (1000,)).mean().round()
        Array(2., dtype=float32)
    """
    return sharded(
        sampled(_geometric, "geometric", key, shape, dtype, p, of=int_dtype),
        out_sharding,
        "geometric",
    )


@sampler
def _geometric(key: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    p = convert_element_type(p, dtypes.to_inexact_dtype(aval_of(p).dtype))
    drawn = uniform_floats(typed(key), shape, aval_of(p).dtype)
    safe = where(eq(drawn, 0), full_like(drawn, 1), drawn)
    trials = floor(div(log(safe), fitted(log1p(neg(p)), shape, aval_of(p).dtype)))
    return convert_element_type(trials + 1, dtype)
