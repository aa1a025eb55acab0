"""Arithmetic, elementary functions, comparison, logic, bits, selection: one line per primitive.

The NumPy meanings agree with compiled code at edges: division by zero, wide shifts, nan in max.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.array_type import Array, ArrayLike
from kiln.core.staging import refuse
from kiln.core.trace import aval_of
from kiln.ir.sharded_types import has_sharding
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.elements import edge_semantics as edge
from kiln.ops.elements.conversion import complex, conj, convert_element_type, real
from kiln.ops.elements.families import (
    ANY,
    BITS,
    EVERYTHING,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    Accurate,
    AccurateUnary,
    Binary,
    Comparison,
    Elementwise,
    Unary,
    accurate_unary,
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

__all__ = ["add", "add_p", "constant", "full_like", "neg", "neg_p"]


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
    # At 0 the derivative is that from the right.
    return select(ge(x, constant(0, x)), t, neg(t))


def _sign_partial(t: Any, out: Any, x: Any) -> Any:
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return Zero(aval_of(out))
    # The sign of a complex number rotates: only the part of t perpendicular to it counts.
    along = complex(real(mul(conj(out), t)), full_like(abs(x), 0))
    size = abs(x)
    safe = select(eq(size, constant(0, size)), full_like(size, 1), size)
    return div(sub(t, mul(out, along)), convert_element_type(safe, aval_of(x).dtype))


class Power(Elementwise):
    """x to the power y; y may be an integer array with a float x."""

    def infer(self, x: Any, y: Any) -> ShapedArray:
        if dtypes.issubdtype(y.dtype, np.integer):
            return super().infer(x, y.with_(dtype=x.dtype)).with_(weak_type=x.weak_type)
        return super().infer(x, y)


def _power_x(t: Any, out: Any, x: Any, y: Any) -> Any:
    # d/dx x^y = y x^(y-1), and 0 where y = 0 whatever x is.
    less: Any = sub(y, constant(1, y))
    if not isinstance(y, np.generic):
        # Only where 1/x², of the next derivative, is not finite: that by y at y = 0 is 1/x.
        size = abs(x)
        tiny = float(dtypes.finfo(aval_of(size).dtype).tiny)
        unbounded = bitwise_not(ge(size, constant(tiny**0.5, size)))
        less = select(bitwise_and(eq(y, constant(0, y)), unbounded), y, less)
    elif y == 0:
        less = y
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
        return edge.constant_power(x, y)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, y: int) -> Any:
        (x,), (t,) = primals, tangents
        out = integer_pow(x, y)
        if y == 0:
            return out, Zero(aval_of(out).tangent())
        return out, mul(t, mul(constant(y, x), integer_pow(x, y - 1)))


class Select(Elementwise):
    """Take each element from the case numbered by `which`: False, True, or an integer."""

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        cases = [x for x in xs[1:] if has_sharding([x])]
        if any(x.split != cases[0].split for x in cases):
            listed = ", ".join(str(x.split) for x in cases)
            refuse(self.name, xs, f"select cases must have the same shardings, got [{listed}]")
        return super().splits(xs, results, params)

    def infer(self, which: Any, *cases: Any) -> ShapedArray:
        boolean = which.dtype == np.bool_
        if not (boolean or dtypes.issubdtype(which.dtype, np.integer)) or (
            boolean and len(cases) != 2
        ):
            raise TypeError(
                three_lines(
                    f"select_n: which {which} of {len(cases)} cases at {current_source()}",
                    "select_n `which` must be boolean (two cases) or an integer",
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
        shape: tuple[Dim, ...] = ()
        for case in cases:
            if shape and case.shape and case.shape != shape:
                raise incompatible_shapes(self.name, cases)
            shape = shape or case.shape
        if which.shape and shape and which.shape != shape:
            raise incompatible_shapes(self.name, (which, *cases))
        weak = all(c.weak_type for c in cases)
        return ShapedArray(shape or which.shape, cases[0].dtype, weak)

    def numpy(self, which: Any, *cases: Any) -> Any:
        if which.dtype == np.bool_:
            return np.where(which, cases[1], cases[0])
        index = np.clip(which, 0, len(cases) - 1).astype(np.intp)
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
            if aval_of(which).dtype == np.bool_:
                mine = select(which, ct, zero) if i else select(which, zero, ct)
            else:
                taken = clamp(constant(0, which), which, constant(len(cases) - 1, which))
                mine = select(eq(taken, constant(i, which)), ct, zero)
            cts.append(unbroadcast(mine, case.aval))
        return cts


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
    edge.divide,
    NUMBER,
    lambda t, o, x, y: div(t, y),
    lambda t, o, x, y: mul(neg(t), div(o, y)),  # The square of y may overflow.
    linear=lambda ct, x, y: [div(ct, y), None],
)
rem_p = Elementwise(
    "rem",
    edge.remainder,
    NUMBER,
    lambda t, o, x, y: t,
    lambda t, o, x, y: mul(neg(t), mul(sign(div(x, y)), floor(abs(div(x, y))))),
)
pow_p = Power("pow", edge.power, NUMBER, _power_x, _power_y)
integer_pow_p = IntegerPower("integer_pow", np.power, NUMBER)
max_p = Elementwise(
    "max",
    edge.maximum,
    ANY,
    lambda t, o, x, y: mul(t, _balanced(x, o, y)),
    lambda t, o, x, y: mul(t, _balanced(y, o, x)),
)
min_p = Elementwise(
    "min",
    edge.minimum,
    ANY,
    lambda t, o, x, y: mul(t, _balanced(x, o, y)),
    lambda t, o, x, y: mul(t, _balanced(y, o, x)),
)
sign_p = Elementwise("sign", edge.sign, NUMBER, _sign_partial)
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
sqrt_p = Accurate("sqrt", np.sqrt, INEXACT, lambda t, o, x: mul(t, div(constant(0.5, x), o)))
rsqrt_p = Accurate(
    "rsqrt", lambda x: np.divide(x.dtype.type(1), np.sqrt(x)), INEXACT, _reciprocal_root
)
cbrt_p = Accurate(
    "cbrt", np.cbrt, FLOAT, lambda t, o, x: mul(t, mul(constant(1 / 3, x), integer_pow(o, -2)))
)
exp_p = Accurate("exp", np.exp, INEXACT, lambda t, o, x: mul(t, o))
exp2_p = Accurate(
    "exp2", np.exp2, INEXACT, lambda t, o, x: mul(t, mul(constant(float(np.log(2)), x), o))
)
expm1_p = Accurate("expm1", np.expm1, INEXACT, lambda t, o, x: mul(t, exp(x)))
log_p = Accurate("log", np.log, INEXACT, lambda t, o, x: div(t, x))
log1p_p = Accurate("log1p", np.log1p, INEXACT, lambda t, o, x: div(t, add(x, constant(1, x))))
sin_p = Accurate("sin", np.sin, INEXACT, lambda t, o, x: mul(t, cos(x)))
cos_p = Accurate("cos", np.cos, INEXACT, lambda t, o, x: neg(mul(t, sin(x))))
tan_p = Accurate("tan", np.tan, INEXACT, lambda t, o, x: mul(t, add(constant(1, x), mul(o, o))))


def _share_of_square(x: Any, y: Any) -> Any:
    """Return x / (x² + y²), without squares that overflow."""
    one, is_long = constant(1, x), ge(abs(x), abs(y))
    long = select(is_long, x, y)
    ratio = div(select(is_long, y, x), long)
    return div(select(is_long, one, ratio), mul(long, add(one, mul(ratio, ratio))))


atan2_p = Elementwise(
    "atan2",
    np.arctan2,
    FLOAT,
    lambda t, o, x, y: mul(t, _share_of_square(y, x)),
    lambda t, o, x, y: mul(neg(t), _share_of_square(x, y)),
)
sinh_p = Elementwise("sinh", np.sinh, INEXACT, lambda t, o, x: mul(t, cosh(x)))
cosh_p = Elementwise("cosh", np.cosh, INEXACT, lambda t, o, x: mul(t, sinh(x)))
tanh_p = Accurate("tanh", np.tanh, INEXACT, lambda t, o, x: mul(t, sub(constant(1, x), mul(o, o))))
logistic_p = Accurate(
    "logistic",
    lambda x: np.divide(x.dtype.type(1), x.dtype.type(1) + np.exp(-x)),
    INEXACT,
    lambda t, o, x: mul(t, mul(o, sub(constant(1, x), o))),
)
is_finite_p = Elementwise("is_finite", np.isfinite, FLOAT, None, result=to_bool)
nextafter_p = Elementwise("nextafter", edge.next_after, FLOAT)
eq_p = Comparison("eq", np.equal, EVERYTHING, None, None, result=to_bool)
ne_p = Comparison("ne", np.not_equal, EVERYTHING, None, None, result=to_bool)
lt_p = Elementwise("lt", np.less, REAL, None, None, result=to_bool)
le_p = Elementwise("le", np.less_equal, REAL, None, None, result=to_bool)
gt_p = Elementwise("gt", np.greater, REAL, None, None, result=to_bool)
ge_p = Elementwise("ge", np.greater_equal, REAL, None, None, result=to_bool)
and_p = Elementwise("and", np.bitwise_and, BITS)
or_p = Elementwise("or", np.bitwise_or, BITS)
xor_p = Elementwise("xor", np.bitwise_xor, BITS)
not_p = Elementwise("not", np.bitwise_not, BITS)
shift_left_p = Elementwise("shift_left", edge.shift_left, INTEGER)
shift_right_logical_p = Elementwise("shift_right_logical", edge.shift_right_logical, INTEGER)
shift_right_arithmetic_p = Elementwise(
    "shift_right_arithmetic", edge.shift_right_arithmetic, INTEGER
)
population_count_p = Elementwise("population_count", edge.population_count, INTEGER)
clz_p = Elementwise("clz", edge.leading_zeros, INTEGER)
select_n_p = Select("select_n", np.where, EVERYTHING)
clamp_p = Elementwise(
    "clamp",
    edge.clamp,
    ANY,
    lambda t, o, low, x, high: select(bitwise_and(gt(low, x), lt(low, high)), t, full_like(t, 0)),
    lambda t, o, low, x, high: select(_inside(low, x, high), t, full_like(t, 0)),
    lambda t, o, low, x, high: select(gt(x, high), t, full_like(t, 0)),
)
copy_p = Elementwise("copy", np.copy, EVERYTHING, lambda t, o, x: t, linear=lambda ct, x: [ct])
copy_p.on_keys = "move"
stop_gradient_p = StopGradient("stop_gradient", lambda x: x, EVERYTHING)

sub: Binary = binary(sub_p)
mul: Binary = binary(mul_p)
div: Binary = binary(div_p)
rem: Binary = binary(rem_p)
max: Binary = binary(max_p)
min: Binary = binary(min_p)
atan2: Binary = binary(atan2_p)
nextafter: Binary = binary(nextafter_p)
eq: Binary = binary(eq_p)
ne: Binary = binary(ne_p)
lt: Binary = binary(lt_p)
le: Binary = binary(le_p)
gt: Binary = binary(gt_p)
ge: Binary = binary(ge_p)
bitwise_and: Binary = binary(and_p, "bitwise_and")
bitwise_or: Binary = binary(or_p, "bitwise_or")
bitwise_xor: Binary = binary(xor_p, "bitwise_xor")
shift_left: Binary = binary(shift_left_p)
shift_right_logical: Binary = binary(shift_right_logical_p)
shift_right_arithmetic: Binary = binary(shift_right_arithmetic_p)
sign: Unary = unary(sign_p)
floor: Unary = unary(floor_p)
ceil: Unary = unary(ceil_p)
abs: Unary = unary(abs_p)
square: Unary = unary(square_p)
sqrt: AccurateUnary = accurate_unary(sqrt_p)
rsqrt: AccurateUnary = accurate_unary(rsqrt_p)
cbrt: AccurateUnary = accurate_unary(cbrt_p)
exp: AccurateUnary = accurate_unary(exp_p)
exp2: AccurateUnary = accurate_unary(exp2_p)
expm1: AccurateUnary = accurate_unary(expm1_p)
log: AccurateUnary = accurate_unary(log_p)
log1p: AccurateUnary = accurate_unary(log1p_p)
sin: AccurateUnary = accurate_unary(sin_p)
cos: AccurateUnary = accurate_unary(cos_p)
tan: AccurateUnary = accurate_unary(tan_p)
sinh: Unary = unary(sinh_p)
cosh: Unary = unary(cosh_p)
tanh: AccurateUnary = accurate_unary(tanh_p)
logistic: AccurateUnary = accurate_unary(logistic_p)
is_finite: Unary = unary(is_finite_p)
bitwise_not: Unary = unary(not_p, "bitwise_not")
population_count: Unary = unary(population_count_p)
clz: Unary = unary(clz_p)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Raise x to the power y; a Python int exponent becomes `integer_pow`.

    Example:
        >>> lax.pow(jnp.array([2.0, 3.0]), jnp.array([3.0, 2.0]))
        Array([8., 9.], dtype=float32)
    """
    if type(y) is int:
        return integer_pow(x, y)
    return _power(x, y)


