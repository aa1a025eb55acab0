"""Elementary functions: exponentials, logarithms, trigonometry, and what is computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.at_once import at_once
from kiln.core.trace import aval_of
from kiln.numpy.logic import choose_by, isinf
from kiln.numpy.promotion import (
    binary_inexact,
    converted,
    full_shapes,
    inexact,
    lifted,
    operands,
    promote_inexact,
)
from kiln.ops import conversion, elementwise, special
from kiln.ops.cumulative import principal
from kiln.ops.elementwise import constant, select
from kiln.ops.shape import broadcast_in_dim

_BOOL = np.dtype(np.bool_)


def _function(name: str, primitive: Any, meaning: str) -> Callable[[Any], Any]:
    def apply(x: Any, /) -> Any:
        return primitive.bind(inexact(name, x))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Return the {meaning}, element by element."
    return at_once(apply)


exp = _function("exp", elementwise.exp_p, "exponential")
exp2 = _function("exp2", elementwise.exp2_p, "power of two")
expm1 = _function("expm1", elementwise.expm1_p, "exponential minus one")
log = _function("log", elementwise.log_p, "natural logarithm")
log1p = _function("log1p", elementwise.log1p_p, "natural logarithm of one plus x")
sqrt = _function("sqrt", elementwise.sqrt_p, "square root")
cbrt = _function("cbrt", elementwise.cbrt_p, "cube root")
sin = _function("sin", elementwise.sin_p, "sine")
cos = _function("cos", elementwise.cos_p, "cosine")
tan = _function("tan", elementwise.tan_p, "tangent")
arcsin = asin = _function("arcsin", elementwise.asin_p, "inverse sine")
arccos = acos = _function("arccos", elementwise.acos_p, "inverse cosine")
arctan = atan = _function("arctan", elementwise.atan_p, "inverse tangent")
sinh = _function("sinh", elementwise.sinh_p, "hyperbolic sine")
cosh = _function("cosh", elementwise.cosh_p, "hyperbolic cosine")
tanh = _function("tanh", elementwise.tanh_p, "hyperbolic tangent")
arcsinh = asinh = _function("arcsinh", elementwise.asinh_p, "inverse hyperbolic sine")
arccosh = acosh = _function("arccosh", elementwise.acosh_p, "inverse hyperbolic cosine")
arctanh = atanh = _function("arctanh", elementwise.atanh_p, "inverse hyperbolic tangent")


@at_once
def log2(x: Any, /) -> Any:
    """Return the logarithm to base 2, element by element."""
    found = _strong(elementwise.log_p.bind(inexact("log2", x)))
    return _by_number(elementwise.div, found, math.log(2))


@at_once
def log10(x: Any, /) -> Any:
    """Return the logarithm to base 10, element by element."""
    found = _strong(elementwise.log_p.bind(inexact("log10", x)))
    return _by_number(elementwise.mul, found, 1 / math.log(10))


def _by_number(op: Any, x: Any, factor: float) -> Any:
    """Multiply or divide by a real number, parts by themselves: infinities stay what they are."""
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return op(x, constant(factor, x))
    parts = (conversion.real(x), conversion.imag(x))
    return conversion.complex(*[op(part, constant(factor, part)) for part in parts])


def _strong(x: Any) -> Any:
    """Return an array that is strongly typed."""
    return conversion.convert_element_type(x, aval_of(x).dtype, False)


def weak_as(out: Any, *operands: Any) -> Any:
    """Return a result that is weakly typed only if all operands are."""
    weak = all(type(x) is bool or dtypes.is_weak(x) for x in operands)
    return out if weak else _strong(out)


@at_once
def arctan2(x1: Any, x2: Any, /) -> Any:
    """Return the angle of the point (x2, x1)."""
    x1, x2 = binary_inexact("arctan2", x1, x2)
    return elementwise.atan2_p.bind(x1, x2)


atan2 = arctan2


@at_once
def hypot(x1: Any, x2: Any, /) -> Any:
    """Return the length of the vector (x1, x2), without overflow."""
    given = x1, x2
    x1, x2 = promote_inexact("hypot", x1, x2)
    if dtypes.issubdtype(aval_of(x1).dtype, np.complexfloating):
        raise ValueError(
            three_lines(
                f"hypot: operands {aval_of(x1)} at {current_source()}",
                "jnp.hypot is not well defined for complex-valued inputs.",
                "use the absolute values of the operands",
            )
        )
    x1, x2 = elementwise.abs(x1), elementwise.abs(x2)
    infinite = elementwise.bitwise_or(isinf(x1), isinf(x2))
    long, short = elementwise.max(x1, x2), elementwise.min(x1, x2)
    nothing = elementwise.eq(long, constant(0, long))
    ratio = elementwise.div(short, select(nothing, constant(1, long), long))
    length = elementwise.mul(
        long, elementwise.sqrt(elementwise.add(constant(1, long), elementwise.square(ratio)))
    )
    return weak_as(
        select(infinite, constant(math.inf, long), select(nothing, long, length)), *given
    )


@at_once
def deg2rad(x: Any, /) -> Any:
    """Convert degrees to radians."""
    x = inexact("deg2rad", x)
    return elementwise.mul(x, constant(math.pi / 180, x))


@at_once
def rad2deg(x: Any, /) -> Any:
    """Convert radians to degrees."""
    x = inexact("rad2deg", x)
    return elementwise.mul(x, constant(180 / math.pi, x))


radians, degrees = deg2rad, rad2deg


@at_once
def logaddexp(x1: Any, x2: Any, /) -> Any:
    """Return log(exp(x1) + exp(x2)), without overflow."""
    return _log_of_sum("logaddexp", x1, x2, elementwise.exp, 1.0)


@at_once
def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """Return log2(2^x1 + 2^x2), without overflow."""
    out = _log_of_sum("logaddexp2", x1, x2, elementwise.exp2, 1 / math.log(2))
    return weak_as(out, x1, x2)


def _log_of_sum(name: str, x1: Any, x2: Any, exponential: Callable[[Any], Any], unit: float) -> Any:
    given = x1, x2
    x1, x2 = promote_inexact(name, x1, x2)
    if dtypes.issubdtype(aval_of(x1).dtype, np.complexfloating):
        return weak_as(_complex_log_of_sum(x1, x2, unit), *given)
    distance = elementwise.sub(x1, x2)
    # Operands equal to one infinity have no distance; their sum is that infinity.
    together = elementwise.ne(distance, distance)
    distance = select(together, constant(0, distance), distance)
    # As -|distance|, with a derivative of 0 where the operands are equal.
    below = elementwise.min(distance, elementwise.neg(distance))
    small = elementwise.log1p(exponential(below))
    if unit != 1.0:
        small = elementwise.mul(small, constant(unit, small))
    out = elementwise.add(elementwise.max(x1, x2), small)
    return select(together, elementwise.add(x1, x2), out)


def _complex_log_of_sum(x1: Any, x2: Any, unit: float) -> Any:
    first = elementwise.ge(conversion.real(x1), conversion.real(x2))
    large, small = select(first, x1, x2), select(first, x2, x1)
    distance = elementwise.sub(small, large)
    if unit != 1.0:
        distance = elementwise.div(distance, constant(unit, distance))
    rest = elementwise.log1p(elementwise.exp(distance))
    if unit != 1.0:
        rest = elementwise.mul(rest, constant(unit, rest))
    return principal(elementwise.add(large, rest), math.pi * unit)


@at_once
def sinc(x: Any, /) -> Any:
    """Return sin(pi x) / (pi x), and 1 at 0."""
    x = inexact("sinc", x)
    angle_ = elementwise.mul(x, constant(math.pi, x))
    tiny = elementwise.lt(elementwise.abs(angle_), constant(_SINC_SERIES, elementwise.abs(angle_)))
    safe = select(tiny, constant(1, angle_), angle_)
    # The series serves derivatives of every order met in practice; its values round to the sine's.
    squared = elementwise.square(select(tiny, angle_, constant(0, angle_)))
    series = constant(1, squared)
    for k in (4, 3, 2, 1):
        term = elementwise.mul(squared, constant(-1.0 / ((2 * k) * (2 * k + 1)), squared))
        series = elementwise.add(constant(1, squared), elementwise.mul(term, series))
    return select(tiny, series, elementwise.div(elementwise.sin(safe), safe))


_SINC_SERIES = 1e-1


def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers in the plane."""
    (z,) = operands("angle", z)
    aval = aval_of(z)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        out = elementwise.atan2(conversion.imag(z), conversion.real(z))
    else:
        dtype = dtypes.to_inexact_dtype(aval.dtype)
        z = converted(z, dtype, False)
        out = elementwise.atan2(constant(0, z), z)
    return rad2deg(out) if deg else out


