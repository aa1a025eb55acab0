"""The binomial distribution: successes in `n` trials of probability `p`."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import betaln, xlog1py, xlogy
from kiln.scipy.stats.support import inside, whole_numbers

__all__ = ["logpmf", "pmf"]


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k`.

    Shapes: the arguments broadcast. `k` of `n` trials succeed, each with probability `p`; values
        are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.binom.logpmf(jnp.array([0, 1, 2]), 2, 0.5).round(4)
        Array([-1.3863, -0.6931, -1.3863], dtype=float32, weak_type=True)
    """
    k, n, p, loc = promote_inexact("binom.logpmf", k, n, p, loc)
    x = k - loc
    fine = whole_numbers(x) & (x >= 0) & (x <= n)
    y = jnp.where(fine, x, 0)
    ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
    value = ways + xlogy(y, p) + xlog1py(n - y, -p)
    return inside(fine, x, value, -math.inf)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `k` of `n` trials succeed, each with probability `p`; values
        are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.binom.pmf(jnp.array([0, 1, 2]), 2, 0.5).round(4)
        Array([0.25, 0.5 , 0.25], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


_suggest_names(globals())
