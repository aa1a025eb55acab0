"""The logistic distribution, of distribution function 1 / (1 + exp(-x))."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import expit, logit

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.logistic.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.3863, -1.6265], dtype=float32)
    """
    x, loc, scale = promote_inexact("logistic.logpdf", x, loc, scale)
    z = (x - loc) / scale
    size = jnp.abs(z)
    return -size - 2 * jnp.log1p(jnp.exp(-size)) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.logistic.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.25  , 0.1966], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.logistic.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5   , 0.7311], dtype=float32)
    """
    x, loc, scale = promote_inexact("logistic.cdf", x, loc, scale)
    z = (x - loc) / scale
    return expit(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.logistic.sf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5   , 0.2689], dtype=float32)
    """
    x, loc, scale = promote_inexact("logistic.sf", x, loc, scale)
    z = (x - loc) / scale
    return expit(-z)


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `x`.

    Example:
        >>> kiln.scipy.stats.logistic.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([-1.0986,  0.    ], dtype=float32)
    """
    x, loc, scale = promote_inexact("logistic.ppf", x, loc, scale)
    return loc + scale * logit(x)


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability `x`.

    Example:
        >>> kiln.scipy.stats.logistic.isf(jnp.array([0.25, 0.5])).round(4)
        Array([1.0986, 0.    ], dtype=float32)
    """
    x, loc, scale = promote_inexact("logistic.isf", x, loc, scale)
    return loc - scale * logit(x)


_suggest_names(globals())
