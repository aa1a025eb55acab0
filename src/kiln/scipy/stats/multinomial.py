"""The multinomial distribution: counts of each of several results in `n` trials."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_dtypes_inexact
from kiln.scipy.special import gammaln, xlogy

__all__ = ["logpmf", "pmf"]


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the logarithm of the probability of counts `x`; -inf if their sum is not `n`.

    Shapes: (..., k), (...), (..., k) -> (...).
    Example:
        >>> counts, p = jnp.array([1, 1]), jnp.array([0.5, 0.5])
        >>> kiln.scipy.stats.multinomial.logpmf(counts, 2, p).round(4)
        Array(-0.6931, dtype=float32)
    """
    counts = jnp.asarray(x)
    trials = jnp.asarray(n)
    total = jnp.sum(counts, axis=-1)
    p, *_ = promote_dtypes_inexact(jnp.asarray(p))
    counts, number = counts.astype(p.dtype), trials.astype(p.dtype)
    value = gammaln(number + 1) + jnp.sum(xlogy(counts, p) - gammaln(counts + 1), axis=-1)
    return jnp.where((total == trials) & jnp.all(counts >= 0, axis=-1), value, -math.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the probability of counts `x`; see `logpmf`.

    `n` is the number of trials, `p` are the probabilities of the categories.

    Example:
        >>> kiln.scipy.stats.multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5])).round(4)
        Array(0.5, dtype=float32)
    """
    return jnp.exp(logpmf(x, n, p))


_suggest_names(globals())
