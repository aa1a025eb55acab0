"""The chi-squared distribution of `df` degrees of freedom: a gamma distribution."""

from __future__ import annotations

from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats import gamma

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.logpdf", x, df, loc, scale)
    return gamma.logpdf(x, 0.5 * df, loc, 2 * scale)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.pdf", x, df, loc, scale)
    return gamma.pdf(x, 0.5 * df, loc, 2 * scale)


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.cdf", x, df, loc, scale)
    return gamma.cdf(x, 0.5 * df, loc, 2 * scale)


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.logcdf", x, df, loc, scale)
    return gamma.logcdf(x, 0.5 * df, loc, 2 * scale)


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.sf", x, df, loc, scale)
    return gamma.sf(x, 0.5 * df, loc, 2 * scale)


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    """
    x, df, loc, scale = promote_inexact("chi2.logsf", x, df, loc, scale)
    return gamma.logsf(x, 0.5 * df, loc, 2 * scale)
