"""Arithmetic, elementary functions, comparison, logic, bits, selection: a member is one line.

The NumPy meanings follow compiled code at the edges: integer division by zero, shifts past the
width, nan in max and min.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.conversion import conj, convert_element_type, real
from kiln.ops.families import (
    ANY,
    BITS,
    EVERYTHING,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    Elementwise,
    add,
    add_p,
    binary,
    constant,
    full_like,
    incompatible_shapes,
    matched,
    neg,
    neg_p,
    to_bool,
    unary,
    unbroadcast,
)
from kiln.ops.shape import filled, zeros_of

__all__ = ["add", "add_p", "neg", "neg_p"]


def _integer(x: np.ndarray) -> bool:
    return dtypes.issubdtype(x.dtype, np.integer)


def _divide(x: np.ndarray, y: np.ndarray) -> Any:
    if not _integer(x):
        return np.divide(x, y)
    low, high = dtypes.iinfo(x.dtype).min, dtypes.iinfo(x.dtype).max
    zero = y == 0
    safe = np.where(zero, 1, y).astype(x.dtype)
    if low < 0:
        # The one overflow, low / -1, gives low again.
        safe = np.where((x == low) & (safe == -1), 1, safe).astype(x.dtype)
    quotient = np.floor_divide(x, safe)
    remainder = x - quotient * safe
    quotient = quotient + ((remainder != 0) & ((x < 0) != (safe < 0)))
    return np.where(zero, -1 if low < 0 else high, quotient).astype(x.dtype)


def _remainder(x: np.ndarray, y: np.ndarray) -> Any:
    if not _integer(x):
        return np.fmod(x, y)
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if dtypes.iinfo(x.dtype).min < 0:
        safe = np.where(safe == -1, 1, safe).astype(x.dtype)
    return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)


def _power(x: np.ndarray, y: np.ndarray) -> Any:
    if not _integer(x):
        return np.power(x, y.astype(x.dtype))
    return _integer_power(x, y)


def _integer_power(x: np.ndarray, y: np.ndarray) -> Any:
    negative = y < 0
    out = np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    base, exponent = x, np.where(negative, 0, y)
    while exponent.any():
        out = np.where(exponent & 1, out * base, out).astype(x.dtype)
        base, exponent = base * base, exponent >> 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0))
    return np.where(negative, inverse, out).astype(x.dtype)


def _shift(left: bool, arithmetic: bool) -> Any:
    def meaning(x: np.ndarray, n: np.ndarray) -> Any:
        bits = dtypes.iinfo(x.dtype).bits
        wide = (n < 0) | (n >= bits)
        amount = np.where(wide, 0, n).astype(x.dtype)
        if left:
            return np.where(wide, 0, np.left_shift(x, amount)).astype(x.dtype)
        if arithmetic:
            signed = x.view(f"i{x.dtype.itemsize}")
            shifted = np.right_shift(signed, amount.view(signed.dtype)).view(x.dtype)
            return np.where(wide, np.where(signed < 0, -1, 0).astype(x.dtype), shifted)
        unsigned = x.view(f"u{x.dtype.itemsize}")
        shifted = np.right_shift(unsigned, amount.view(unsigned.dtype)).view(x.dtype)
        return np.where(wide, 0, shifted).astype(x.dtype)

    return meaning


def _sign_numpy(x: np.ndarray) -> Any:
    return np.sign(x) if x.dtype.kind != "V" else np.sign(x.astype(np.float32)).astype(x.dtype)


def _round_away(x: np.ndarray) -> Any:
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _linear_sub(ct: Any, x: Any, y: Any) -> Any:
    return [ct, neg(ct) if is_linear(y) else None]


def _linear_mul(ct: Any, x: Any, y: Any) -> Any:
    return [mul(ct, y), None] if is_linear(x) else [None, mul(x, ct)]


def _balanced(x: Any, out: Any, y: Any) -> Any:
    # A tie sends half of the cotangent to each side.
    mine = select(eq(x, out), constant(1, out), constant(0, out))
    return div(mine, select(eq(y, out), full_like(out, 2), full_like(out, 1)))


def _abs_partial(t: Any, out: Any, x: Any) -> Any:
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return real(mul(t, conj(sign(x))))
    return mul(t, sign(x))


class Power(Elementwise):
    """x to the power y; y may be an integer array beside a float x."""

    def result_dtype(self, x: Any, y: Any) -> Any:
        if x.dtype != y.dtype and not dtypes.issubdtype(y.dtype, np.integer):
            return super().result_dtype(x, y)
        self.check_dtype(x.dtype)
        return x.dtype


def _power_x(t: Any, out: Any, x: Any, y: Any) -> Any:
    # d/dx x^y = y x^(y-1), and 0 where y = 0 whatever x is.
    less = select(eq(y, constant(0, y)), full_like(y, 1), sub(y, constant(1, y)))
    factor = convert_element_type(y, aval_of(x).dtype)
    return mul(t, mul(factor, pow_p.bind(x, less)))


def _power_y(t: Any, out: Any, x: Any, y: Any) -> Any:
    if dtypes.issubdtype(aval_of(y).dtype, np.integer):
        return Zero(aval_of(out))
    safe = select(eq(x, constant(0, x)), full_like(x, 1), x)
    return mul(t, mul(log(safe), out))


class IntegerPower(Elementwise):
    """x to a constant integer power `y`."""

    def infer(self, x: Any, *, y: int) -> ShapedArray:
        return super().infer(x)

    def numpy(self, x: Any, *, y: int) -> Any:
        if _integer(x):
            return _integer_power(x, np.asarray(y))
        return np.power(x, x.dtype.type(y))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, y: int) -> Any:
        (x,), (t,) = primals, tangents
        out = integer_pow(x, y)
        if y == 0:
            return out, Zero(aval_of(out).tangent())
        return out, mul(t, mul(constant(y, x), integer_pow(x, y - 1)))


class Select(Elementwise):
    """Take each element from the case that `which` numbers: False, True, or an int32."""

    def infer(self, which: Any, *cases: Any) -> ShapedArray:
        if which.dtype not in (np.bool_, np.int32) or (which.dtype == np.bool_ and len(cases) != 2):
            raise TypeError(
                three_lines(
                    f"select_n: which {which} of {len(cases)} cases",
                    "select_n `which` must be boolean (two cases) or int32",
                    "compare to get a boolean, or convert: which.astype('int32')",
                )
            )
        if any(c.dtype != cases[0].dtype for c in cases):
            raise TypeError(
                three_lines(
                    f"select_n: cases {', '.join(map(str, cases))} at {current_source()}",
                    "select_n cases must have the same dtypes",
                    "convert the cases to one dtype",
                )
            )
        shape = self.common_shape(cases)
        if which.shape and shape and which.shape != shape:
            raise incompatible_shapes(self.name, (which, *cases))
        weak = all(c.weak_type for c in cases)
        return ShapedArray(shape or which.shape, cases[0].dtype, weak)

    def numpy(self, which: Any, *cases: Any) -> Any:
        if len(cases) == 2:
            return np.where(which.astype(np.bool_), cases[1], cases[0])
        index = np.clip(which, 0, len(cases) - 1)
        shape = np.broadcast_shapes(which.shape, *(c.shape for c in cases))
        stacked = np.stack([np.broadcast_to(c, shape) for c in cases])
        return np.take_along_axis(stacked, np.broadcast_to(index, shape)[None], 0)[0]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        which, *cases = primals
        moved = [filled(t) for t in tangents[1:]]
        return self.bind(which, *cases), self.bind(which, *moved)

    def transpose(self, ct: Any, which: Any, *cases: Any) -> Any:
        zero = full_like(ct, 0)
        cts: list[Any] = [None]
        for i, case in enumerate(cases):
            if not is_linear(case):
                cts.append(None)
                continue
            if len(cases) == 2:
                mine = select(which, ct, zero) if i else select(which, zero, ct)
            else:
                mine = select(eq(which, np.int32(i)), ct, zero)
            cts.append(unbroadcast(mine, case.aval))
        return cts


def _clamp_numpy(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def _inside(low: Any, x: Any, high: Any) -> Any:
    return bitwise_and(gt(x, low), lt(x, high))


class StopGradient(Elementwise):
    """The identity, with zero derivative."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        out = self.bind(*primals)
        return out, Zero(aval_of(out).tangent())


