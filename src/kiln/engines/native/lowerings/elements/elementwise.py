"""Elementwise primitives as scalar expressions, guarded where the NumPy rules define edge cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Elementwise, Lowering
from kiln.engines.native.building.element_types import (
    Complex,
    Scalar,
    Unsupported,
    is_narrow,
    real,
)
from kiln.engines.native.elementary.power import halves_of, power_of_halves
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, bits, is_float, is_signed
from kiln.engines.native.lowerings.elements import (
    complex_arithmetic,
    complex_functions,
    complex_inverses,
)
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.elements import elementwise as ops
from kiln.ops.elements import inverse_functions, rounding

Out = Sequence[ShapedArray]


def elementwise(function: Callable[..., Scalar]) -> Lowering:
    """Return the lowering of a function of scalars."""

    def lower(b: Builder, out: Out, *xs: Layout, **params: Any) -> Layout:
        return b.map(out[0], lambda *scalars: function(*scalars, **params), *xs)

    return Elementwise(lower)


def real_only(function: Callable[..., Value]) -> Lowering:
    """Return the lowering of a function of real scalars."""

    def checked(*xs: Scalar, **params: Any) -> Value:
        if any(isinstance(x, Complex) for x in xs):
            raise Unsupported("a function of complex numbers has no native lowering")
        return function(*xs, **params)

    return elementwise(checked)


def operation(op: str) -> Lowering:
    """Return the lowering of an operation or a function of scalars."""

    def scalar(*xs: Scalar) -> Scalar:
        x = xs[0]
        if not isinstance(x, Complex):
            return x.scope.op(op, x.dtype, *map(real, xs))
        function = COMPLEX_FUNCTIONS.get(op)
        if function is None:
            raise Unsupported(f"{op} of complex numbers has no native lowering")
        return function(*xs)

    return elementwise(scalar)


def _either(
    real: Callable[..., Scalar], of_complex: Callable[..., Scalar]
) -> Callable[..., Scalar]:
    """Return a function of scalars, given those of real and of complex ones."""
    return lambda *xs: (of_complex if isinstance(xs[0], Complex) else real)(*xs)


def _by_parts(function: Callable[..., Value]) -> Lowering:
    def scalar(*xs: Scalar) -> Scalar:
        if not isinstance(xs[0], Complex):
            return function(*xs)
        return Complex(*[function(*parts) for parts in zip(*xs, strict=True)])

    return elementwise(scalar)


def added(x: Scalar, y: Scalar) -> Scalar:
    """Return the sum of two numbers."""
    if isinstance(x, Complex) and isinstance(y, Complex):
        return Complex(x.re + y.re, x.im + y.im)
    return real(x) + real(y)


def mul(x: Scalar, y: Scalar) -> Scalar:
    """Return the product of two numbers."""
    if isinstance(x, Complex) and isinstance(y, Complex):
        return complex_arithmetic.product(x, y)
    return real(x) * real(y)


def _square(x: Scalar) -> Scalar:
    if not isinstance(x, Complex):
        return x * x
    # Infinite if one of the squares is; their difference may be nan.
    re, im = abs(x.re), abs(x.im)
    product = x.re * x.im
    # Equal parts have a difference of 0, by which a sum that overflows makes nan.
    gap = re - im
    return Complex(gap.eq(0).select(gap, gap * (re + im)), product + product)


def _div(x: Value, y: Value) -> Value:
    if is_float(x.dtype):
        return x / y
    zero = y.eq(0)
    if not is_signed(x.dtype):
        return zero.select(~x.scope.constant(0, x.dtype), x / zero.select(1, y))
    # The only overflow, low / -1, gives low again.
    return zero.select(-1, y.eq(-1).select(-x, x / (zero | y.eq(-1)).select(1, y)))


def _rem(x: Value, y: Value) -> Value:
    if is_float(x.dtype):
        return x.scope.op("rem", x.dtype, x, y)
    zero = y.eq(0)
    if not is_signed(x.dtype):
        return zero.select(x, x.scope.op("rem", x.dtype, x, zero.select(1, y)))
    safe = (zero | y.eq(-1)).select(1, y)
    return zero.select(x, x.scope.op("rem", x.dtype, x, safe))


def _integer_power(x: Value, y: Value) -> Value:
    total = x.scope.constant(1, x.dtype)
    base = x
    negative = y.lt(0) if is_signed(y.dtype) else None
    exponent = y if negative is None else negative.select(0, y)
    for i in range(bits(y.dtype) - (negative is not None)):
        odd = (_shifted(exponent, i) & 1).ne(0)
        total = odd.select(total * base, total)
        base = base * base
    if negative is None:
        return total
    inverse = x.eq(1).select(x, x.scope.constant(0, x.dtype))
    if is_signed(x.dtype):
        inverse = x.eq(-1).select((y & 1).ne(0).select(x, -x), inverse)
    return negative.select(inverse, total)


def _shifted(x: Value, by: int) -> Value:
    return x if by == 0 else x.scope.op("lshr", x.dtype, x, x.scope.constant(by, x.dtype))


def _pow(x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Complex):
        if not isinstance(y, Complex):
            y = Complex(y.convert(x.re.dtype), x.re.scope.constant(0, x.re.dtype))
        return complex_functions.power(x, y)
    assert isinstance(y, Value)
    if not is_float(x.dtype):
        return _integer_power(x, y)
    exponent = y.convert(x.dtype)
    halves = halves_of(exponent)
    if halves is None:
        return x.scope.op("pow", x.dtype, x, exponent)
    wide = x.convert("f32") if is_narrow(x.dtype) else x
    return power_of_halves(wide, halves).convert(x.dtype)


def _integer_pow(x: Scalar, *, y: int) -> Scalar:
    if isinstance(x, Value) and y < 0 and not is_float(x.dtype):
        if not is_signed(x.dtype):
            return x.eq(1).convert(x.dtype)
        return _integer_power(x, x.scope.constant(y, x.dtype))
    if y == 0:
        return _one(x)
    total: Scalar | None = None
    square, left = x, abs(y)
    while True:
        if left & 1:
            total = square if total is None else mul(total, square)
        left >>= 1
        if not left:
            break
        square = mul(square, square)
    assert total is not None
    if y > 0:
        return total
    return _inverse(total) if isinstance(total, Complex) else 1 / total


def _inverse(x: Complex) -> Complex:
    return complex_arithmetic.quotient(complex_arithmetic.number(x, 1), x)


def _one(x: Scalar) -> Scalar:
    if isinstance(x, Complex):
        return Complex(x.re.scope.constant(1, x.re.dtype), x.re.scope.constant(0, x.re.dtype))
    return x.scope.constant(1, x.dtype)


def maximum(x: Scalar, y: Scalar) -> Scalar:
    """Return the larger of two numbers; nans propagate, and 0 is larger than -0."""
    if isinstance(x, Complex) or isinstance(y, Complex):
        return complex_arithmetic.maximum(x, y)  # type: ignore[arg-type]
    return x | y if x.dtype == "i1" else x.scope.op("max", x.dtype, x, y)


def minimum(x: Scalar, y: Scalar) -> Scalar:
    """Return the smaller of two numbers; nans propagate, and -0 is smaller than 0."""
    if isinstance(x, Complex) or isinstance(y, Complex):
        return complex_arithmetic.minimum(x, y)  # type: ignore[arg-type]
    return x & y if x.dtype == "i1" else x.scope.op("min", x.dtype, x, y)


def _sign(x: Value) -> Value:
    one = x.scope.constant(1, x.dtype)
    if is_float(x.dtype):
        return x.eq(0).select(x, x.ne(x).select(x, x.scope.op("copysign", x.dtype, one, x)))
    if is_signed(x.dtype):
        return x.gt(0).select(one, x.lt(0).select(-1, x.scope.constant(0, x.dtype)))
    return x.ne(0).convert(x.dtype)


def _abs(x: Scalar) -> Value:
    if isinstance(x, Complex):
        return complex_arithmetic.modulus(x)
    return x if x.dtype.startswith("u") else abs(x)


def _round(x: Value, *, rounding_method: Any) -> Value:
    if rounding_method == rounding.RoundingMethod.TO_NEAREST_EVEN:
        return x.unary("rint")
    whole = x.unary("trunc")
    # Adding 1/2 first would round 0.49999997 up.
    away = abs(x - whole).ge(0.5)
    return x.scope.op("copysign", x.dtype, away.select(abs(whole) + 1, abs(whole)), x)


def _shift(op: str) -> Lowering:
    def shift(x: Value, n: Value) -> Value:
        width = bits(x.dtype)
        unsigned = n.bitcast(f"u{width}")
        wide = unsigned.ge(width)
        amount = wide.select(0, n)
        shifted = x.scope.op(op, x.dtype, x, amount)
        if op != "ashr":
            return wide.select(0, shifted)
        last = x.scope.op("ashr", x.dtype, x, x.scope.constant(width - 1, x.dtype))
        return wide.select(last, shifted)

    return real_only(shift)


def _is_finite(x: Value) -> Value:
    return abs(x).lt(float("inf"))


def _next_after(x: Value, y: Value) -> Value:
    width = bits(x.dtype)
    kind, unsigned = f"i{width}", f"u{width}"
    pattern = x.bitcast(kind)
    least = y.scope.op("copysign", x.dtype, x.scope.bits(1, x.dtype), y)
    # Away from zero the pattern grows by one, whatever the sign.
    away = y.gt(x).select(x.gt(0), x.lt(0))
    moved = away.select(pattern.bitcast(unsigned) + 1, pattern.bitcast(unsigned) - 1)
    found = x.eq(0).select(least, moved.bitcast(x.dtype))
    nan = x.ne(x) | y.ne(y)
    return nan.select(x + y, x.eq(y).select(y, found))


def _compare(how: str) -> Lowering:
    def compare(x: Scalar, y: Scalar) -> Value:
        if isinstance(x, Complex) and isinstance(y, Complex):
            re, im = x.re.compare(how, y.re), x.im.compare(how, y.im)
            return re & im if how == "eq" else re | im
        return x.compare(how, y)  # type: ignore[union-attr]

    return elementwise(compare)


def _choose(which: Value, x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Complex) and isinstance(y, Complex):
        return Complex(which.select(y.re, x.re), which.select(y.im, x.im))
    return which.select(y, x)


def _select_n(which: Value, *cases: Scalar) -> Scalar:
    if which.dtype == "i1":
        return _choose(which, *cases)
    found = cases[0]
    for i, case in enumerate(cases[1:], 1):
        found = _choose(which.ge(i), found, case)
    return found


def _identity(b: Builder, out: Out, x: Layout, **_: Any) -> Layout:
    return x


def select_n(b: Builder, out: Out, which: Layout, *cases: Layout) -> Layout:
    """Select between values; for keys, all words."""
    made = out[0].physical()
    if made.shape != out[0].shape and which.shape:
        extra = len(made.shape) - len(which.shape)
        which = which.with_axes(
            [
                *zip(which.shape, which.strides, strict=True),
                *[(n, 0) for n in b.sizes(made)[-extra:]],
            ]
        )
    return b.map(made, _select_n, which, *cases)


FUNCTIONS: dict[Operation, str] = {
    ops.floor_p: "floor",
    ops.ceil_p: "ceil",
    ops.sqrt_p: "sqrt",
    ops.rsqrt_p: "rsqrt",
    ops.cbrt_p: "cbrt",
    ops.exp_p: "exp",
    ops.exp2_p: "exp2",
    ops.expm1_p: "expm1",
    ops.log_p: "log",
    ops.log1p_p: "log1p",
    ops.sin_p: "sin",
    ops.cos_p: "cos",
    ops.tan_p: "tan",
    inverse_functions.asin_p: "asin",
    inverse_functions.acos_p: "acos",
    inverse_functions.atan_p: "atan",
    ops.atan2_p: "atan2",
    ops.sinh_p: "sinh",
    ops.cosh_p: "cosh",
    ops.tanh_p: "tanh",
    inverse_functions.asinh_p: "asinh",
    inverse_functions.acosh_p: "acosh",
    inverse_functions.atanh_p: "atanh",
    ops.logistic_p: "logistic",
    ops.not_p: "not",
    ops.and_p: "and",
    ops.or_p: "or",
    ops.xor_p: "xor",
    ops.population_count_p: "popcount",
    ops.clz_p: "clz",
}
"""Primitives that are one operation or function."""

COMPLEX_FUNCTIONS: dict[str, Callable[..., Complex]] = {
    "exp": complex_functions.exp,
    "exp2": complex_functions.exp2,
    "expm1": complex_functions.expm1,
    "log": complex_functions.log,
    "log1p": complex_functions.log1p,
    "sin": complex_functions.sin,
    "cos": complex_functions.cos,
    "tan": complex_functions.tan,
    "sinh": complex_functions.sinh,
    "cosh": complex_functions.cosh,
    "tanh": complex_functions.tanh,
    "logistic": complex_functions.logistic,
    "sqrt": complex_inverses.sqrt,
    "rsqrt": complex_inverses.rsqrt,
    "asin": complex_inverses.asin,
    "acos": complex_inverses.acos,
    "atan": complex_inverses.atan,
    "asinh": complex_inverses.asinh,
    "acosh": complex_inverses.acosh,
    "atanh": complex_inverses.atanh,
}
"""Functions of complex numbers, by the names of the real ones."""

LOWERINGS: dict[Operation, Lowering] = {
    ops.add_p: _by_parts(lambda x, y: x + y),
    ops.sub_p: _by_parts(lambda x, y: x - y),
    ops.neg_p: _by_parts(lambda x: -x),
    ops.mul_p: elementwise(mul),
    ops.div_p: elementwise(_either(_div, complex_arithmetic.quotient)),
    ops.rem_p: real_only(_rem),
    ops.pow_p: elementwise(_pow),
    ops.integer_pow_p: elementwise(_integer_pow),
    ops.square_p: elementwise(_square),
    ops.max_p: elementwise(maximum),
    ops.min_p: elementwise(minimum),
    ops.clamp_p: elementwise(lambda low, x, high: minimum(maximum(x, low), high)),
    ops.sign_p: elementwise(_either(_sign, complex_arithmetic.sign)),
    ops.abs_p: elementwise(_abs),
    rounding.round_p: real_only(_round),
    ops.is_finite_p: real_only(_is_finite),
    ops.nextafter_p: real_only(_next_after),
    ops.eq_p: _compare("eq"),
    ops.ne_p: _compare("ne"),
    ops.lt_p: _compare("lt"),
    ops.le_p: _compare("le"),
    ops.gt_p: _compare("gt"),
    ops.ge_p: _compare("ge"),
    ops.shift_left_p: _shift("shl"),
    ops.shift_right_logical_p: _shift("lshr"),
    ops.shift_right_arithmetic_p: _shift("ashr"),
    ops.select_n_p: Elementwise(select_n),
    ops.copy_p: _identity,
    ops.stop_gradient_p: _identity,
    **{primitive: operation(op) for primitive, op in FUNCTIONS.items()},
}
