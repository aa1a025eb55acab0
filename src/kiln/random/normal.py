"""Normal variates, and the distributions derived from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.elements.arithmetic import clip
from kiln.numpy.elements.elementary import exp
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import div, mul, nextafter, sqrt, stop_gradient
from kiln.ops.elements.special import erf, erf_inv
from kiln.ops.out_sharding import sharded
from kiln.ops.random.random_bits import random_split
from kiln.ops.shape import reduce_sum
from kiln.random.arguments import (
    Shape,
    fitted,
    float_dtype,
    inexact_dtype,
    sample_shape,
    sampled,
    sampler,
)
from kiln.random.keys import single, typed
from kiln.random.uniform import random_signs, uniform_floats


def normal(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw standard normal variates; complex ones have total variance 1.

    Raises: ValueError unless the dtype is a float or complex one.
    Example:
        >>> random.normal(random.key(0), (2, 3)).shape
        (2, 3)
        >>> x = 3 + 2 * random.normal(random.key(0), (1000,))
        >>> abs(float(x.mean()) - 3) < 0.2, abs(float(x.std()) - 2) < 0.2
        (True, True)
    """
    return sharded(
        sampled(_normal, "normal", key, shape, dtype, of=inexact_dtype), out_sharding, "normal"
    )


@sampler
def _normal(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return normal_values(typed(key), shape, dtype)


def normal_values(key: Any, shape: Shape, dtype: Any) -> Any:
    """Draw standard normal variates with a typed key."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = dtypes.to_floating_dtype(dtype)
        keys = random_split(key, (2,))
        real, imag = (
            convert_element_type(_real_normal(keys[i], shape, part), dtype) for i in range(2)
        )
        return div(real + imag * dtype.type(1j), dtype.type(part.type(math.sqrt(2))))
    return _real_normal(key, shape, dtype)


def _real_normal(key: Any, shape: Shape, dtype: Any) -> Any:
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    drawn = uniform_floats(key, shape, dtype, low, dtype.type(1))
    return mul(dtype.type(math.sqrt(2)), erf_inv(drawn))


def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw standard normal variates truncated to (lower, upper).

    Raises: ValueError unless the dtype is a float and the bounds broadcast to the shape.
    Example:
        >>> draws = random.truncated_normal(random.key(0), 0.0, 1.0, (1000,))
        >>> draws.min() > 0, draws.max() < 1
        (Array(True, dtype=bool), Array(True, dtype=bool))
    """
    return sharded(
        sampled(_truncated_normal, "truncated_normal", key, shape, dtype, lower, upper),
        out_sharding,
        "truncated_normal",
    )


@sampler
def _truncated_normal(key: Any, lower: Any, upper: Any, *, shape: Shape, dtype: Any) -> Any:
    root = dtype.type(math.sqrt(2))
    lower, upper = fitted(lower, shape, dtype), fitted(upper, shape, dtype)
    low, high = erf(lower / root), erf(upper / root)
    out = mul(root, erf_inv(uniform_floats(typed(key), shape, dtype, low, high)))
    # Rounding must not carry a variate to the bounds.
    return clip(
        out,
        nextafter(stop_gradient(lower), dtype.type(np.inf)),
        nextafter(stop_gradient(upper), dtype.type(-np.inf)),
    )


def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw variates whose logarithm is normal, with standard deviation `sigma`.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> jnp.log(random.lognormal(random.key(0), 0.5, (1000,))).std().round(1)
        Array(0.5, dtype=float32)
    """
    return sharded(
        sampled(_lognormal, "lognormal", key, shape, dtype, sigma, of=inexact_dtype),
        out_sharding,
        "lognormal",
    )


@sampler
def _lognormal(key: Any, sigma: Any, *, shape: Shape, dtype: Any) -> Any:
    return exp(normal_values(typed(key), shape, dtype) * fitted(sigma, shape, dtype))


def maxwell(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Maxwell variates: the lengths of normal vectors with three components.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> random.maxwell(random.key(0), (1000,)).mean().round(1)
        Array(1.6, dtype=float32)
    """
    return sharded(sampled(_maxwell, "maxwell", key, shape, dtype), out_sharding, "maxwell")


@sampler
def _maxwell(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return _lengths(typed(key), shape, dtype)


def _lengths(key: Any, shape: Shape, dtype: Any) -> Any:
    vectors = normal_values(key, (*shape, 3), dtype)
    return sqrt(reduce_sum(mul(vectors, vectors), (len(shape),)))


def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Maxwell variates of random sign, times `scale`, around `loc`.

    Shapes: -> (*shape, ...), after the axes of the parameters; those twice without a shape
    Example:
        >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (4,)).shape
        (4,)
    """
    key = single("double_sided_maxwell", key)
    found = float_dtype("double_sided_maxwell", dtype)
    loc, scale = operands("double_sided_maxwell", loc, scale)
    inner = sample_shape("double_sided_maxwell", None, loc, scale)
    outer = canonical_shape("double_sided_maxwell", shape) or inner
    return _double_sided_maxwell(key, loc, scale, shape=(*outer, *inner), dtype=found)


@sampler
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    signed = random_signs(keys[1], shape, dtype) * _lengths(keys[0], shape, dtype)
    return signed * fitted(scale, shape, dtype) + fitted(loc, shape, dtype)


def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw inverse Gaussian variates of the given mean and scale 1.

    Source: Michael, Schucany and Haas 1976.
    Example:
        >>> random.wald(random.key(0), 1.0, (1000,)).mean().round()
        Array(1., dtype=float32)
    """
    return sharded(sampled(_wald, "wald", key, shape, dtype, mean), out_sharding, "wald")


@sampler
def _wald(key: Any, mean: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    mean = fitted(mean, shape, dtype)
    drawn = normal_values(keys[0], shape, dtype)
    chance = uniform_floats(keys[1], shape, dtype)
    square = drawn**2
    spread = sqrt(4 * mean * square + mean**2 * square**2)
    smaller = mean + mean**2 * square / 2 - mean / 2 * spread
    keep = chance <= mean / (mean + smaller)
    return where(keep, smaller, mean**2 / smaller)
