"""The Pareto distribution, of density b / x^(b+1) for x >= 1."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.activations import log1mexp
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import inside

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.logpdf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([-0.5232, -1.674 ], dtype=float32)
    """
    x, b, loc, scale = promote_inexact("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    within = z >= 1
    value = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.where(within, z, 1))
    return inside(within, z, value, -math.inf)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.pdf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([0.5926, 0.1875], dtype=float32)
    """
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.cdf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([0.7037, 0.875 ], dtype=float32)
    """
    return -jnp.expm1(logsf(x, b, loc, scale))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `cdf`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.logcdf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([-0.3514, -0.1335], dtype=float32)
    """
    return log1mexp(-logsf(x, b, loc, scale))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value above `x`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.sf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([0.2963, 0.125 ], dtype=float32)
    """
    return jnp.exp(logsf(x, b, loc, scale))


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of `sf`.

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.logsf(jnp.array([1.5, 2.0]), 3.0).round(4)
        Array([-1.2164, -2.0794], dtype=float32)
    """
    x, b, loc, scale = promote_inexact("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    return inside(z >= 1, z, -b * jnp.log(jnp.maximum(z, 1)), 0)


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1].

    Shapes: the arguments broadcast. `b` is the positive exponent of the tail z**-b; values are loc
        + scale * z, z at least 1.
    Example:
        >>> kiln.scipy.stats.pareto.ppf(jnp.array([0.25, 0.5]), 3.0).round(4)
        Array([1.1006, 1.2599], dtype=float32)
    """
    q, b, loc, scale = promote_inexact("pareto.ppf", q, b, loc, scale)
    value = loc + scale * jnp.exp(-jnp.log1p(-q) / b)
    return inside((q >= 0) & (q <= 1), q, value, math.nan)


_suggest_names(globals())
