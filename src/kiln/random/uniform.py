"""Random bits, and what is one comparison or rounding away: floats, integers, booleans."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands, shape_of
from kiln.ops.elements.conversion import bitcast_convert_type, convert_element_type
from kiln.ops.elements.elementwise import (
    bitwise_or,
    clamp,
    gt,
    le,
    lt,
    max,
    rem,
    shift_right_logical,
)
from kiln.ops.elements.families import full_like
from kiln.ops.out_sharding import sharded
from kiln.ops.random.random_bits import random_bits, random_split
from kiln.random.arguments import (
    Shape,
    check_broadcast,
    chosen_dtype,
    fitted,
    float_dtype,
    sample_shape,
    sampler,
)
from kiln.random.keys import single, typed

MODES = ("low", "high")


def bits(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw unsigned integers, all bits random.

    Raises: ValueError unless the dtype is an unsigned integer.
    Example:
        >>> random.bits(random.key(0), (3,), jnp.uint8)
        Array([89,  1, 32], dtype=uint8)
    """
    key = single("bits", key)
    found = chosen_dtype("bits", dtype, np.unsignedinteger, dtypes.default_uint_dtype())
    return sharded(
        _bits(key, shape=canonical_shape("bits", shape), dtype=found), out_sharding, "bits"
    )


@sampler
def _bits(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return random_bits(typed(key), dtypes.bit_width(dtype), shape)


def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw floats uniformly from [minval, maxval).

    Raises: ValueError unless the dtype is a float and the bounds broadcast to the shape.
    Example:
        >>> x = random.uniform(random.key(0), (100,), minval=-1)
        >>> bool(jnp.all((x >= -1) & (x < 1)))
        True
        >>> random.uniform(random.key(0), (2, 3), jnp.float16, maxval=10).dtype
        dtype('float16')
    """
    key = single("uniform", key)
    found = float_dtype("uniform", dtype)
    wanted = canonical_shape("uniform", shape)
    if type(minval) is type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return sharded(_unit_uniform(key, shape=wanted, dtype=found), out_sharding, "uniform")
    minval, maxval = operands("uniform", minval, maxval)
    check_broadcast("uniform", wanted, shape_of(minval), shape_of(maxval))
    return sharded(
        _uniform(key, minval, maxval, shape=wanted, dtype=found), out_sharding, "uniform"
    )


@sampler
def _unit_uniform(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return uniform_floats(typed(key), shape, dtype)


@sampler
def _uniform(key: Any, low: Any, high: Any, *, shape: Shape, dtype: Any) -> Any:
    low, high = fitted(low, shape, dtype), fitted(high, shape, dtype)
    return uniform_floats(typed(key), shape, dtype, low, high)


def uniform_floats(key: Any, shape: Shape, dtype: Any, low: Any = 0, high: Any = 1) -> Any:
    """Draw floats in [low, high); the bounds are scalars of the dtype, or have the shape."""
    width = dtypes.bit_width(dtype)
    mantissa = int(dtypes.finfo(dtype).nmant)
    # A byte is enough for the 7 bits of a bfloat16.
    drawn = 8 if mantissa < 8 else width
    words = random_bits(key, drawn, shape)
    word = np.dtype(f"u{width // 8}")
    words = convert_element_type(words, word)
    words = shift_right_logical(words, word.type(drawn - mantissa))
    # The random bits become the mantissa of a number in [1, 2).
    one = np.ones((), dtype)
    words = bitwise_or(words, one.view(word)[()])
    unit = bitcast_convert_type(words, dtype) - one[()]
    if isinstance(low, int):
        low, high = dtype.type(low), dtype.type(high)
    return max(low, unit * (high - low) + low)


def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw integers uniformly from [minval, maxval).

    Raises: TypeError unless the dtype is an integer; ValueError unless the bounds broadcast to the
        shape.
    Example:
        >>> random.randint(random.key(0), (5,), 0, 10)
        Array([8, 1, 3, 8, 8], dtype=int32)
        >>> x = random.randint(random.key(0), (100,), -3, 3)
        >>> int(x.min()), int(x.max())
        (-3, 2)
    """
    key = single("randint", key)
    found = (
        dtypes.default_int_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "randint")
    )
    if not dtypes.issubdtype(found, np.integer):
        raise TypeError(
            three_lines(
                f"randint(..., dtype={dtypes.long_name(found)}) at {current_source()}",
                f"randint only accepts integer dtypes, got {dtypes.long_name(found)}",
                "use random.uniform for floats",
            )
        )
    wanted = canonical_shape("randint", shape)
    minval, maxval = operands("randint", minval, maxval)
    check_broadcast("randint", wanted, shape_of(minval), shape_of(maxval))
    return sharded(
        _randint(key, minval, maxval, shape=wanted, dtype=found), out_sharding, "randint"
    )


