"""Products with logarithms that have a value at 0, divergences, and the Box-Cox transformation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln import numpy as jnp
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import inexact, promote_inexact
from kiln.scipy.special.series import horner, narrowed, real_operands


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    nonzero = x != 0
    found = x * jnp.log(jnp.where(nonzero, y, 1))
    return jnp.where(nonzero, found, jnp.where(jnp.isnan(y), y, 0))


@_xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * jnp.log(y) + dy * x / y


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(y); 0 where x is 0 and y is a number.

    Example:
        >>> float(kiln.scipy.special.xlogy(0.0, 0.0))
        0.0
    """
    return _xlogy(*promote_inexact("xlogy", x, y))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    nonzero = x != 0
    found = x * jnp.log1p(jnp.where(nonzero, y, 1))
    return jnp.where(nonzero, found, jnp.where(jnp.isnan(y), y, 0))


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * jnp.log1p(y) + dy * x / (1 + y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(1 + y); 0 where x is 0 and y is a number.

    Example:
        >>> kiln.scipy.special.xlog1py(0.0, -1.0), kiln.scipy.special.xlog1py(2.0, 1e-8)
        (Array(0., dtype=float32, weak_type=True), Array(2.e-08, dtype=float32, weak_type=True))
    """
    return _xlog1py(*promote_inexact("xlog1py", x, y))


def entr(x: ArrayLike) -> Array:
    """Return -x log(x); 0 at 0, and -inf for negative numbers.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.entr(jnp.array([0.0, 0.5, -1.0])).round(4)
        Array([-0.    ,  0.3466,    -inf], dtype=float32)
    """
    (y,), result = real_operands("entr", x)
    return narrowed(jnp.where(y < 0, -math.inf, -_xlogx(y)), result, weak=True)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return _xlogy(x, x)


@_xlogx.defjvp
def _xlogx_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    # By one argument: at 0 that is infinite, and by two it would be a nan.
    (x,), (t,) = primals, tangents
    return _xlogx(x), t * (jnp.log(x) + 1)


@custom_jvp
def _log_ratio(p: Any, q: Any) -> Any:
    # Near each other, p and q have logarithms that cancel.
    ratio = (p - q) / q
    close = jnp.abs(ratio) < 0.5
    return jnp.where(close, jnp.log1p(jnp.where(close, ratio, 0)), jnp.log(p) - jnp.log(q))


@_log_ratio.defjvp
def _log_ratio_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p, q), (dp, dq) = primals, tangents
    return _log_ratio(p, q), dp / p - dq / q


@custom_jvp
def _rel_entr(p: Any, q: Any) -> Any:
    return p * _log_ratio(p, q)


@_rel_entr.defjvp
def _rel_entr_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p, q), (dp, dq) = primals, tangents
    return _rel_entr(p, q), dp * (_log_ratio(p, q) + 1) - dq * (p / q)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p / q); 0 if p is 0 and q is not negative, else inf outside the domain.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.rel_entr(jnp.array([0.5, 0.0]), jnp.array([0.25, 1.0])).round(4)
        Array([0.3466, 0.    ], dtype=float32)
    """
    (p, q), result = real_operands("rel_entr", p, q)
    both, first = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    outside = jnp.where(jnp.isnan(p) | jnp.isnan(q), math.nan, math.inf)
    value = _rel_entr(jnp.where(both, p, 1), jnp.where(both, q, 1))
    return narrowed(jnp.where(both, value, jnp.where(first, 0, outside)), result, weak=True)


@custom_jvp
def _kl_div(p: Any, q: Any) -> Any:
    # p (r - log(1 + r)) with r = (q - p) / p, t = r / (2 + r), and log(1 + r) = 2 artanh(t).
    r = (q - p) / p
    close = jnp.abs(r) < 0.3
    r = jnp.where(close, r, 0)
    t = r / (2 + r)
    near = p * (r * t - 2 * t**3 * horner([1 / (2 * k + 3) for k in range(10)], t * t))
    return jnp.where(close, near, _rel_entr(p, q) - p + q)


@_kl_div.defjvp
def _kl_div_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (p, q), (dp, dq) = primals, tangents
    return _kl_div(p, q), dp * _log_ratio(p, q) + dq * ((q - p) / q)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p / q) - p + q, accurate where p and q are near each other.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.kl_div(jnp.array([0.5, 0.0]), jnp.array([0.25, 1.0])).round(4)
        Array([0.0966, 1.    ], dtype=float32)
    """
    (p, q), result = real_operands("kl_div", p, q)
    fine = (p > 0) & (q > 0)
    value = _kl_div(jnp.where(fine, p, 1), jnp.where(fine, q, 1))
    other = rel_entr(jnp.where(fine, 0, p), jnp.where(fine, 0, q)) - p + q
    return narrowed(jnp.where(fine, value, other), result, weak=True)


@custom_jvp
def _boxcox(x: Any, lmbda: Any) -> Any:
    none = lmbda == 0
    safe = jnp.where(none, 1, lmbda)
    return jnp.where(none, jnp.log(x), jnp.expm1(safe * jnp.log(x)) / safe)


def _slope_by_exponent(log_x: Any, lmbda: Any) -> Any:
    """Return the derivative of expm1(lmbda log_x) / lmbda by lmbda."""
    small = jnp.abs(lmbda * log_x) < 1e-3
    safe = jnp.where(small, 1, lmbda)
    y = safe * log_x
    far = (jnp.exp(y) * (y - 1) + 1) / (safe * safe)
    z = lmbda * log_x
    return jnp.where(small, log_x * log_x * (0.5 + z / 3 + z * z / 8), far)


@_boxcox.defjvp
def _boxcox_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, lmbda), (dx, dl) = primals, tangents
    by_x = jnp.exp((lmbda - 1) * jnp.log(x))
    return _boxcox(x, lmbda), dx * by_x + dl * _slope_by_exponent(jnp.log(x), lmbda)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return (x^lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    Source: Box and Cox, "An analysis of transformations" (1964).
    Example:
        >>> kiln.scipy.special.boxcox(jnp.array([1.0, 4.0]), 0.5)
        Array([0., 2.], dtype=float32)
    """
    return _boxcox(*promote_inexact("boxcox", x, lmbda))


