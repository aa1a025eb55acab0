"""The von Mises distribution on the circle, of density proportional to exp(kappa cos(x))."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import i0e

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Return the logarithm of the density at `x`.

    Shapes: the arguments broadcast. `kappa` is the concentration: 0 is the uniform distribution.
    Example:
        >>> kiln.scipy.stats.vonmises.logpdf(jnp.array([0.0, 1.0]), 2.0).round(4)
        Array([-0.6619, -1.5813], dtype=float32)
    """
    x, kappa = promote_inexact("vonmises.logpdf", x, kappa)
    half = jnp.sin(0.5 * x)
    # cos(x) - 1 keeps the exponential of a large kappa out of the way.
    value = -2 * kappa * half * half - math.log(2 * math.pi) - jnp.log(i0e(kappa))
    return jnp.where(kappa < 0, math.nan, value)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Return the density at `x`.

    Shapes: the arguments broadcast. `kappa` is the concentration: 0 is the uniform distribution.
    Example:
        >>> kiln.scipy.stats.vonmises.pdf(jnp.array([0.0, 1.0]), 2.0).round(4)
        Array([0.5159, 0.2057], dtype=float32)
    """
    return jnp.exp(logpdf(x, kappa))


_suggest_names(globals())
