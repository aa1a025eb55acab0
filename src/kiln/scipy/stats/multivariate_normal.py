"""The normal distribution of vectors."""

from __future__ import annotations

import math

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_dtypes_inexact
from kiln.ops.linear.linalg import cholesky, triangular_solve

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Return the logarithm of the density at `x`, by a Cholesky factor of the covariance.

    Shapes: (..., n), (..., n), (..., n, n) -> (...); for numbers, (...), (), () -> (...).
    Raises: ValueError for other shapes, NotImplementedError for `allow_singular`.
    Example:
        >>> zero = jnp.zeros(2)
        >>> kiln.scipy.stats.multivariate_normal.logpdf(zero, zero, jnp.eye(2)).round(4)
        Array(-1.8379, dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError(
            three_lines(
                f"logpdf with allow_singular={allow_singular} at {current_source()}",
                "allow_singular argument of multivariate_normal.logpdf",
                "add a small multiple of the identity to the covariance",
            )
        )
    x, mean, cov = promote_dtypes_inexact(*(jnp.asarray(y) for y in (x, mean, cov)))
    if not mean.shape:
        z = x - mean
        return -0.5 * z * z / cov - 0.5 * jnp.log(2 * math.pi * cov)
    size = mean.shape[-1]
    if not cov.shape:
        z = x - mean
        norm = size * jnp.log(2 * math.pi * cov)
        return -0.5 * (jnp.sum(z * z, axis=-1) / cov + norm)
    if cov.ndim < 2 or cov.shape[-2:] != (size, size):
        raise ValueError(
            three_lines(
                f"logpdf with mean {mean.aval}, cov {cov.aval} at {current_source()}",
                "multivariate_normal.logpdf got incompatible shapes: cov must end in "
                f"({size}, {size})",
                "pass a covariance with a row and a column for each entry of the mean",
            )
        )
    z = x - mean
    factor = cholesky(cov)
    batch = jnp.broadcast_shapes(z.shape[:-1], cov.shape[:-2])
    factors = jnp.broadcast_to(factor, (*batch, size, size))
    column = jnp.broadcast_to(z, (*batch, size))[..., None]
    y = triangular_solve(factors, column, left_side=True, lower=True)[..., 0]
    diagonal = jnp.diagonal(factor, axis1=-1, axis2=-2)
    norm = 0.5 * size * math.log(2 * math.pi) + jnp.sum(jnp.log(diagonal), axis=-1)
    return -0.5 * jnp.sum(y * y, axis=-1) - norm


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Return the density at `x`; see `logpdf`.

    `mean` is a vector, `cov` the matrix of covariances.

    Example:
        >>> zero = jnp.zeros(2)
        >>> kiln.scipy.stats.multivariate_normal.pdf(zero, zero, jnp.eye(2)).round(4)
        Array(0.1592, dtype=float32)
    """
    return jnp.exp(logpdf(x, mean, cov))


_suggest_names(globals())