@custom_jvp
def _boxcox1p(x: Any, lmbda: Any) -> Any:
    none = lmbda == 0
    safe = jnp.where(none, 1, lmbda)
    return jnp.where(none, jnp.log1p(x), jnp.expm1(safe * jnp.log1p(x)) / safe)


@_boxcox1p.defjvp
def _boxcox1p_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, lmbda), (dx, dl) = primals, tangents
    by_x = jnp.exp((lmbda - 1) * jnp.log1p(x))
    return _boxcox1p(x, lmbda), dx * by_x + dl * _slope_by_exponent(jnp.log1p(x), lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Return boxcox(1 + x, lmbda), accurate for small x.

    Example:
        >>> kiln.scipy.special.boxcox1p(1e-8, 0.5)
        Array(1.e-08, dtype=float32, weak_type=True)
    """
    return _boxcox1p(*promote_inexact("boxcox1p", x, lmbda))


@custom_jvp
def _logit(x: Any) -> Any:
    # log(x / (1 - x)) = 2 artanh(2x - 1), which loses nothing near 1/2.
    middle = jnp.abs(x - 0.5) < 0.25 if not jnp.iscomplexobj(x) else jnp.zeros_like(x, bool)
    near = 2 * jnp.arctanh(jnp.where(middle, 2 * x - 1, 0))
    return jnp.where(middle, near, jnp.log(x) - jnp.log1p(-x))


@_logit.defjvp
def _logit_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))


def logit(x: ArrayLike) -> Array:
    """Return log(x / (1 - x)), the inverse of expit.

    Example:
        >>> kiln.scipy.special.logit(jnp.array([0.0, 0.5, 1.0]))
        Array([-inf,   0.,  inf], dtype=float32)
    """
    return _logit(inexact("logit", x))
