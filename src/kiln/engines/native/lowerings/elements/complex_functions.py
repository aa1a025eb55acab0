"""Exponentials, logarithms and powers of complex numbers, and functions made of exponentials.

Source: Kahan 1987, "Branch cuts for complex elementary functions", for tanh; ISO C Annex G for
zeros of both signs, infinities and nans.
"""

from __future__ import annotations

import math

from kiln.engines.native.building.element_types import Complex
from kiln.engines.native.elementary.formats import FORMATS, at_least, at_most, copysign, either
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.lowerings.elements.complex_arithmetic import (
    choose,
    has_infinity,
    is_infinite,
    is_nan,
    modulus,
    number,
    ordered,
    product,
    quotient,
    scaled,
    times_i,
    times_minus_i,
)

_HALF_RANGE = {"f32": 80.0, "f64": 700.0}
"""Exponentials of these do not overflow; the exponential of the remainder is multiplied last."""


def _by_angle(size: Value, angle: Value) -> Complex:
    """Return size * (cos, sin) of an angle; a zero angle gives a zero, whatever the size."""
    im = angle.eq(0).select(angle, size * angle.unary("sin"))
    return Complex(size * angle.unary("cos"), im)


def _exponential(x: Complex, base: str) -> Complex:
    # In two factors: the first may overflow where the product with a small sine does not.
    bound = _HALF_RANGE[x.re.dtype]
    found = _by_angle(at_most(x.re, bound).unary(base), x.im)
    found = scaled(found, at_least(x.re - bound, 0).unary(base))
    return Complex(found.re, x.im.eq(0).select(x.im, found.im))


def _with_limits(x: Complex, found: Complex) -> Complex:
    """Return an exponential of x, and its limits where the angle is not finite."""
    nothing = x.im.scope.constant(0, x.im.dtype)
    limit = x.re.eq(math.inf).select(math.inf, nothing)
    turn = x.re.eq(math.inf).select(x.im - x.im, copysign(nothing, x.im))
    return choose(_no_angle(x) & is_infinite(x.re), Complex(limit, turn), found)


def _no_angle(x: Complex) -> Value:
    """Tell whether the imaginary part, an angle, is infinite or nan."""
    return either(is_nan(x.im), is_infinite(x.im))


def exp(x: Complex) -> Complex:
    """Return e**x."""
    return _with_limits(x, _exponential(x, "exp"))


def exp2(x: Complex) -> Complex:
    """Return 2**x."""
    return _with_limits(x, _exponential(Complex(x.re, x.im * math.log(2)), "exp2"))


def expm1(x: Complex) -> Complex:
    """Return e**x - 1, exact near 0."""
    grown = _exponential(x, "exp")
    half = (x.im * 0.5).unary("sin")
    near = x.re.unary("expm1") * x.im.unary("cos") - 2 * half * half
    near = near.eq(0).select(0, near)  # of zeros the positive one
    far = abs(x.re).gt(_HALF_RANGE[x.re.dtype])
    found = _with_limits(x, Complex(far.select(grown.re, near), grown.im))
    return Complex(far.select(found.re - 1, found.re), found.im)


def log(x: Complex) -> Complex:
    """Return the logarithm, with an imaginary part from -pi to pi."""
    large, small = ordered(abs(x.re), abs(x.im))
    # Where |x| is about 1, compute the logarithm from the difference to 1.
    beyond = (large - 1) * (large + 1) + small * small
    return Complex(_log_of_modulus(beyond, x), angle(x.im, x.re))


def log1p(x: Complex) -> Complex:
    """Return the logarithm of 1 + x, exact near 0."""
    beyond = x.re * (x.re + 2) + x.im * x.im
    moved = Complex(x.re + 1, x.im)
    return Complex(_log_of_modulus(beyond, moved), angle(x.im, moved.re))


def angle(y: Value, x: Value) -> Value:
    """Return the angle of x + iy."""
    return x.scope.op("atan2", x.dtype, y, x)


def _log_of_modulus(beyond: Value, x: Complex) -> Value:
    """Return log |x|, given |x|^2 - 1."""
    near = abs(beyond).lt(0.5)
    close = near.select(beyond, 0).unary("log1p") * 0.5
    large, _ = ordered(abs(x.re), abs(x.im))
    huge = large.gt(2.0 ** (FORMATS[x.re.dtype].bias - 1))
    one = x.re.scope.constant(1, x.re.dtype)
    size = modulus(scaled(x, huge.select(0.5, one))).unary("log")
    size = size + huge.select(math.log(2), 0 * one)
    return near.select(close, has_infinity(x).select(math.inf, size))


