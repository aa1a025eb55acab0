"""erf, erfc, erf_inv."""

from __future__ import annotations

from kiln.engines.native.elementary.exponential import less_one, power_of, reduced
from kiln.engines.native.elementary.formats import (
    FORMATS,
    at_most,
    copysign,
    integer_of,
    parts,
    polynomial,
    scaled,
    two_product,
)
from kiln.engines.native.elementary.logarithm import logarithm_of, split
from kiln.engines.native.loop_ir.scalars import Value

_K = 3.75
"""The parameter of the polynomial for erfc."""


def erf(x: Value) -> Value:
    """Return the error function."""
    size = abs(x)
    if x.dtype == "f32":
        # 1 - e, e = exp(-p) = 2^n (q + 1), is rounded once, and exact to small arguments.
        bounded = at_most(size, 4.0)
        r, t = reduced(-bounded.muladd(polynomial("erf_log", bounded), bounded))
        power = power_of(t)
        return copysign(-less_one(r).muladd(power, power - 1), x)
    small = size.muladd(polynomial("erf", size * size), size)
    # erfc = exp(-p). Further on it is negligible beside 1.
    bounded = at_most(size, 6.0)
    p = bounded.muladd(bounded, polynomial("erfcx_log", bounded - 2))
    r, t = reduced(-p)
    large = 1 - (less_one(r) + 1) * power_of(t)
    return copysign(size.lt(1).select(small, large), x)


def _complement(x: Value) -> Value:
    """Return erfc(x), 0 <= x < 28, of f64: exp(-x^2) times a polynomial of (x - k) / (x + k)."""
    f = FORMATS["f64"]
    square, square_low = two_product(x, x)
    high, low = parts("ln2", "f64")
    t = (-square).muladd(parts("1/ln2", "f64")[0], f.magic)
    n = t - f.magic
    large = n.muladd(-high, -square)
    r = n.muladd(-low, large)
    e = (r * r).muladd(polynomial("exp", r), n.muladd(-low, large - r)) + r
    e = (-square_low).muladd(e, e - square_low)
    # One division for both quotients.
    inverse = 1 / ((x + _K) * x.muladd(2, 1))
    series = polynomial("erfcx", (x - _K) * x.muladd(2, 1) * inverse) * ((x + _K) * inverse)
    return scaled(e.muladd(series, series), integer_of(t) - f.magic_bits)


def _short_complement(x: Value) -> Value:
    """Return erfc(x), 0 <= x < 11, in f64 to the precision of f32."""
    r, t = reduced(-(x * x))
    e = (r * r).muladd(polynomial("exp", r, "f32"), r) + 1
    power = power_of(t)
    inverse = 1 / ((x + _K) * x.muladd(2, 1))
    series = polynomial("erfcx", (x - _K) * x.muladd(2, 1) * inverse, "f32")
    return e * power * (series * ((x + _K) * inverse))


def erfc(x: Value) -> Value:
    """Return 1 - erf(x), to full relative precision; of f32, computed in f64."""
    wide = x.convert("f64")
    size = abs(wide)
    small = 1 - wide.muladd(polynomial("erf", wide * wide, x.dtype), wide)
    if x.dtype == "f32":
        large = _short_complement(at_most(size, 11.0))
    else:
        large = _complement(at_most(size, 28.0))
    large = wide.lt(0).select(2 - large, large)
    return size.lt(0.65).select(small, large).convert(x.dtype)


def erf_inv(x: Value) -> Value:
    """Return the inverse of erf, a polynomial of -log(1 - x^2) or, in the tails, its root."""
    scope, f = x.scope, FORMATS[x.dtype]
    n, m = split((1 - x) * (1 + x))
    w = -logarithm_of(n, m - 1)
    bound, middle = (5.0, 0.0) if x.dtype == "f32" else (6.25, 3.125)
    root = w.unary("sqrt")
    usual = polynomial("erf_inv", w - middle) * x
    if x.dtype == "f32":
        tail = polynomial("erf_inv_tail", root - 3)
    else:
        near = polynomial("erf_inv_tail", root - 3.25)
        tail = root.lt(4).select(near, polynomial("erf_inv_far", root - 5))
    infinity = scope.bits(f.infinity, x.dtype)
    exact = abs(x).lt(1).select(tail * x, copysign(infinity, x))
    exact = abs(x).gt(1).select(scope.constant(float("nan"), x.dtype), exact)
    exact = x.ne(x).select(x, exact)
    inside = abs(x).lt(1) & w.lt(bound)
    return scope.rare(~inside, usual, exact)
