"""The parts of floats: sign, exponent, significand.

These functions are exact for subnormal numbers because they compute with integers: compiled
programs flush subnormal operands of floating-point instructions to zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.promotion import converted, full_shapes, inexact, lifted, operands, promote_inexact
from kiln.ops.elements import conversion, elementwise
from kiln.ops.elements.elementwise import constant, select

_BOOL = np.dtype(bool)


def signbit(x: ArrayLike, /) -> Array:
    """Tell whether the sign bit is set.

    Example:
        >>> jnp.signbit(jnp.array([-1.0, -0.0, 0.0]))
        Array([ True,  True, False], dtype=bool)
    """
    (x,) = operands("signbit", x)
    dtype = aval_of(x).dtype
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.unsignedinteger):
        return elementwise.full_like(conversion.convert_element_type(x, _BOOL), False)
    if dtypes.issubdtype(dtype, np.integer):
        return elementwise.lt(x, constant(0, x))
    if not dtypes.issubdtype(dtype, np.floating):
        raise ValueError(
            three_lines(
                f"signbit: operand {aval_of(x)} at {current_source()}",
                "jax.numpy.signbit is not well defined for complex-valued inputs",
                "apply it to real and imag parts",
            )
        )
    bits = conversion.bitcast_convert_type(lifted(x), _bits_of(dtype))
    return elementwise.lt(bits, constant(0, bits))


def _bits_of(dtype: Any) -> Any:
    return np.dtype(f"i{dtype.itemsize}")


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 with the sign of x2.

    Example:
        >>> jnp.copysign(jnp.array([1.0, 2.0]), jnp.array([-0.0, 5.0]))
        Array([-1.,  2.], dtype=float32)
    """
    x1, x2 = promote_inexact("copysign", x1, x2)
    check_real("copysign", aval_of(x1).dtype)
    size = elementwise.abs(x1)
    return choose_by(signbit(x2), elementwise.neg(size), size)


def check_real(name: str, dtype: Any) -> None:
    """Raise TypeError for complex dtypes."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            three_lines(
                f"{name}: operand of dtype {dtype} at {current_source()}",
                f"{name} does not support complex-valued inputs",
                "apply it to real and imag parts",
            )
        )


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the next floating-point number after x towards y.

    Example:
        >>> jnp.nextafter(1.0, 2.0) - 1
        Array(1.1920929e-07, dtype=float32, weak_type=True)
    """
    x, y = promote_inexact("nextafter", x, y)
    return elementwise.nextafter_p.bind(x, y)


def spacing(x: ArrayLike, /) -> Array:
    """Return the distance to the next floating-point number away from zero, with the sign of x.

    That of float16 is, as NumPy's, the distance to the next larger number, and not negative.

    Example:
        >>> jnp.spacing(jnp.array([1.0, 1e6]))
        Array([1.1920929e-07, 6.2500000e-02], dtype=float32)
    """
    x = inexact("spacing", x)
    x = converted(x, aval_of(x).dtype, False)
    if not dtypes.issubdtype(aval_of(x).dtype, np.floating):
        raise ValueError(
            three_lines(
                f"spacing: operand {aval_of(x)} at {current_source()}",
                "jnp.spacing is not defined for complex inputs.",
                "pass real numbers",
            )
        )
    if aval_of(x).dtype == np.float16:
        found = elementwise.sub(elementwise.nextafter(x, constant(math.inf, x)), x)
        return select(elementwise.is_finite(x), found, constant(math.nan, x))
    parts = _parts(x)
    # One unit in the last place, which is itself subnormal for small numbers.
    unit = elementwise.sub(parts.field, np.int32(parts.fraction))
    one = elementwise.full_like(parts.significand, 1 << parts.fraction)
    found = _float_of(parts.sign, unit, one, aval_of(x).dtype)
    return select(elementwise.is_finite(x), found, constant(math.nan, x))


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Return mantissa in [0.5, 1) and exponent, so that x = mantissa * 2^exponent.

    Example:
        >>> jnp.frexp(jnp.array([8.0, 0.3]))
        (Array([0.5, 0.6], dtype=float32), Array([ 4, -1], dtype=int32))
    """
    x = inexact("frexp", x)
    dtype = aval_of(x).dtype
    x = converted(x, dtype, False)
    check_real("frexp", dtype)
    parts = _parts(x)
    half = np.int32(parts.bias - 1)
    exponent = select(parts.is_special, np.int32(0), elementwise.sub(parts.exponent, half))
    exact = _float_of(parts.sign, elementwise.full_like(exponent, half), parts.significand, dtype)
    subnormal = elementwise.le(parts.exponent, np.int32(0))
    scaled = select(parts.is_special, lifted(x), _scaled(x, elementwise.neg(exponent)))
    exact_there = elementwise.bitwise_and(subnormal, elementwise.bitwise_not(parts.is_special))
    return select(exact_there, exact, scaled), exponent


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 * 2^x2 for integers x2.

    Example:
        >>> jnp.ldexp(jnp.array([0.5, 0.75]), jnp.array([4, 1]))
        Array([8. , 1.5], dtype=float32)
    """
    x1, x2 = operands("ldexp", x1, x2)
    dtype1, dtype2 = aval_of(x1).dtype, aval_of(x2).dtype
    if dtypes.issubdtype(dtype1, np.complexfloating) or not (
        dtypes.issubdtype(dtype2, np.integer) or dtype2 == _BOOL
    ):
        raise ValueError(
            three_lines(
                f"ldexp: operands {aval_of(x1)}, {aval_of(x2)} at {current_source()}",
                "ldexp not supported for input types "
                f"{(dtypes.long_name(dtype1), dtypes.long_name(dtype2))}",
                "pass a real number and an integer",
            )
        )
    x1 = converted(x1, dtypes.to_inexact_dtype(dtype1), False)
    x1, x2 = full_shapes("ldexp", x1, converted(x2, np.dtype(np.int32), False))
    parts = _parts(x1)
    exponent = elementwise.add(parts.exponent, _clipped(x2, 4 * parts.bias))
    rounded = _float_of(parts.sign, exponent, parts.significand, aval_of(x1).dtype)
    outside = elementwise.le(elementwise.min(parts.exponent, exponent), np.int32(0))
    exact = elementwise.bitwise_and(outside, elementwise.bitwise_not(parts.is_special))
    return select(exact, rounded, _scaled(x1, x2))


