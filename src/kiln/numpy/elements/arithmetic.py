"""Arithmetic, element by element: sums, products, quotients, remainders, powers, signs, rounding.

Quotients of integers are floats; `//` and `%` follow the sign of the divisor, as in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.options.config import ERRORS_NOTED
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of, is_typed
from kiln.execution.eager_plans import also_named, eager
from kiln.numpy.elements.error_notes import divisor, without_nan
from kiln.numpy.promotion import (
    binary,
    binary_inexact,
    converted,
    dtype_of,
    inexact,
    lifted,
    operands,
    promote,
    promote_inexact,
    promote_numeric,
    shapes,
)
from kiln.ops.elements import conversion, elementwise, rounding
from kiln.ops.elements.elementwise import constant, integer_pow, select

_BOOL = np.dtype(np.bool_)


@eager
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Add element by element; for bools, the logical or.

    A Python number adopts the dtype of the array; sums of integers wrap around.

    Example:
        >>> jnp.add(jnp.array([100, 27], jnp.int8), 100)
        Array([-56, 127], dtype=int8)
        >>> jnp.add(jnp.arange(3), jnp.array([[0.5], [1.5]]))
        Array([[0.5, 1.5, 2.5],
               [1.5, 2.5, 3.5]], dtype=float32)
    """
    x, y = binary("add", x, y)
    if dtype_of(x, y) == _BOOL:
        return elementwise.or_p.bind(x, y)
    found = elementwise.add_p.bind(x, y)
    return without_nan(found) if ERRORS_NOTED else found


@eager
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Subtract y from x element by element.

    Example:
        >>> jnp.subtract(jnp.array([3, 5]), 1)
        Array([2, 4], dtype=int32)
    """
    x, y = binary("subtract", x, y)
    found = elementwise.sub_p.bind(x, y)
    return without_nan(found) if ERRORS_NOTED else found


@eager
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Multiply element by element; for bools, the logical and.

    Example:
        >>> jnp.multiply(jnp.array([1.0, 2.0]), jnp.array([[3.0], [4.0]]))
        Array([[3., 6.],
               [4., 8.]], dtype=float32)
    """
    x, y = binary("multiply", x, y)
    if dtype_of(x, y) == _BOOL:
        return elementwise.and_p.bind(x, y)
    return elementwise.mul_p.bind(x, y)


@eager
def divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Divide x by y element by element; quotients of integers are floats.

    Division by zero gives infinities and nan without a warning.

    Example:
        >>> jnp.divide(jnp.array([1, 0]), jnp.array([4, 0]))
        Array([0.25,  nan], dtype=float32)
    """
    x, y = binary_inexact("divide", x, y)
    found = elementwise.div_p.bind(x, divisor(y) if ERRORS_NOTED else y)
    return without_nan(found) if ERRORS_NOTED else found


true_divide = also_named("true_divide", divide)


@eager
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Divide x by y and round towards minus infinity.

    An integer divided by zero is -1 before flooring: no operation raises, as in compiled code.

    Example:
        >>> jnp.floor_divide(jnp.array([7, -7]), 2)
        Array([ 3, -4], dtype=int32)
    """
    x, y = promote_numeric("floor_divide", x, y)
    y = divisor(y) if ERRORS_NOTED else y
    dtype = dtype_of(x, y)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return elementwise.div_p.bind(x, y)
    if dtypes.issubdtype(dtype, np.integer):
        quotient = elementwise.div_p.bind(x, y)
        signs = elementwise.ne(elementwise.sign(x), elementwise.sign(y))
        remainder = elementwise.rem_p.bind(x, y)
        inexact_ = elementwise.ne(remainder, constant(0, remainder))
        lower = elementwise.sub(quotient, constant(1, quotient))
        return select(elementwise.bitwise_and(signs, inexact_), lower, quotient)
    _check_real("floor_divide", dtype)
    return _float_divmod(x, y)[0]


