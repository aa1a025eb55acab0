"""Samplers as functions of quantiles of gamma distributions: what their derivatives are those of.

Rejection decides which sample is drawn, so samples jump as parameters move. What has a derivative
is the quantile of each gamma variate that a sample is made of, at the probability that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from tests.derivatives.row import Row, known_names

Gamma = Callable[[Any, np.ndarray], np.ndarray]
"""Returns the gamma variates that a key draws, given their shape parameters."""


def _beta(lib: Any, gamma: Gamma, key: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    one, other = lib.random.split(key)
    first, second = gamma(one, a), gamma(other, b)
    return first / (first + second)


def _f(lib: Any, gamma: Gamma, key: Any, above: np.ndarray, below: np.ndarray) -> np.ndarray:
    one, other = lib.random.split(key)
    return (gamma(other, above / 2) / above) / (gamma(one, below / 2) / below)


def _t(lib: Any, gamma: Gamma, key: Any, freedom: np.ndarray) -> np.ndarray:
    one, other = lib.random.split(key)
    drawn = np.asarray(lib.random.normal(one, freedom.shape))
    return drawn * np.sqrt(freedom / 2 / gamma(other, freedom / 2))


def _dirichlet(lib: Any, gamma: Gamma, key: Any, alpha: np.ndarray) -> np.ndarray:
    parts = gamma(key, alpha)
    return parts / parts.sum(-1, keepdims=True)


def _generalized_normal(lib: Any, gamma: Gamma, key: Any, p: np.ndarray) -> np.ndarray:
    one, other = lib.random.split(key)
    return np.asarray(lib.random.rademacher(other, p.shape)) * gamma(one, 1 / p) ** (1 / p)


MADE_OF_GAMMAS: dict[str, Callable[..., np.ndarray]] = {
    "beta": _beta,
    "chisquare": lambda lib, gamma, key, freedom: 2 * gamma(key, freedom / 2),
    "dirichlet": _dirichlet,
    "f": _f,
    "gamma": lambda lib, gamma, key, a: gamma(key, a),
    "generalized_normal": _generalized_normal,
    "loggamma": lambda lib, gamma, key, a: np.log(gamma(key, a)),
    "t": _t,
}
"""By sampler: its samples, given the variates of its keys."""


def quantiles(row: Row, lib: Any, primals: Sequence[np.ndarray]) -> Callable[..., list[np.ndarray]]:
    """Return the sampler of a row as a smooth function, which is the sampler at `primals`."""
    key = known_names(lib, row.module)["key"]
    probabilities: dict[bytes, np.ndarray] = {}

    def gamma(key: Any, shape: np.ndarray) -> np.ndarray:
        name = np.asarray(lib.random.key_data(key)).tobytes()
        if name not in probabilities:
            drawn = np.asarray(lib.random.gamma(key, shape))
            probabilities[name] = special.gammainc(shape, drawn)
        return special.gammaincinv(shape, probabilities[name])

    def samples(*xs: Any) -> list[np.ndarray]:
        return [MADE_OF_GAMMAS[row.subject](lib, gamma, key, *map(np.asarray, xs))]

    samples(*primals)
    return samples
