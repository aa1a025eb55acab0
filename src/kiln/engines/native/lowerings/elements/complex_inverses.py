"""Square roots and inverse functions of complex numbers, on their principal branches.

Source: Hull, Fairgrieve, Tang 1997, "Implementing the complex arcsine and arccosine functions using
exception handling"; Kahan 1987, "Branch cuts for complex elementary functions", for atanh.
"""

from __future__ import annotations

import math

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.building.element_types import Complex
from kiln.engines.native.elementary.formats import FORMATS, copysign, either
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.lowerings.elements.complex_arithmetic import (
    is_infinite,
    is_nan,
    modulus,
    number,
    ordered,
    quotient,
    scaled,
    times_i,
    times_minus_i,
)
from kiln.engines.native.lowerings.elements.complex_functions import angle

_FAR = {"f32": 2.0**20, "f64": 2.0**40}
"""Beside larger numbers 1 is negligible: |x|^2 + 1 is |x|^2."""


def sqrt(x: Complex) -> Complex:
    """Return the square root whose real part is not negative."""
    f = FORMATS[x.re.dtype]
    large, _ = ordered(abs(x.re), abs(x.im))
    one = x.re.scope.constant(1, x.re.dtype)
    huge, tiny = large.gt(2.0 ** (f.bias - 2)), large.lt(2.0 ** (f.digits - f.bias))
    scale = huge.select(2.0**-2, tiny.select(2.0 ** (2 * f.digits), one))
    back = huge.select(2.0, tiny.select(2.0**-f.digits, one))
    y = scaled(x, scale)
    root = ((modulus(y) + abs(y.re)) * 0.5).unary("sqrt")
    other = abs(y.im) / (root.eq(0).select(1, root) * 2)
    root, other = root * back, other * back
    right = x.re.ge(0)
    re, im = right.select(root, other), right.select(other, root)
    # Infinities: the imaginary part takes precedence, even over nan.
    left = x.re.eq(-math.inf)
    nothing = is_nan(x.im)
    re = left.select(nothing.select(math.nan, one * 0), x.re.eq(math.inf).select(math.inf, re))
    im = left.select(math.inf, (x.re.eq(math.inf) & ~nothing).select(one * 0, im))
    endless = is_infinite(x.im)
    re, im = endless.select(math.inf, re), endless.select(math.inf, im)
    zero = x.re.eq(0) & x.im.eq(0)
    return Complex(zero.select(0, re), copysign(zero.select(0, im), x.im))


def rsqrt(x: Complex) -> Complex:
    """Return 1 / sqrt(x)."""
    return quotient(number(x, 1.0), sqrt(x))


class _Arcs(NamedTuple):
    """Of a point of the first quadrant: asin, as an angle's two sides, and a distance."""

    opposite: Value
    adjacent: Value
    distance: Value


def _arcs(x: Value, y: Value) -> _Arcs:
    """Return numbers whose angle is re asin(x + iy), and im asin(x + iy), for x, y >= 0."""
    far = either(x.gt(_FAR[x.dtype]), y.gt(_FAR[x.dtype]))
    u, v = far.select(0, x), far.select(0, y)
    r, s = modulus(Complex(u + 1, v)), modulus(Complex(u - 1, v))
    a = (r + s) * 0.5
    inside = u.le(1)
    # Both are divided by v, or by its square: near the segment of the cut v * v underflows.
    right = inside.select(1 - u, u - 1)
    outer, inner = 1 / (r + u + 1), s + right
    per_inner = 1 / inner.eq(0).select(1, inner)
    apart = inside.select(
        ((a + u) * 0.5 * (v * (v * outer) + inner)).unary("sqrt"),
        v * ((a + u) * 0.5 * (outer + per_inner)).unary("sqrt"),
    )
    close = (0.5 * (outer + per_inner) * (a + 1)).unary("sqrt") * v
    beyond = inside.select(v * (v * (0.5 * (outer + per_inner))), 0.5 * (v * (v * outer) + inner))
    on_edge = u.eq(1)
    beyond = on_edge.select(0.5 * (v * (v * outer) + v), beyond)
    step = (inside & ~on_edge).select(close, (beyond * (a + 1)).unary("sqrt"))
    distance = (beyond + step).unary("log1p")
    large, small = ordered(x, y)
    ratio = far.select(small, 0) / far.select(large, 1)
    distant = far.select(large, 1).unary("log") + math.log(2)
    distant = distant + 0.5 * (ratio * ratio).unary("log1p")
    distance = far.select(distant, distance)
    endless = either(x.eq(math.inf), y.eq(math.inf))
    return _Arcs(x, far.select(y, apart), endless.select(math.inf, distance))


def asin(x: Complex) -> Complex:
    """Return the arcsine."""
    arcs = _arcs(abs(x.re), abs(x.im))
    re = copysign(angle(arcs.opposite, arcs.adjacent), x.re)
    return Complex(x.re.eq(0).select(x.re, re), copysign(arcs.distance, x.im))


def acos(x: Complex) -> Complex:
    """Return the arccosine."""
    arcs = _arcs(abs(x.re), abs(x.im))
    return Complex(_polar(arcs, x), copysign(arcs.distance, -x.im))


def _polar(arcs: _Arcs, x: Complex) -> Value:
    """Return re acos x, which is pi / 2 on the imaginary axis."""
    return x.re.eq(0).select(math.pi / 2, angle(arcs.adjacent, x.re))


def asinh(x: Complex) -> Complex:
    """Return the inverse hyperbolic sine."""
    return times_minus_i(asin(times_i(x)))


def acosh(x: Complex) -> Complex:
    """Return the inverse hyperbolic cosine."""
    arcs = _arcs(abs(x.re), abs(x.im))
    return Complex(arcs.distance, copysign(_polar(arcs, x), x.im))


def atanh(x: Complex) -> Complex:
    """Return the inverse hyperbolic tangent."""
    scope, kind = x.re.scope, x.re.dtype
    size, side = abs(x.re), abs(x.im)
    far = either(size.gt(_FAR[kind]), side.gt(_FAR[kind]))
    u, v = far.select(0, size), far.select(0, side)
    apart = 1 - u
    tiny = v.lt(2.0 ** (-FORMATS[kind].bias // 2 + 2))
    pole = apart.eq(0) & tiny
    square = v * v
    below = apart * apart + square
    near = (4 * u / pole.select(1, below)).unary("log1p") * 0.25
    steep = (math.log(2) - v.unary("log")) * 0.5
    large, small = ordered(size, side)
    ratio = small / large.eq(0).select(1, large)
    distant = size / large / (large * (ratio * ratio + 1))
    endless = either(size.eq(math.inf), side.eq(math.inf))
    re = far.select(distant, pole.select(steep, near))
    re = either(endless, size.eq(0)).select(0, re)
    rise = pole.select(scope.constant(2, kind), 2 * v)
    run = pole.select(-v, apart * (u + 1) - square)
    im = (pole & v.eq(0)).select(v, angle(rise, run) * 0.5)
    im = far.select(math.pi / 2, im)
    lost = either(is_nan(size), is_nan(side)) & side.ne(math.inf)
    im = lost.select(math.nan, im)
    return Complex(copysign(re, x.re), copysign(im, x.im))


def atan(x: Complex) -> Complex:
    """Return the arctangent."""
    return times_minus_i(atanh(times_i(x)))
