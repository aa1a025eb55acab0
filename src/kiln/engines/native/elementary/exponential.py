"""exp and related functions: exp2, expm1, logistic, sinh, cosh, tanh.

x = n ln 2 + r with |r| <= ln(2) / 2; exp(r) is a polynomial, and 2^n is added to the exponent.
"""

from __future__ import annotations

from kiln.engines.native.elementary.formats import (
    FORMATS,
    at_least,
    at_most,
    copysign,
    integer_of,
    parts,
    polynomial,
    power_of_two,
    scaled,
)
from kiln.engines.native.loop_ir.scalars import Value

# Beyond these exponents leave the range of normal numbers.
_USUAL = {"f32": 87.0, "f64": 708.0}
_HIGHEST = {"f32": 89.0, "f64": 710.0}
_LOWEST = {"f32": -104.0, "f64": -746.0}


def reduced(x: Value) -> tuple[Value, Value]:
    """Return r = x - n ln 2, and a float with the integer n in its low bits."""
    f = FORMATS[x.dtype]
    high, low = parts("ln2", x.dtype)
    t = x.muladd(parts("1/ln2", x.dtype)[0], f.magic)
    n = t - f.magic
    return n.muladd(-low, n.muladd(-high, x)), t


def less_one(r: Value) -> Value:
    """Return exp(r) - 1 for |r| <= ln(2) / 2."""
    return (r * r).muladd(polynomial("exp", r), r)


def exponent_added(p: Value, t: Value) -> Value:
    """Return p * 2^n by adding n, in the low bits of t, to the exponent of p."""
    f = FORMATS[p.dtype]
    return (integer_of(p) + (integer_of(t) << f.digits)).bitcast(p.dtype)


def power_of(t: Value) -> Value:
    """Return 2^n, a normal number, of n in the low bits of t."""
    f = FORMATS[t.dtype]
    return ((integer_of(t) << f.digits) + f.one).bitcast(t.dtype)


def _clamped(x: Value) -> Value:
    return at_least(at_most(x, _HIGHEST[x.dtype]), _LOWEST[x.dtype])


def _count(t: Value) -> Value:
    return integer_of(t) - FORMATS[t.dtype].magic_bits


def _everywhere(x: Value) -> Value:
    r, t = reduced(_clamped(x))
    return scaled(less_one(r) + 1, _count(t))


def exp(x: Value) -> Value:
    """Return e^x."""
    r, t = reduced(x)
    p = less_one(r) + 1
    outside = ~abs(x).le(_USUAL[x.dtype])
    nothing = x.scope.constant(0, x.dtype)
    small = x.lt(_LOWEST[x.dtype]).select(nothing, scaled(p, _count(t)))
    exact = x.gt(_HIGHEST[x.dtype]).select(float("inf"), small)
    return x.scope.rare(outside, exponent_added(p, t), exact)


def exp2(x: Value) -> Value:
    """Return 2^x."""
    f = FORMATS[x.dtype]

    def power(x: Value) -> tuple[Value, Value]:
        t = x + f.magic
        r = x - (t - f.magic)
        return r.muladd(polynomial("exp2", r), 1), t

    usual = exponent_added(*power(x))
    p, t = power(at_least(at_most(x, f.bias + 2.0), -f.bias - f.digits - 3.0))
    outside = ~abs(x).le(f.bias - 2.0)
    return x.scope.rare(outside, usual, scaled(p, _count(t)))


def _precise(x: Value) -> tuple[Value, Value, Value]:
    """Return r, exp(r) - 1 - r, and 2^n (a normal number), without the error of rounding r."""
    f = FORMATS[x.dtype]
    high, low = parts("ln2", x.dtype)
    t = x.muladd(parts("1/ln2", x.dtype)[0], f.magic)
    n = t - f.magic
    large = n.muladd(-high, x)
    r = n.muladd(-low, large)
    rest = n.muladd(-low, large - r)
    return r, (r * r).muladd(polynomial("exp", r), rest), power_of(t)


def expm1(x: Value) -> Value:
    """Return e^x - 1."""
    # Below this, e^x is negligible beside 1.
    r, curved, power = _precise(at_least(x, -20.0 if x.dtype == "f32" else -40.0))
    usual = curved.muladd(power, r.muladd(power, power - 1))
    outside = ~x.le(_USUAL[x.dtype])
    return x.scope.rare(outside, copysign(usual, x), _everywhere(x))


def logistic(x: Value) -> Value:
    """Return 1 / (1 + e^-x)."""
    r, t = reduced(-x)
    power = power_of(t)
    usual = 1 / less_one(r).muladd(power, power + 1)
    e = _everywhere(-abs(x))
    outside = ~abs(x).le(_USUAL[x.dtype])
    one = x.scope.constant(1, x.dtype)
    return x.scope.rare(outside, usual, x.lt(0).select(e, one) / (e + 1))


def tanh(x: Value) -> Value:
    """Return tanh(x)."""
    # (1 - e) / (1 + e), e = e^(-2|x|) = 2^n (p + 1): both are rounded once.
    if x.dtype == "f32":
        r, t = reduced(at_most(abs(x), 10.0) * -2)
        p, power = less_one(r), power_of(t)
    else:
        r, curved, power = _precise(at_most(abs(x), 20.0) * -2)
        p = curved + r
    return copysign(-p.muladd(power, power - 1) / p.muladd(power, power + 1), x)


def _hyperbolic(x: Value, precision: str) -> tuple[Value, Value]:
    """Return sinh and cosh of an f64 that is not negative, to the precision of a dtype."""
    f = FORMATS[x.dtype]
    x = at_most(x, 710.6)
    high, low = parts("ln2", x.dtype)
    t = x.muladd(parts("1/ln2", x.dtype)[0], f.magic)
    n = t - f.magic
    large = n.muladd(-high, x)
    r = n.muladd(-low, large)
    rest = n.muladd(-low, large - r)
    z = r * r
    sinh = (z * r).muladd(polynomial("sinh", z, precision), rest) + r
    # That of r, less 1.
    cosh = z.muladd(z.muladd(polynomial("cosh", z, precision), 0.5), r * rest)
    # 2^(n-2): a quarter, doubled in the end, does not overflow before the result does.
    up = power_of_two(_count(t) - 2, x.dtype)
    down = power_of_two(-_count(t) - 2, x.dtype)
    down = x.lt(700).select(down, 0.0)
    difference, total = up - down, up + down
    sinh_x = (sinh.muladd(total, cosh * difference) + difference) * 2
    cosh_x = (cosh.muladd(total, sinh * difference) + total) * 2
    return sinh_x, cosh_x


def sinh(x: Value) -> Value:
    """Return sinh(x); of f32, computed in f64."""
    if x.dtype == "f32":
        wide = x.convert("f64")
        return copysign(_hyperbolic(abs(wide), "f32")[0].convert("f32"), x)
    found = _hyperbolic(abs(x), "f64")[0]
    return copysign(abs(x).lt(2.0**-27).select(abs(x), found), x)


def cosh(x: Value) -> Value:
    """Return cosh(x); of f32, computed in f64."""
    if x.dtype == "f32":
        return _hyperbolic(abs(x.convert("f64")), "f32")[1].convert("f32")
    return _hyperbolic(abs(x), "f64")[1]