def _check_real(name: str, dtype: Any) -> None:
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            three_lines(
                f"{name}: operands of dtype {dtype} at {current_source()}",
                f"{name} does not support complex-valued inputs",
                "apply it to real and imag parts",
            )
        )


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    mod = elementwise.rem_p.bind(x, y)
    # Without a remainder the quotient is x / y, with the sign of zeros.
    whole = elementwise.bitwise_or(
        elementwise.eq(y, constant(0, y)), elementwise.eq(mod, constant(0, mod))
    )
    div = elementwise.div(select(whole, lifted(x), elementwise.sub(x, mod)), y)
    other_sign = elementwise.bitwise_and(
        elementwise.ne(mod, constant(0, mod)),
        elementwise.ne(elementwise.sign(y), elementwise.sign(mod)),
    )
    mod = select(other_sign, elementwise.add(mod, y), mod)
    div = select(other_sign, elementwise.sub(div, constant(1, div)), div)
    return rounding.round(div, rounding.RoundingMethod.AWAY_FROM_ZERO), mod


@eager
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the remainder of x / y, which has the sign of y.

    Example:
        >>> jnp.remainder(jnp.array([7, -7]), 3)
        Array([1, 2], dtype=int32)
    """
    x, y = promote_numeric("remainder", x, y)
    y = divisor(y) if ERRORS_NOTED else y
    dtype = dtype_of(x, y)
    _check_real("remainder", dtype)
    if dtypes.issubdtype(dtype, np.integer):
        # The remainder of an integer by zero is zero.
        y = select(elementwise.eq(y, constant(0, y)), constant(1, y), y)
    found = elementwise.rem_p.bind(x, y)
    other_sign = elementwise.bitwise_and(
        elementwise.ne(
            elementwise.lt(found, constant(0, found)), elementwise.lt(y, constant(0, y))
        ),
        elementwise.ne(found, constant(0, found)),
    )
    found = select(other_sign, elementwise.add(found, y), found)
    return without_nan(found) if ERRORS_NOTED else found


mod = also_named("mod", remainder)


@eager
def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the remainder of x / y, which has the sign of x.

    Example:
        >>> jnp.fmod(jnp.array([7, -7]), 3), jnp.mod(jnp.array([7, -7]), 3)
        (Array([ 1, -1], dtype=int32), Array([1, 2], dtype=int32))
    """
    dtype = dtypes.lattice_result_type(*operands("fmod", x, y))[0]
    x, y = promote_numeric("fmod", x, y)
    _check_real("fmod", dtype)
    if dtypes.issubdtype(dtype, np.integer):
        # The remainder of an integer by zero is zero.
        y = select(elementwise.eq(y, constant(0, y)), constant(1, y), y)
    found = elementwise.rem_p.bind(x, y)
    return without_nan(found) if ERRORS_NOTED else found


@eager
def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """Return (x // y, x % y).

    Example:
        >>> jnp.divmod(jnp.array([7, -7]), 3)
        (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x, y = promote_numeric("divmod", x, y)
    dtype = dtype_of(x, y)
    if dtypes.issubdtype(dtype, np.integer):
        return floor_divide(x, y), remainder(x, y)
    _check_real("divmod", dtype)
    whole, rest = _float_divmod(x, divisor(y) if ERRORS_NOTED else y)
    return whole, without_nan(rest) if ERRORS_NOTED else rest


@eager
def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Raise x to the power y.

    Powers of integers are exact modulo the size of the type. An exponent that is a Python int is
    unrolled into products.
    Raises: TypeError for an integer raised to a negative Python int.
    Example:
        >>> jnp.power(jnp.array([2.0, 3.0]), jnp.array([3.0, 0.5]))
        Array([8.       , 1.7320509], dtype=float32)
    """
    x, y = operands("power", x, y)
    if (type(y) is int or isinstance(y, np.integer)) and not isinstance(x, np.ndarray):
        found = _static_power(x, int(y))
        return without_nan(found) if ERRORS_NOTED else found
    dtype, weak = dtypes.lattice_result_type(x, y)
    if dtypes.issubdtype(dtype, np.integer) or dtype == _BOOL:
        dtype = dtypes.to_numeric_dtype(dtype)
        weak = weak and dtypes.is_weak(x) and dtypes.is_weak(y)
    # A float to an integer power keeps the integer, since its derivative rule is a different one.
    base, exponent = aval_of(x).dtype, aval_of(y).dtype
    if dtypes.issubdtype(base, np.inexact) and dtypes.issubdtype(exponent, np.integer):
        x = converted(x, base, dtypes.is_weak(x) and dtypes.is_weak(y))
    else:
        x, y = converted(x, dtype, weak), converted(y, dtype, weak)
    found = elementwise.pow_p.bind(*shapes("power", x, y))
    return without_nan(found) if ERRORS_NOTED else found