def real(val: Any, /) -> Any:
    """Return the real part; real numbers are their own."""
    (val,) = operands("real", val)
    if dtypes.issubdtype(aval_of(val).dtype, np.complexfloating):
        return conversion.real(val)
    return lifted(val)


def imag(val: Any, /) -> Any:
    """Return the imaginary part; zeros for real numbers."""
    (val,) = operands("imag", val)
    aval = aval_of(val)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        return conversion.imag(val)
    return broadcast_in_dim(constant(0, val), aval.shape, ())


def conjugate(x: Any, /) -> Any:
    """Return the complex conjugate; real numbers are their own."""
    (x,) = operands("conjugate", x)
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return conversion.conj(x)
    return lifted(x)


conj = conjugate


def heaviside(x1: Any, x2: Any, /) -> Any:
    """Return 0 for negative x1, 1 for positive, x2 for zero."""
    given = x1, x2
    x1, x2 = promote_inexact("heaviside", x1, x2)
    _check_real("heaviside", aval_of(x1).dtype)
    zero = constant(0, x1)
    at_zero = choose_by(elementwise.ne(x1, x1), x1, x2)
    upper = choose_by(elementwise.gt(x1, zero), constant(1, x1), at_zero)
    return weak_as(choose_by(elementwise.lt(x1, zero), zero, upper), given[0])


