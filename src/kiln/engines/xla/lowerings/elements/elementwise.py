"""Arithmetic, elementary functions, comparison, logic, bits and selection as StableHLO.

Operands may be scalars beside arrays, so every lowering first broadcasts its operands to the
result's shape. XLA's semantics of special cases (division by zero, shifts past the width, nan in
max) are those of the contract; this file handles the cases that XLA does not support or gets wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.elements import elementwise as ops
from kiln.ops.elements import inverse_functions, rounding

Out = Sequence[ShapedArray]
_BOOL = np.dtype(np.bool_)


def is_complex(x: Value) -> bool:
    """Tell whether a value's elements are complex."""
    return dtypes.issubdtype(x.dtype, np.complexfloating)


def is_integer(x: Value) -> bool:
    """Tell whether a value's elements are integers."""
    return dtypes.issubdtype(x.dtype, np.integer)


def nary(name: str) -> Callable[..., Value]:
    """Return the lowering to the StableHLO or CHLO operation `name`."""

    def lower(b: Builder, out: Out, *xs: Value) -> Value:
        return b.op(name, [b.fill(x, out[0].shape) for x in xs], out[0])

    return lower


def real_part(b: Builder, x: Value) -> Value:
    """Return the real part of a complex value."""
    return b.op("stablehlo.real", [x], _part(x))


def imaginary_part(b: Builder, x: Value) -> Value:
    """Return the imaginary part of a complex value."""
    return b.op("stablehlo.imag", [x], _part(x))


def _part(x: Value) -> ShapedArray:
    return x.aval.with_(dtype=np.dtype(f"f{x.dtype.itemsize // 2}"))


def less(b: Builder, x: Value, y: Value, *, or_equal: bool = False) -> Value:
    """Compare numbers; complex ones lexicographically, real parts first."""
    last = "LE" if or_equal else "LT"
    if not is_complex(x):
        return b.compare(last, x, y)
    re_x, re_y = real_part(b, x), real_part(b, y)
    within = b.compare(last, imaginary_part(b, x), imaginary_part(b, y))
    return b.select(b.compare("EQ", re_x, re_y), within, b.compare("LT", re_x, re_y))


def _equality(direction: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, y: Value) -> Value:
        return b.compare(direction, b.fill(x, out[0].shape), b.fill(y, out[0].shape))

    return lower


def _ordering(flip: bool, or_equal: bool) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, y: Value) -> Value:
        x, y = b.fill(x, out[0].shape), b.fill(y, out[0].shape)
        return less(b, y, x, or_equal=or_equal) if flip else less(b, x, y, or_equal=or_equal)

    return lower


def _extremum(name: str) -> Lowering:
    plain = nary(f"stablehlo.{name}")

    def lower(b: Builder, out: Out, x: Value, y: Value) -> Value:
        if not is_complex(x):
            return plain(b, out, x, y)
        x, y = b.fill(x, out[0].shape), b.fill(y, out[0].shape)
        first = less(b, y, x) if name == "maximum" else less(b, x, y)
        # An operand with a nan part is unequal to itself, and is selected.
        first = b.apply("or", first, b.compare("NE", x, x))
        first = b.apply("and", first, b.compare("EQ", y, y))
        return b.select(first, x, y)

    return lower


def _complex(b: Builder, out: Out, re: Value, im: Value) -> Value:
    return b.op("stablehlo.complex", [re, im], out[0])


def _square(b: Builder, out: Out, x: Value) -> Value:
    if not is_complex(x):
        return b.apply("multiply", x, x)
    # (|a| - |b|)(|a| + |b|) is infinite if one of the squares overflows; their difference may be
    # nan.
    re, im = real_part(b, x), imaginary_part(b, x)
    twice = b.apply("multiply", re, im)
    re, im = b.apply("abs", re), b.apply("abs", im)
    gap = b.apply("subtract", re, im)
    square = b.apply("multiply", gap, b.apply("add", re, im))
    # For equal parts the difference is 0, and its product with an overflowing sum would be nan.
    square = b.select(b.compare("EQ", gap, b.like(0, gap)), gap, square)
    return _complex(b, out, square, b.apply("add", twice, twice))


