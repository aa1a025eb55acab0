"""The Poisson distribution of mean `mu`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.control.loops.loops import scan
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import lifted, promote_inexact
from kiln.scipy.special import gammaincc, gammaln, xlogy
from kiln.scipy.stats.support import inside, whole_numbers

__all__ = ["cdf", "entropy", "logpmf", "pmf"]


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k`.

    Shapes: the arguments broadcast. `mu` is the mean; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.poisson.logpmf(jnp.array([0, 1]), 1.0).round(4)
        Array([-1., -1.], dtype=float32, weak_type=True)
    """
    k, mu, loc = promote_inexact("poisson.logpmf", k, mu, loc)
    x = k - loc
    fine = whole_numbers(x) & (x >= 0)
    y = jnp.where(fine, x, 0)
    value = xlogy(y, mu) - gammaln(y + 1) - mu
    return inside(fine, x, value, -math.inf)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k`.

    Shapes: the arguments broadcast. `mu` is the mean; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.poisson.pmf(jnp.array([0, 1]), 1.0).round(4)
        Array([0.3679, 0.3679], dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of a value up to `k`.

    Shapes: the arguments broadcast. `mu` is the mean; values are moved by `loc`.
    Example:
        >>> kiln.scipy.stats.poisson.cdf(jnp.array([0, 1]), 1.0).round(4)
        Array([0.3679, 0.7358], dtype=float32, weak_type=True)
    """
    k, mu, loc = promote_inexact("poisson.cdf", k, mu, loc)
    x = jnp.floor(k - loc)
    value = gammaincc(jnp.maximum(x, 0) + 1, mu)
    return inside(x >= 0, x, value, 0)


_MOST_SUMMED = 60.0
_TERMS = 160


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the entropy in nats: a sum over values, and for large means its asymptotic series.

    Source: Evans, Boersma, Blachman and Jagers, "The entropy of a Poisson distribution" (1988).
    Example:
        >>> kiln.scipy.stats.poisson.entropy(jnp.array([1.0, 100.0])).round(4)
        Array([1.3048, 3.7207], dtype=float32)
    """
    mu, loc = (lifted(x) for x in promote_inexact("poisson.entropy", mu, loc))
    large = mu > _MOST_SUMMED
    near = jnp.where(large | (mu <= 0), 1, mu)
    logs = np.cumsum(np.log(np.arange(1, _TERMS + 1))).astype(near.dtype)
    numbers = np.arange(1, _TERMS + 1).astype(near.dtype)

    def step(carry: Any, row: Any) -> Any:
        weight, total = carry
        number, log = row
        weight = weight * near / number
        return (weight, total + weight * log), None

    (_, total), _ = scan(step, (jnp.exp(-near), jnp.zeros_like(near)), (numbers, logs))
    summed = near * (1 - jnp.log(near)) + total
    far = 1 / jnp.where(large, mu, 1)
    rest = far * (1 / 12 + far * (1 / 24 + far * (19 / 360 + far * (9 / 80 + far * 863 / 2520))))
    series = 0.5 * (math.log(2 * math.pi * math.e) - jnp.log(far)) - rest
    value = jnp.where(mu == 0, 0, jnp.where(large, series, summed))
    return jnp.where(mu < 0, math.nan, value) + 0 * loc


_suggest_names(globals())
