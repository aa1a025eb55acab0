"""Complex numbers: real and imaginary parts, conjugates, angles."""

from __future__ import annotations

import numpy as np

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named
from kiln.numpy.elements.elementary import rad2deg
from kiln.numpy.promotion import (
    converted,
    lifted,
    operands,
)
from kiln.ops.elements import conversion, elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.shape import broadcast_in_dim


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the angle of complex numbers in the plane.

    Example:
        >>> jnp.angle(jnp.array([1.0, 1j, -1.0]), deg=True)
        Array([  0.,  90., 180.], dtype=float32)
    """
    (z,) = operands("angle", z)
    aval = aval_of(z)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        out = elementwise.atan2(conversion.imag(z), conversion.real(z))
    else:
        dtype = dtypes.to_inexact_dtype(aval.dtype)
        z = converted(z, dtype, False)
        out = elementwise.atan2(constant(0, z), z)
    return rad2deg(out) if deg else out


def real(val: ArrayLike, /) -> Array:
    """Return the real part; real numbers are returned unchanged.

    Example:
        >>> jnp.real(jnp.array([1 + 2j, 3.0]))
        Array([1., 3.], dtype=float32)
    """
    (val,) = operands("real", val)
    if dtypes.issubdtype(aval_of(val).dtype, np.complexfloating):
        return conversion.real(val)
    return lifted(val)


def imag(val: ArrayLike, /) -> Array:
    """Return the imaginary part; zeros for real numbers.

    Example:
        >>> jnp.imag(jnp.array([1 + 2j, 3.0]))
        Array([2., 0.], dtype=float32)
    """
    (val,) = operands("imag", val)
    aval = aval_of(val)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        return conversion.imag(val)
    return broadcast_in_dim(constant(0, val), aval.shape, ())


def conjugate(x: ArrayLike, /) -> Array:
    """Return the complex conjugate; real numbers are returned unchanged."""
    (x,) = operands("conjugate", x)
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return conversion.conj(x)
    return lifted(x)


conj = also_named("conj", conjugate)
