"""The Bernoulli distribution: 1 with probability `p`, else 0."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import xlog1py, xlogy
from kiln.scipy.stats.support import inside

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k`.

    Shapes: the arguments broadcast. `p` is the probability of 1; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.bernoulli.logpmf(jnp.array([0, 1]), 0.25).round(4)
        Array([-0.2877, -1.3863], dtype=float32, weak_type=True)
    """
    k, p, loc = promote_inexact("bernoulli.logpmf", k, p, loc)
    x = k - loc
    value = xlogy(x, p) + xlog1py(1 - x, -p)
    return inside((x == 0) | (x == 1), x, value, -math.inf)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `p` is the probability of 1; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.bernoulli.pmf(jnp.array([0, 1]), 0.25).round(4)
        Array([0.75, 0.25], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Return the probability of a value up to `k`; nan for `p` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.bernoulli.cdf(jnp.array([0, 1]), 0.25).round(4)
        Array([0.75, 1.  ], dtype=float32, weak_type=True)
    """
    k, p = promote_inexact("bernoulli.cdf", k, p)
    value = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return inside((p >= 0) & (p <= 1), k, value, math.nan)


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """Return the least value with a `cdf` of at least `q`; nan for `q` or `p` outside [0, 1].

    Example:
        >>> kiln.scipy.stats.bernoulli.ppf(jnp.array([0.25, 0.5]), 0.25).round(4)
        Array([0., 0.], dtype=float32)
    """
    q, p = promote_inexact("bernoulli.ppf", q, p)
    value = jnp.where(q == 0, -1, jnp.where(q <= 1 - p, 0, 1))
    return inside((q >= 0) & (q <= 1) & (p >= 0) & (p <= 1), q, value, math.nan)


_suggest_names(globals())
