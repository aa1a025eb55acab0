"""Elementary functions: exponentials, logarithms, trigonometry, and what is computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.errors import three_lines
from kiln.base.options.config import ERRORS_NOTED
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named, eager
from kiln.numpy.elements.error_notes import without_nan
from kiln.numpy.elements.float_parts import check_real
from kiln.numpy.elements.logic import choose_by, isinf
from kiln.numpy.promotion import (
    binary_inexact,
    converted,
    inexact,
    lifted,
    operands,
    promote_inexact,
)
from kiln.ops.elements import conversion, elementwise, inverse_functions, special
from kiln.ops.elements.elementwise import constant, select
from kiln.ops.reductions.cumulative import principal

_BOOL = np.dtype(np.bool_)


def _function(
    name: str, primitive: Any, meaning: str, *example: str
) -> Callable[[ArrayLike], Array]:
    def apply(x: ArrayLike, /) -> Array:
        found = primitive.bind(inexact(name, x))
        return without_nan(found) if ERRORS_NOTED else found

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = shown(f"Return the {meaning}, element by element.", example)
    return eager(apply)


exp = _function(
    "exp",
    elementwise.exp_p,
    "exponential",
    ">>> jnp.exp(jnp.array([0.0, 1.0])), jnp.exp(0)",
    "(Array([1.      , 2.718282], dtype=float32), Array(1., dtype=float32, weak_type=True))",
    ">>> kiln.vmap(kiln.grad(jnp.exp))(jnp.array([0.0, 1.0]))",
    "Array([1.      , 2.718282], dtype=float32)",
)
exp2 = _function(
    "exp2",
    elementwise.exp2_p,
    "power of two",
    ">>> jnp.exp2(jnp.array([3.0, -1.0]))",
    "Array([8. , 0.5], dtype=float32)",
)
expm1 = _function(
    "expm1",
    elementwise.expm1_p,
    "exponential minus one",
    ">>> jnp.expm1(1e-8), jnp.exp(1e-8) - 1",
    "(Array(1.e-08, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))",
)
log = _function(
    "log",
    elementwise.log_p,
    "natural logarithm",
    ">>> jnp.log(jnp.array([1.0, 0.0, -1.0]))",
    "Array([  0., -inf,  nan], dtype=float32)",
    ">>> jnp.log(jnp.array([-1.0 + 0j]))",
    "Array([0.+3.1415927j], dtype=complex64)",
)
log1p = _function(
    "log1p",
    elementwise.log1p_p,
    "natural logarithm of one plus x",
    ">>> jnp.log1p(1e-8), jnp.log(1 + 1e-8)",
    "(Array(1.e-08, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))",
    ">>> kiln.grad(jnp.log1p)(1.0)",
    "Array(0.5, dtype=float32, weak_type=True)",
)
sqrt = _function(
    "sqrt",
    elementwise.sqrt_p,
    "square root",
    ">>> jnp.sqrt(jnp.array([4.0, -1.0])), jnp.sqrt(-4 + 0j)",
    "(Array([ 2., nan], dtype=float32), Array(0.+2.j, dtype=complex64, weak_type=True))",
    ">>> kiln.grad(jnp.sqrt)(4.0)",
    "Array(0.25, dtype=float32, weak_type=True)",
)
cbrt = _function(
    "cbrt",
    elementwise.cbrt_p,
    "cube root",
    ">>> jnp.cbrt(jnp.array([8.0, -1.0]))",
    "Array([ 2., -1.], dtype=float32)",
)
sin = _function(
    "sin",
    elementwise.sin_p,
    "sine",
    ">>> jnp.sin(jnp.array([0.0, jnp.pi / 2])), kiln.grad(jnp.sin)(0.0)",
    "(Array([0., 1.], dtype=float32), Array(1., dtype=float32, weak_type=True))",
    ">>> jnp.sin(1j)",
    "Array(0.+1.1752012j, dtype=complex64, weak_type=True)",
)
cos = _function(
    "cos",
    elementwise.cos_p,
    "cosine",
    ">>> jnp.cos(jnp.array([0.0, jnp.pi]))",
    "Array([ 1., -1.], dtype=float32)",
    ">>> kiln.grad(jnp.cos)(jnp.pi / 2)",
    "Array(-1., dtype=float32, weak_type=True)",
)
tan = _function(
    "tan",
    elementwise.tan_p,
    "tangent",
    ">>> jnp.tan(jnp.array([0.0, 1.0]))",
    "Array([0.       , 1.5574077], dtype=float32)",
)
arcsin = _function(
    "arcsin",
    inverse_functions.asin_p,
    "inverse sine",
    ">>> jnp.arcsin(jnp.array([0.0, 1.0]))",
    "Array([0.       , 1.5707964], dtype=float32)",
)
asin = also_named("asin", arcsin)
arccos = _function(
    "arccos",
    inverse_functions.acos_p,
    "inverse cosine",
    ">>> jnp.arccos(jnp.array([1.0, 0.0, 2.0]))",
    "Array([0.       , 1.5707964,       nan], dtype=float32)",
)
acos = also_named("acos", arccos)
arctan = _function(
    "arctan",
    inverse_functions.atan_p,
    "inverse tangent",
    ">>> jnp.arctan(jnp.array([1.0, jnp.inf]))",
    "Array([0.7853982, 1.5707964], dtype=float32)",
)
atan = also_named("atan", arctan)
sinh = _function(
    "sinh",
    elementwise.sinh_p,
    "hyperbolic sine",
    ">>> jnp.sinh(jnp.array([0.0, 1.0]))",
    "Array([0.       , 1.1752012], dtype=float32)",
)
cosh = _function(
    "cosh",
    elementwise.cosh_p,
    "hyperbolic cosine",
    ">>> jnp.cosh(jnp.array([0.0, 1.0]))",
    "Array([1.       , 1.5430807], dtype=float32)",
)
tanh = _function(
    "tanh",
    elementwise.tanh_p,
    "hyperbolic tangent",
    ">>> jnp.tanh(jnp.array([0.0, 1.0, 100.0]))",
    "Array([0.       , 0.7615942, 1.       ], dtype=float32)",
    ">>> kiln.grad(jnp.tanh)(0.0)",
    "Array(1., dtype=float32, weak_type=True)",
)
arcsinh = _function(
    "arcsinh",
    inverse_functions.asinh_p,
    "inverse hyperbolic sine",
    ">>> jnp.arcsinh(jnp.array([0.0, 1.0]))",
    "Array([0.       , 0.8813736], dtype=float32)",
)
asinh = also_named("asinh", arcsinh)
arccosh = _function(
    "arccosh",
    inverse_functions.acosh_p,
    "inverse hyperbolic cosine",
    ">>> jnp.arccosh(jnp.array([1.0, 2.0]))",
    "Array([0.      , 1.316958], dtype=float32)",
)
acosh = also_named("acosh", arccosh)
arctanh = _function(
    "arctanh",
    inverse_functions.atanh_p,
    "inverse hyperbolic tangent",
    ">>> jnp.arctanh(jnp.array([0.0, 0.5]))",
    "Array([0.        , 0.54930615], dtype=float32)",
)
atanh = also_named("atanh", arctanh)


@eager
def log2(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 2, element by element.

    Example:
        >>> jnp.log2(jnp.array([8.0, 0.25]))
        Array([ 3., -2.], dtype=float32)
    """
    found = _strong(elementwise.log_p.bind(inexact("log2", x)))
    found = _by_number(elementwise.div, found, math.log(2))
    return without_nan(found) if ERRORS_NOTED else found