pow = also_named("pow", power)


def _static_power(x: Any, y: int) -> Any:
    aval = aval_of(x)
    if aval.dtype == _BOOL:
        x = converted(x, dtypes.default_int_dtype(), False)
    if y < 0 and not dtypes.issubdtype(aval.dtype, np.inexact):
        raise TypeError(
            three_lines(
                f"power: {aval} to the power {y} at {current_source()}",
                f"Integers cannot be raised to negative powers, got integer_pow({aval}, {y})",
                "convert the base to a float first, or use float_power",
            )
        )
    return lifted(integer_pow(x, y))


@eager
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Raise x to the power y in floating point.

    The result is float32 unless an operand has 64 bits; NumPy's is always float64.

    Example:
        >>> jnp.float_power(jnp.array([4, 9]), -0.5)
        Array([0.5       , 0.33333334], dtype=float32, weak_type=True)
    """
    x, y = promote_inexact("float_power", x, y)
    found = elementwise.pow_p.bind(x, y)
    return without_nan(found) if ERRORS_NOTED else found


@eager
def negative(x: ArrayLike, /) -> Array:
    """Return -x.

    Example:
        >>> jnp.negative(jnp.array([1, -2]))
        Array([-1,  2], dtype=int32)
    """
    if not is_typed(x):
        (x,) = promote("negative", x)
    return elementwise.neg_p.bind(x)


@eager
def positive(x: ArrayLike, /) -> Array:
    """Return x.

    Example:
        >>> jnp.positive(jnp.array([1, -2]))
        Array([ 1, -2], dtype=int32)
    """
    return lifted(*operands("positive", x))


@eager
def absolute(x: ArrayLike, /) -> Array:
    """Return the absolute value; for complex numbers, the modulus.

    Example:
        >>> jnp.abs(jnp.array([-2, 0, 3]))
        Array([2, 0, 3], dtype=int32)
        >>> jnp.abs(3 + 4j)
        Array(5., dtype=float32, weak_type=True)
    """
    (x,) = operands("absolute", x)
    dtype = aval_of(x).dtype
    if dtype == _BOOL or dtypes.issubdtype(dtype, np.unsignedinteger):
        return lifted(x)
    return elementwise.abs_p.bind(x)


abs = also_named("abs", absolute)


@eager
def fabs(x: ArrayLike, /) -> Array:
    """Return the absolute value of a real number, as a float.

    Example:
        >>> jnp.fabs(jnp.array([-2, 3]))
        Array([2., 3.], dtype=float32)
    """
    x = inexact("fabs", x)
    _check_real("fabs", aval_of(x).dtype)
    return elementwise.abs_p.bind(x)


@eager
def sign(x: ArrayLike, /) -> Array:
    """Return -1, 0 or 1; for complex numbers, x / |x|, or 0.

    Example:
        >>> jnp.sign(jnp.array([-2.0, 0.0, 3.0]))
        Array([-1.,  0.,  1.], dtype=float32)
    """
    (x,) = operands("sign", x)
    return elementwise.sign_p.bind(x)


@eager
def square(x: ArrayLike, /) -> Array:
    """Return the square, x * x.

    Example:
        >>> jnp.square(jnp.array([-2, 3]))
        Array([4, 9], dtype=int32)
    """
    (x,) = operands("square", x)
    if aval_of(x).dtype == _BOOL:
        x = converted(x, dtypes.default_int_dtype(), False)
    return elementwise.square_p.bind(x)


@eager
def reciprocal(x: ArrayLike, /) -> Array:
    """Return 1 / x.

    Example:
        >>> jnp.reciprocal(jnp.array([2.0, -4.0]))
        Array([ 0.5 , -0.25], dtype=float32)
    """
    return integer_pow(inexact("reciprocal", x), -1)


@eager
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the larger operand element by element, or nan if either is nan.

    Example:
        >>> jnp.maximum(jnp.array([1, 5]), 3)
        Array([3, 5], dtype=int32)
        >>> jnp.maximum(jnp.array([[0.0], [2.0]]), jnp.array([1.0, jnp.nan]))
        Array([[ 1., nan],
               [ 2., nan]], dtype=float32)
    """
    x, y = binary("maximum", x, y)
    return elementwise.max_p.bind(x, y)