_power = binary(pow_p)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Raise x to a constant integer power.

    Raises: TypeError for negative powers of integers.
    Example:
        >>> lax.integer_pow(jnp.array([2.0, 3.0]), -1)
        Array([0.5       , 0.33333334], dtype=float32)
    """
    aval = aval_of(x)
    if y < 0 and dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            three_lines(
                f"integer_pow: operand {aval}, power {y} at {current_source()}",
                f"Integers cannot be raised to negative powers, got integer_pow({aval}, {y})",
                "convert the operand first: x.astype('float32')",
            )
        )
    return integer_pow_p.bind(x, y=y)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Take each element from the case numbered by `which`.

    Shapes: `which` is a scalar, or has the shape of the `cases`, which is one and the same. A
        boolean chooses between two.
    Raises: TypeError or ValueError for cases of different types or shapes.
    Example:
        >>> a, b, c = jnp.array([1, 2, 3]), jnp.array([4, 5, 6]), jnp.array([7, 8, 9])
        >>> lax.select_n(jnp.array([0, 2, 1]), a, b, c)
        Array([1, 8, 6], dtype=int32)
    """
    if len(cases) == 1:
        return cases[0]  # type: ignore[return-value]
    return select_n_p.bind(which, *matched(*cases))


def select(predicate: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Take each element from `on_true` where the predicate holds, else from `on_false`.

    Example:
        >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
        Array([1, 4], dtype=int32)
    """
    on_true, on_false = matched(on_true, on_false)
    return select_n_p.bind(predicate, on_false, on_true)


def clamp(low: ArrayLike, x: ArrayLike, high: ArrayLike) -> Array:
    """Clamp x between `low` and `high`, which are scalars or have the shape of x.

    Example:
        >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 9.0]), 1.0)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    low, x, high = matched(low, x, high)
    return clamp_p.bind(low, x, high)


def stop_gradient(x: Any) -> Any:
    """Return an array that differentiation treats as a constant."""
    return stop_gradient_p.bind(x) if dtypes.issubdtype(aval_of(x).dtype, np.inexact) else x


def reciprocal(x: ArrayLike) -> Array:
    """Return 1/x.

    Raises: TypeError for integers.
    Example:
        >>> lax.reciprocal(jnp.array([2.0, 4.0]))
        Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


def zeros_like(x: Any) -> Any:
    """Return zeros of the type of x."""
    return zeros_of(aval_of(x))
