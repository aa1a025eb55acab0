"""Arithmetic of complex numbers, on pairs of a real and an imaginary part.

Source: Smith 1962, "Algorithm 116: complex division"; ISO C Annex G for infinities.
"""

from __future__ import annotations

import math
from typing import Any

from kiln.engines.native.building.element_types import Complex
from kiln.engines.native.elementary.formats import FORMATS, copysign, either
from kiln.engines.native.loop_ir.scalars import Value


def choose(mask: Value, x: Complex, y: Complex) -> Complex:
    """Return x where the mask holds, else y."""
    return Complex(mask.select(x.re, y.re), mask.select(x.im, y.im))


def number(like: Complex, re: Any, im: Any = 0.0) -> Complex:
    """Return a constant of the type of another number."""
    scope, kind = like.re.scope, like.re.dtype
    return Complex(scope.constant(re, kind), scope.constant(im, kind))


def times_i(x: Complex) -> Complex:
    """Return i x."""
    return Complex(-x.im, x.re)


def times_minus_i(x: Complex) -> Complex:
    """Return -i x."""
    return Complex(x.im, -x.re)


def ordered(a: Value, b: Value) -> tuple[Value, Value]:
    """Return the larger and the smaller of two numbers."""
    larger = a.gt(b)
    return larger.select(a, b), larger.select(b, a)


def is_nan(x: Value) -> Value:
    """Tell whether a number is nan."""
    return x.ne(x)


def is_infinite(x: Value) -> Value:
    """Tell whether a number is infinite."""
    return abs(x).eq(math.inf)


def product(x: Complex, y: Complex) -> Complex:
    """Return x * y."""
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def modulus(x: Complex) -> Value:
    """Return |x| without overflow; nan if a part is nan, even beside an infinite one, as in XLA.

    Of 32-bit floats its error is less than 1.1 units in the last place.
    """
    a, b = abs(x.re), abs(x.im)
    large, small = ordered(a, b)
    if a.dtype == "f32":
        # The squares of parts times a power of two neither overflow nor lose digits.
        one = a.scope.constant(1, a.dtype)
        huge, tiny = large.gt(2.0**62), large.lt(2.0**-40)
        factor = huge.select(2.0**-66, tiny.select(2.0**86, one))
        back = huge.select(2.0**66, tiny.select(2.0**-86, one))
        large, small = large * factor, small * factor
        return large.muladd(large, small * small).unary("sqrt") * back
    ratio = small / large.eq(0).select(1, large)
    found = large * (ratio * ratio + 1).unary("sqrt")
    return large.eq(math.inf).select(large + small, found)


def quotient(x: Complex, y: Complex) -> Complex:
    """Return x / y; no intermediate result overflows, and infinities are those of Annex G."""
    above, below = _scale(x), _scale(y)
    x, y, factor = scaled(x, above), scaled(y, below), below / above
    first = abs(y.re).ge(abs(y.im))
    large, small = first.select(y.re, y.im), first.select(y.im, y.re)
    ratio = small / large.eq(0).select(1, large)
    divisor = large + small * ratio
    re = first.select(x.re + x.im * ratio, x.re * ratio + x.im) / divisor * factor
    im = first.select(x.im - x.re * ratio, x.im * ratio - x.re) / divisor * factor
    found = choose(y.re.eq(0) & y.im.eq(0), Complex(x.re / y.re, x.im / y.re), Complex(re, im))
    return _with_infinities(x, y, found)


def _with_infinities(x: Complex, y: Complex, found: Complex) -> Complex:
    """Return the quotient of an infinite and a finite operand, whose parts would be nan."""
    above, below = has_infinity(x), has_infinity(y)
    # Infinite parts count as 1, finite parts of the same number as 0.
    a, b = above.select(_unit(x.re), x.re), above.select(_unit(x.im), x.im)
    c, d = below.select(_unit(y.re), y.re), below.select(_unit(y.im), y.im)
    factor = above.select(math.inf, x.re.scope.constant(0, x.re.dtype))
    special = Complex(factor * (a * c + b * d), factor * (b * c - a * d))
    numbers = _is_number(a) & _is_number(b) & _is_number(c) & _is_number(d)
    lost = is_nan(found.re) & is_nan(found.im)
    return choose(lost & numbers & above.ne(below), special, found)


def _unit(x: Value) -> Value:
    """Return 1 for infinity, 0 for other numbers, with the sign; nan stays."""
    one = x.scope.constant(1, x.dtype)
    size = is_infinite(x).select(one, is_nan(x).select(x, x.scope.constant(0, x.dtype)))
    return copysign(size, x)


def _is_number(x: Value) -> Value:
    return x.eq(x)


def has_infinity(x: Complex) -> Value:
    """Tell whether a part is infinite."""
    return either(is_infinite(x.re), is_infinite(x.im))


def scaled(x: Complex, factor: Value) -> Complex:
    """Return a number times a real one."""
    return Complex(x.re * factor, x.im * factor)


def _scale(x: Complex) -> Value:
    """Return a power of two that brings parts that are very large or small nearer to 1."""
    f = FORMATS[x.re.dtype]
    large, _ = ordered(abs(x.re), abs(x.im))
    one = x.re.scope.constant(1, x.re.dtype)
    small = large.lt(2.0 ** (f.digits - f.bias + 2)) & large.ne(0)
    return large.gt(2.0 ** (f.bias - 2)).select(0.25, small.select(2.0 ** (2 * f.digits), one))


def sign(x: Complex) -> Complex:
    """Return x / |x|; zeros are kept."""
    size = modulus(x)
    zero = size.eq(0)
    safe = zero.select(1, size)
    return Complex(zero.select(x.re, x.re / safe), zero.select(x.im, x.im / safe))


def maximum(x: Complex, y: Complex) -> Complex:
    """Return the later of two numbers, ordered by real, then by imaginary parts; nans propagate."""
    return _first(x, y, "gt", "ge")


def minimum(x: Complex, y: Complex) -> Complex:
    """Return the earlier of two numbers; nans propagate."""
    return _first(x, y, "lt", "le")


def _first(x: Complex, y: Complex, strictly: str, weakly: str) -> Complex:
    numbers = x.im.eq(x.im) & y.im.eq(y.im)
    better = (x.re.compare(strictly, y.re) & numbers) | (x.re.eq(y.re) & x.im.compare(weakly, y.im))
    return choose(better | is_nan(x.re) | is_nan(x.im), x, y)
