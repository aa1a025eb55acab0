"""Student's t distribution of `df` degrees of freedom."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import betaln

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.t.logpdf(jnp.array([0.0, 1.0]), 3.0).round(4)
        Array([-1.0009, -1.5763], dtype=float32)
    """
    x, df, loc, scale = promote_inexact("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    half = 0.5 * df
    norm = betaln(half, 0.5) + 0.5 * jnp.log(df) + jnp.log(scale)
    return -norm - (half + 0.5) * jnp.log1p(z * (z / df))


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `df` are the degrees of freedom.
    Example:
        >>> kiln.scipy.stats.t.pdf(jnp.array([0.0, 1.0]), 3.0).round(4)
        Array([0.3676, 0.2067], dtype=float32)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


_suggest_names(globals())
