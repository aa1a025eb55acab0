"""The normal distribution: density and its logarithm."""

from __future__ import annotations

import math

from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.elementary import exp, log
from kiln.numpy.promotion import promote_inexact

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at `x`."""
    x, loc, scale = promote_inexact("norm.logpdf", x, loc, scale)
    square = scale * scale
    return -(log(2 * math.pi * square) + (x - loc) * (x - loc) / square) / 2


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at `x`."""
    return exp(logpdf(x, loc, scale))
