"""The error function and its relatives: the normal distribution, Dawson's and Faddeeva's integrals.

Sources: Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x)" (1981);
Abramowitz and Stegun, chapters 7 and 26; Weideman, "Computation of the complex error function"
(1994); Gautschi, "Efficient computation of the complex error function" (1970).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import inexact, lifted
from kiln.ops.elements import special as ops
from kiln.ops.elements.conversion import complex as join_complex
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import logistic
from kiln.scipy.special.series import (
    by_series,
    exp_of_square,
    horner,
    narrowed,
    real_operands,
)

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def erf(x: ArrayLike) -> Array:
    """Return the error function.

    Example:
        >>> kiln.scipy.special.erf(jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.8427], dtype=float32)
    """
    return ops.erf(inexact("erf", x))


def erfc(x: ArrayLike) -> Array:
    """Return 1 - erf(x), accurate where it is small.

    Example:
        >>> kiln.scipy.special.erfc(jnp.array([0.0, 10.0]))
        Array([1.e+00, 1.e-45], dtype=float32)
    """
    return ops.erfc(inexact("erfc", x))


def erfinv(x: ArrayLike) -> Array:
    """Return the inverse of erf.

    Example:
        >>> kiln.scipy.special.erfinv(jnp.array([0.0, 0.5, 1.0])).round(4)
        Array([0.    , 0.4769,    inf], dtype=float32)
    """
    return ops.erf_inv(inexact("erfinv", x))


def expit(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x)).

    Example:
        >>> kiln.scipy.special.expit(jnp.array([-100.0, 0.0, 100.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return logistic(inexact("expit", x))


@custom_jvp
def scaled_complement(x: Any) -> Any:
    """Return exp(x^2) erfc(x) of an array of 32 bits or more."""
    size = jnp.abs(x)
    finite = jnp.where(jnp.isinf(size), 1, size)
    upper = by_series("scaled_complement", (finite - 3.75) / (finite + 3.75)) / (1 + 2 * finite)
    upper = jnp.where(jnp.isinf(size), 0, upper)
    left = jnp.minimum(jnp.where(x < 0, size, 0), 40.0)
    return jnp.where(x < 0, 2 * exp_of_square(left, 1.0) - upper, upper)


@scaled_complement.defjvp
def _scaled_complement_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    value = scaled_complement(x)
    # 2 (x w - 1/sqrt(pi)), whose terms cancel for large x.
    large = x > 50
    safe = jnp.where(large, x, 50)
    far = -(1 - 1.5 / (safe * safe)) / (_ROOT_PI * safe * safe)
    return value, t * jnp.where(large, far, 2 * (x * value - 1 / _ROOT_PI))


def erfcx(x: ArrayLike) -> Array:
    """Return exp(x^2) erfc(x), also of complex numbers.

    Example:
        >>> kiln.scipy.special.erfcx(jnp.array([0.0, 100.0])).round(4)
        Array([1.    , 0.0056], dtype=float32)
    """
    if jnp.iscomplexobj(x):
        x = lifted(x)
        return wofz(join_complex(-x.imag, x.real))
    (y,), result = real_operands("erfcx", x)
    return narrowed(scaled_complement(y), result)


@custom_jvp
def _dawson(x: Any) -> Any:
    size = jnp.abs(x)
    small = size < math.sqrt(6)
    near = jnp.where(small, size, 0)
    far = 1 / jnp.where(small, math.sqrt(6), size)
    inner = near * by_series("dawson_near", near * near)
    outer = far * by_series("dawson_far", far * far)
    return jnp.where(jnp.isnan(x), x, jnp.copysign(jnp.where(small, inner, outer), x))


@_dawson.defjvp
def _dawson_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    value = _dawson(x)
    large = jnp.abs(x) > 20
    inverse = 1 / jnp.where(large, x * x, 1)
    far = -0.5 * inverse * (1 + inverse * (1.5 + 3.75 * inverse))
    return value, t * jnp.where(large, far, 1 - 2 * x * value)


def dawsn(x: ArrayLike) -> Array:
    """Return Dawson's integral, exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.dawsn(jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.5381], dtype=float32)
    """
    (y,), result = real_operands("dawsn", x)
    return narrowed(_dawson(y), result)


@functools.cache
def _weideman(count: int) -> tuple[float, tuple[float, ...]]:
    """Return the scale and the coefficients, highest first, of Weideman's expansion."""
    points = 4 * count
    scale = math.sqrt(count / math.sqrt(2))
    angles = np.arange(-points + 1, points) * math.pi / points
    t = scale * np.tan(angles / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    found = np.real(np.fft.fft(np.fft.fftshift(values))) / (2 * points)
    return scale, tuple(float(c) for c in found[count:0:-1])


def _faddeeva_above(z: Any) -> Any:
    """Return w(z) for complex z with an imaginary part that is not negative."""
    scale, coefficients = _weideman(64 if z.dtype == np.complex128 else 24)
    below = scale - 1j * z
    ratio = (scale + 1j * z) / below
    total = horner(tuple(reversed(coefficients)), ratio)
    return 2 * total / (below * below) + (1 / _ROOT_PI) / below


@custom_jvp
def _faddeeva(z: Any) -> Any:
    upper = z.imag >= 0
    top = jnp.where(upper, z, -z)
    large = jnp.abs(top) > 1e4
    inverse = 1 / jnp.where(large, top, 1)
    far = (1j / _ROOT_PI) * inverse * (1 + 0.5 * inverse * inverse)
    value = jnp.where(large, far, _faddeeva_above(jnp.where(large, 1, top)))
    # On the real line, the parts are known to full precision.
    x = z.real
    line = join_complex(jnp.exp(-x * x), (2 / _ROOT_PI) * _dawson(x))
    square = jnp.where(upper, 0, z)
    out = jnp.where(upper, value, 2 * jnp.exp(-square * square) - value)
    return jnp.where(z.imag == 0, line, out)


@_faddeeva.defjvp
def _faddeeva_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (z,), (t,) = primals, tangents
    value = _faddeeva(z)
    return value, t * (2j / _ROOT_PI - 2 * z * value)


def wofz(z: ArrayLike) -> Array:
    """Return Faddeeva's function, exp(-z^2) erfc(-iz), as complex numbers.

    The error is relative to the absolute value, not to each part.

    Example:
        >>> kiln.scipy.special.wofz(jnp.array([0.0, 1j])).round(4)
        Array([1.    +0.j, 0.4276+0.j], dtype=complex64)
    """
    z = lifted(inexact("wofz", z))
    if not jnp.iscomplexobj(z):
        wide = np.complex128 if z.dtype == np.float64 else np.complex64
        z = convert_element_type(z, np.dtype(wide))
    return _faddeeva(z)


@custom_jvp
def _ndtr(x: Any) -> Any:
    # In the left tail the rounding of x / sqrt(2) would be magnified by x^2.
    left = x < -1
    low = jnp.where(left, jnp.maximum(x, -50), -1)
    tail = 0.5 * scaled_complement(-_ROOT_HALF * low) * exp_of_square(low, -0.5)
    return jnp.where(left, tail, 0.5 * ops.erfc(-_ROOT_HALF * jnp.where(left, 0, x)))


@_ndtr.defjvp
def _ndtr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _ndtr(x), t * (jnp.exp(-0.5 * x * x) / _ROOT_TWO_PI)


def ndtr(x: ArrayLike) -> Array:
    """Return the probability that a standard normal variable is at most `x`.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.ndtr(jnp.array([-1.96, 0.0, 1.96])).round(3)
        Array([0.025, 0.5  , 0.975], dtype=float32)
    """
    (y,), result = real_operands("ndtr", x)
    return narrowed(_ndtr(y), result)


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    left = x < -1
    low = jnp.where(left, x, -1)
    below = jnp.log(0.5 * scaled_complement(-_ROOT_HALF * low)) - 0.5 * low * low
    high = jnp.where(left, 0, x)
    return jnp.where(left, below, jnp.log1p(-_ndtr(-high)))


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    left = x < 0
    below = math.sqrt(2 / math.pi) / scaled_complement(-_ROOT_HALF * jnp.where(left, x, 0))
    # Beyond 50 it is 0, and so are its derivatives, in which the complement would be infinite.
    high = jnp.where(left, 0, jnp.minimum(x, 50))
    above = jnp.exp(-0.5 * high * high) / (_ROOT_TWO_PI * _ndtr(high))
    return _log_ndtr(x), t * jnp.where(left, below, above)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Return the logarithm of `ndtr`, accurate in both tails.

    `series_order` is checked, and not needed: no asymptotic series is used.

    Raises: TypeError or ValueError for an order that is not an integer from 1 to 30.
    Example:
        >>> kiln.scipy.special.log_ndtr(jnp.array([-20.0, 0.0])).round(2)
        Array([-203.92,   -0.69], dtype=float32)
    """
    order: Any = series_order
    error: type[Exception]
    if not isinstance(order, int):
        wrong, error = "series_order must be a Python integer.", TypeError
    elif series_order < 0:
        wrong, error = "series_order must be non-negative.", ValueError
    elif series_order > 30:
        wrong, error = "series_order must be <= 30.", ValueError
    else:
        (y,), result = real_operands("log_ndtr", x)
        return narrowed(_log_ndtr(y), result)
    raise error(
        three_lines(
            f"log_ndtr with series_order={series_order!r} at {current_source()}",
            wrong,
            "leave series_order out",
        )
    )


@custom_jvp
def _ndtri(p: Any) -> Any:
    offset = p - 0.5
    central = jnp.abs(offset) <= 0.425
    middle = jnp.where(central, offset, 0)
    near = middle * by_series("normal_center", middle * middle)
    tail = jnp.where(central, 0.01, jnp.minimum(p, 1 - p))
    root = jnp.sqrt(-jnp.log(tail))
    far = jnp.copysign(root * by_series("normal_tail", root), offset)
    out = jnp.where(central, near, far)
    out = jnp.where(p == 0, -math.inf, jnp.where(p == 1, math.inf, out))
    return jnp.where((p < 0) | (p > 1) | jnp.isnan(p), math.nan, out)


@_ndtri.defjvp
def _ndtri_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p,), (t,) = primals, tangents
    value = _ndtri(p)
    return value, t * (_ROOT_TWO_PI * jnp.exp(0.5 * value * value))


def ndtri(p: ArrayLike) -> Array:
    """Return the inverse of `ndtr`: the quantile of a standard normal variable.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.ndtri(jnp.array([0.025, 0.5])).round(2)
        Array([-1.96,  0.  ], dtype=float32)
    """
    (y,), result = real_operands("ndtri", p)
    return narrowed(_ndtri(y), result)


@functools.cache
def _legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (nodes + 1), 0.5 * weights


def _owens_integral(h: Any, a: Any) -> Any:
    """Integrate for a in [0, 1]: exp(-h^2 (1 + x^2) / 2) / (1 + x^2) over [0, a]."""
    nodes, weights = _legendre(40 if h.dtype == np.float64 else 16)
    # Beyond 9 deviations the integrand is nothing beside what it is at 0.
    end = jnp.minimum(a, 9 / jnp.maximum(h, 1e-3))
    total = jnp.zeros_like(h)
    for node, weight in zip(nodes, weights, strict=True):
        x = end * float(node)
        total = total + float(weight) * jnp.exp(-0.5 * (h * x) ** 2) / (1 + x * x)
    return end * total * exp_of_square(h, -0.5) / (2 * math.pi)


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    height, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    inverse = 1 / jnp.where(steep, slope, 1)
    # Infinite times nothing is an infinite height, whose integral is 0.
    reached = jnp.where(steep & jnp.isfinite(slope), height * slope, 0)
    reached = jnp.where(jnp.isinf(slope), math.inf, reached)
    q, q_reached = _ndtr(-height), _ndtr(-reached)
    place = jnp.where(steep, reached, height)
    finite = jnp.where(jnp.isinf(place), 100.0, place)
    found = _owens_integral(finite, jnp.where(steep, inverse, slope))
    whole = jnp.where(steep, 0.5 * (q + q_reached) - q * q_reached - found, found)
    at_zero = jnp.arctan(slope) / (2 * math.pi)
    return jnp.copysign(jnp.where(height == 0, at_zero, whole), a)


@_owens_t.defjvp
def _owens_t_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (h, a), (dh, da) = primals, tangents
    by_h = -jnp.exp(-0.5 * h * h) * ops.erf(_ROOT_HALF * a * h) / (2 * _ROOT_TWO_PI)
    by_a = jnp.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a))
    return _owens_t(h, a), dh * by_h + da * by_a


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Return the probability that X > h and 0 < Y < a X, for independent normal X and Y.

    Source: Owen, "Tables for computing bivariate normal probabilities" (1956).

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.owens_t(0.0, 1.0).round(4)
        Array(0.125, dtype=float32)
    """
    (x, y), result = real_operands("owens_t", h, a)
    return narrowed(_owens_t(x, y), result)