def _reciprocal_root(t: Any, out: Any, x: Any) -> Any:
    return mul(t, mul(constant(-0.5, x), div(out, x)))


sub_p = Elementwise(
    "sub", np.subtract, NUMBER, lambda t, o, x, y: t, lambda t, o, x, y: neg(t), linear=_linear_sub
)
mul_p = Elementwise(
    "mul",
    np.multiply,
    NUMBER,
    lambda t, o, x, y: mul(t, y),
    lambda t, o, x, y: mul(x, t),
    linear=_linear_mul,
)
div_p = Elementwise(
    "div",
    _divide,
    NUMBER,
    lambda t, o, x, y: div(t, y),
    lambda t, o, x, y: mul(mul(neg(t), x), div(constant(1, y), mul(y, y))),
    linear=lambda ct, x, y: [div(ct, y), None],
)
rem_p = Elementwise(
    "rem",
    _remainder,
    NUMBER,
    lambda t, o, x, y: t,
    lambda t, o, x, y: mul(neg(t), mul(sign(div(x, y)), floor(abs(div(x, y))))),
)
pow_p = Power("pow", _power, NUMBER, _power_x, _power_y)
integer_pow_p = IntegerPower("integer_pow", np.power, NUMBER)
max_p = Elementwise(
    "max",
    np.maximum,
    ANY,
    lambda t, o, x, y: mul(t, _balanced(x, o, y)),
    lambda t, o, x, y: mul(t, _balanced(y, o, x)),
)
min_p = Elementwise(
    "min",
    np.minimum,
    ANY,
    lambda t, o, x, y: mul(t, _balanced(x, o, y)),
    lambda t, o, x, y: mul(t, _balanced(y, o, x)),
)
sign_p = Elementwise("sign", _sign_numpy, NUMBER, lambda t, o, x: Zero(aval_of(o)))
floor_p = Elementwise("floor", np.floor, FLOAT, lambda t, o, x: Zero(aval_of(o)))
ceil_p = Elementwise("ceil", np.ceil, FLOAT, lambda t, o, x: Zero(aval_of(o)))
abs_p = Elementwise(
    "abs",
    np.abs,
    NUMBER,
    _abs_partial,
    result=lambda d: np.dtype(f"f{d.itemsize // 2}") if d.kind == "c" else d,
)
square_p = Elementwise("square", np.square, NUMBER, lambda t, o, x: mul(t, mul(constant(2, x), x)))
sqrt_p = Elementwise("sqrt", np.sqrt, INEXACT, lambda t, o, x: mul(t, div(constant(0.5, x), o)))
rsqrt_p = Elementwise(
    "rsqrt", lambda x: np.divide(x.dtype.type(1), np.sqrt(x)), INEXACT, _reciprocal_root
)
cbrt_p = Elementwise(
    "cbrt", np.cbrt, FLOAT, lambda t, o, x: mul(t, div(mul(constant(1 / 3, x), o), x))
)
exp_p = Elementwise("exp", np.exp, INEXACT, lambda t, o, x: mul(t, o))
exp2_p = Elementwise(
    "exp2", np.exp2, INEXACT, lambda t, o, x: mul(t, mul(constant(float(np.log(2)), x), o))
)
expm1_p = Elementwise("expm1", np.expm1, INEXACT, lambda t, o, x: mul(t, add(o, constant(1, x))))
log_p = Elementwise("log", np.log, INEXACT, lambda t, o, x: div(t, x))
log1p_p = Elementwise("log1p", np.log1p, INEXACT, lambda t, o, x: div(t, add(x, constant(1, x))))
sin_p = Elementwise("sin", np.sin, INEXACT, lambda t, o, x: mul(t, cos(x)))
cos_p = Elementwise("cos", np.cos, INEXACT, lambda t, o, x: neg(mul(t, sin(x))))
tan_p = Elementwise("tan", np.tan, INEXACT, lambda t, o, x: mul(t, add(constant(1, x), mul(o, o))))
asin_p = Elementwise(
    "asin", np.arcsin, INEXACT, lambda t, o, x: mul(t, rsqrt(sub(constant(1, x), mul(x, x))))
)
acos_p = Elementwise(
    "acos", np.arccos, INEXACT, lambda t, o, x: neg(mul(t, rsqrt(sub(constant(1, x), mul(x, x)))))
)
atan_p = Elementwise(
    "atan", np.arctan, INEXACT, lambda t, o, x: div(t, add(constant(1, x), mul(x, x)))
)
atan2_p = Elementwise(
    "atan2",
    np.arctan2,
    FLOAT,
    lambda t, o, x, y: mul(t, div(y, add(mul(x, x), mul(y, y)))),
    lambda t, o, x, y: mul(t, div(neg(x), add(mul(x, x), mul(y, y)))),
)
sinh_p = Elementwise("sinh", np.sinh, INEXACT, lambda t, o, x: mul(t, cosh(x)))
cosh_p = Elementwise("cosh", np.cosh, INEXACT, lambda t, o, x: mul(t, sinh(x)))
tanh_p = Elementwise(
    "tanh", np.tanh, INEXACT, lambda t, o, x: mul(t, sub(constant(1, x), mul(o, o)))
)
asinh_p = Elementwise(
    "asinh", np.arcsinh, INEXACT, lambda t, o, x: mul(t, rsqrt(add(mul(x, x), constant(1, x))))
)
acosh_p = Elementwise(
    "acosh",
    np.arccosh,
    INEXACT,
    lambda t, o, x: mul(t, mul(rsqrt(sub(x, constant(1, x))), rsqrt(add(x, constant(1, x))))),
)
atanh_p = Elementwise(
    "atanh", np.arctanh, INEXACT, lambda t, o, x: div(t, sub(constant(1, x), mul(x, x)))
)
logistic_p = Elementwise(
    "logistic",
    lambda x: np.divide(x.dtype.type(1), x.dtype.type(1) + np.exp(-x)),
    INEXACT,
    lambda t, o, x: mul(t, mul(o, sub(constant(1, x), o))),
)
is_finite_p = Elementwise("is_finite", np.isfinite, FLOAT, None, result=to_bool)
nextafter_p = Elementwise("nextafter", np.nextafter, FLOAT, None, None)
eq_p = Elementwise("eq", np.equal, EVERYTHING, None, None, result=to_bool)
ne_p = Elementwise("ne", np.not_equal, EVERYTHING, None, None, result=to_bool)
lt_p = Elementwise("lt", np.less, ANY, None, None, result=to_bool)
le_p = Elementwise("le", np.less_equal, ANY, None, None, result=to_bool)
gt_p = Elementwise("gt", np.greater, ANY, None, None, result=to_bool)
ge_p = Elementwise("ge", np.greater_equal, ANY, None, None, result=to_bool)
and_p = Elementwise("and", np.bitwise_and, BITS)
or_p = Elementwise("or", np.bitwise_or, BITS)
xor_p = Elementwise("xor", np.bitwise_xor, BITS)
not_p = Elementwise("not", np.bitwise_not, BITS)
shift_left_p = Elementwise("shift_left", _shift(True, False), INTEGER)
shift_right_logical_p = Elementwise("shift_right_logical", _shift(False, False), INTEGER)
shift_right_arithmetic_p = Elementwise("shift_right_arithmetic", _shift(False, True), INTEGER)
population_count_p = Elementwise(
    "population_count", lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}")), INTEGER
)
clz_p = Elementwise("clz", lambda x: _leading_zeros(x), INTEGER)
select_n_p = Select("select_n", np.where, EVERYTHING)
clamp_p = Elementwise(
    "clamp",
    _clamp_numpy,
    ANY,
    lambda t, o, low, x, high: select(bitwise_and(gt(low, x), lt(low, high)), t, full_like(t, 0)),
    lambda t, o, low, x, high: select(_inside(low, x, high), t, full_like(t, 0)),
    lambda t, o, low, x, high: select(gt(x, high), t, full_like(t, 0)),
)
stop_gradient_p = StopGradient("stop_gradient", lambda x: x, EVERYTHING)