def signbit(x: Any, /) -> Any:
    """Tell whether the sign bit is set."""
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


def copysign(x1: Any, x2: Any, /) -> Any:
    """Return x1 with the sign of x2."""
    x1, x2 = promote_inexact("copysign", x1, x2)
    _check_real("copysign", aval_of(x1).dtype)
    size = elementwise.abs(x1)
    return choose_by(signbit(x2), elementwise.neg(size), size)


def _check_real(name: str, dtype: Any) -> None:
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            three_lines(
                f"{name}: operand of dtype {dtype} at {current_source()}",
                f"{name} does not support complex-valued inputs",
                "apply it to real and imag parts",
            )
        )


def nextafter(x: Any, y: Any, /) -> Any:
    """Return the next number after x in the direction of y."""
    x, y = promote_inexact("nextafter", x, y)
    return elementwise.nextafter_p.bind(x, y)


def spacing(x: Any, /) -> Any:
    """Return the distance to the next number away from zero."""
    x = _strong(inexact("spacing", x))
    if not dtypes.issubdtype(aval_of(x).dtype, np.floating):
        raise ValueError(
            three_lines(
                f"spacing: operand {aval_of(x)} at {current_source()}",
                "jnp.spacing is not defined for complex inputs.",
                "pass real numbers",
            )
        )
    away = copysign(math.inf, x)
    return elementwise.sub(nextafter(x, away), x)


