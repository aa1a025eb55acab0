"""The Cauchy distribution, of density 1 / (pi (1 + x^2))."""

from __future__ import annotations

import math
from typing import Any

from kiln import numpy as jnp
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
    """Return the logarithm of the density at `x`."""
    x, loc, scale = promote_inexact("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.log(math.pi * scale) - jnp.log1p(z * z)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`."""
    x, loc, scale = promote_inexact("cauchy.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(1, -z) / math.pi


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`."""
    return log_of_part(cdf(x, loc, scale), sf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`."""
    x, loc, scale = promote_inexact("cauchy.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(1, z) / math.pi


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`."""
    return log_of_part(sf(x, loc, scale), cdf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1]."""
    q, loc, scale = promote_inexact("cauchy.ppf", q, loc, scale)
    return loc + scale * _quantile(q)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability `q`; nan for `q` outside [0, 1]."""
    q, loc, scale = promote_inexact("cauchy.isf", q, loc, scale)
    return loc - scale * _quantile(q)
