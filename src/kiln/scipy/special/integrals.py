"""Exponential, sine, cosine and Fresnel integrals, and the dilogarithm.

Near 0, logarithms and entire functions; beyond, the smooth factors of the asymptotic forms.
Source: Abramowitz and Stegun, sections 5.1, 5.2, 7.3 and 27.7. The series are those of
`coefficients.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.loops.loops import fori_loop, while_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.ops.elements import special as ops
from kiln.ops.elements.elementwise import stop_gradient
from kiln.ops.reductions.reduction import reduce_precision
from kiln.scipy.special.series import by_series, narrowed, real_operands


def _falling(x: Any) -> Any:
    """Return E1(x) for x > 0."""
    near = x < 1
    small = jnp.where(near, x, 1)
    inner = -np.euler_gamma - jnp.log(small) + small * by_series("entire_exponential", -small)
    inverse = 1 / jnp.where(near, 1, x)
    finite = jnp.where(near | jnp.isinf(x), 1, x)
    outer = jnp.exp(-finite) * inverse * by_series("falling_exponential", inverse)
    return jnp.where(near, inner, jnp.where(jnp.isinf(x), 0, outer))


def _growing(x: Any) -> Any:
    """Return Ei(x) for x > 0."""
    near = x < 6
    small = jnp.where(near, x, 6)
    inner = np.euler_gamma + jnp.log(small) + small * by_series("entire_exponential", small)
    large = jnp.where(near | jnp.isinf(x), 6, x)
    inverse = 1 / large
    # exp(x) overflows before exp(x) / x does.
    half = jnp.exp(0.5 * large)
    outer = half * (inverse * by_series("growing_exponential", inverse)) * half
    return jnp.where(near, inner, jnp.where(jnp.isinf(x), math.inf, outer))


@custom_jvp
def _expi(x: Any) -> Any:
    left = x < 0
    out = jnp.where(left, -_falling(jnp.where(left, -x, 1)), _growing(jnp.where(left, 1, x)))
    return jnp.where(x == 0, -math.inf, jnp.where(jnp.isnan(x), math.nan, out))


@_expi.defjvp
def _expi_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _expi(x), t * jnp.exp(x) / x


def expi(x: ArrayLike) -> Array:
    """Return the exponential integral Ei(x), the integral of exp(t) / t up to x.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.expi(jnp.array([1.0])).round(4)
        Array([1.8951], dtype=float32)
    """
    (y,), result = real_operands("expi", x)
    return narrowed(_expi(y), result)


def exp1(x: ArrayLike) -> Array:
    """Return the exponential integral E1(x), the integral of exp(-t) / t beyond x.

    Of negative numbers it is nan: there it is complex.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.exp1(jnp.array([0.0, 1.0])).round(4)
        Array([   inf, 0.2194], dtype=float32)
    """
    (y,), result = real_operands("exp1", x)
    return narrowed(jnp.where(y < 0, math.nan, -_expi(-y)), result)


def _power_series(n: Any, x: Any) -> Any:
    """Return E_n(x) for 0 < x <= 1 and n >= 1: its terms, one of which has a logarithm."""
    less = n - 1
    psi = ops.digamma(n)
    logarithm = psi - jnp.log(x)

    def step(k: Any, carry: Any) -> Any:
        total, term, pole = carry
        # term = (-x)^k / k!; the one of k = n - 1 is multiplied by psi(n) - log(x).
        this = k == less
        found = jnp.where(this, term * logarithm, -term / jnp.where(this, 1, k - less))
        return total + found, term * (-x / (k + 1)), jnp.where(this, term, pole)

    one = jnp.ones_like(x)
    total, *_ = fori_loop(
        0, 25, lambda k, c: step(jnp.asarray(k, x.dtype), c), (0 * one, one, 0 * one)
    )
    # For large n the term with the logarithm lies beyond; it is below rounding.
    return total


def _fraction(n: Any, x: Any) -> Any:
    """Return exp(x) E_n(x) for x > 1, by the continued fraction 5.1.22 in its even form."""
    eps = float(dtypes.finfo(x.dtype).eps)
    b = x + n
    start = (jnp.ones((), x.dtype), b, jnp.full_like(x, 1e30), 1 / b, 1 / b, x > 0)

    def busy(carry: Any) -> Any:
        return jnp.any(carry[-1]) & (carry[0] < 400)

    def step(carry: Any) -> Any:
        k, b, c, d, total, active = carry
        numerator = -k * (n - 1 + k)
        b = b + 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        factor = c * d
        after = jnp.where(active, total * factor, total)
        return k + 1, b, c, d, after, active & (jnp.abs(factor - 1) > eps)

    return while_loop(busy, step, start)[4]


@custom_jvp
def _expn(n: Any, x: Any) -> Any:
    near = x <= 1
    order = jnp.where(n < 1, 1, n)
    small = jnp.where(near & (x > 0), x, 1)
    large = jnp.where(near | ~jnp.isfinite(x), 2, x)
    inner = _power_series(order, small)
    outer = jnp.exp(-large) * _fraction(order, large)
    out = jnp.where(near, inner, jnp.where(jnp.isposinf(x), 0, outer))
    at_zero = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1), math.inf)
    out = jnp.where(x == 0, at_zero, out)
    out = jnp.where(n == 0, jnp.exp(-x) / x, out)
    wrong = (x < 0) | (n < 0) | (n != jnp.floor(n)) | jnp.isnan(x)
    return jnp.where(wrong, math.nan, out)


@_expn.defjvp
def _expn_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (n, x), (_, t) = primals, tangents
    # Of order 0, E_{-1}(x) = exp(-x) (1 + 1/x) / x.
    below = jnp.where(n == 0, jnp.exp(-x) * (1 + 1 / x) / x, _expn(jnp.maximum(n - 1, 0), x))
    return _expn(n, x), -t * below


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the integral of exp(-x t) / t^n over t > 1, for integers n >= 0; nan elsewhere.

    The derivative is that by `x`. Sources: Abramowitz and Stegun, 5.1.12 and 5.1.22.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.expn(2, jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 0.1485], dtype=float32)
    """
    (order, y), result = real_operands("expn", n, x)
    order, y = jnp.broadcast_arrays(stop_gradient(order), y)
    return narrowed(_expn(order, y), result)