def sinh(x: Complex) -> Complex:
    """Return the hyperbolic sine."""
    re, im, rest = _hyperbolic(x, "sinh", "cosh")
    cosine = x.im.unary("cos")
    re = x.re.eq(0).select(_zero(x.re, cosine), re * cosine * rest)
    re = (is_infinite(x.re) & _no_angle(x)).select(math.inf, re)
    return Complex(re, x.im.eq(0).select(x.im, im * x.im.unary("sin") * rest))


def cosh(x: Complex) -> Complex:
    """Return the hyperbolic cosine."""
    re, im, rest = _hyperbolic(x, "cosh", "sinh")
    sine = x.im.unary("sin")
    flat = either(x.im.eq(0), x.re.eq(0))
    im = flat.select(_zero(x.re, sine), im * sine * rest)
    re = re * x.im.unary("cos") * rest
    return Complex((is_infinite(x.re) & _no_angle(x)).select(math.inf, re), im)


def _zero(x: Value, y: Value) -> Value:
    """Return a zero with the sign of x y, whose factors may be infinite or nan."""
    one = x.scope.constant(1, x.dtype)
    sign = is_nan(y).select(one, copysign(one, x) * copysign(one, y))
    return copysign(x.scope.constant(0, x.dtype), sign)


def _hyperbolic(x: Complex, first: str, second: str) -> tuple[Value, Value, Value]:
    """Return two functions of the real part, and a factor of both that may overflow."""
    bound = _HALF_RANGE[x.re.dtype]
    near = copysign(at_most(abs(x.re), bound), x.re)
    return near.unary(first), near.unary(second), at_least(abs(x.re) - bound, 0).unary("exp")


def tanh(x: Complex) -> Complex:
    """Return the hyperbolic tangent."""
    scope, kind = x.re.scope, x.re.dtype
    far = abs(x.re).gt(11.0 if kind == "f32" else 22.0)
    near = far.select(0, x.re)
    slope = x.im.unary("tan")
    stretch = slope * slope + 1
    sinh = near.unary("sinh")
    cosh = (sinh * sinh + 1).unary("sqrt")
    below = stretch * sinh * sinh + 1
    decay = (abs(x.re) * -2).unary("exp")
    turning = 4 * x.im.unary("sin") * x.im.unary("cos") * decay
    limit = copysign(scope.constant(1, kind), x.re)
    endless = is_infinite(x.re)
    no_angle = _no_angle(x)
    turning = (endless & no_angle).select(copysign(scope.constant(0, kind), x.im), turning)
    limit = (no_angle & ~endless).select(math.nan, limit)
    re = far.select(limit, stretch * cosh * sinh / below)
    re = x.re.eq(0).select(x.re, re)
    im = far.select(turning, slope / below)
    return Complex(re, x.im.eq(0).select(x.im, im))


def sin(x: Complex) -> Complex:
    """Return the sine; an infinity whose sign is unknown is the positive one, as of sinh."""
    turned = times_i(x)
    found = times_minus_i(sinh(turned))
    lost = is_infinite(x.im) & _no_angle(turned)
    return Complex(found.re, lost.select(math.inf, found.im))


def cos(x: Complex) -> Complex:
    """Return the cosine."""
    return cosh(times_i(x))


def tan(x: Complex) -> Complex:
    """Return the tangent."""
    return times_minus_i(tanh(times_i(x)))


def logistic(x: Complex) -> Complex:
    """Return 1 / (1 + e**-x)."""
    # From e**-x where it is small, otherwise from e**x.
    left = x.re.lt(0)
    grown = exp(choose(left, x, Complex(-x.re, -x.im)))
    one = number(x, 1)
    return quotient(choose(left, grown, one), Complex(grown.re + 1, grown.im))


def power(x: Complex, y: Complex) -> Complex:
    """Return x ** y; 1 where y is 0, and 0 where x is and y has a positive real part."""
    if x.re.dtype == "f32":
        wide = power(_converted(x, "f64"), _converted(y, "f64"))
        return _converted(wide, "f32")
    found = exp(product(y, log(x)))
    zero = x.re.eq(0) & x.im.eq(0)
    at_zero = choose(y.re.gt(0), number(x, 0), number(x, math.nan, math.nan))
    found = choose(zero, at_zero, found)
    return choose(y.re.eq(0) & y.im.eq(0), number(x, 1), found)


def _converted(x: Complex, kind: str) -> Complex:
    return Complex(x.re.convert(kind), x.im.convert(kind))