@eager
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the smaller operand element by element, or nan if either is nan.

    The derivative by equal operands is one half for each.

    Example:
        >>> jnp.minimum(jnp.array([1.0, jnp.nan, 3.0]), 2.0)
        Array([ 1., nan,  2.], dtype=float32)
        >>> jnp.minimum(jnp.arange(4), jnp.array([[1], [2]]))
        Array([[0, 1, 1, 1],
               [0, 1, 2, 2]], dtype=int32)
    """
    x, y = binary("minimum", x, y)
    return elementwise.min_p.bind(x, y)


@eager
def fmax(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the larger operand element by element, ignoring nans.

    Example:
        >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
        Array([1. , 0.5], dtype=float32)
    """
    x, y = promote("fmax", x, y)
    larger = elementwise.bitwise_or(_ordered(elementwise.gt, x, y), elementwise.ne(y, y))
    return select(larger, *_arrays(x, y))


@eager
def fmin(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the smaller operand element by element, ignoring nans.

    Example:
        >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
        Array([0.5, 0.5], dtype=float32)
    """
    x, y = promote("fmin", x, y)
    smaller = elementwise.bitwise_or(_ordered(elementwise.lt, x, y), elementwise.ne(y, y))
    return select(smaller, *_arrays(x, y))


def _ordered(compare: Any, x: Any, y: Any) -> Any:
    """Compare numbers; complex ones by their real, then by their imaginary parts."""
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return compare(x, y)
    real_x, real_y = conversion.real(x), conversion.real(y)
    last = compare(conversion.imag(x), conversion.imag(y))
    return select(elementwise.eq(real_x, real_y), last, compare(real_x, real_y))


def _arrays(*xs: Any) -> list[Any]:
    return [lifted(x) for x in xs]


@eager
def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Limit the elements to the interval from `min` to `max`; either may be None.

    Example:
        >>> jnp.clip(jnp.arange(5), 1, 3)
        Array([1, 1, 2, 3, 3], dtype=int32)
        >>> jnp.clip(jnp.array([-1.0, 0.5]), min=0)
        Array([0. , 0.5], dtype=float32)
    """
    given = [x for x in (arr, min, max) if x is not None]
    for x in operands("clip", *given):
        if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
            raise ValueError(
                three_lines(
                    f"clip: operand {aval_of(x)} at {current_source()}",
                    "Clip received a complex value either through the input or the min/max "
                    "keywords. Complex values have no ordering and cannot be clipped.",
                    "clip real and imag parts",
                )
            )
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return lifted(arr)


def refuse_out(name: str, out: Any) -> None:
    """Raise NotImplementedError if an output array is given."""
    if out is not None:
        raise NotImplementedError(
            three_lines(
                f"{name}(..., out=...) at {current_source()}",
                f"The 'out' argument to kiln.numpy.{name} is not supported: arrays are immutable",
                "use the function's result",
            )
        )
