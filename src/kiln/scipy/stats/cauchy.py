"""The Cauchy distribution, of density 1 / (pi (1 + x^2))."""

from __future__ import annotations

import math
from typing import Any

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import log_of_part

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _quantile(q: Any) -> Any:
    # Near 0 and 1 the cotangent is exact where the tangent of pi (q - 1/2) is not.
    left, right = q < 0.25, q > 0.75
    distance = jnp.where(left, q, jnp.where(right, 1 - q, 0.25))
    outer = 1 / jnp.tan(math.pi * distance)
    middle = jnp.tan(math.pi * (jnp.where(left | right, 0.5, q) - 0.5))
    out = jnp.where(left, -outer, jnp.where(right, outer, middle))
    return jnp.where((q < 0) | (q > 1), math.nan, out)


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.cauchy.logpdf(jnp.array([0.0, 1.0])).round(4)
        Array([-1.1447, -1.8379], dtype=float32)
    """
    x, loc, scale = promote_inexact("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.log(math.pi * scale) - jnp.log1p(z * z)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.cauchy.pdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.3183, 0.1592], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.cauchy.cdf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5 , 0.75], dtype=float32)
    """
    x, loc, scale = promote_inexact("cauchy.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(1, -z) / math.pi


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Example:
        >>> kiln.scipy.stats.cauchy.logcdf(jnp.array([0.0, 1.0])).round(4)
        Array([-0.6931, -0.2877], dtype=float32)
    """
    return log_of_part(cdf(x, loc, scale), sf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Example:
        >>> kiln.scipy.stats.cauchy.sf(jnp.array([0.0, 1.0])).round(4)
        Array([0.5 , 0.25], dtype=float32)
    """
    x, loc, scale = promote_inexact("cauchy.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(1, z) / math.pi


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Example:
        >>> kiln.scipy.stats.cauchy.logsf(jnp.array([0.0, 1.0])).round(4)
        Array([-0.6931, -1.3863], dtype=float32)
    """
    return log_of_part(sf(x, loc, scale), cdf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.cauchy.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([-1.,  0.], dtype=float32)
    """
    q, loc, scale = promote_inexact("cauchy.ppf", q, loc, scale)
    return loc + scale * _quantile(q)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.cauchy.isf(jnp.array([0.25, 0.5])).round(4)
        Array([1., 0.], dtype=float32)
    """
    q, loc, scale = promote_inexact("cauchy.isf", q, loc, scale)
    return loc - scale * _quantile(q)


_suggest_names(globals())
