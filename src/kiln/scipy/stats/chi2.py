"""The chi-squared distribution of `df` degrees of freedom: a gamma distribution."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats import gamma

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.logpdf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([-1.4189, -1.8696], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.logpdf", x, df, loc, scale)
    return gamma.logpdf(x, 0.5 * df, loc, 2 * scale)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.pdf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([0.242 , 0.1542], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.pdf", x, df, loc, scale)
    return gamma.pdf(x, 0.5 * df, loc, 2 * scale)


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.cdf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([0.1987, 0.6084], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.cdf", x, df, loc, scale)
    return gamma.cdf(x, 0.5 * df, loc, 2 * scale)


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.logcdf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([-1.6157, -0.497 ], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.logcdf", x, df, loc, scale)
    return gamma.logcdf(x, 0.5 * df, loc, 2 * scale)


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.sf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([0.8013, 0.3916], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.sf", x, df, loc, scale)
    return gamma.sf(x, 0.5 * df, loc, 2 * scale)


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.chi2.logsf(jnp.array([1.0, 3.0]), 3.0).round(4)
        Array([-0.2216, -0.9375], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("chi2.logsf", x, df, loc, scale)
    return gamma.logsf(x, 0.5 * df, loc, 2 * scale)


_suggest_names(globals())
