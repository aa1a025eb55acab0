"""Rounding: to integers, to decimals, towards zero; fractional and integral parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named, eager
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.promotion import (
    converted,
    inexact,
    lifted,
    operands,
)
from kiln.ops.elements import conversion, elementwise, rounding
from kiln.ops.elements.elementwise import constant, select

_BOOL = np.dtype(np.bool_)


@eager
def rint(x: ArrayLike, /) -> Array:
    """Round to the nearest integer, ties to even.

    Example:
        >>> jnp.rint(jnp.array([0.5, 1.5, 2.4]))
        Array([0., 2., 2.], dtype=float32)
    """
    (x,) = operands("rint", x)
    dtype = aval_of(x).dtype
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.integer):
        return conversion.convert_element_type(x, dtypes.default_float_dtype())
    return round(x)


@eager
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to a number of decimals, ties to even.

    Example:
        >>> jnp.round(jnp.array([0.5, 1.5, 2.26]), 1)
        Array([0.5, 1.5, 2.3], dtype=float32)
    """
    refuse_out("round", out)
    (a,) = operands("round", a)
    dtype = aval_of(a).dtype
    if dtypes.issubdtype(dtype, np.integer):
        if decimals < 0:
            raise NotImplementedError(
                three_lines(
                    f"round: {aval_of(a)} to {decimals} decimals at {current_source()}",
                    "integer np.round not implemented for decimals < 0",
                    "divide, round and multiply in floating point",
                )
            )
        return lifted(a)
    if dtypes.issubdtype(dtype, np.complexfloating):
        return conversion.complex(
            round(conversion.real(a), decimals), round(conversion.imag(a), decimals)
        )
    return _round_float(a, decimals)


around = also_named("around", round)


def _round_float(x: Any, decimals: int) -> Any:
    nearest = rounding.RoundingMethod.TO_NEAREST_EVEN
    if decimals == 0:
        return rounding.round(x, nearest)
    aval = aval_of(x)
    # Multiplying a float16 by 10^decimals overflows early.
    wide = np.dtype(np.float32) if aval.dtype == np.float16 else aval.dtype
    x = converted(x, wide, aval.weak_type)
    factor = constant(10.0**decimals, x)
    rounded = elementwise.div(rounding.round(elementwise.mul(x, factor), nearest), factor)
    return converted(rounded, aval.dtype, aval.weak_type)


@eager
def floor(x: ArrayLike, /) -> Array:
    """Round towards minus infinity; integers are unchanged.

    Example:
        >>> jnp.floor(jnp.array([-1.5, 1.2]))
        Array([-2.,  1.], dtype=float32)
    """
    return _rounded("floor", x, elementwise.floor_p)


@eager
def ceil(x: ArrayLike, /) -> Array:
    """Round towards plus infinity; integers are unchanged.

    Example:
        >>> jnp.ceil(jnp.array([-1.5, 1.2]))
        Array([-1.,  2.], dtype=float32)
    """
    return _rounded("ceil", x, elementwise.ceil_p)


def _rounded(name: str, x: Any, primitive: Any) -> Any:
    (x,) = operands(name, x)
    dtype = aval_of(x).dtype
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.integer):
        return lifted(x)
    return primitive.bind(x)


@eager
def trunc(x: ArrayLike, /) -> Array:
    """Round towards zero; integers are unchanged.

    Example:
        >>> jnp.trunc(jnp.array([-1.7, 1.7]))
        Array([-1.,  1.], dtype=float32)
    """
    (x,) = operands("trunc", x)
    dtype = aval_of(x).dtype
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.integer):
        return lifted(x)
    negative_ = elementwise.lt(x, constant(0, x))
    return select(negative_, elementwise.ceil(x), elementwise.floor(x))


fix = also_named("fix", trunc)


@eager
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractional and the integral part.

    Example:
        >>> jnp.modf(jnp.array([1.25, -1.25]))
        (Array([ 0.25, -0.25], dtype=float32), Array([ 1., -1.], dtype=float32))
    """
    refuse_out("modf", out)
    x = inexact("modf", x)
    upward = elementwise.ge(x, constant(0, x))
    whole = select(upward, elementwise.floor(x), elementwise.ceil(x))
    return elementwise.sub(x, whole), whole
