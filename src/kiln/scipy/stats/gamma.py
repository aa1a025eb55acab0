"""The gamma distribution, of density x^(a-1) exp(-x) / gamma(a) for x >= 0."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import gammainc, gammaincc, gammaln, xlogy
from kiln.scipy.stats.support import inside, log_of_part

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.logpdf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([-1.    , -1.3069], dtype=float32)
    """
    x, a, loc, scale = promote_inexact("gamma.logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    safe = jnp.where(z < 0, 1, z)
    value = xlogy(a - 1, safe) - safe - gammaln(a) - jnp.log(scale)
    return inside(z >= 0, z, value, -math.inf)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.pdf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([0.3679, 0.2707], dtype=float32)
    """
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.cdf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([0.2642, 0.594 ], dtype=float32)
    """
    x, a, loc, scale = promote_inexact("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    return gammainc(a, jnp.maximum(z, 0))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.logcdf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([-1.3309, -0.5209], dtype=float32)
    """
    return log_of_part(cdf(x, a, loc, scale), sf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.sf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([0.7358, 0.406 ], dtype=float32)
    """
    x, a, loc, scale = promote_inexact("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    return gammaincc(a, jnp.maximum(z, 0))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    Example:
        >>> kiln.scipy.stats.gamma.logsf(jnp.array([1.0, 2.0]), 2.0).round(4)
        Array([-0.3069, -0.9014], dtype=float32)
    """
    return log_of_part(sf(x, a, loc, scale), cdf(x, a, loc, scale))


_suggest_names(globals())
