"""Comparisons, logic, and choosing by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of, is_typed
from kiln.execution.eager_plans import eager
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.promotion import (
    binary,
    broadcast_shapes,
    broadcast_to,
    converted,
    lifted,
    operands,
    promote,
    promote_dtypes,
    shape_of,
    shapes,
)
from kiln.ops.elements import conversion, elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.elements.families import ANY
from kiln.ops.reductions import reduction
from kiln.ops.shape import full

Comparison = Callable[[ArrayLike, ArrayLike], Array]

_BOOL = np.dtype(np.bool_)


_SYMBOLS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def _all_are(shape: Any, value: bool) -> Array:
    """Return an array of one truth value, of a shape without axes too."""
    return lifted(full(shape, value, _BOOL))


def _comparison(name: str, primitive: Any, *example: str) -> Comparison:
    def compare(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = binary(name, x, y)
        if getattr(x, "dtype", None) is dtypes.float0:
            # All elements are the one value that there is.
            return _all_are(aval_of(x).shape, "equal" in name and name != "not_equal")
        return primitive.bind(x, y)

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = shown(f"Return x {_SYMBOLS[name]} y, element by element.", example)
    return compare


equal = eager(
    _comparison(
        "equal",
        elementwise.eq_p,
        ">>> jnp.equal(jnp.array([1, 2]), jnp.array([1.0, 3.0]))",
        "Array([ True, False], dtype=bool)",
    )
)
not_equal = eager(
    _comparison(
        "not_equal",
        elementwise.ne_p,
        ">>> jnp.not_equal(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))",
        "Array([False,  True], dtype=bool)",
    )
)
_less = _comparison(
    "less",
    elementwise.lt_p,
    ">>> jnp.less(jnp.array([1, 2, jnp.nan]), 2)",
    "Array([ True, False, False], dtype=bool)",
)
_less_equal = _comparison(
    "less_equal",
    elementwise.le_p,
    ">>> jnp.less_equal(jnp.array([1, 2, 3]), 2)",
    "Array([ True,  True, False], dtype=bool)",
)
_greater = _comparison(
    "greater",
    elementwise.gt_p,
    ">>> jnp.greater(jnp.array([1, 2, 3]), 2)",
    "Array([False, False,  True], dtype=bool)",
)
_greater_equal = _comparison(
    "greater_equal",
    elementwise.ge_p,
    ">>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)",
    "Array([False,  True,  True], dtype=bool)",
)


def _ordered(compare: Comparison) -> Comparison:
    def ordered(x: ArrayLike, y: ArrayLike, /) -> Array:
        for operand in (x, y):
            aval = operand.aval if is_typed(operand) else None
            if (aval.dtype.kind == "c") if aval is not None else np.iscomplexobj(operand):
                return _compare_complex(compare, x, y)
        return compare(x, y)

    ordered.__name__ = ordered.__qualname__ = compare.__name__
    ordered.__doc__ = compare.__doc__
    return eager(ordered)


def _compare_complex(compare: Comparison, x: Any, y: Any) -> Array:
    """Compare real parts, and imaginary parts where those are equal."""
    x, y = promote(compare.__name__, x, y)
    real_x, real_y = conversion.real(x), conversion.real(y)
    same = elementwise.eq(real_x, real_y)
    by_imag = compare(conversion.imag(x), conversion.imag(y))
    return elementwise.select(same, by_imag, compare(real_x, real_y))


less, less_equal = _ordered(_less), _ordered(_less_equal)
greater, greater_equal = _ordered(_greater), _ordered(_greater_equal)


def truth(x: Any) -> Any:
    """Convert an operand to bools: whether it differs from zero."""
    aval = aval_of(x)
    if aval.dtype == _BOOL:
        return converted(x, _BOOL, False)
    return elementwise.ne(x, constant(0, x))


def _logical(name: str, primitive: Any, *example: str) -> Callable[[ArrayLike, ArrayLike], Array]:
    def combine(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = shapes(name, *[truth(v) for v in operands(name, x, y)])
        return primitive.bind(x, y)

    combine.__name__ = combine.__qualname__ = name
    summary = f"Return the {name.replace('_', ' ')} of truth values, element by element."
    combine.__doc__ = shown(summary, example)
    return eager(combine)


logical_and = _logical(
    "logical_and",
    elementwise.and_p,
    ">>> jnp.logical_and(jnp.array([0, 2]), jnp.array([True, True]))",
    "Array([False,  True], dtype=bool)",
)
logical_or = _logical(
    "logical_or",
    elementwise.or_p,
    ">>> jnp.logical_or(jnp.array([0, 2]), jnp.array([False, False]))",
    "Array([False,  True], dtype=bool)",
)
logical_xor = _logical(
    "logical_xor",
    elementwise.xor_p,
    ">>> jnp.logical_xor(jnp.array([0, 2]), True)",
    "Array([ True, False], dtype=bool)",
)


@eager
def logical_not(x: ArrayLike, /) -> Array:
    """Negate truth values.

    Example:
        >>> jnp.logical_not(jnp.array([0.0, 2.0]))
        Array([ True, False], dtype=bool)
    """
    (x,) = operands("logical_not", x)
    return elementwise.not_p.bind(truth(x))


@eager
def isnan(x: ArrayLike, /) -> Array:
    """Tell which elements are nan.

    Example:
        >>> jnp.isnan(jnp.array([1.0, jnp.inf, jnp.nan]))
        Array([False, False,  True], dtype=bool)
    """
    (x,) = operands("isnan", x)
    return elementwise.ne_p.bind(x, x)


@eager
def isinf(x: ArrayLike, /) -> Array:
    """Tell which elements are infinite.

    Example:
        >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
        Array([False,  True, False], dtype=bool)
    """
    (x,) = operands("isinf", x)
    dtype = aval_of(x).dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        return elementwise.bitwise_or(isinf(conversion.real(x)), isinf(conversion.imag(x)))
    if dtypes.issubdtype(dtype, np.floating):
        return elementwise.eq(elementwise.abs(x), constant(float("inf"), x))
    return _all_are(shape_of(x), False)


@eager
def isfinite(x: ArrayLike, /) -> Array:
    """Tell which elements are finite.

    Example:
        >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
        Array([ True, False, False], dtype=bool)
    """
    (x,) = operands("isfinite", x)
    dtype = aval_of(x).dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        return elementwise.bitwise_and(
            elementwise.is_finite(conversion.real(x)), elementwise.is_finite(conversion.imag(x))
        )
    if dtypes.issubdtype(dtype, np.floating):
        return elementwise.is_finite(x)
    return _all_are(shape_of(x), True)


def _is_infinity(name: str, x: Any, value: float) -> Any:
    (x,) = operands(name, x)
    dtype = aval_of(x).dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise ValueError(
            three_lines(
                f"{name}: operand {aval_of(x)} at {current_source()}",
                f"{name} is not well defined for complex types",
                "apply it to real and imag parts",
            )
        )
    if dtypes.issubdtype(dtype, np.floating):
        return elementwise.eq(x, constant(value, x))
    return _all_are(shape_of(x), False)


@eager
def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell which elements are plus infinity.

    Example:
        >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
        Array([ True, False], dtype=bool)
    """
    refuse_out("isposinf", out)
    return _is_infinity("isposinf", x, float("inf"))


