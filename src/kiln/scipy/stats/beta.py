"""The beta distribution, of density x^(a-1) (1-x)^(b-1) / beta(a, b) on [0, 1]."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import betainc, betaln, xlog1py, xlogy
from kiln.scipy.stats.support import inside, log_of_part

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.logpdf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([0.1178, 0.4055], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("beta.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    within = (z >= 0) & (z <= 1)
    safe = jnp.where(within, z, 0.5)
    value = xlogy(a - 1, safe) + xlog1py(b - 1, -safe) - betaln(a, b) - jnp.log(scale)
    out = inside(within, z, value, -math.inf)
    return jnp.where((a > 0) & (b > 0) & (scale > 0), out, math.nan)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.pdf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([1.125, 1.5  ], dtype=float32)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.cdf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([0.1562, 0.5   ], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("beta.cdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return betainc(a, b, jnp.clip(z, 0, 1))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.logcdf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([-1.8563, -0.6931], dtype=float32)
    """
    return log_of_part(cdf(x, a, b, loc, scale), sf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.sf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([0.8438, 0.5   ], dtype=float32)
    """
    x, a, b, loc, scale = promote_inexact("beta.sf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return betainc(b, a, jnp.clip(1 - z, 0, 1))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `a` and `b` are the positive shape parameters; values are x =
        loc + scale * z, z in [0, 1].
    Example:
        >>> kiln.scipy.stats.beta.logsf(jnp.array([0.25, 0.5]), 2.0, 2.0).round(4)
        Array([-0.1699, -0.6931], dtype=float32)
    """
    return log_of_part(sf(x, a, b, loc, scale), cdf(x, a, b, loc, scale))


_suggest_names(globals())
