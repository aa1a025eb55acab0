"""Random vectors and matrices: correlated normal vectors, orthogonal matrices."""

from __future__ import annotations

import functools
from typing import Any

from kiln.api.jit import jit
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.einsum import einsum
from kiln.numpy.elements.arithmetic import sign
from kiln.numpy.promotion import (
    broadcast_shapes,
    broadcast_to,
    operands,
    promote_dtypes_inexact,
    shape_of,
)
from kiln.ops.elements.elementwise import sqrt
from kiln.ops.linear.linalg import cholesky
from kiln.ops.linear.matrices import diagonal, scale_columns, transposed
from kiln.ops.linear.orthogonal import qr
from kiln.ops.linear.spectral import eigh, svd
from kiln.ops.out_sharding import sharded
from kiln.random.arguments import (
    Shape,
    check_broadcast,
    float_dtype,
    inexact_dtype,
    sampler,
)
from kiln.random.keys import single, typed
from kiln.random.normal import normal_values

METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw normal vectors of the given mean and covariance.

    Shapes: (..., n), (..., n, n) -> (*shape, n)
    Raises: ValueError for other shapes, or an unknown `method` of factoring the covariance.
    Example:
        >>> mean, cov = jnp.array([1.0, -1.0]), jnp.array([[2.0, 1.0], [1.0, 2.0]])
        >>> random.multivariate_normal(random.key(0), mean, cov, (2000,)).mean(axis=0).round()
        Array([ 1., -1.], dtype=float32)
    """
    key = single("multivariate_normal", key)
    found = float_dtype("multivariate_normal", dtype)
    mean, cov = promote_dtypes_inexact(*operands("multivariate_normal", mean, cov))
    m, c = aval_of(mean), aval_of(cov)
    if method not in METHODS:
        raise _refused(m, c, "method must be one of {'svd', 'eigh', 'cholesky'}")
    if not m.ndim:
        raise _refused(m, c, "multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0")
    if c.ndim < 2:
        raise _refused(
            m, c, f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {c.ndim}"
        )
    n = m.shape[-1]
    if c.shape[-2:] != (n, n):
        raise _refused(
            m,
            c,
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got "
            f"cov.shape == {c.shape}.",
        )
    inner = broadcast_shapes("multivariate_normal", m.shape[:-1], c.shape[:-2])
    wanted = inner if shape is None else canonical_shape("multivariate_normal", shape)
    check_broadcast("multivariate_normal", wanted, inner)
    return sharded(
        _multivariate_normal(key, mean, cov, shape=wanted, dtype=found, method=method),
        out_sharding,
        "multivariate_normal",
    )


def _refused(mean: ShapedArray, cov: ShapedArray, wrong: str) -> ValueError:
    return ValueError(
        three_lines(
            f"multivariate_normal: mean {mean}, cov {cov} at {current_source()}",
            wrong,
            "give a mean of shape (..., n) and a covariance of shape (..., n, n)",
        )
    )


@functools.partial(jit, static_argnames=("shape", "dtype", "method"), inline=True)
def _multivariate_normal(
    key: Any, mean: Any, cov: Any, *, shape: Shape, dtype: Any, method: str
) -> Any:
    n = aval_of(mean).shape[-1]
    if method == "cholesky":
        factor = cholesky(cov)
    elif method == "eigh":
        vectors, values = eigh(cov)
        factor = scale_columns(vectors, sqrt(values))
    else:
        vectors, values, _ = svd(cov)
        factor = scale_columns(vectors, sqrt(values))
    drawn = normal_values(typed(key), (*shape, n), dtype)
    spread = einsum("...ij,...j->...i", factor, drawn)
    return broadcast_to(mean, shape_of(spread)) + spread


def orthogonal(
    key: ArrayLike,
    n: int,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw uniform orthogonal (unitary) matrices; n by m ones have orthonormal columns or rows.

    Shapes: -> (*shape, n, m)
    Source: Mezzadri 2007.
    Example:
        >>> q = random.orthogonal(random.key(0), 3)
        >>> jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5)
        Array(True, dtype=bool)
    """
    key = single("orthogonal", key)
    found = inexact_dtype("orthogonal", dtype)
    sizes = canonical_shape("orthogonal", (n, n if m is None else m))
    wanted = (*canonical_shape("orthogonal", shape), *sizes)
    return sharded(_orthogonal(key, shape=wanted, dtype=found), out_sharding, "orthogonal")


@sampler
def _orthogonal(key: Any, *, shape: Shape, dtype: Any) -> Any:
    *outer, n, m = shape
    q, r = qr(normal_values(typed(key), (*outer, max(n, m), min(n, m)), dtype), full_matrices=False)
    # The signs of the diagonal make the factorization unique, hence the distribution uniform.
    q = scale_columns(q, sign(diagonal(r)))
    return transposed(q) if n < m else q