@eager
def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell which elements are minus infinity.

    Example:
        >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
        Array([False,  True], dtype=bool)
    """
    refuse_out("isneginf", out)
    return _is_infinity("isneginf", x, float("-inf"))


def iscomplex(x: ArrayLike) -> Array:
    """Tell which elements have a nonzero imaginary part.

    Example:
        >>> jnp.iscomplex(jnp.array([1 + 0j, 1j]))
        Array([False,  True], dtype=bool)
    """
    (x,) = operands("iscomplex", x)
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        reduction.check_dtype("iscomplex", aval_of(x), ANY)
        return _all_are(shape_of(x), False)
    imag = conversion.imag(x)
    return elementwise.ne(imag, constant(0, imag))


def isreal(x: ArrayLike) -> Array:
    """Tell which elements have imaginary part 0.

    Example:
        >>> jnp.isreal(jnp.array([1 + 0j, 1j]))
        Array([ True, False], dtype=bool)
    """
    return logical_not(iscomplex(x))


@eager
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell which elements of a and b differ by at most `atol + rtol * |b|`.

    With `equal_nan`, nan equals nan.

    Example:
        >>> jnp.isclose(jnp.array([1.0, 1.1]), 1.000001)
        Array([ True, False], dtype=bool)
    """
    a, b = promote("isclose", a, b)
    dtype = aval_of(a).dtype
    if dtypes.is_extended(dtype):
        return equal(a, b)
    if dtype == _BOOL:
        dtype = dtypes.default_int_dtype()
        a, b = (converted(x, dtype, False) for x in (a, b))
    if not dtypes.issubdtype(dtype, np.inexact):
        a, b = (converted(x, dtypes.to_inexact_dtype(dtype), False) for x in (a, b))
    real = dtypes.to_floating_dtype(aval_of(a).dtype)
    rtol, atol = (converted(x, real, False) for x in operands("isclose", rtol, atol))
    distance = elementwise.abs(elementwise.sub(a, b))
    allowed = elementwise.add(atol, elementwise.mul(rtol, elementwise.abs(b)))
    distance, allowed = shapes("isclose", distance, allowed)
    near = elementwise.le(distance, allowed)
    found = elementwise.bitwise_or(
        elementwise.bitwise_and(near, elementwise.bitwise_and(isfinite(a), isfinite(b))),
        elementwise.eq(a, b),
    )
    if equal_nan:
        found = elementwise.bitwise_or(found, elementwise.bitwise_and(isnan(a), isnan(b)))
    return found


