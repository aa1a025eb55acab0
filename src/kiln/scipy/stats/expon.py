"""The exponential distribution, of density exp(-x) for x >= 0."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.activations import log1mexp
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import inside

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.expon.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-0., -1.], dtype=float32)
    """
    x, loc, scale = promote_inexact("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return inside(z >= 0, z, -z - jnp.log(scale), -math.inf)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.expon.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 0.3679], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.expon.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.6321], dtype=float32)
    """
    x, loc, scale = promote_inexact("expon.cdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.expm1(-jnp.maximum(z, 0))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Example:
        >>> kiln.scipy.stats.expon.logcdf(jnp.array([0.0, 1.0])).round(4)
        Array([   -inf, -0.4587], dtype=float32)
    """
    x, loc, scale = promote_inexact("expon.logcdf", x, loc, scale)
    z = (x - loc) / scale
    positive = z > 0
    return inside(positive, z, log1mexp(jnp.where(positive, z, 1)), -math.inf)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.expon.sf(jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 0.3679], dtype=float32)
    """
    x, loc, scale = promote_inexact("expon.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.exp(-jnp.maximum(z, 0))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Example:
        >>> kiln.scipy.stats.expon.logsf(jnp.array([0.0, 1.0])).round(4)
        Array([-0., -1.], dtype=float32)
    """
    x, loc, scale = promote_inexact("expon.logsf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.maximum(z, 0)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.expon.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([0.2877, 0.6931], dtype=float32)
    """
    q, loc, scale = promote_inexact("expon.ppf", q, loc, scale)
    return inside((q >= 0) & (q <= 1), q, loc - scale * jnp.log1p(-q), math.nan)


_suggest_names(globals())