def frexp(x: Any, /) -> tuple[Any, Any]:
    """Return mantissa in [0.5, 1) and exponent, so that x = mantissa * 2^exponent."""
    x = inexact("frexp", x)
    dtype = aval_of(x).dtype
    x = converted(x, dtype, False)
    _check_real("frexp", dtype)
    fraction, bias, whole = _layout(dtype)
    subnormal = elementwise.lt(
        elementwise.abs(x), constant(float(dtypes.finfo(dtype).smallest_normal), x)
    )
    normal = select(subnormal, elementwise.mul(x, constant(2.0**fraction, x)), lifted(x))
    bits = conversion.bitcast_convert_type(normal, whole)
    field = elementwise.bitwise_and(
        elementwise.shift_right_arithmetic(bits, whole.type(fraction)), whole.type(2 * bias + 1)
    )
    exponent = elementwise.sub(conversion.convert_element_type(field, np.int32), np.int32(bias - 1))
    special = elementwise.bitwise_or(
        elementwise.bitwise_not(elementwise.is_finite(x)), elementwise.eq(x, constant(0, x))
    )
    exponent = select(special, np.int32(0), exponent)
    mantissa = select(special, normal, _scaled(normal, elementwise.neg(exponent)))
    shift = select(
        elementwise.bitwise_and(subnormal, elementwise.bitwise_not(special)),
        np.int32(-fraction),
        np.int32(0),
    )
    return mantissa, elementwise.add(exponent, shift)


def _layout(dtype: Any) -> tuple[int, int, Any]:
    """Return a float dtype's fraction bits, exponent bias, and the integers of its width."""
    fraction = int(dtypes.finfo(dtype).nmant)
    bits = 8 * dtype.itemsize
    return fraction, (1 << (bits - 2 - fraction)) - 1, _bits_of(dtype)


def _scaled(x: Any, k: Any) -> Any:
    """Return x * 2^k for int32 k: products with powers of two made of bits, hence exact."""
    fraction, bias, whole = _layout(aval_of(x).dtype)
    low, high = np.int32(1 - bias), np.int32(bias)
    for _ in range(3):
        step = elementwise.max(elementwise.min(k, high), low)
        field = conversion.convert_element_type(elementwise.add(step, np.int32(bias)), whole)
        bits = elementwise.shift_left(field, whole.type(fraction))
        x = elementwise.mul(x, conversion.bitcast_convert_type(bits, aval_of(x).dtype))
        k = elementwise.sub(k, step)
    return x


def ldexp(x1: Any, x2: Any, /) -> Any:
    """Return x1 * 2^x2 for integers x2."""
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
    return _scaled(x1, x2)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace nan by `nan`, infinities by the largest finite numbers or the numbers given."""
    (x,) = operands("nan_to_num", x)
    aval = aval_of(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return lifted(x)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        parts = (conversion.real(x), conversion.imag(x))
        return conversion.complex(*[nan_to_num(p, copy, nan, posinf, neginf) for p in parts])
    limits = dtypes.finfo(aval.dtype)
    posinf = float(limits.max) if posinf is None else posinf
    neginf = float(limits.min) if neginf is None else neginf
    x = _strong(x)
    x = choose_by(elementwise.ne(x, x), _as(nan, x), x)
    x = choose_by(elementwise.eq(x, constant(math.inf, x)), _as(posinf, x), x)
    return choose_by(elementwise.eq(x, constant(-math.inf, x)), _as(neginf, x), x)


def _as(value: Any, like: Any) -> Any:
    aval = aval_of(like)
    return converted(value, aval.dtype, aval.weak_type)


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0."""
    x = inexact("i0", x)
    if not dtypes.issubdtype(aval_of(x).dtype, np.floating):
        raise ValueError(
            three_lines(
                f"i0: operand {aval_of(x)} at {current_source()}",
                f"Unsupported input type to jax.numpy.i0: {aval_of(x)}",
                "pass real numbers",
            )
        )
    return elementwise.mul(elementwise.exp(elementwise.abs(x)), special.bessel_i0e(x))