def _leading_zeros(x: np.ndarray) -> Any:
    bits = 8 * x.dtype.itemsize
    value = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    width = np.zeros(x.shape, np.int64)
    for _ in range(bits):
        width += value != 0
        value = value >> np.uint64(1)
    return (bits - width).astype(x.dtype)


sub, mul, div, rem = map(binary, (sub_p, mul_p, div_p, rem_p))
max, min, atan2, nextafter = map(binary, (max_p, min_p, atan2_p, nextafter_p))
eq, ne, lt, le, gt, ge = map(binary, (eq_p, ne_p, lt_p, le_p, gt_p, ge_p))
bitwise_and, bitwise_or, bitwise_xor = map(binary, (and_p, or_p, xor_p))
shift_left, shift_right_logical, shift_right_arithmetic = map(
    binary, (shift_left_p, shift_right_logical_p, shift_right_arithmetic_p)
)
sign, floor, ceil, abs, square = map(unary, (sign_p, floor_p, ceil_p, abs_p, square_p))
sqrt, rsqrt, cbrt, exp, exp2, expm1 = map(unary, (sqrt_p, rsqrt_p, cbrt_p, exp_p, exp2_p, expm1_p))
log, log1p, sin, cos, tan = map(unary, (log_p, log1p_p, sin_p, cos_p, tan_p))
asin, acos, atan, sinh, cosh, tanh = map(unary, (asin_p, acos_p, atan_p, sinh_p, cosh_p, tanh_p))
asinh, acosh, atanh, logistic = map(unary, (asinh_p, acosh_p, atanh_p, logistic_p))
is_finite, bitwise_not, population_count, clz = map(
    unary, (is_finite_p, not_p, population_count_p, clz_p)
)


