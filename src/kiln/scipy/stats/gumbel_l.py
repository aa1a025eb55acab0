"""The Gumbel distribution of minima, of survival function exp(-exp(x))."""

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
        >>> kiln.scipy.stats.gumbel_l.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.    , -1.7183], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return z - jnp.exp(z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_l.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.3679, 0.1794], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_l.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.6321, 0.934 ], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_l.cdf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return -jnp.expm1(-jnp.exp(z))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Example:
        >>> kiln.scipy.stats.gumbel_l.logcdf(jnp.array([0.0, 1.0])).round(4)
        Array([-0.4587, -0.0683], dtype=float32)
    """
    return log_of_part(cdf(x, loc, scale), sf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Example:
        >>> kiln.scipy.stats.gumbel_l.logsf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.    , -2.7183], dtype=float32)
    """
    x, loc, scale = promote_inexact("gumbel_l.logsf", x, loc, scale)
    z = (x - loc) / positive(scale)
    return -jnp.exp(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.gumbel_l.sf(jnp.array([0.0, 1.0])).round(4)
        Array([0.3679, 0.066 ], dtype=float32)
    """
    return jnp.exp(logsf(x, loc, scale))


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `p`; nan for `p` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.gumbel_l.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([-1.2459, -0.3665], dtype=float32)
    """
    p, loc, scale = promote_inexact("gumbel_l.ppf", p, loc, scale)
    return loc + scale * jnp.log(-jnp.log1p(-p))


_suggest_names(globals())
