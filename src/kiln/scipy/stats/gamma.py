"""The gamma distribution, of density x^(a-1) exp(-x) / gamma(a) for x >= 0."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import gammainc, gammaincc, gammaln, xlogy
from kiln.scipy.stats.support import inside, log_of_part

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
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
    """
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    """
    x, a, loc, scale = promote_inexact("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    return gammainc(a, jnp.maximum(z, 0))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    """
    return log_of_part(cdf(x, a, loc, scale), sf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    """
    x, a, loc, scale = promote_inexact("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    return gammaincc(a, jnp.maximum(z, 0))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `a` is the positive shape parameter; values are x = loc + scale
        * z, z not negative.
    """
    return log_of_part(sf(x, a, loc, scale), cdf(x, a, loc, scale))