@eager
def log10(x: ArrayLike, /) -> Array:
    """Return the logarithm to base 10, element by element.

    Example:
        >>> jnp.log10(jnp.array([1.0, 1000.0]))
        Array([0., 3.], dtype=float32)
    """
    found = _strong(elementwise.log_p.bind(inexact("log10", x)))
    found = _by_number(elementwise.mul, found, 1 / math.log(10))
    return without_nan(found) if ERRORS_NOTED else found


def _by_number(op: Any, x: Any, factor: float) -> Any:
    """Multiply or divide each part by a real number, so that infinities are preserved."""
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return op(x, constant(factor, x))
    parts = (conversion.real(x), conversion.imag(x))
    return conversion.complex(*[op(part, constant(factor, part)) for part in parts])


def _strong(x: Any) -> Any:
    """Return a strongly typed version of an array."""
    return conversion.convert_element_type(x, aval_of(x).dtype, False)


def weak_as(out: Any, *operands: Any) -> Any:
    """Return a result that is weakly typed only if all operands are."""
    given = [x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in operands]
    weak = all(type(x) is bool or dtypes.is_weak(x) for x in given)
    return out if weak else _strong(out)


@eager
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1), from -pi to pi.

    Example:
        >>> jnp.arctan2(jnp.array([1.0, -1.0]), -1.0)
        Array([ 2.3561945, -2.3561945], dtype=float32)
    """
    x1, x2 = binary_inexact("arctan2", x1, x2)
    if dtypes.issubdtype(aval_of(x1).dtype, np.complexfloating):
        # The continuation of the angle: -i log((x + i y) / sqrt(x**2 + y**2)).
        point = elementwise.add(x2, elementwise.mul(constant(1j, x1), x1))
        squares = elementwise.add(elementwise.mul(x2, x2), elementwise.mul(x1, x1))
        turned = elementwise.log(elementwise.div(point, elementwise.sqrt(squares)))
        return elementwise.mul(constant(-1j, x1), turned)
    return elementwise.atan2_p.bind(x1, x2)


atan2 = also_named("atan2", arctan2)


@eager
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the length of the vector (x1, x2), without overflow.

    Example:
        >>> jnp.hypot(3e30, 4e30)
        Array(5.e+30, dtype=float32, weak_type=True)
    """
    given = x1, x2
    x1, x2 = promote_inexact("hypot", x1, x2)
    if dtypes.issubdtype(aval_of(x1).dtype, np.complexfloating):
        raise ValueError(
            three_lines(
                f"hypot: operands {aval_of(x1)} at {current_source()}",
                "jnp.hypot is not well defined for complex-valued inputs.",
                "use the absolute values of the operands",
            )
        )
    x1, x2 = elementwise.abs(x1), elementwise.abs(x2)
    infinite = elementwise.bitwise_or(isinf(x1), isinf(x2))
    long, short = elementwise.max(x1, x2), elementwise.min(x1, x2)
    nothing = elementwise.eq(long, constant(0, long))
    ratio = elementwise.div(short, select(nothing, constant(1, long), long))
    length = elementwise.mul(
        long, elementwise.sqrt(elementwise.add(constant(1, long), elementwise.square(ratio)))
    )
    return weak_as(
        select(infinite, constant(math.inf, long), select(nothing, long, length)), *given
    )


