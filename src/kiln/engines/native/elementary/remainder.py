"""The remainder of truncating division, C's fmod, which is exact."""

from __future__ import annotations

from kiln.engines.native.elementary.formats import FORMATS, copysign
from kiln.engines.native.loop_ir.scalars import Value


def rem(x: Value, y: Value) -> Value:
    """Return x - trunc(x / y) * y; nan where x is infinite or y is 0."""
    if x.dtype == "f32":
        # In f64 products of quotients below 2^29 are exact.
        return _remainder(x.convert("f64"), y.convert("f64"), 28, 276).convert("f32")
    return _remainder(x, y, 51, 2098)


def _step(rest: Value, y: Value) -> Value:
    """Return rest modulo y, both positive, if their quotient is within the exact range."""
    quotient = (rest / y).unary("trunc")
    left = (-quotient).fma(y, rest)
    # The quotient may have been rounded up to an integer.
    left = left.lt(0).select(left + y, left)
    return rest.lt(y).select(rest, left)


def _remainder(x: Value, y: Value, digits: int, widest: int) -> Value:
    scope = x.scope
    size, by = abs(x), abs(y)
    usual = _step(size, by)
    outside = ~(size / by).lt(2.0**digits)
    # From multiples of y by a high power of two to y itself.
    rest = size
    for k in range(widest // digits, -1, -1):
        power = digits * k
        multiple = by
        while power > 1000:
            multiple, power = multiple * 2.0**1000, power - 1000
        rest = _step(rest, multiple * 2.0**power)
    infinity = scope.bits(FORMATS[x.dtype].infinity, x.dtype)
    defined = size.lt(infinity) & by.gt(0)
    exact = defined.select(rest, scope.constant(float("nan"), x.dtype))
    return copysign(scope.rare(outside, usual, exact), x)
