"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import inside

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Example:
        >>> kiln.scipy.stats.uniform.logpdf(jnp.array([0.5, 2.0])).round(4)
        Array([ -0., -inf], dtype=float32)
    """
    x, loc, scale = promote_inexact("uniform.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return inside((z >= 0) & (z <= 1), z, -jnp.log(scale), -math.inf)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Example:
        >>> kiln.scipy.stats.uniform.pdf(jnp.array([0.5, 2.0])).round(4)
        Array([1., 0.], dtype=float32)
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of a value up to `x`.

    Example:
        >>> kiln.scipy.stats.uniform.cdf(jnp.array([0.5, 2.0])).round(4)
        Array([0.5, 1. ], dtype=float32)
    """
    x, loc, scale = promote_inexact("uniform.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.clip(z, 0, 1)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the value that is exceeded with probability 1 - `q`; nan for `q` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.uniform.ppf(jnp.array([0.25, 0.5])).round(4)
        Array([0.25, 0.5 ], dtype=float32)
    """
    q, loc, scale = promote_inexact("uniform.ppf", q, loc, scale)
    return inside((q >= 0) & (q <= 1), q, loc + scale * q, math.nan)


_suggest_names(globals())
