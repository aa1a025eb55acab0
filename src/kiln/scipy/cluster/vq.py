"""Vector quantization."""

from __future__ import annotations

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import promote_dtypes_inexact

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return for each observation the nearest code, and its distance.

    `check_finite` has no effect.

    Shapes: (m, n) and (k, n), or (m,) and (k,) -> (m,), (m,).
    Raises: ValueError for other shapes.
    Example:
        >>> codes = jnp.array([[0.0, 0.0], [10.0, 10.0]])
        >>> kiln.scipy.cluster.vq.vq(jnp.array([[1.0, 0.0], [9.0, 10.0]]), codes)
        (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    x, codes = promote_dtypes_inexact(jnp.asarray(obs), jnp.asarray(code_book))
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:]:
        raise ValueError(
            three_lines(
                f"vq of {x.aval}, {codes.aval} at {current_source()}",
                "Observation and code_book should have the same rank, 1 or 2, and the same number "
                "of features (columns)",
                "pass arrays of shapes (m, n) and (k, n)",
            )
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    gaps = x[:, None, :] - codes[None]
    distances = jnp.sqrt(jnp.sum(jnp.real(gaps * jnp.conj(gaps)), axis=-1))
    return jnp.argmin(distances, axis=-1), jnp.min(distances, axis=-1)


_suggest_names(globals())
