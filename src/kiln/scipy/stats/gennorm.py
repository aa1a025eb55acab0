"""The generalized normal distribution, of density proportional to exp(-|x|^beta)."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import gammaincc, gammaln
from kiln.scipy.stats.support import positive

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. The density is proportional to exp(-|x|**beta), with positive
        `beta`.
    Example:
        >>> kiln.scipy.stats.gennorm.logpdf(jnp.array([0.0, 1.0]), 1.5).round(4)
        Array([-0.5908, -1.5908], dtype=float32)
    """
    x, beta = promote_inexact("gennorm.logpdf", x, beta)
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. The density is proportional to exp(-|x|**beta), with positive
        `beta`.
    Example:
        >>> kiln.scipy.stats.gennorm.pdf(jnp.array([0.0, 1.0]), 1.5).round(4)
        Array([0.5539, 0.2038], dtype=float32)
    """
    return jnp.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. The density is proportional to exp(-|x|**beta), with positive
        `beta`.
    Example:
        >>> kiln.scipy.stats.gennorm.cdf(jnp.array([0.0, 1.0]), 1.5).round(4)
        Array([0.5   , 0.8876], dtype=float32)
    """
    x, beta = promote_inexact("gennorm.cdf", x, beta)
    beta = positive(beta)
    tail = 0.5 * gammaincc(1 / beta, jnp.abs(x) ** beta)
    return jnp.where(x < 0, tail, 1 - tail)


_suggest_names(globals())