@sampler
def _randint(key: Any, low: Any, high: Any, *, shape: Shape, dtype: Any) -> Any:
    limits = dtypes.iinfo(dtype)
    if dtypes.bit_width(dtype) < 32:
        # Narrow integers are drawn in 32 bits, where one more than the largest has a place.
        wide = np.dtype(np.int32)
        low = fitted(_within(low, limits.min, limits.max), shape, wide)
        high = fitted(_within(high, limits.min, limits.max + 1), shape, wide)
        return convert_element_type(_integers(typed(key), low, high, False, shape, wide), dtype)
    beyond = gt(high, _within(full_like(high, 0), limits.max, limits.max))
    low = fitted(_within(low, limits.min, limits.max), shape, dtype)
    high = fitted(_within(high, limits.min, limits.max), shape, dtype)
    return _integers(typed(key), low, high, beyond, shape, dtype)


def _within(x: Any, least: int, greatest: int) -> Any:
    """Clip x to an interval, as far as the range of its dtype allows."""
    dtype = aval_of(x).dtype
    if not dtypes.issubdtype(dtype, np.integer):
        return clamp(dtype.type(least), x, dtype.type(greatest))
    own = dtypes.iinfo(dtype)
    bounds = [
        dtype.type(sorted((int(own.min), bound, int(own.max)))[1]) for bound in (least, greatest)
    ]
    return clamp(bounds[0], x, bounds[1])


def _integers(key: Any, low: Any, high: Any, beyond: Any, shape: Shape, dtype: Any) -> Any:
    """Draw integers in [low, high); where `beyond`, the bound is one more than `high`."""
    width = dtypes.bit_width(dtype)
    unsigned = np.dtype(f"u{width // 8}")
    keys = random_split(key, (2,))
    upper, lower = (random_bits(keys[i], width, shape) for i in range(2))
    span = convert_element_type(high - low, unsigned)
    one = full_like(span, 1)
    span = where(le(high, low), one, span)
    if beyond is not False:
        span = where(beyond & gt(high, low), span + one, span)
    # Two words reduce the bias of the remainder: (upper 2^width + lower) mod span.
    factor = rem(full_like(span, 2 ** (width // 2)), span)
    factor = rem(factor * factor, span)
    offset = rem(rem(upper, span) * factor + rem(lower, span), span)
    return low + convert_element_type(offset, dtype)


def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: ShapeLike | None = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw booleans that are True with probability `p`; `mode="high"` resolves small p better.

    Raises: TypeError unless p is a float; ValueError for another mode.
    Example:
        >>> random.bernoulli(random.key(0), 0.25, (4,)).dtype
        dtype('bool')
    """
    key = single("bernoulli", key)
    (p,) = operands("bernoulli", p)
    aval = aval_of(p)
    if not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            three_lines(
                f"bernoulli: p {aval} at {current_source()}",
                "bernoulli probability `p` must have a floating dtype, got "
                f"{dtypes.long_name(aval.dtype)}",
                "write the probability as a float",
            )
        )
    check_mode("bernoulli", mode)
    wanted = sample_shape("bernoulli", shape, p)
    return sharded(
        (_bernoulli if mode == "low" else _rare_bernoulli)(key, p, shape=wanted, dtype=aval.dtype),
        out_sharding,
        "bernoulli",
    )


@sampler
def _bernoulli(key: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    return lt(uniform_floats(typed(key), shape, dtype), fitted(p, shape, dtype))


@sampler
def _rare_bernoulli(key: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    coarse, fine = uniform_floats(typed(key), (2, *shape), dtype)
    return lt(fine * dtypes.finfo(dtype).eps, fitted(p, shape, dtype) - coarse)


def check_mode(name: str, mode: str) -> None:
    """Raise ValueError unless the mode is a known one."""
    if mode not in MODES:
        raise ValueError(
            three_lines(
                f"{name}(..., mode={mode!r}) at {current_source()}",
                f"got mode={mode!r}, expected one of {MODES}",
                "use mode='high' for more precision in the tail, at twice the bits",
            )
        )


def rademacher(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw -1 or 1 with equal probability.

    Raises: TypeError or ValueError unless `key` is a single key. `out_sharding` says how the result
        is sharded: a NamedSharding, or a PartitionSpec over the mesh in force.
    Example:
        >>> random.rademacher(random.key(0), (6,))
        Array([-1,  1, -1, -1, -1,  1], dtype=int32)
    """
    key = single("rademacher", key)
    found = (
        dtypes.default_int_dtype()
        if dtype is None
        else dtypes.check_user_dtype(dtype, "rademacher")
    )
    return sharded(
        _rademacher(key, shape=canonical_shape("rademacher", shape), dtype=found),
        out_sharding,
        "rademacher",
    )


@sampler
def _rademacher(key: Any, *, shape: Shape, dtype: Any) -> Any:
    return random_signs(typed(key), shape, dtype)


def random_signs(key: Any, shape: Shape, dtype: Any) -> Any:
    """Draw -1 or 1 with a typed key."""
    half = dtypes.default_float_dtype()
    heads = lt(uniform_floats(key, shape, half), half.type(0.5))
    return convert_element_type(convert_element_type(heads, dtype) * 2 - 1, dtype)