def pow(x: Any, y: Any) -> Any:
    """Raise x to the power y; a Python int exponent becomes `integer_pow`."""
    if type(y) is int:
        return integer_pow(x, y)
    if hasattr(x, "aval") and hasattr(y, "aval"):
        return pow_p.bind(x, y)
    return pow_p.bind(*matched(x, y))


def integer_pow(x: Any, y: int) -> Any:
    """Raise x to a constant integer power."""
    if y == 0:
        return full_like(x, 1)
    if y == 1:
        return x
    if y == 2:
        return square(x)
    return integer_pow_p.bind(x, y=y)


def select_n(which: Any, *cases: Any) -> Any:
    """Take each element from the case that `which` numbers."""
    return select_n_p.bind(which, *matched(*cases))


def select(predicate: Any, on_true: Any, on_false: Any) -> Any:
    """Take each element from `on_true` where the predicate holds, else from `on_false`."""
    on_true, on_false = matched(on_true, on_false)
    return select_n_p.bind(predicate, on_false, on_true)


def clamp(low: Any, x: Any, high: Any) -> Any:
    """Hold x between `low` and `high`, which are scalars or of the shape of x."""
    low, x, high = matched(low, x, high)
    return clamp_p.bind(low, x, high)


def stop_gradient(x: Any) -> Any:
    """Return x as a constant for differentiation (one array)."""
    return stop_gradient_p.bind(x) if dtypes.issubdtype(aval_of(x).dtype, np.inexact) else x


def reciprocal(x: Any) -> Any:
    """Return 1/x."""
    return div(constant(1, x), x)


def zeros_like(x: Any) -> Any:
    """Return zeros of the type of x."""
    return zeros_of(aval_of(x))