@custom_jvp
def _sici(x: Any) -> Any:
    size = jnp.abs(x)
    near = size < 4
    small = jnp.where(near, size, 1)
    square = small * small
    sine = small * by_series("sine_near", square)
    cosine = np.euler_gamma + jnp.log(small) - square * by_series("cosine_near", square)
    inverse = 1 / jnp.where(near, 4, size)
    square = inverse * inverse
    f, g = inverse * by_series("sine_f", square), square * by_series("sine_g", square)
    angle = jnp.where(near | jnp.isinf(size), 0, size)
    s, c = jnp.sin(angle), jnp.cos(angle)
    si = jnp.where(near, sine, math.pi / 2 - f * c - g * s)
    ci = jnp.where(near, cosine, f * s - g * c)
    ci = jnp.where(size == 0, -math.inf, jnp.where(jnp.isneginf(x), math.nan, ci))
    wrong = jnp.isnan(x)
    return jnp.where(wrong, x, jnp.copysign(si, x)), jnp.where(wrong, x, ci)


@_sici.defjvp
def _sici_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    ratio = jnp.where(x == 0, 1, jnp.sin(x) / jnp.where(x == 0, 1, x))
    return _sici(x), (t * ratio, t * jnp.cos(x) / x)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Return the sine and cosine integrals Si(x) and Ci(x), the latter of |x|.

    Raises: ValueError for complex numbers.
    Example:
        >>> [part.round(4) for part in kiln.scipy.special.sici(jnp.array([1.0]))]
        [Array([0.9461], dtype=float32), Array([0.3374], dtype=float32)]
    """
    (y,), result = real_operands("sici", x)
    si, ci = _sici(y)
    return narrowed(si, result), narrowed(ci, result)


@custom_jvp
def _fresnel(x: Any) -> Any:
    size = jnp.abs(x)
    near = size < 1.6
    small = jnp.where(near, size, 1)
    square = small * small
    fourth = square * square
    s_near = small * square * by_series("fresnel_s", fourth)
    c_near = small * by_series("fresnel_c", fourth)
    inverse = 1 / jnp.where(near, 1.6, size)
    square = inverse * inverse
    fourth = square * square
    f = (1 / math.pi) * inverse * by_series("fresnel_f", fourth)
    g = (1 / math.pi**2) * inverse * square * by_series("fresnel_g", fourth)
    sine, cosine = _of_half_pi_square(jnp.where(near | jnp.isinf(size), 0, size))
    s_far, c_far = 0.5 - f * cosine - g * sine, 0.5 + f * sine - g * cosine
    wrong = jnp.isnan(x)
    s, c = jnp.where(near, s_near, s_far), jnp.where(near, c_near, c_far)
    return jnp.where(wrong, x, jnp.copysign(s, x)), jnp.where(wrong, x, jnp.copysign(c, x))


def _of_half_pi_square(x: Any) -> Any:
    """Return the sine and cosine of pi x^2 / 2, with the multiples of 4 taken out of x^2."""
    bits, exponents = (25, 11) if x.dtype == np.float64 else (11, 8)
    head = stop_gradient(reduce_precision(x, exponents, bits))
    square, rest = head * head, (x - head) * (x + head)
    turn = (square - 4 * jnp.round(0.25 * square)) + rest
    angle = (math.pi / 2) * turn
    return jnp.sin(angle), jnp.cos(angle)


@_fresnel.defjvp
def _fresnel_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    sine, cosine = _of_half_pi_square(x)
    return _fresnel(x), (t * sine, t * cosine)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Return the integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    Raises: ValueError for complex numbers.
    Example:
        >>> [part.round(4) for part in kiln.scipy.special.fresnel(jnp.array([1.0]))]
        [Array([0.4383], dtype=float32), Array([0.7799], dtype=float32)]
    """
    (y,), result = real_operands("fresnel", x)
    s, c = _fresnel(y)
    return narrowed(s, result), narrowed(c, result)


