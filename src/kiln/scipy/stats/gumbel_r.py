"""The Gumbel distribution of maxima, of distribution function exp(-exp(-x))."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import log_of_part, positive

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.    , -1.3679], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return -z - jnp.exp(-z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.3679, 0.2546], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.logcdf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.    , -0.3679], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_r.logcdf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return -jnp.exp(-z)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.3679, 0.6922], dtype=float32)
    """
    return jnp.exp(logcdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.sf(jnp.array([0.0, 1.0])).round(4)
        Array([0.6321, 0.3078], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_r.sf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return -jnp.expm1(-jnp.exp(-z))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Example:
        >>> kiln.scipy.stats.gumbel_r.logsf(jnp.array([0.0, 1.0])).round(4)
        Array([-0.4587, -1.1783], dtype=float32)
    """
    return log_of_part(sf(x, loc, scale), cdf(x, loc, scale))


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `p`; nan for `p` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.gumbel_r.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([-0.3266,  0.3665], dtype=float32)
    """
    p, loc, scale = promote_inexact("gumbel_r.ppf", p, loc, scale)
    return loc - scale * jnp.log(-jnp.log(p))


_suggest_names(globals())
