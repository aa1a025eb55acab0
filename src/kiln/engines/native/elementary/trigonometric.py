"""sin, cos, tan.

The argument is reduced by a multiple of pi in three parts. Of huge arguments (the branch that few
programs take) the bits of 2 / pi that matter are multiplied as integers, after Payne and Hanek
(1983).
"""

from __future__ import annotations

from collections.abc import Callable

from kiln.engines.native.elementary.coefficients import WORDS_OF_2_OVER_PI
from kiln.engines.native.elementary.formats import (
    FORMATS,
    integer_of,
    parts,
    polynomial,
    two_product,
    two_sum,
)
from kiln.engines.native.scalars import Scope, Value

# Above, the multiple of pi is not an exact product, or not an exact integer.
_HUGE = {"f32": 2.0**16, "f64": 2.0**30}


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


def _function(x: Value, finish: Callable[[Value, Value, Value], Value]) -> Value:
    huge = ~abs(x).le(_HUGE[x.dtype])
    return x.scope.rare(huge, finish(*_reduced(x)), _quarters(x, finish))


def sin(x: Value) -> Value:
    """Return the sine; nan of infinities."""
    return x.eq(0).select(x, _function(x, _of_sine))


def cos(x: Value) -> Value:
    """Return the cosine; nan of infinities."""
    return _function(x, _of_cosine)


def tan(x: Value) -> Value:
    """Return the tangent; nan of infinities. Of f32, computed in f64."""
    if x.dtype == "f32":
        wide = x.convert("f64")
        huge = ~abs(wide).le(_HUGE["f64"])
        finite = abs(x).lt(x.scope.bits(FORMATS["f32"].infinity, "f32"))
        r, _, quarter = _signed(wide, _short_product)
        exact = finite.select(_short_tangent(r, quarter), float("nan"))
        r, _, quarter = _reduced(wide)
        found = x.scope.rare(huge, _short_tangent(r, quarter), exact)
        return x.eq(0).select(x, found.convert("f32"))
    return x.eq(0).select(x, _function(x, _of_tangent))


def _sine(r: Value, rest: Value) -> tuple[Value, Value]:
    """Return what is added up to sin(r + rest), |r| <= pi / 4."""
    z = r * r
    return r, (r * z).muladd(polynomial("sin_short", z), rest)


def _cosine(r: Value, rest: Value) -> tuple[Value, Value]:
    """Return what is added up to cos(r + rest), |r| <= pi / 4."""
    z = r * r
    half = z * 0.5
    top = 1 - half
    # What 1 - z / 2 lost, with the rest of the series.
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


def _signed(
    x: Value, product: Callable[[Value], tuple[Value, Value, Value]]
) -> tuple[Value, Value, Value]:
    """Return r, rest and quarter of x, from those of |x|."""
    r, rest, quarter = product(x)
    negative = x.lt(0)
    rest = negative.select(-rest, rest)
    return negative.select(-r, r), rest, negative.select(-quarter, quarter)


def _quarters(x: Value, finish: Callable[[Value, Value, Value], Value]) -> Value:
    """Return a function of (r, rest, quarter), x = quarter * pi / 2 + r + rest, for huge x."""
    scope = x.scope
    if x.dtype == "f32":
        r, _, quarter = _signed(x.convert("f64"), _short_product)
        near = r.convert("f32")
        found = finish(near, (r - near.convert("f64")).convert("f32"), quarter.convert("i32"))
    else:
        found = finish(*_signed(x, _long_product))
    finite = abs(x).lt(scope.bits(FORMATS[x.dtype].infinity, x.dtype))
    return finite.select(found, scope.constant(float("nan"), x.dtype))


def _turned(x: Value, digits: int, highest: int, needed: int) -> tuple[Value, list[Value]]:
    """Return the mantissa of |x|, an integer, and the bits of 2 / pi it is to be multiplied by.

    Those above weight 4 add whole turns; the first word has two bits before the point.
    """
    raw = x.bitcast("u64")
    mantissa = ((raw & ((1 << 52) - 1)) | (1 << 52)) >> (52 - digits)
    exponent = (raw >> 52 & 0x7FF) - (1023 + digits)
    start = exponent + 62
    words = _shifted(x.scope, start >> 6, highest - digits, needed + 1)
    shift = start & 63
    return mantissa, [
        (words[i] << shift) | ((words[i + 1] >> 1) >> (63 - shift)) for i in range(needed)
    ]


def _quarter(high: Value) -> tuple[Value, Value]:
    """Return the nearest integer of a number with 62 bits after the point, and the rest of it."""
    quarter = (high + (1 << 61)) >> 62
    return quarter.bitcast("i64"), (high - (quarter << 62)).bitcast("i64")


def _short_product(x: Value) -> tuple[Value, Value, Value]:
    """Return r, 0 and the quarter of |x|, an f64 that is a number of f32 above 2^16."""
    mantissa, (a, b) = _turned(x, 23, 127, 2)
    quarter, fraction = _quarter(mantissa * a + (mantissa * (b >> 32) >> 32))
    r = fraction.convert("f64") * (2.0**-62 * parts("pi/2", "f64")[0])
    return r, x.scope.constant(0, "f64"), quarter


def _long_product(x: Value) -> tuple[Value, Value, Value]:
    """Return r, rest and the quarter of |x|, an f64 above 2^16."""
    scope = x.scope
    mantissa, (a, b, c) = _turned(x, 52, 1023, 3)

    def high_product(x: Value, y: Value) -> Value:
        return scope.op("mulhi", "u64", x, y)

    low = mantissa * b
    middle = low + high_product(mantissa, c)
    carry = middle.lt(low).select(scope.constant(1, "u64"), 0)
    quarter, fraction = _quarter(mantissa * a + high_product(mantissa, b) + carry)
    main = fraction & -(1 << 10)
    below = (fraction & ((1 << 10) - 1)).convert("f64") * 2.0**-62
    below = below + (middle >> 11).convert("f64") * 2.0 ** (11 - 126)
    first, second, _ = parts("pi/2", "f64")
    turn = main.convert("f64") * 2.0**-62
    r = turn * first
    rest = below.muladd(first, turn.muladd(second, turn.fma(first, -r)))
    total = r + rest
    return total, rest - (total - r), quarter


def _shifted(scope: Scope, count: Value, highest: int, length: int) -> list[Value]:
    """Return words of 2 / pi from the one with a number on; the first is 0, before the point."""
    last = (highest + 62) // 64
    words = [scope.constant(w, "u64") for w in (0, *WORDS_OF_2_OVER_PI)][: last + length]
    zero = scope.constant(0, "u64")
    step = 1
    while step <= last:
        step *= 2
    # Moved by each power of two that the number holds.
    while step > 1:
        step //= 2
        moved = (count & step).ne(0)
        words = [
            moved.select(words[i + step] if i + step < len(words) else zero, words[i])
            for i in range(min(len(words), length + step - 1))
        ]
    return words
