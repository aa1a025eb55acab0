"""The normal distribution."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import log_ndtr, ndtr, ndtri

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.norm.logpdf(jnp.array([0.0, 1.96])).round(4)
        Array([-0.9189, -2.8397], dtype=float32)
    """
    x, loc, scale = promote_inexact("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * (z * z) - (0.5 * math.log(2 * math.pi) + jnp.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.norm.pdf(jnp.array([0.0, 1.96])).round(4)
        Array([0.3989, 0.0584], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.norm.cdf(jnp.array([0.0, 1.96])).round(4)
        Array([0.5  , 0.975], dtype=float32)
    """
    x, loc, scale = promote_inexact("norm.cdf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Example:
        >>> kiln.scipy.stats.norm.logcdf(jnp.array([0.0, 1.96])).round(4)
        Array([-0.6931, -0.0253], dtype=float32)
    """
    x, loc, scale = promote_inexact("norm.logcdf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.norm.sf(jnp.array([0.0, 1.96])).round(4)
        Array([0.5  , 0.025], dtype=float32)
    """
    x, loc, scale = promote_inexact("norm.sf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Example:
        >>> kiln.scipy.stats.norm.logsf(jnp.array([0.0, 1.96])).round(4)
        Array([-0.6931, -3.689 ], dtype=float32)
    """
    x, loc, scale = promote_inexact("norm.logsf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(-z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.norm.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([-0.6745,  0.    ], dtype=float32)
    """
    q, loc, scale = promote_inexact("norm.ppf", q, loc, scale)
    return loc + scale * ndtri(q)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.norm.isf(jnp.array([0.25, 0.5])).round(4)
        Array([0.6745, 0.    ], dtype=float32)
    """
    q, loc, scale = promote_inexact("norm.isf", q, loc, scale)
    return loc - scale * ndtri(q)


_suggest_names(globals())
