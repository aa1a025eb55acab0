"""The logistic distribution, of distribution function 1 / (1 + exp(-x))."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import expit, logit

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`."""
    x, loc, scale = promote_inexact("logistic.logpdf", x, loc, scale)
    z = (x - loc) / scale
    size = jnp.abs(z)
    return -size - 2 * jnp.log1p(jnp.exp(-size)) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`."""
    x, loc, scale = promote_inexact("logistic.cdf", x, loc, scale)
    z = (x - loc) / scale
    return expit(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`."""
    x, loc, scale = promote_inexact("logistic.sf", x, loc, scale)
    z = (x - loc) / scale
    return expit(-z)


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `x`."""
    x, loc, scale = promote_inexact("logistic.ppf", x, loc, scale)
    return loc + scale * logit(x)


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability `x`."""
    x, loc, scale = promote_inexact("logistic.isf", x, loc, scale)
    return loc - scale * logit(x)
