"""The Dirichlet distribution: points of the simplex along the first axis."""

from __future__ import annotations

import math
from typing import Any

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import lifted, promote_dtypes_inexact
from kiln.scipy.special import gammaln, xlogy

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the logarithm of the density at `x`; -inf outside of the simplex.

    The last coordinate may be left out.

    Shapes: (k, ...) or (k - 1, ...), and (k,) -> (...).
    Raises: ValueError for other shapes.
    Example:
        >>> x, alpha = jnp.array([0.25, 0.75]), jnp.array([2.0, 2.0])
        >>> kiln.scipy.stats.dirichlet.logpdf(x, alpha).round(4)
        Array(0.1178, dtype=float32)
    """
    point, concentration = (
        lifted(y) for y in promote_dtypes_inexact(jnp.asarray(x), jnp.asarray(alpha))
    )
    count = concentration.shape[0] if concentration.ndim == 1 else -1
    if point.ndim == 0 or point.shape[0] not in (count, count - 1):
        raise ValueError(
            three_lines(
                f"dirichlet.logpdf of {point.aval}, {concentration.aval} at {current_source()}",
                "`x` must have either the same number of entries as `alpha` or one entry fewer; "
                f"got x.shape={point.shape}, alpha.shape={concentration.shape}",
                "pass alpha of shape (k,) and x of shape (k, ...)",
            )
        )
    if point.shape[0] != count:
        point = jnp.concatenate([point, 1 - jnp.sum(point, axis=0, keepdims=True)])
    norm = jnp.sum(gammaln(concentration)) - gammaln(jnp.sum(concentration))
    powers = concentration.reshape((-1,) + (1,) * (point.ndim - 1)) - 1
    value = jnp.sum(xlogy(powers, point), axis=0) - norm
    return jnp.where(_on_simplex(point), value, -math.inf)


def _on_simplex(x: Any) -> Any:
    # Points are rounded when they are made.
    slack = max(1e-6, 4 * float(dtypes.finfo(x.dtype).eps))
    return jnp.all(x >= 0, axis=0) & (jnp.abs(jnp.sum(x, axis=0) - 1) < slack)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the density at `x`; see `logpdf`.

    `alpha` are the positive parameters.

    Example:
        >>> kiln.scipy.stats.dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([2.0, 2.0])).round(4)
        Array(1.125, dtype=float32)
    """
    return jnp.exp(logpdf(x, alpha))


_suggest_names(globals())
