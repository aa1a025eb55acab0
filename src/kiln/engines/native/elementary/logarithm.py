"""log and related functions: log1p, log2, asinh, acosh, atanh.

x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2). log(1 + f) is a polynomial for f32; for
f64 a series in s = f / (2 + f), as in FreeBSD's libm, needs fewer terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kiln.engines.native.elementary.formats import (
    FORMATS,
    copysign,
    integer_of,
    parts,
    polynomial,
    power_of_two,
    two_product,
)
from kiln.engines.native.loop_ir.scalars import Value

_ROOT_HALF = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}


def split(x: Value) -> tuple[Value, Value]:
    """Return n and the bits of m of a normal positive x = 2^n m, m in [sqrt(1/2), sqrt(2))."""
    f = FORMATS[x.dtype]
    raw = integer_of(x)
    n = (raw - _ROOT_HALF[x.dtype]) >> f.digits
    return n, (raw - (n << f.digits)).bitcast(x.dtype)


def number_of(n: Value, dtype: str) -> Value:
    """Return a small integer as a float, by its bits: older CPUs cannot convert i64."""
    f = FORMATS[dtype]
    return (n + f.magic_bits).bitcast(dtype) - f.magic


def logarithm_of(n: Value, f: Value) -> Value:
    """Return n ln 2 + log(1 + f)."""
    high, low = parts("ln2", f.dtype)
    count = number_of(n, f.dtype)
    square = f * f * 0.5
    if f.dtype == "f32":
        curved = (f * f * f).muladd(polynomial("log", f), count * low)
        return count.muladd(high, f + (curved - square))
    s = f / (f + 2)
    z = s * s
    curved = s.muladd(square + z * polynomial("log_s", z), count * low)
    return count.muladd(high, f - (square - curved))


def _special(x: Value) -> Value:
    """Return log(x) of 0, infinity, nan and negative numbers."""
    scope, f = x.scope, FORMATS[x.dtype]
    infinity = scope.bits(f.infinity, x.dtype)
    below = x.lt(0).select(scope.constant(math.nan, x.dtype), x)
    return x.eq(0).select(-infinity, below)


def _rare(x: Value) -> Value:
    """Whether x is not a positive normal number."""
    f = FORMATS[x.dtype]
    normal = 1 << f.digits
    return (x.bitcast(f.unsigned) - normal).ge(f.infinity - normal)


def _normal(x: Value) -> tuple[Value, Value]:
    """Return a subnormal number scaled to a normal one, and the power of two."""
    f = FORMATS[x.dtype]
    shift = f.digits + 1
    return x * 2.0**shift, x.scope.constant(shift, f.integer)


def _exact(x: Value, logarithm: Callable[[Value, Value], Value]) -> Value:
    large, shift = _normal(x)
    n, m = split(large)
    finite = x.gt(0) & x.lt(x.scope.bits(FORMATS[x.dtype].infinity, x.dtype))
    return finite.select(logarithm(n - shift, m - 1), _special(x))


def log(x: Value) -> Value:
    """Return the natural logarithm."""
    n, m = split(x)
    return x.scope.rare(_rare(x), logarithm_of(n, m - 1), _exact(x, logarithm_of))


def _binary(n: Value, f: Value) -> Value:
    """Return n + log2(1 + f)."""
    square = f * f * 0.5
    if f.dtype == "f32":
        curved = (f * f * f).muladd(polynomial("log", f), -square)
    else:
        s = f / (f + 2)
        z = s * s
        curved = s.muladd(square + z * polynomial("log_s", z), -square)
    high, low = parts("1/ln2", f.dtype)
    # The product with f, the largest term, is rounded only with the sum.
    largest, error = two_product(f, f.scope.constant(high, f.dtype))
    return number_of(n, f.dtype) + (largest + curved.muladd(high, f.muladd(low, error)))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2, exact for powers of two."""
    n, m = split(x)
    return x.scope.rare(_rare(x), _binary(n, m - 1), _exact(x, _binary))


def log1p(x: Value) -> Value:
    """Return log(1 + x)."""
    scope, f = x.scope, FORMATS[x.dtype]
    n, _ = split(x + 1)
    # 2^-n (1 + x) - 1, without the rounding of 1 + x.
    inverse = power_of_two(-n, x.dtype)
    usual = logarithm_of(n, x.muladd(inverse, inverse - 1))
    high = 2.0 ** (f.bias - 2)
    # Above, log(x) is the same; at -1 and below and for nan it is special.
    outside = ~(x.gt(-1) & x.lt(high))
    special = x.lt(high).select(_special(x + 1), log(x))
    special = x.ne(x).select(x, special)
    zero = abs(x).lt(2.0**-f.digits / 4).select(x, usual)
    return scope.rare(outside, zero, special)


def short_logarithm_of(n: Value, f: Value) -> Value:
    """Return n ln 2 + log(1 + f) in f64, to the precision of f32."""
    square = f * f
    series = (square * f).muladd(polynomial("log", f, "f32"), square.muladd(-0.5, f))
    return number_of(n, "f64").muladd(math.log(2), series)


def _short_log1p(x: Value) -> Value:
    """Return log(1 + x) in f64, to the precision of f32, for x > -1 and infinity."""
    n, _ = split(x + 1)
    inverse = power_of_two(-n, "f64")
    found = short_logarithm_of(n, x.muladd(inverse, inverse - 1))
    return x.lt(x.scope.constant(math.inf, "f64")).select(found, x)


def _of_size(x: Value, near: Value) -> Value:
    """Return log1p(near), or log(2 x) where x is so large that x^2 may overflow."""
    large = x.gt(_LARGE)
    found = log1p(large.select(x, near))
    high, low = parts("ln2", "f64")
    return large.select((found + low) + high, found)


# Beyond, 1 + x^2 is x^2, and x + 1 is x.
_LARGE = 2.0**60


def asinh(x: Value) -> Value:
    """Return asinh(x); of f32, computed in f64."""
    size = abs(x.convert("f64"))
    z = size * size
    near = z / ((z + 1).unary("sqrt") + 1) + size
    if x.dtype == "f32":
        infinite = size.gt(2.0**200)
        return copysign(infinite.select(size, _short_log1p(near)).convert("f32"), x)
    return copysign(_of_size(size, near), x)


def acosh(x: Value) -> Value:
    """Return acosh(x), nan below 1; of f32, computed in f64."""
    wide = x.convert("f64")
    t = wide - 1
    near = t + (t * (t + 2)).unary("sqrt")
    found = _short_log1p(near) if x.dtype == "f32" else _of_size(wide, near)
    return wide.lt(1).select(x.scope.constant(math.nan, "f64"), found).convert(x.dtype)


def atanh(x: Value) -> Value:
    """Return atanh(x), nan where |x| > 1; of f32, computed in f64."""
    size = abs(x.convert("f64"))
    twice = (size + size) / (1 - size)
    if x.dtype == "f64":
        return copysign(log1p(twice) * 0.5, x)
    found = size.gt(1).select(x.scope.constant(math.nan, "f64"), _short_log1p(twice) * 0.5)
    return copysign(found.convert("f32"), x)
