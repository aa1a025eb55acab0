"""The gamma function, its logarithm and derivatives, the beta function, and what counts with them.

Sources: Abramowitz and Stegun, chapter 6; Hare, "Computing the principal branch of log-gamma"
(1997); Didonato and Morris, "Algorithm 708: significant digit computation of the incomplete beta
function ratios" (1992), whose form of log(beta) has no terms that cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.loops.special_loops import betainc as betainc_of_arrays
from kiln.control.loops.special_loops import igamma, igammac
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import inexact, lifted, promote_inexact
from kiln.ops.elements import special as ops
from kiln.ops.elements.conversion import complex as join_complex
from kiln.scipy.special.series import by_series, horner, narrowed, real_operands

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_LOG_PI = math.log(math.pi)


def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function.

    Example:
        >>> kiln.scipy.special.gammaln(jnp.array([1.0, 100.0])).round(2)
        Array([  0.  , 359.13], dtype=float32)
    """
    return ops.lgamma(inexact("gammaln", x))


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of gammaln.

    Example:
        >>> kiln.scipy.special.digamma(jnp.array([1.0, 2.0])).round(4)
        Array([-0.5772,  0.4228], dtype=float32)
    """
    return ops.digamma(inexact("digamma", x))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the derivative of order `n` of digamma.

    Example:
        >>> kiln.scipy.special.polygamma(1, jnp.array([1.0])).round(4)
        Array([1.6449], dtype=float32)
    """
    return ops.polygamma(*promote_inexact("polygamma", n, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Return the Hurwitz zeta function.

    Raises: NotImplementedError without `q`.
    Example:
        >>> kiln.scipy.special.zeta(2.0, 1.0).round(4)
        Array(1.6449, dtype=float32, weak_type=True)
    """
    if q is None:
        raise NotImplementedError(
            three_lines(
                f"zeta(x) at {current_source()}",
                "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta "
                "function",
                "write zeta(x, 1)",
            )
        )
    return ops.zeta(*promote_inexact("zeta", x, q))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized lower incomplete gamma function.

    Shapes: the arguments broadcast. `a` is positive, x is not negative.
    Example:
        >>> kiln.scipy.special.gammainc(1.0, jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.6321], dtype=float32)
    """
    return igamma(*promote_inexact("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized upper incomplete gamma function.

    Shapes: the arguments broadcast. `a` is positive, x is not negative.
    Example:
        >>> kiln.scipy.special.gammaincc(1.0, jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 0.3679], dtype=float32)
    """
    return igammac(*promote_inexact("gammaincc", a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function.

    Shapes: the arguments broadcast. `a` and `b` are positive, x is in [0, 1].
    Example:
        >>> kiln.scipy.special.betainc(2.0, 2.0, jnp.array([0.0, 0.5, 1.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return betainc_of_arrays(*promote_inexact("betainc", a, b, x))


def _sine_of_pi(x: Any) -> Any:
    """Return sin(pi x), exact at integers."""
    rest = x - 2 * jnp.round(0.5 * x)
    folded = jnp.where(jnp.abs(rest) > 0.5, jnp.copysign(1, rest) - rest, rest)
    return jnp.sin(math.pi * folded)


@custom_jvp
def gamma_of_real(x: Any) -> Any:
    """Return the gamma function of a real array of 32 bits or more."""
    # Above 1, sqrt(2 pi) x^(x - 1/2) exp(-x) gamma_star(1/x), in two halves against overflow.
    left = x < 0
    mirrored = jnp.abs(x)
    below = mirrored < 1
    y = jnp.where(below, mirrored + 1, mirrored)
    # Beyond this, infinity; the two halves below overflow a little later.
    most = 172.0 if x.dtype == np.float64 else 36.0
    large = y > most
    y = jnp.where(large | jnp.isnan(y), 1.0, y)
    half = jnp.power(y, 0.5 * y - 0.25)
    value = (half * jnp.exp(-y) * half) * (_ROOT_TWO_PI * by_series("gamma_star", 1 / y))
    # Factorials are integers as long as these have all their digits.
    whole = (y == jnp.floor(y)) & (value < 1 / float(dtypes.finfo(x.dtype).eps))
    value = jnp.where(whole, jnp.round(value), value)
    value = jnp.where(below, value / jnp.where(mirrored == 0, 1, mirrored), value)
    value = jnp.where(large, math.inf, value)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x)); unlike 1 - x, -x is exact.
    place = jnp.where(left, x, 0.5)
    reflected = -math.pi / (place * _sine_of_pi(place) * value)
    out = jnp.where(left, reflected, value)
    out = jnp.where(x == 0, jnp.copysign(math.inf, x), out)
    return jnp.where((left & (x == jnp.floor(x))) | jnp.isnan(x), math.nan, out)


@gamma_of_real.defjvp
def _gamma_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    value = gamma_of_real(x)
    return value, t * value * ops.digamma(x)


def gamma(x: ArrayLike) -> Array:
    """Return the gamma function, also of complex numbers; nan at negative integers.

    Example:
        >>> kiln.scipy.special.gamma(jnp.array([5.0, 0.5])).round(4)
        Array([24.    ,  1.7725], dtype=float32)
    """
    if jnp.iscomplexobj(x):
        return jnp.exp(loggamma(x))
    (y,), result = real_operands("gamma", x)
    return narrowed(gamma_of_real(y), result)


def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of the gamma function; nan at negative integers.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.gammasgn(jnp.array([1.5, -0.5]))
        Array([ 1., -1.], dtype=float32)
    """
    (y,), result = real_operands("gammasgn", x)
    floor = jnp.floor(y)
    odd = floor != 2 * jnp.floor(0.5 * floor)
    out = jnp.where(odd, -1.0, 1.0)
    out = jnp.where((y == floor) | jnp.isneginf(y), math.nan, out)
    out = jnp.where(y > 0, 1.0, jnp.where(y == 0, jnp.copysign(1.0, y), out))
    return narrowed(jnp.where(jnp.isnan(y), math.nan, out), result)


# Of log(gamma(z)) in powers of 1/z: 1/z, 1/z^3, ...
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SHIFT = 8


def _stirling(z: Any) -> Any:
    inverse = 1 / z
    rest = inverse * horner(_STIRLING, inverse * inverse)
    return (z - 0.5) * jnp.log(z) - z + 0.5 * math.log(2 * math.pi) + rest


@custom_jvp
def _loggamma(z: Any) -> Any:
    left = z.real < 0.5
    w = jnp.where(left, 1 - z, z)
    shifted = jnp.zeros_like(w)
    for k in range(_SHIFT):
        shifted = shifted + jnp.log(w + k)
    value = _stirling(w + _SHIFT) - shifted
    # log(sin(pi z)) has a branch cut for each zero of the sine, log(gamma) has one.
    turns = jnp.copysign(2 * math.pi, z.imag) * jnp.floor(0.5 * z.real + 0.25)
    place = jnp.where(left, z, 0.25)
    sine = join_complex(
        _sine_of_pi(place.real) * jnp.cosh(math.pi * place.imag),
        _sine_of_pi(place.real + 0.5) * jnp.sinh(math.pi * place.imag),
    )
    large = jnp.abs(place.imag) > 7
    tall = jnp.where(large, place, 0.25)
    upper = tall.imag >= 0
    # sin(pi z) = exp(-i pi z) (i/2) (1 - exp(2 i pi z)) above the axis, conjugated below.
    high = jnp.where(upper, tall, jnp.conj(tall))
    near = join_complex(high.real - 2 * jnp.round(0.5 * high.real), high.imag)
    far = -1j * math.pi * near - math.log(2) + 0.5j * math.pi
    far = join_complex(far.real, jnp.arctan2(jnp.sin(far.imag), jnp.cos(far.imag)))
    far = jnp.where(upper, far, jnp.conj(far))
    logarithm = jnp.where(large, far, jnp.log(sine))
    reflected = _LOG_PI - logarithm - value
    return jnp.where(left, reflected + join_complex(jnp.zeros_like(turns), turns), value)


@_loggamma.defjvp
def _loggamma_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (z,), (t,) = primals, tangents
    return _loggamma(z), t * _complex_digamma(z)


def _complex_digamma(z: Any) -> Any:
    left = z.real < 0.5
    w = jnp.where(left, 1 - z, z)
    shifted = sum(1 / (w + k) for k in range(_SHIFT))
    inverse = 1 / (w + _SHIFT)
    square = inverse * inverse
    series = horner((1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12), square)
    value = jnp.log(w + _SHIFT) - 0.5 * inverse - square * series - shifted
    place = jnp.where(left, z, 0.25)
    return jnp.where(left, value - math.pi / jnp.tan(math.pi * place), value)


def loggamma(x: ArrayLike) -> Array:
    """Return the principal branch of the logarithm of the gamma function.

    Real numbers give real numbers: nan below 0.

    Example:
        >>> kiln.scipy.special.loggamma(jnp.array([5.0, 1j])).round(4)
        Array([ 3.1781+0.j    , -0.6509-1.8724j], dtype=complex64)
    """
    if jnp.iscomplexobj(x):
        return _loggamma(lifted(x))
    x = inexact("loggamma", x)
    return jnp.where(lifted(x) < 0, math.nan, ops.lgamma(x))


_LARGE = 10.0


def _stirling_rest(z: Any) -> Any:
    inverse = 1 / jnp.maximum(z, _LARGE)
    return inverse * horner(_STIRLING, inverse * inverse)


def betaln_of_real(a: Any, b: Any) -> Any:
    """Return log(|beta(a, b)|) of two real arrays."""
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    plain = ops.lgamma(small) + ops.lgamma(large) - ops.lgamma(small + large)
    far = large >= _LARGE
    y = jnp.where(far, large, _LARGE)
    x = jnp.where(far & (small > 0), small, 1.0)
    both = x + y
    drop = (0.5 - y) * jnp.log1p(x / y)
    rest = _stirling_rest(y) - _stirling_rest(both)
    one_large = ops.lgamma(x) + drop - x * jnp.log(both) + x + rest
    wide = jnp.maximum(x, _LARGE)
    two_large = (
        drop
        + (wide - 0.5) * jnp.log(wide / (wide + y))
        - 0.5 * jnp.log(wide + y)
        + 0.5 * math.log(2 * math.pi)
        + rest
        + _stirling_rest(wide)
    )
    value = jnp.where(x >= _LARGE, two_large, one_large)
    out = jnp.where(far & (small > 0) & jnp.isfinite(large), value, plain)
    out = jnp.where(jnp.isposinf(large) & (small > 0), -math.inf, out)
    return jnp.where((a == 0) & (b == 0), math.inf, out)


@custom_jvp
def _betaln(a: Any, b: Any) -> Any:
    return betaln_of_real(a, b)


@_betaln.defjvp
def _betaln_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, b), (da, db) = primals, tangents
    both = ops.digamma(a + b)
    slope = da * (ops.digamma(a) - both) + db * (ops.digamma(b) - both)
    return _betaln(a, b), slope


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the beta function.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.betaln(200.0, 300.0).round(2)
        Array(-337.98, dtype=float32, weak_type=True)
    """
    (x, y), result = real_operands("betaln", a, b)
    return narrowed(_betaln(x, y), result, weak=True)


@custom_jvp
def beta_of_real(a: Any, b: Any) -> Any:
    """Return the beta function of real arrays of one dtype."""
    limit = 170.0 if a.dtype == np.float64 else 34.0
    both = a + b
    direct = (jnp.abs(both) < limit) & (jnp.abs(a) < limit) & (jnp.abs(b) < limit)
    x, y, z = (jnp.where(direct, v, 1.0) for v in (a, b, both))
    small, large = jnp.minimum(x, y), jnp.maximum(x, y)
    value = gamma_of_real(large) / gamma_of_real(z) * gamma_of_real(small)
    negative = gamma_sign(a) * gamma_sign(b) * gamma_sign(both)
    out = jnp.where(direct, value, negative * jnp.exp(betaln_of_real(a, b)))
    # A pole above is infinity; one below as well leaves a limit that is not computed.
    one, two = _is_pole(a), _is_pole(b)
    limit_known = ~_is_pole(both) | (one & two)
    return jnp.where(one | two, jnp.where(limit_known, math.inf, math.nan), out)


@beta_of_real.defjvp
def _beta_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, b), (da, db) = primals, tangents
    value, both = beta_of_real(a, b), ops.digamma(a + b)
    slope = da * (ops.digamma(a) - both) + db * (ops.digamma(b) - both)
    return value, value * slope


def gamma_sign(x: Any) -> Any:
    """Return 1 or -1, the sign of the gamma function of a real array."""
    floor = jnp.floor(x)
    odd = floor != 2 * jnp.floor(0.5 * floor)
    return jnp.where((x < 0) & odd, -1.0, 1.0)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the beta function, gamma(a) gamma(b) / gamma(a + b).

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.beta(2.0, 3.0).round(4)
        Array(0.0833, dtype=float32)
    """
    (x, y), result = real_operands("beta", a, b)
    return narrowed(beta_of_real(x, y), result)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """Return the logarithm of the gamma function of `d` dimensions; `d` is a known integer.

    Example:
        >>> kiln.scipy.special.multigammaln(3.0, 2).round(4)
        Array(1.5502, dtype=float32)
    """
    number = int(d)  # type: ignore[arg-type]
    x = lifted(inexact("multigammaln", a))
    steps = jnp.arange(number, dtype=x.dtype).reshape((1,) * x.ndim + (number,))
    terms = gammaln(x[..., None] - 0.5 * steps)
    return jnp.sum(terms, axis=-1) + number * (number - 1) / 4 * _LOG_PI


_FEW = 12


@custom_jvp
def _poch(z: Any, m: Any) -> Any:
    end = z + m
    limit = 170.0 if z.dtype == np.float64 else 34.0
    pole, end_pole = (_is_pole(x) for x in (z, end))
    both = pole & end_pole
    # Where both gamma functions have poles, their mirror images do not.
    bottom = jnp.where(both, 1 - end, z)
    top = jnp.where(both, 1 - z, end)
    direct = (jnp.abs(top) < limit) & (jnp.abs(bottom) < limit)
    x, y = (jnp.where(direct & ~_is_pole(v), v, 1.0) for v in (top, bottom))
    ratio = gamma_of_real(x) / gamma_of_real(y)
    logs = jnp.exp(ops.lgamma(top) - ops.lgamma(bottom))
    value = jnp.where(direct, ratio, gamma_sign(top) * gamma_sign(bottom) * logs)
    odd = m != 2 * jnp.floor(0.5 * m)
    value = jnp.where(both & odd, -value, value)
    value = jnp.where(pole & ~end_pole, 0, jnp.where(end_pole & ~pole, math.inf, value))
    # A few steps are a product, which the rounding of z + m does not touch.
    few = (m == jnp.floor(m)) & (jnp.abs(m) <= _FEW)
    up, down = jnp.ones_like(z), jnp.ones_like(z)
    for k in range(_FEW):
        up = jnp.where(k < m, up * (z + k), up)
        down = jnp.where(k < -m, down * (z - (k + 1)), down)
    return jnp.where(few, jnp.where(m < 0, 1 / down, up), value)


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


@_poch.defjvp
def _poch_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (z, m), (dz, dm) = primals, tangents
    value, end = _poch(z, m), ops.digamma(z + m)
    return value, value * (dz * (end - ops.digamma(z)) + dm * end)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Return the rising factorial gamma(z + m) / gamma(z).

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.poch(2.0, 3.0).round(4)
        Array(24., dtype=float32)
    """
    (x, y), result = real_operands("poch", z, m)
    return narrowed(_poch(x, y), result)
