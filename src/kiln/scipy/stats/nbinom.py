"""The negative binomial distribution: failures before `n` successes of probability `p`."""

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

    Shapes: the arguments broadcast. `k` trials fail before `n` succeed, each with probability `p`;
        values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.nbinom.logpmf(jnp.array([0, 1]), 2, 0.5).round(4)
        Array([-1.3863, -1.3863], dtype=float32, weak_type=True)
    """
    k, n, p, loc = promote_inexact("nbinom.logpmf", k, n, p, loc)
    x = k - loc
    fine = whole_numbers(x) & (x >= 0)
    y = jnp.where(fine, x, 0)
    ways = -jnp.log(n + y) - betaln(n, y + 1)
    value = ways + xlogy(n, p) + xlog1py(y, -p)
    return inside(fine, x, value, -math.inf)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `k` trials fail before `n` succeed, each with probability `p`;
        values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.nbinom.pmf(jnp.array([0, 1]), 2, 0.5).round(4)
        Array([0.25, 0.25], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


_suggest_names(globals())
