"""Cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.execution.eager_plans import eager
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.elements.logic import choose_by, isnan
from kiln.numpy.promotion import one
from kiln.numpy.reductions.reductions import computing_dtype
from kiln.numpy.shapes import canonical_axes, ravel
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import pad
from kiln.ops.reductions import cumulative

_BOOL = np.dtype(np.bool_)


@eager
def cumsum(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative sum along an axis, or of the flattened array.

    `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.cumsum(jnp.arange(5))
        Array([ 0,  1,  3,  6, 10], dtype=int32)
        >>> jnp.cumsum(jnp.array([[1, 2], [3, 4]]), axis=1)
        Array([[1, 3],
               [3, 7]], dtype=int32)
    """
    refuse_out("cumsum", out)
    return _running("cumsum", cumulative.cumsum, a, axis, dtype)


@eager
def cumprod(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative product along an axis, or of the flattened array.

    `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.cumprod(jnp.array([1, 2, 3, 4]))
        Array([ 1,  2,  6, 24], dtype=int32)
    """
    refuse_out("cumprod", out)
    return _running("cumprod", cumulative.cumprod, a, axis, dtype)


def nancumsum(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative sum along an axis, treating nans as 0.

    `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.nancumsum(jnp.array([2.0, jnp.nan, 3.0]))
        Array([2., 2., 5.], dtype=float32)
    """
    refuse_out("nancumsum", out)
    return _running("nancumsum", cumulative.cumsum, a, axis, dtype, fill=0)


def nancumprod(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Return the cumulative product along an axis, treating nans as 1.

    `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
        Array([2., 2., 6.], dtype=float32)
    """
    refuse_out("nancumprod", out)
    return _running("nancumprod", cumulative.cumprod, a, axis, dtype, fill=1)


def _running(
    name: str,
    run: Callable[..., Any],
    a: Any,
    axis: Any,
    dtype: Any,
    *,
    fill: int | None = None,
    promote: bool = False,
) -> Any:
    a = one(name, a)
    if axis is None or not a.shape:
        a, axis = ravel(a), 0
    (axis,) = canonical_axes(name, axis, len(a.shape))
    if dtype is None:
        wanted = dtypes.default_int_dtype() if a.dtype == _BOOL else a.dtype
        if promote and dtypes.issubdtype(wanted, np.integer):
            default = (
                dtypes.default_uint_dtype()
                if dtypes.issubdtype(wanted, np.unsignedinteger)
                else dtypes.default_int_dtype()
            )
            wanted = default if dtypes.bit_width(wanted) < dtypes.bit_width(default) else wanted
    else:
        wanted = dtypes.check_user_dtype(dtype, name)
    if fill is not None and dtypes.issubdtype(a.dtype, np.inexact):
        a = choose_by(isnan(a), constant(fill, a), a)
    if wanted == _BOOL:
        return cast(run(cast(cast(a, _BOOL), np.dtype(np.int32)), axis), _BOOL)
    return cast(run(cast(a, computing_dtype(wanted)), axis), wanted)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Return the cumulative sum along an axis, with a leading 0 if `include_initial`.

    Example:
        >>> jnp.cumulative_sum(jnp.array([2, 3]), include_initial=True)
        Array([0, 2, 5], dtype=int32)
    """
    return _with_initial(
        "cumulative_sum", cumulative.cumsum, x, axis, dtype, 0 if include_initial else None
    )


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Return the cumulative product along an axis, with a leading 1 if `include_initial`.

    Example:
        >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
        Array([1, 2, 6], dtype=int32)
    """
    return _with_initial(
        "cumulative_prod", cumulative.cumprod, x, axis, dtype, 1 if include_initial else None
    )


def _with_initial(
    name: str, run: Callable[..., Any], x: Any, axis: Any, dtype: Any, initial: int | None
) -> Any:
    x = one(name, x)
    if not x.shape:
        raise ValueError(
            three_lines(
                f"{name} of a scalar at {current_source()}",
                "The input must be non-scalar to take a cumulative sum, however a scalar value or "
                "scalar array was given.",
                "use an array with an axis",
            )
        )
    if axis is None:
        if len(x.shape) > 1:
            raise ValueError(
                three_lines(
                    f"{name} of {x.aval} at {current_source()}",
                    f"The input array has rank {x.ndim}, however axis was not set to an explicit "
                    "value. Only one-dimensional arrays need no axis.",
                    "pass axis",
                )
            )
        axis = 0
    (axis,) = canonical_axes(name, axis, len(x.shape))
    out = _running(name, run, x, axis, dtype, promote=name == "cumulative_sum")
    if initial is None:
        return out
    config = [(1 if d == axis else 0, 0, 0) for d in range(len(x.shape))]
    return pad(out, constant(initial, out), config)
