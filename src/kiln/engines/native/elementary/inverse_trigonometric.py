"""asin, acos, atan, atan2."""

from __future__ import annotations

from kiln.engines.native.elementary.formats import (
    FORMATS,
    copysign,
    either,
    integer_of,
    parts,
    polynomial,
)
from kiln.engines.native.loop_ir.scalars import Value


def _arc(x: Value) -> tuple[Value, Value, Value]:
    """Return whether |x| > 1/2, s and asin(s) - s; asin|x| is asin(s), then pi/2 - 2 asin(s)."""
    size = abs(x)
    large = size.gt(0.5)
    z = large.select((1 - size) * 0.5, size * size)
    s = large.select(z.unary("sqrt"), size)
    return large, s, s * z * polynomial("asin", z)


def asin(x: Value) -> Value:
    """Return the arc sine; nan where |x| > 1."""
    large, s, more = _arc(x)
    high, low, _ = parts("pi/2", x.dtype)
    # pi/2 - 2 s is split, so that both terms round as parts of a large number.
    found = large.select(high - ((s + s) - (low - (more + more))), s + more)
    return copysign(found, x)


def acos(x: Value) -> Value:
    """Return the arc cosine; nan where |x| > 1."""
    large, s, more = _arc(x)
    high, low, _ = parts("pi/2", x.dtype)
    middle = high - (x - (low - copysign(more, x)))
    half = s + more
    twice = x.lt(0).select(2 * high - ((half + half) - 2 * low), half + half)
    return large.select(twice, middle)


def _angle(t: Value, eighths: Value) -> Value:
    """Return eighths * pi / 4 + atan(t) for |t| <= 1/2."""
    z = t * t
    small = (t * z).muladd(polynomial("atan", z), t)
    high, low = parts("pi/4", t.dtype)
    return eighths.muladd(high, eighths.muladd(low, small))


def atan(x: Value) -> Value:
    """Return the arc tangent."""
    scope, size = x.scope, abs(x)
    one = scope.constant(1, x.dtype)
    swap = size.gt(1)
    least, most = swap.select(one, size), swap.select(size, one)
    tilted = least.gt(most * 0.5)
    t = tilted.select(least - most, least) / tilted.select(least + most, most)
    eighths = swap.select(tilted.select(one, 2.0), tilted.select(one, 0.0))
    return copysign(_angle(swap.select(-t, t), eighths), x)


def atan2(y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y)."""
    scope, f = x.scope, FORMATS[x.dtype]
    one = scope.constant(1, x.dtype)
    width, height = abs(x), abs(y)
    swap = height.gt(width)
    least, most = swap.select(width, height), swap.select(height, width)
    # Their sum must not overflow.
    scale = most.gt(2.0 ** (f.bias - 1)).select(one * 0.25, one)
    least, most = least * scale, most * scale
    # Zeros and infinities have no quotient.
    equal = least.eq(most)
    tilted = either(least.gt(most * 0.5), equal & most.gt(0))
    t = tilted.select(least - most, least) / tilted.select(least + most, most)
    t = equal.select(0.0, t)
    eighths = swap.select(tilted.select(one, 2.0), tilted.select(one, 0.0))
    behind = integer_of(x).lt(0)
    eighths = behind.select(4 - eighths, eighths)
    # Exclusive or of bools.
    down = scope.op("xor", "i1", swap, behind)
    return copysign(_angle(down.select(-t, t), eighths), y)
