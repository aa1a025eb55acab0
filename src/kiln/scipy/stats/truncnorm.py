"""The normal distribution between `a` and `b` deviations."""

from __future__ import annotations

import math
from typing import Any

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.activations import log1mexp
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import log_ndtr, ndtr
from kiln.scipy.stats.support import inside

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_mass(a: Any, b: Any) -> Any:
    """Return the logarithm of the normal probability of [a, b], from the nearer tail."""
    right = a > 0
    one_tail = right | (b <= 0)
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    log_low = log_ndtr(jnp.where(one_tail, low, -2))
    log_high = log_ndtr(jnp.where(one_tail, high, -1))
    gap = log_high - log_low
    empty = gap <= 0
    tail = jnp.where(empty, -math.inf, log_high + log1mexp(jnp.where(empty, 1, gap)))
    outer = jnp.where(one_tail, -1, a), jnp.where(one_tail, 1, b)
    return jnp.where(one_tail, tail, jnp.log1p(-ndtr(outer[0]) - ndtr(-outer[1])))


def _checked(a: Any, b: Any, value: Any) -> Any:
    return jnp.where(a < b, value, math.nan)


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.logpdf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([-0.5372, -0.6622], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    value = -0.5 * (z * z) - (0.5 * math.log(2 * math.pi) + jnp.log(scale)) - _log_mass(a, b)
    return _checked(a, b, inside((z >= a) & (z <= b), z, value, -math.inf))


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.pdf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([0.5844, 0.5157], dtype=float32)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.logcdf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([-0.6931, -0.2479], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("truncnorm.logcdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    within = jnp.clip(z, a, b)
    value = _log_mass(a, within) - _log_mass(a, b)
    value = jnp.where(z <= a, -math.inf, jnp.where(z >= b, 0, value))
    return _checked(a, b, value)


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.cdf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([0.5   , 0.7805], dtype=float32)
    """
    return jnp.exp(logcdf(x, a, b, loc, scale))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.logsf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([-0.6931, -1.5162], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("truncnorm.logsf", x, a, b, loc, scale)
    z = (x - loc) / scale
    within = jnp.clip(z, a, b)
    value = _log_mass(within, b) - _log_mass(a, b)
    value = jnp.where(z <= a, 0, jnp.where(z >= b, -math.inf, value))
    return _checked(a, b, value)


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `a` and `b` are the bounds of (x - loc) / scale; nan unless a <
        b.
    Example:
        >>> kiln.scipy.stats.truncnorm.sf(jnp.array([0.0, 0.5]), -1.0, 1.0).round(4)
        Array([0.5   , 0.2195], dtype=float32)
    """
    return jnp.exp(logsf(x, a, b, loc, scale))


_suggest_names(globals())