@eager
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell whether all elements of a and b are close (see `isclose`).

    With `equal_nan`, nan equals nan.

    Example:
        >>> bool(jnp.allclose(jnp.ones(2), 1 + 1e-7))
        True
    """
    return all_true(isclose(a, b, rtol, atol, equal_nan))


def all_true(x: Any) -> Any:
    """Tell whether all elements of an array of bools are true."""
    return reduction.reduce_and(x, range(len(shape_of(x))))


@eager
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Tell whether two arrays have the same shape and equal elements.

    The result is an array, so that it can be computed in `jit`; shapes that differ are found while
    tracing. With `equal_nan`, nan equals nan.

    Example:
        >>> jnp.array_equal(jnp.array([1, 2]), jnp.array([1, 2]))
        Array(True, dtype=bool)
    """
    a1, a2 = (_array(x) for x in (a1, a2))
    if shape_of(a1) != shape_of(a2):
        return _all_are((), False)
    a1, a2 = promote("array_equal", a1, a2)
    same = equal(a1, a2)
    if equal_nan:
        same = elementwise.bitwise_or(same, elementwise.bitwise_and(isnan(a1), isnan(a2)))
    return all_true(same)


@eager
def array_equiv(a1: Any, a2: Any) -> Array:
    """Tell whether two arrays broadcast to each other and have equal elements.

    Example:
        >>> jnp.array_equiv(jnp.array([1, 2]), jnp.array([[1, 2], [1, 2]]))
        Array(True, dtype=bool)
    """
    a1, a2 = (_array(x) for x in (a1, a2))
    a1, a2 = promote_dtypes(a1, a2)
    try:
        a1, a2 = shapes("array_equiv", a1, a2)
    except (TypeError, ValueError):
        return _all_are((), False)
    return all_true(equal(a1, a2))


def choose_by(condition: Any, x: Any, y: Any) -> Any:
    """Take x where the condition holds, else y, as `where` with three arguments."""
    condition, x, y = operands("where", condition, x, y)
    condition = truth(condition)
    x, y = promote_dtypes(x, y)
    found = [shape_of(v) for v in (condition, x, y)]
    shape = next((s for s in found if s), ())
    if all(s == shape or not s for s in found):
        return elementwise.select_n_p.bind(condition, y, x)
    # Scalars remain scalars if another operand has the result's shape.
    try:
        shape = broadcast_shapes("where", *found)
    except TypeError as error:
        shown = ", ".join(str(tuple(s)) for s in found)
        wrong = f"Incompatible shapes for broadcasting: shapes=[{shown}]"
        raise ValueError(str(error).replace("where got incompatible", wrong + ": got")) from None
    condition, x, y = (
        v if s in ((), shape) else broadcast_to(v, shape)
        for v, s in zip((condition, x, y), found, strict=True)
    )
    return elementwise.select_n_p.bind(condition, y, x)


def _array(x: Any) -> Any:
    if is_typed(x) or not isinstance(x, (list, tuple)):
        return x
    return np.asarray(x)
