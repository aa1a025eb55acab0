"""lgamma and digamma, in f64; of f32 to the precision of f32.

Large arguments use Stirling's series; the recurrence moves intermediate ones there, or near 2 for
lgamma; below 1/2 both are reflected.
"""

from __future__ import annotations

import math

from kiln.engines.native.elementary.formats import either, polynomial
from kiln.engines.native.elementary.logarithm import logarithm_of, short_logarithm_of, split
from kiln.engines.native.loop_ir.scalars import Value

_HALF_LOG_TWO_PI = 0.9189385332046728


def _log(x: Value, precision: str) -> Value:
    """Return log(x) of a positive normal number."""
    n, m = split(x)
    return (short_logarithm_of if precision == "f32" else logarithm_of)(n, m - 1)


def _infinity(x: Value) -> Value:
    return x.scope.constant(math.inf, x.dtype)


def _sine_of_pi(x: Value, precision: str) -> Value:
    """Return sin(pi r) of r = x - rint(x)."""
    angle = (x - x.unary("rint")) * math.pi
    z = angle * angle
    return (angle * z).muladd(polynomial("sin", z, precision), angle)


def lgamma(x: Value) -> Value:
    """Return log|gamma(x)|; infinity at 0, -1, -2, ..."""
    wide = x.convert("f64")
    reflected = wide.lt(0.5)
    found = _lgamma(reflected.select(1 - wide, wide), x.dtype)
    size = abs(_sine_of_pi(wide, x.dtype))
    # log(pi / |sin(pi x)|) - lgamma(1 - x); where x is tiny the quotient is 1 / |x|.
    tiny = abs(wide).lt(2.0**-60)
    inverse = tiny.select(2.0**-52 / abs(wide), math.pi / size)
    shift = tiny.select(wide.scope.constant(52 * math.log(2), "f64"), 0.0)
    other = _log(inverse, x.dtype) + shift - found
    found = reflected.select(other, found)
    pole = either(wide.le(0) & wide.eq(wide.unary("rint")), abs(wide).eq(_infinity(wide)))
    return wide.ne(wide).select(wide, pole.select(_infinity(wide), found)).convert(x.dtype)


def _lgamma(x: Value, precision: str) -> Value:
    """Return lgamma(x) for x >= 1/2."""
    one = x.scope.constant(1, "f64")
    low, large = x.lt(1.5), x.ge(8)
    # x = y + n with y between 3/2 and 5/2: gamma(x) = gamma(y) times a product.
    y, product = x, low.select(x, one)
    for k in range(1, 7):
        next_ = x - k
        active = next_.ge(1.5)
        y, product = active.select(next_, y), active.select(product * next_, product)
    logarithm = _log(large.select(x, product), precision)
    # y = x + 1 would lose the last bits.
    t = low.select(x - 1, y - 2)
    near = t * low.select(x, y - 1) * polynomial("lgamma", t, precision)
    moved = near + low.select(-logarithm, logarithm)
    inverse = 1 / x
    series = inverse.muladd(polynomial("stirling", inverse * inverse, precision), _HALF_LOG_TWO_PI)
    far = x.muladd(logarithm - 1, logarithm.muladd(-0.5, series))
    return large.select(far, moved)


def digamma(x: Value) -> Value:
    """Return the derivative of lgamma; nan at 0, -1, -2, ..."""
    wide = x.convert("f64")
    reflected = wide.lt(0.5)
    found = _digamma(reflected.select(1 - wide, wide), x.dtype)
    # psi(1 - x) - pi / tan(pi x), with cos(pi x) = sin(pi (x + 1/2)).
    r = wide - wide.unary("rint")
    sine = _sine_of_pi(r, x.dtype)
    angle = (0.5 - abs(r)) * math.pi
    z = angle * angle
    cosine = (angle * z).muladd(polynomial("sin", z, x.dtype), angle)
    found = reflected.select(found - cosine / sine * math.pi, found)
    found = wide.eq(_infinity(wide)).select(wide, found)
    pole = wide.le(0) & wide.eq(wide.unary("rint"))
    return pole.select(x.scope.constant(math.nan, "f64"), found).convert(x.dtype)


def _digamma(x: Value, precision: str) -> Value:
    """Return digamma(x) for x >= 1/2."""
    scope = x.scope
    # psi(x) = psi(x + n) - sum of 1 / (x + k), a quotient of polynomials.
    above, below, moved = scope.constant(0, "f64"), scope.constant(1, "f64"), x
    for k in range(8):
        active = (x + k).lt(8)
        above = active.select(above.muladd(x + k, below), above)
        below = active.select(below * (x + k), below)
        moved = active.select(x + (k + 1), moved)
    inverse = 1 / moved
    z = inverse * inverse
    series = z.muladd(polynomial("digamma", z, precision), inverse * 0.5)
    return _log(moved, precision) - series - above / below
