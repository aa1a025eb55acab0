"""The Laplace distribution, of density exp(-|x|) / 2."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.laplace.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-0.6931, -1.6931], dtype=float32)
    """
    x, loc, scale = promote_inexact("laplace.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.abs(z) - jnp.log(2 * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.laplace.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5   , 0.1839], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.laplace.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5   , 0.8161], dtype=float32)
    """
    x, loc, scale = promote_inexact("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    tail = 0.5 * jnp.exp(-jnp.abs(z))
    return jnp.where(z <= 0, tail, 1 - tail)


_suggest_names(globals())