@custom_jvp
def _spence(x: Any) -> Any:
    # Numbers above 1.5 and below 0.5 are mapped between them by formulas 27.7.4 and 27.7.3.
    large = x > 1.5
    positive = jnp.where((x > 0) & jnp.isfinite(x), x, 1)
    inverted = jnp.where(large, 1 / positive, positive)
    flipped = inverted < 0.5
    w = jnp.where(flipped, -inverted, inverted - 1)
    found = w * by_series("spence", w)
    log_inverted = jnp.log(inverted)
    log_rest = jnp.log1p(-jnp.where(flipped, inverted, 0))
    found = jnp.where(flipped, math.pi**2 / 6 - log_inverted * log_rest - found, found)
    log = jnp.log(positive)
    found = jnp.where(large, -0.5 * log * log - found, found)
    found = jnp.where(x == 0, math.pi**2 / 6, found)
    return jnp.where((x < 0) | ~jnp.isfinite(x), math.nan, found)


@_spence.defjvp
def _spence_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    one = x == 1
    away = jnp.where(one, 2, x)
    return _spence(x), t * jnp.where(one, -1, jnp.log(away) / (1 - away))


def spence(x: ArrayLike) -> Array:
    """Return the dilogarithm of 1 - x: the integral of log(t) / (1 - t) from 1 to x.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.spence(jnp.array([1.0, 0.0])).round(4)
        Array([-0.    ,  1.6449], dtype=float32)
    """
    (y,), result = real_operands("spence", x)
    return narrowed(_spence(y), result)
