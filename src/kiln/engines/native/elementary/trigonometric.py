"""sin, cos, tan.

The argument is reduced by a multiple of pi in three parts. Vectors with a larger argument fall back
to the runtime function (`_runtime/kernels/large_angles.cc`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kiln.engines.native.elementary.formats import (
    FORMATS,
    integer_of,
    parts,
    polynomial,
    two_product,
    two_sum,
)
from kiln.engines.native.loop_ir.scalars import Value

# Above this, the multiple of pi is not an exact product, or not an exact integer.
_LARGE = {"f32": 2.0**16, "f64": 2.0**30}


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """Return r, rest and an integer quarter: x = quarter * pi / 2 + r + rest, |r| <= pi / 4."""
    f = FORMATS[x.dtype]
    t = x.muladd(parts("2/pi", x.dtype)[0], f.magic)
    count = t - f.magic
    # The first product and difference are exact.
    first, second, third = parts("pi/2", x.dtype)
    near = count.fma(-first, x)
    product, low = two_product(count, x.scope.constant(second, x.dtype))
    r = near - product
    return r, count.muladd(-third, ((near - r) - product) - low), integer_of(t)


def _flipped(x: Value, parity: Value) -> Value:
    """Return x or, if the lowest bit is set, -x."""
    sign = parity << {"f32": 31, "f64": 63}[x.dtype]
    return (integer_of(x) ^ sign).bitcast(x.dtype)


def _is_large(x: Value, dtype: str) -> Value:
    # What is not finite is reduced to nan: programs with nans are as fast as others.
    return abs(x).gt(_LARGE[dtype]) & abs(x).lt(math.inf)


def _function(name: str, x: Value, finish: Callable[[Value, Value, Value], Value]) -> Value:
    usual = finish(*_reduced(x))
    return x.scope.rare(_is_large(x, x.dtype), usual, x.scope.of_runtime(name, x))


def sin(x: Value) -> Value:
    """Return the sine; nan of infinities."""
    return x.eq(0).select(x, _function("sin", x, _of_sine))


def cos(x: Value) -> Value:
    """Return the cosine; nan of infinities."""
    return _function("cos", x, _of_cosine)


def tan(x: Value) -> Value:
    """Return the tangent; nan of infinities. Of f32, computed in f64."""
    if x.dtype == "f32":
        r, _, quarter = _reduced(x.convert("f64"))
        near = _short_tangent(r, quarter).convert("f32")
        exact = x.scope.of_runtime("tan", x)
        return x.eq(0).select(x, x.scope.rare(_is_large(x, "f64"), near, exact))
    return x.eq(0).select(x, _function("tan", x, _of_tangent))


def _sine(r: Value, rest: Value) -> tuple[Value, Value]:
    """Return the terms of sin(r + rest), |r| <= pi / 4."""
    z = r * r
    return r, (r * z).muladd(polynomial("sin_short", z), rest)


def _cosine(r: Value, rest: Value) -> tuple[Value, Value]:
    """Return the terms of cos(r + rest), |r| <= pi / 4."""
    z = r * r
    half = z * 0.5
    top = 1 - half
    # The rounding error of 1 - z / 2, and the rest of the series.
    return top, ((1 - top) - half) + (z * z).muladd(polynomial("cos_short", z), -(r * rest))


def _of_sine(r: Value, rest: Value, quarter: Value) -> Value:
    sine, cosine = (a + b for a, b in (_sine(r, rest), _cosine(r, rest)))
    found = (quarter & 1).eq(0).select(sine, cosine)
    return _flipped(found, quarter >> 1)


def _of_cosine(r: Value, rest: Value, quarter: Value) -> Value:
    return _of_sine(r, rest, quarter + 1)


def _of_tangent(r: Value, rest: Value, quarter: Value) -> Value:
    sine, sine_low = two_sum(*_sine(r, rest))
    cosine, cosine_low = two_sum(*_cosine(r, rest))
    even = (quarter & 1).eq(0)
    above, above_low = even.select(sine, -cosine), even.select(sine_low, -cosine_low)
    below, below_low = even.select(cosine, sine), even.select(cosine_low, sine_low)
    inverse = 1 / below
    quotient = above * inverse
    left = (-quotient).fma(below, above) + (-quotient).muladd(below_low, above_low)
    return left.muladd(inverse, quotient)


def _short_tangent(r: Value, quarter: Value) -> Value:
    """Return the tangent in f64, to the precision of f32."""
    z = r * r
    sine = (r * z).muladd(polynomial("sin_short", z, "f32"), r)
    cosine = z.muladd(z.muladd(polynomial("cos_short", z, "f32"), -0.5), 1)
    even = (quarter & 1).eq(0)
    return even.select(sine, -cosine) / even.select(cosine, sine)
