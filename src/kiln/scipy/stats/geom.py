"""The geometric distribution: trials of probability `p` up to the first success."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import xlog1py
from kiln.scipy.stats.support import inside, whole_numbers

__all__ = ["logpmf", "pmf"]


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k`.

    Shapes: the arguments broadcast. `k` is the number of trials up to the first success, each with
        probability `p`; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.geom.logpmf(jnp.array([1, 2]), 0.5).round(4)
        Array([-0.6931, -1.3863], dtype=float32, weak_type=True)
    """
    k, p, loc = promote_inexact("geom.logpmf", k, p, loc)
    x = k - loc
    fine = whole_numbers(x) & (x >= 1)
    value = xlog1py(jnp.where(fine, x, 1) - 1, -p) + jnp.log(p)
    return inside(fine, x, value, -math.inf)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `k` is the number of trials up to the first success, each with
        probability `p`; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.geom.pmf(jnp.array([1, 2]), 0.5).round(4)
        Array([0.5 , 0.25], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


_suggest_names(globals())
