"""The wrapped Cauchy distribution on [0, 2 pi], for 0 < c < 1."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.stats.support import inside

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `c`, between 0 and 1, is the concentration; x is in [0, 2 pi].
    Example:
        >>> kiln.scipy.stats.wrapcauchy.logpdf(jnp.array([0.5, 1.0]), 0.5).round(4)
        Array([-1.1378, -1.7826], dtype=float32)
    """
    x, c = promote_inexact("wrapcauchy.logpdf", x, c)
    half = jnp.sin(0.5 * x)
    less = 1 - c
    below = less * less + 4 * c * half * half
    value = jnp.log(less * (1 + c) / (2 * math.pi * below))
    value = inside((x >= 0) & (x <= 2 * math.pi), x, value, -math.inf)
    return jnp.where((c > 0) & (c < 1), value, math.nan)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `c`, between 0 and 1, is the concentration; x is in [0, 2 pi].
    Example:
        >>> kiln.scipy.stats.wrapcauchy.pdf(jnp.array([0.5, 1.0]), 0.5).round(4)
        Array([0.3205, 0.1682], dtype=float32)
    """
    return jnp.exp(logpdf(x, c))


_suggest_names(globals())