def _parts(b: Builder, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    """Return sine and cosine of the real part, sinh and cosh of the imaginary part, and a zero."""
    re, im = real_part(b, x), imaginary_part(b, x)
    sinh, cosh = (b.op(f"chlo.{name}", [im], im.aval) for name in ("sinh", "cosh"))
    at_zero = b.compare("EQ", re, b.like(0, re))
    return b.apply("sine", re), b.apply("cosine", re), sinh, cosh, at_zero


def _sine(b: Builder, out: Out, x: Value) -> Value:
    if not is_complex(x):
        return nary("stablehlo.sine")(b, out, x)
    sin, cos, sinh, cosh, at_zero = _parts(b, x)
    # 0 times infinity is 0 here: the sine of an imaginary number is imaginary.
    re = b.select(at_zero, b.like(0, sin), b.apply("multiply", sin, cosh))
    return _complex(b, out, re, b.apply("multiply", cos, sinh))


def _cosine(b: Builder, out: Out, x: Value) -> Value:
    if not is_complex(x):
        return nary("stablehlo.cosine")(b, out, x)
    sin, cos, sinh, cosh, at_zero = _parts(b, x)
    im = b.apply("negate", b.apply("multiply", sin, sinh))
    return _complex(b, out, b.apply("multiply", cos, cosh), b.select(at_zero, b.like(0, sin), im))


def _rem(b: Builder, out: Out, x: Value, y: Value) -> Value:
    if is_complex(x):
        # XLA would crash the process.
        raise TypeError(
            three_lines(
                f"rem: operands {x.aval}, {y.aval} at {b.source}",
                "the remainder of complex numbers is not defined",
                "take real and imaginary parts first",
            )
        )
    return nary("stablehlo.remainder")(b, out, x, y)


def _sign(b: Builder, out: Out, x: Value) -> Value:
    if not dtypes.issubdtype(x.dtype, np.unsignedinteger):
        return b.apply("sign", x)
    return b.convert(b.compare("NE", x, b.like(0, x)), x.dtype)


def _abs(b: Builder, out: Out, x: Value) -> Value:
    if dtypes.issubdtype(x.dtype, np.unsignedinteger):
        return x
    return b.op("stablehlo.abs", [x], out[0])


def _exp2(b: Builder, out: Out, x: Value) -> Value:
    if is_complex(x):
        return b.apply("exponential", b.apply("multiply", x, b.like(math.log(2), x)))
    return b.apply("power", b.like(2, x), x)


def _pow(b: Builder, out: Out, x: Value, y: Value) -> Value:
    if is_integer(x):
        return integer_power(b, b.fill(x, out[0].shape), b.fill(y, out[0].shape))
    y = b.convert(y, x.dtype)
    return b.apply("power", b.fill(x, out[0].shape), b.fill(y, out[0].shape))


def integer_power(b: Builder, x: Value, y: Value) -> Value:
    """Raise integers to integer powers, wrapping around; XLA's own uses only six bits of `y`."""
    one, zero = b.like(1, x), b.like(0, x)
    zero_y = b.like(0, y)
    if dtypes.issubdtype(y.dtype, np.signedinteger):
        negative = b.compare("LT", y, zero_y)
        exponent = b.select(negative, zero_y, y)
    else:
        negative, exponent = None, y

    def busy(b: Builder, out: Value, base: Value, left: Value) -> Value:
        return b.reduce_with("or", b.compare("NE", left, b.like(0, left)), False, range(left.ndim))

    def step(b: Builder, out: Value, base: Value, left: Value) -> list[Value]:
        odd = b.compare("NE", b.apply("and", left, b.like(1, left)), b.like(0, left))
        return [
            b.select(odd, b.apply("multiply", out, base), out),
            b.apply("multiply", base, base),
            b.apply("shift_right_logical", left, b.like(1, left)),
        ]

    result = b.while_loop(busy, step, [one, x, exponent])[0]
    if negative is None:
        return result
    odd = b.compare("NE", b.apply("and", y, b.like(1, y)), zero_y)
    inverse = b.select(b.compare("EQ", x, one), one, zero)
    if dtypes.issubdtype(x.dtype, np.signedinteger):
        minus = b.like(-1, x)
        of_minus = b.select(odd, minus, one)
        inverse = b.select(b.compare("EQ", x, minus), of_minus, inverse)
    return b.select(negative, inverse, result)


def _integer_pow(b: Builder, out: Out, x: Value, *, y: int) -> Value:
    if y == 0:
        return b.like(1, x)
    if y < 0 and is_integer(x):
        limit = min(-y, 2 + (-y) % 2)
        if dtypes.issubdtype(x.dtype, np.signedinteger):
            return integer_power(b, x, b.like(-limit, x))
        return b.convert(b.compare("EQ", x, b.like(1, x)), x.dtype)
    total: Value | None = None
    square, left = x, abs(y)
    while True:
        if left & 1:
            total = square if total is None else b.apply("multiply", total, square)
        left >>= 1
        if not left:
            break
        square = b.apply("multiply", square, square)
    assert total is not None
    return total if y > 0 else b.apply("divide", b.like(1, x), total)


def _clamp(b: Builder, out: Out, low: Value, x: Value, high: Value) -> Value:
    shape = out[0].shape
    if low.ndim or high.ndim:
        low, high = b.fill(low, shape), b.fill(high, shape)
    return b.op("stablehlo.clamp", [low, b.fill(x, shape), high], out[0])


def _select_n(b: Builder, out: Out, which: Value, *cases: Value) -> Value:
    cases = tuple(b.fill(case, out[0].shape) for case in cases)
    if len(cases) == 1:
        return cases[0]

    if which.dtype == _BOOL:
        return b.select(which, cases[1], cases[0])
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        result = b.select(b.compare("LT", which, b.like(i + 1, which)), cases[i], result)
    return result


def _round(b: Builder, out: Out, x: Value, *, rounding_method: rounding.RoundingMethod) -> Value:
    even = rounding_method == rounding.RoundingMethod.TO_NEAREST_EVEN
    return b.apply("round_nearest_even" if even else "round_nearest_afz", x)


def identity(b: Builder, out: Out, x: Value) -> Value:
    """Return the operand."""
    return x


LOWERINGS: dict[Primitive, Lowering] = {
    ops.add_p: nary("stablehlo.add"),
    ops.sub_p: nary("stablehlo.subtract"),
    ops.mul_p: nary("stablehlo.multiply"),
    ops.div_p: nary("stablehlo.divide"),
    ops.rem_p: _rem,
    ops.pow_p: _pow,
    ops.integer_pow_p: _integer_pow,
    ops.max_p: _extremum("maximum"),
    ops.min_p: _extremum("minimum"),
    ops.neg_p: nary("stablehlo.negate"),
    ops.sign_p: _sign,
    ops.abs_p: _abs,
    ops.floor_p: nary("stablehlo.floor"),
    ops.ceil_p: nary("stablehlo.ceil"),
    ops.square_p: _square,
    ops.sqrt_p: nary("stablehlo.sqrt"),
    ops.rsqrt_p: nary("stablehlo.rsqrt"),
    ops.cbrt_p: nary("stablehlo.cbrt"),
    ops.exp_p: nary("stablehlo.exponential"),
    ops.exp2_p: _exp2,
    ops.expm1_p: nary("stablehlo.exponential_minus_one"),
    ops.log_p: nary("stablehlo.log"),
    ops.log1p_p: nary("stablehlo.log_plus_one"),
    ops.sin_p: _sine,
    ops.cos_p: _cosine,
    ops.tan_p: nary("stablehlo.tan"),
    inverse_functions.asin_p: nary("chlo.asin"),
    inverse_functions.acos_p: nary("chlo.acos"),
    inverse_functions.atan_p: nary("chlo.atan"),
    ops.atan2_p: nary("stablehlo.atan2"),
    ops.sinh_p: nary("chlo.sinh"),
    ops.cosh_p: nary("chlo.cosh"),
    ops.tanh_p: nary("stablehlo.tanh"),
    inverse_functions.asinh_p: nary("chlo.asinh"),
    inverse_functions.acosh_p: nary("chlo.acosh"),
    inverse_functions.atanh_p: nary("chlo.atanh"),
    ops.logistic_p: nary("stablehlo.logistic"),
    ops.is_finite_p: nary("stablehlo.is_finite"),
    ops.nextafter_p: nary("chlo.next_after"),
    ops.eq_p: _equality("EQ"),
    ops.ne_p: _equality("NE"),
    ops.lt_p: _ordering(flip=False, or_equal=False),
    ops.le_p: _ordering(flip=False, or_equal=True),
    ops.gt_p: _ordering(flip=True, or_equal=False),
    ops.ge_p: _ordering(flip=True, or_equal=True),
    ops.and_p: nary("stablehlo.and"),
    ops.or_p: nary("stablehlo.or"),
    ops.xor_p: nary("stablehlo.xor"),
    ops.not_p: nary("stablehlo.not"),
    ops.shift_left_p: nary("stablehlo.shift_left"),
    ops.shift_right_logical_p: nary("stablehlo.shift_right_logical"),
    ops.shift_right_arithmetic_p: nary("stablehlo.shift_right_arithmetic"),
    ops.population_count_p: nary("stablehlo.popcnt"),
    ops.clz_p: nary("stablehlo.count_leading_zeros"),
    ops.select_n_p: _select_n,
    ops.clamp_p: _clamp,
    rounding.round_p: _round,
    ops.copy_p: identity,
    ops.stop_gradient_p: identity,
}
