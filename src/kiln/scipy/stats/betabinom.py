"""The beta-binomial distribution: binomial, with a probability drawn from beta(a, b)."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_inexact
from kiln.scipy.special import betaln
from kiln.scipy.stats.support import inside, whole_numbers

__all__ = ["logpmf", "pmf"]


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k`.

    Shapes: the arguments broadcast. `k` of `n` trials succeed, with a probability drawn from
        beta(`a`, `b`); nan for parameters out of range.
    Example:
        >>> kiln.scipy.stats.betabinom.logpmf(jnp.array([0, 1]), 2, 1.0, 1.0).round(4)
        Array([-1.0986, -1.0986], dtype=float32, weak_type=True)
    """
    k, n, a, b, loc = promote_inexact("betabinom.logpmf", k, n, a, b, loc)
    x = k - loc
    fine = whole_numbers(x) & (x >= 0) & (x <= n)
    y = jnp.where(fine, x, 0)
    ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
    value = ways + betaln(y + a, n - y + b) - betaln(a, b)
    out = inside(fine, x, value, -math.inf)
    return jnp.where((n >= 0) & (a > 0) & (b > 0), out, math.nan)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `k` of `n` trials succeed, with a probability drawn from
        beta(`a`, `b`); nan for parameters out of range.
    Example:
        >>> kiln.scipy.stats.betabinom.pmf(jnp.array([0, 1]), 2, 1.0, 1.0).round(4)
        Array([0.3333, 0.3333], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, a, b, loc))


_suggest_names(globals())