@eager
def deg2rad(x: ArrayLike, /) -> Array:
    """Convert degrees to radians.

    Example:
        >>> jnp.deg2rad(jnp.array([0.0, 180.0]))
        Array([0.       , 3.1415927], dtype=float32)
    """
    x = inexact("deg2rad", x)
    return elementwise.mul(x, constant(math.pi / 180, x))


@eager
def rad2deg(x: ArrayLike, /) -> Array:
    """Convert radians to degrees.

    Example:
        >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
        Array([  0., 180.], dtype=float32)
    """
    x = inexact("rad2deg", x)
    return elementwise.mul(x, constant(180 / math.pi, x))


radians, degrees = also_named("radians", deg2rad), also_named("degrees", rad2deg)


@eager
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return log(exp(x1) + exp(x2)), without overflow.

    The derivatives are the weights of a softmax, finite where those of the formula are nan.

    Example:
        >>> jnp.logaddexp(1000.0, 1000.0), kiln.grad(jnp.logaddexp)(1000.0, 0.0)
        (Array(1000.6932, dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    return _log_of_sum("logaddexp", x1, x2, elementwise.exp, 1.0)


@eager
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return log2(2^x1 + 2^x2), without overflow.

    Example:
        >>> jnp.logaddexp2(jnp.array([3.0, 500.0]), jnp.array([3.0, 0.0]))
        Array([  4., 500.], dtype=float32)
    """
    out = _log_of_sum("logaddexp2", x1, x2, elementwise.exp2, 1 / math.log(2))
    return weak_as(out, x1, x2)


def _log_of_sum(name: str, x1: Any, x2: Any, exponential: Callable[[Any], Any], unit: float) -> Any:
    given = x1, x2
    x1, x2 = promote_inexact(name, x1, x2)
    if dtypes.issubdtype(aval_of(x1).dtype, np.complexfloating):
        return weak_as(_complex_log_of_sum(x1, x2, unit), *given)
    distance = elementwise.sub(x1, x2)
    # Operands equal to one infinity have no distance; their sum is that infinity.
    together = elementwise.ne(distance, distance)
    distance = select(together, constant(0, distance), distance)
    # One formula on either side, so that derivatives where the operands are equal are those of it.
    first = elementwise.ge(x1, x2)
    below = select(first, elementwise.neg(distance), distance)
    small = elementwise.log1p(exponential(below))
    if unit != 1.0:
        small = elementwise.mul(small, constant(unit, small))
    out = elementwise.add(select(first, x1, x2), small)
    return select(together, elementwise.add(x1, x2), out)


def _complex_log_of_sum(x1: Any, x2: Any, unit: float) -> Any:
    first = elementwise.ge(conversion.real(x1), conversion.real(x2))
    large, small = select(first, x1, x2), select(first, x2, x1)
    distance = elementwise.sub(small, large)
    if unit != 1.0:
        distance = elementwise.div(distance, constant(unit, distance))
    rest = elementwise.log1p(elementwise.exp(distance))
    if unit != 1.0:
        rest = elementwise.mul(rest, constant(unit, rest))
    return principal(elementwise.add(large, rest), math.pi * unit)


@eager
def sinc(x: ArrayLike, /) -> Array:
    """Return sin(pi x) / (pi x), and 1 at 0.

    The derivative at 0 is 0, not the nan of the quotient.

    Example:
        >>> jnp.sinc(jnp.array([0.0, 0.5])), kiln.grad(jnp.sinc)(0.0)
        (Array([1.        , 0.63661975], dtype=float32), Array(0., dtype=float32, weak_type=True))
    """
    x = inexact("sinc", x)
    angle_ = elementwise.mul(x, constant(math.pi, x))
    tiny = elementwise.lt(elementwise.abs(angle_), constant(_SINC_SERIES, elementwise.abs(angle_)))
    safe = select(tiny, constant(1, angle_), angle_)
    # The series serves derivatives of every practical order; its values round to the sine's.
    squared = elementwise.square(select(tiny, angle_, constant(0, angle_)))
    series = constant(1, squared)
    for k in (4, 3, 2, 1):
        term = elementwise.mul(squared, constant(-1.0 / ((2 * k) * (2 * k + 1)), squared))
        series = elementwise.add(constant(1, squared), elementwise.mul(term, series))
    return select(tiny, series, elementwise.div(elementwise.sin(safe), safe))


_SINC_SERIES = 1e-1


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return 0 for negative x1, 1 for positive x1, and x2 for zero.

    Example:
        >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    given = x1, x2
    x1, x2 = promote_inexact("heaviside", x1, x2)
    check_real("heaviside", aval_of(x1).dtype)
    zero = constant(0, x1)
    at_zero = choose_by(elementwise.ne(x1, x1), x1, x2)
    upper = choose_by(elementwise.gt(x1, zero), constant(1, x1), at_zero)
    return weak_as(choose_by(elementwise.lt(x1, zero), zero, upper), given[0])


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replace nans by `nan`, infinities by the largest finite numbers or the given ones.

    `posinf` and `neginf` replace the infinities; `copy` has no effect.

    Example:
        >>> jnp.nan_to_num(jnp.array([1.0, jnp.nan, jnp.inf]), posinf=9.0)
        Array([1., 0., 9.], dtype=float32)
    """
    (x,) = operands("nan_to_num", x)
    aval = aval_of(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        return lifted(x)
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        parts = (conversion.real(x), conversion.imag(x))
        return conversion.complex(*[nan_to_num(p, copy, nan, posinf, neginf) for p in parts])
    limits = dtypes.finfo(aval.dtype)
    posinf = float(limits.max) if posinf is None else posinf
    neginf = float(limits.min) if neginf is None else neginf
    x = _strong(x)
    x = choose_by(elementwise.ne(x, x), _as(nan, x), x)
    x = choose_by(elementwise.eq(x, constant(math.inf, x)), _as(posinf, x), x)
    return choose_by(elementwise.eq(x, constant(-math.inf, x)), _as(neginf, x), x)


def _as(value: Any, like: Any) -> Any:
    aval = aval_of(like)
    return converted(value, aval.dtype, aval.weak_type)


def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0.

    Example:
        >>> jnp.i0(jnp.array([0.0, 1.0]))
        Array([1.      , 1.266066], dtype=float32)
    """
    x = inexact("i0", x)
    if not dtypes.issubdtype(aval_of(x).dtype, np.floating):
        raise ValueError(
            three_lines(
                f"i0: operand {aval_of(x)} at {current_source()}",
                f"Unsupported input type to jax.numpy.i0: {aval_of(x)}",
                "pass real numbers",
            )
        )
    return bessel_i0(x)


@custom_jvp
def bessel_i0(x: Any) -> Any:
    """Return I0 of floats."""
    return elementwise.mul(elementwise.exp(elementwise.abs(x)), special.bessel_i0e(x))


@bessel_i0.defjvp
def _bessel_i0_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    # That of the product cancels near 0.
    (x,) = primals
    size = elementwise.mul(x, elementwise.sign(x))
    slope = elementwise.mul(elementwise.exp(size), special.bessel_i1e(x))
    return bessel_i0(x), elementwise.mul(tangents[0], slope)
