"""Properties of f32 and f64 for expansions: constants, exponents, rounding by addition."""

from __future__ import annotations

from kiln.base.records import Record
from kiln.engines.native.elementary.coefficients import COEFFICIENTS
from kiln.engines.native.loop_ir.scalars import Value


class Format(Record):
    """A float format."""

    digits: int
    """Bits of the mantissa that are stored."""
    integer: str
    """The integer type of the same width."""
    unsigned: str
    bias: int
    one: int
    """The bits of 1."""
    infinity: int
    magic: float
    """1.5 * 2^digits: adding it rounds to an integer, left in the low bits."""
    magic_bits: int


FORMATS = {
    "f32": Format(23, "i32", "u32", 127, 0x3F800000, 0x7F800000, 1.5 * 2.0**23, 0x4B400000),
    "f64": Format(
        52, "i64", "u64", 1023, 0x3FF << 52, 0x7FF << 52, 1.5 * 2.0**52, 0x4338 << 48
    ),
}  # fmt: skip


def polynomial(name: str, x: Value, precision: str | None = None) -> Value:
    """Return one of the fitted polynomials at x, for its dtype or for a lower precision."""
    return x.scope.polynomial(x, COEFFICIENTS[name][precision or x.dtype])


def paired_polynomial(name: str, x: Value) -> Value:
    """Return one of the fitted polynomials by Estrin's scheme, which has a short dependency chain.

    It rounds more often than Horner's scheme, so it is for results with fewer bits than their type.
    """
    terms = [x.scope.constant(c, x.dtype) for c in COEFFICIENTS[name][x.dtype]]
    while len(terms) > 1:
        pairs = [high.muladd(x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        x = x * x
    return terms[0]


def parts(name: str, dtype: str) -> tuple[float, ...]:
    """Return a number such as pi as a sum of floats."""
    return COEFFICIENTS[name][dtype]


def integer_of(x: Value) -> Value:
    """Return the bits as a signed integer."""
    return x.bitcast(FORMATS[x.dtype].integer)


def at_most(x: Value, bound: float) -> Value:
    """Return min(x, bound); nan stays."""
    limit = x.scope.constant(bound, x.dtype)
    return limit.lt(x).select(limit, x)


def at_least(x: Value, bound: float) -> Value:
    """Return max(x, bound); nan stays."""
    limit = x.scope.constant(bound, x.dtype)
    return limit.gt(x).select(limit, x)


def copysign(x: Value, sign: Value) -> Value:
    """Return |x| with the sign of another."""
    return x.scope.op("copysign", x.dtype, x, sign)


def power_of_two(n: Value, dtype: str) -> Value:
    """Return 2^n of an integer, whose exponent must be that of a normal number."""
    f = FORMATS[dtype]
    return ((n + f.bias) << f.digits).bitcast(dtype)


def scaled(x: Value, n: Value) -> Value:
    """Return x * 2^n, rounded once, if n is within twice the range of exponents and x near 1."""
    half = n >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(n - half, x.dtype)


def either(x: Value, y: Value) -> Value:
    """Return x or y, of bools."""
    return x.scope.op("or", "i1", x, y)


def two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x + y and its error, if |x| >= |y|."""
    total = x + y
    return total, y - (total - x)


def two_product(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x * y and its error."""
    product = x * y
    return product, x.fma(y, -product)