class _Parts(NamedTuple):
    """A float as integers: (-1)^sign * significand * 2^(exponent - bias - fraction).

    The significand has its leading one at the bit `fraction`, that of subnormal numbers too: their
    exponent is 0 or less. `field` is the exponent as it is stored, at least 1. Zeros, infinities
    and nans are special, and their parts meaningless.
    """

    sign: Any
    exponent: Any
    significand: Any
    field: Any
    is_special: Any
    fraction: int
    bias: int


def _parts(x: Any) -> _Parts:
    fraction, bias, whole = _format(aval_of(x).dtype)
    bits = conversion.bitcast_convert_type(lifted(x), whole)
    stored = elementwise.bitwise_and(
        elementwise.shift_right_arithmetic(bits, whole.type(fraction)), whole.type(2 * bias + 1)
    )
    low = elementwise.bitwise_and(bits, whole.type((1 << fraction) - 1))
    stored = conversion.convert_element_type(stored, np.int32)
    is_small = elementwise.eq(stored, np.int32(0))
    is_zero = elementwise.bitwise_and(is_small, elementwise.eq(low, whole.type(0)))
    is_special = elementwise.bitwise_or(is_zero, elementwise.eq(stored, np.int32(2 * bias + 1)))
    shift = elementwise.sub(elementwise.clz(low), whole.type(8 * whole.itemsize - 1 - fraction))
    shift = select(
        elementwise.bitwise_or(is_special, elementwise.bitwise_not(is_small)), whole.type(0), shift
    )
    leading = elementwise.bitwise_or(low, whole.type(1 << fraction))
    significand = select(is_small, elementwise.shift_left(low, shift), leading)
    field = elementwise.max(stored, np.int32(1))
    exponent = elementwise.sub(field, conversion.convert_element_type(shift, np.int32))
    sign = elementwise.bitwise_and(bits, whole.type(np.iinfo(whole).min))
    return _Parts(sign, exponent, significand, field, is_special, fraction, bias)


def _float_of(sign: Any, exponent: Any, significand: Any, dtype: Any) -> Any:
    """Return the float with these parts, rounded to nearest, ties to even, if it is subnormal."""
    fraction, bias, whole = _format(dtype)
    bounded = elementwise.min(
        elementwise.max(exponent, np.int32(-fraction - 1)), np.int32(2 * bias + 1)
    )
    lost = conversion.convert_element_type(
        elementwise.max(elementwise.sub(np.int32(1), bounded), np.int32(0)), whole
    )
    kept = elementwise.shift_right_logical(significand, lost)
    one = whole.type(1)
    # Half of the last bit that is kept, less one if that bit is 0: a carry rounds.
    half = elementwise.sub(
        elementwise.shift_right_logical(elementwise.shift_left(one, lost), one), one
    )
    odd = elementwise.bitwise_and(kept, one)
    rounds = elementwise.gt(lost, whole.type(0))
    raised = elementwise.shift_right_logical(
        elementwise.add(significand, elementwise.add(half, odd)), lost
    )
    small = select(rounds, raised, significand)
    low = elementwise.bitwise_and(significand, whole.type((1 << fraction) - 1))
    field = conversion.convert_element_type(bounded, whole)
    high = elementwise.shift_left(field, whole.type(fraction))
    too_large = elementwise.gt(exponent, np.int32(2 * bias))
    normal = select(
        too_large, whole.type((2 * bias + 1) << fraction), elementwise.bitwise_or(high, low)
    )
    bits = select(elementwise.le(bounded, np.int32(0)), small, normal)
    return conversion.bitcast_convert_type(elementwise.bitwise_or(bits, sign), dtype)


def _clipped(k: Any, limit: int) -> Any:
    return elementwise.min(elementwise.max(k, np.int32(-limit)), np.int32(limit))


def _format(dtype: Any) -> tuple[int, int, Any]:
    """Return a float dtype's fraction bits, exponent bias, and the integer dtype of its width."""
    fraction = int(dtypes.finfo(dtype).nmant)
    bits = 8 * dtype.itemsize
    return fraction, (1 << (bits - 2 - fraction)) - 1, _bits_of(dtype)


def _scaled(x: Any, k: Any) -> Any:
    """Return x * 2^k for int32 k: products with powers of two built from bits, hence exact."""
    fraction, bias, whole = _format(aval_of(x).dtype)
    low, high = np.int32(1 - bias), np.int32(bias)
    for _ in range(3):
        step = elementwise.max(elementwise.min(k, high), low)
        field = conversion.convert_element_type(elementwise.add(step, np.int32(bias)), whole)
        bits = elementwise.shift_left(field, whole.type(fraction))
        x = elementwise.mul(x, conversion.bitcast_convert_type(bits, aval_of(x).dtype))
        k = elementwise.sub(k, step)
    return x
