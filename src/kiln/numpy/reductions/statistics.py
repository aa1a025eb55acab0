"""Averages and spreads: mean, variance, quantiles, covariance."""

from __future__ import annotations

import builtins
import math
from typing import Any, Literal, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.core.trace import is_typed
from kiln.execution.eager_plans import eager
from kiln.numpy.creation.arrays import cast
from kiln.numpy.creation.filling import full
from kiln.numpy.creation.matrices import diagonal, matrix_transpose
from kiln.numpy.elements.arithmetic import clip, divide, multiply, refuse_out, subtract
from kiln.numpy.elements.complex_parts import conj, real
from kiln.numpy.elements.elementary import sqrt
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.products import matmul
from kiln.numpy.promotion import broadcast_to, one, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions.reductions import (
    computing_dtype,
    element_count,
    kept,
    mask,
    masked,
    real_part_of,
    reduced_axes,
    sum,
)
from kiln.numpy.shapes import canonical_axes, squeeze
from kiln.ops.elements import conversion, elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import concatenate
from kiln.ops.shape import expand_dims, reduce_sum, reshape, transpose


def _mean_dtypes(name: str, found: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the dtypes in which to compute an average and to return it."""
    if dtype is None:
        wanted = dtypes.to_inexact_dtype(found)
        return computing_dtype(wanted), wanted
    wanted = dtypes.check_user_dtype(dtype, name)
    computing = computing_dtype(dtypes.common_dtype(wanted, dtypes.to_inexact_dtype(found)))
    return (wanted if not dtypes.issubdtype(wanted, np.inexact) else computing), wanted


@eager
def mean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Average over axes; integers are averaged as floats.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes, with size 1; `out`
    must be None.

    Example:
        >>> float(jnp.mean(jnp.arange(5)))
        2.0
        >>> jnp.mean(jnp.array([[1.0, 2.0], [3.0, 6.0]]), axis=0)
        Array([2., 4.], dtype=float32)
    """
    refuse_out("mean", out)
    a = one("mean", a)
    axes = reduced_axes("mean", axis, len(a.shape))
    computing, wanted = _mean_dtypes("mean", a.dtype, dtype)
    a = cast(a, computing)
    total = masked("mean", a, where, 0)
    total = reduce_sum(total, axes) if axes else total
    return kept(cast(_over_count(total, a, axes, where), wanted), axes, keepdims)


def _over_count(total: Any, a: Any, axes: tuple[int, ...], where: Any, ddof: Any = 0) -> Any:
    if where is None:
        count = element_count(a, axes)
        if type(count) is int and not is_typed(ddof):
            left = count - ddof
            if dtypes.issubdtype(total.dtype, np.integer):
                return elementwise.div(total, constant(left, total))
            return elementwise.div(
                total, constant(left if left > 0 else _not_a_number(count), total)
            )
        if type(ddof) is int and ddof == 0:
            return divide(total, cast(count, total.dtype))
        left = subtract(count, ddof)
        out = divide(total, cast(left, total.dtype))
        return choose_by(elementwise.gt(left, constant(0, left)), out, constant(math.nan, out))
    shape = tuple(a.shape)
    where = mask("mean", where)
    where = where if shape_of(where) == shape else broadcast_to(where, shape)
    count = sum(where, axes, dtypes.to_floating_dtype(total.dtype))
    left = subtract(count, ddof) if not (type(ddof) is int and ddof == 0) else count
    out = divide(total, cast(left, total.dtype))
    return choose_by(elementwise.gt(left, constant(0, left)), out, constant(math.nan, out))


def _not_a_number(count: int) -> float:
    return 0.0 if count == 0 else math.nan


@overload
def average(
    a: ArrayLike,
    axis: Axes = ...,
    weights: ArrayLike | None = ...,
    returned: Literal[False] = ...,
    keepdims: bool = ...,
) -> Array: ...


@overload
def average(
    a: ArrayLike,
    axis: Axes = ...,
    weights: ArrayLike | None = ...,
    *,
    returned: Literal[True],
    keepdims: bool = ...,
) -> tuple[Array, Array]: ...


@eager
def average(
    a: ArrayLike,
    axis: Axes = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Average over axes, by weights.

    With `returned` the result is a pair with the sum of the weights; `keepdims` keeps the reduced
    axes, with size 1.

    Example:
        >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
        Array(1.25, dtype=float32)
    """
    a = one("average", a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        count = element_count(a, reduced_axes("average", axis, len(a.shape)))
        total = full(out.shape, count, out.dtype)
        return (out, total) if returned else out
    a, weights = (one("average", x) for x in promote_dtypes_inexact(a, one("average", weights)))
    axes = reduced_axes("average", axis, len(a.shape))
    if weights.shape != a.shape:
        if axis is None:
            raise ValueError(
                three_lines(
                    f"average of {a.aval} with weights {weights.aval} at {current_source()}",
                    "Axis must be specified when shapes of a and weights differ.",
                    "pass axis",
                )
            )
        named = canonical_axes("average", axis, len(a.shape))
        if weights.shape != tuple(a.shape[d] for d in named):
            raise ValueError(
                three_lines(
                    f"average of {a.aval} with weights {weights.aval} at {current_source()}",
                    "Shape of weights must be consistent with shape of a along specified axis: "
                    f"got {weights.shape} for axis={axis}.",
                    "give the weights the sizes of the axes, or the shape of the array",
                )
            )
        if len(named) > 1:
            weights = transpose(weights, tuple(int(i) for i in np.argsort(named)))
        others = [d for d in range(len(a.shape)) if d not in axes]
        weights = broadcast_to(expand_dims(weights, others), a.shape)
    total = sum(weights, axes, keepdims=keepdims)
    out = divide(sum(multiply(a, weights), axes, keepdims=keepdims), total)
    return (out, total) if returned else out


@eager
def var(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """Return the variance over axes; `ddof` is subtracted from the number of elements.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes, with size 1; `out`
    must be None.

    Example:
        >>> float(jnp.var(jnp.array([1.0, 3.0]), ddof=1))
        2.0
    """
    refuse_out("var", out)
    a = one("var", a)
    ddof = _one_of("var", ddof, correction)
    computing, wanted = variance_dtypes("var", a.dtype, dtype)
    a = cast(a, computing)
    axes = reduced_axes("var", axis, len(a.shape))
    if mean is None:
        center = reduce_sum(masked("var", a, where, 0), axes) if axes else a
        center = kept(_over_count(center, a, axes, where), axes, True)
    else:
        center = cast(one("var", mean), computing)
    if center.shape != a.shape:
        center = broadcast_to(center, a.shape)
    spread = real_part_of(elementwise.sub(a, center))
    spread = masked("var", spread, where, 0)
    total = reduce_sum(spread, axes) if axes else spread
    return kept(cast(_over_count(total, a, axes, where, ddof), wanted), axes, keepdims)


def _one_of(name: str, ddof: Any, correction: Any) -> Any:
    """Return what is subtracted from the number of elements, of which there are two names."""
    if correction is None:
        return ddof
    if type(ddof) is not int or ddof != 0:
        raise ValueError(
            three_lines(
                f"{name}(..., ddof={ddof}, correction={correction}) at {current_source()}",
                "ddof and correction can't be provided simultaneously.",
                "leave ddof out",
            )
        )
    return correction


def variance_dtypes(name: str, found: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the dtypes in which to compute a variance and to return it."""
    if dtype is None:
        computing = computing_dtype(dtypes.to_inexact_dtype(found))
        return computing, dtypes.to_floating_dtype(dtypes.to_inexact_dtype(found))
    wanted = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(wanted, np.complexfloating) and dtypes.issubdtype(
        found, np.complexfloating
    ):
        raise ValueError(
            three_lines(
                f"{name}(..., dtype={wanted}) of {found} at {current_source()}",
                "jax.numpy.var does not yet support real dtype parameters when computing the "
                "variance of an array of complex values.",
                "leave dtype out",
            )
        )
    computing = computing_dtype(dtypes.common_dtype(wanted, dtypes.to_inexact_dtype(found)))
    return computing, wanted


@eager
def std(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation over axes; `ddof` is subtracted from the number of elements.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes, with size 1; `out`
    must be None.

    Example:
        >>> float(jnp.std(jnp.array([1.0, 3.0])))
        1.0
    """
    refuse_out("std", out)
    a = one("std", a)
    if dtype is not None and not dtypes.issubdtype(dtypes.as_dtype(dtype), np.inexact):
        raise ValueError(
            three_lines(
                f"std(..., dtype={dtype}) at {current_source()}",
                f"dtype argument to jax.numpy.std must be inexact; got {dtype}",
                "use a floating dtype",
            )
        )
    if where is not None:
        where = mask("std", where)
    return sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return the covariance matrix of variables, one per row (or column).

    With `rowvar` a variable is a row, without it a column. The sum is divided by n - `ddof`: 1 by
    default, 0 with `bias`. `fweights` are how often each observation occurs, `aweights` how much it
    counts.

    Example:
        >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    given = [one("cov", x) for x in (m, y) if x is not None]
    if builtins.max(len(x.shape) for x in given) > 2:
        raise ValueError(
            f"cov of {given[0].aval} at {current_source()}\n"
            "m has more than 2 dimensions\nuse a matrix"
        )
    rows = list(promote_dtypes_inexact(*given))
    if dtype is not None:
        rows = [cast(x, dtypes.check_user_dtype(dtype, "cov")) for x in rows]
    rows = [_as_rows(x, rowvar, first=i == 0) for i, x in enumerate(rows)]
    x = concatenate(rows, 0) if len(rows) > 1 else rows[0]
    x = cast(x, x.dtype)
    if ddof is None:
        ddof = 0 if bias else 1
    if x.shape[1] == 0:
        return squeeze(full((x.shape[0], x.shape[0]), math.nan, x.dtype))
    weights = None
    for name, found in (("fweights", fweights), ("aweights", aweights)):
        if found is None:
            continue
        found = cast(one(name, found), x.dtype)
        if len(found.shape) != 1 or found.shape[0] != x.shape[1]:
            raise ValueError(
                f"cov(..., {name}={found.aval}) at {current_source()}\n"
                f"incompatible numbers of samples and {name}\n"
                "give one weight per sample"
            )
        weights = found if weights is None else multiply(weights, found)
    total: Any = x.shape[1]
    if weights is None:
        center = divide(sum(x, 1, keepdims=True), total)
        norm: Any = total - ddof
    else:
        total = sum(weights)
        center = divide(sum(multiply(x, expand_dims(weights, (0,))), 1, keepdims=True), total)
        if aweights is None or ddof == 0:
            norm = subtract(total, ddof)
        else:
            a_weights = cast(one("aweights", aweights), x.dtype)
            share = divide(sum(multiply(weights, a_weights)), total)
            norm = subtract(total, multiply(ddof, share))
    x = subtract(x, center)
    scaled = x if weights is None else multiply(x, expand_dims(weights, (0,)))
    return squeeze(divide(matmul(x, conj(matrix_transpose(scaled))), norm))


def _as_rows(x: Any, rowvar: bool, *, first: bool) -> Any:
    if len(x.shape) < 2:
        return expand_dims(reshape(x, (x.size,)), (0,))
    # As NumPy has it: one row of further variables is one variable.
    return x if rowvar or (not first and x.shape[0] == 1) else transpose(x, (1, 0))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """Return the matrix of correlation coefficients of variables.

    With `rowvar` a variable is a row, without it a column.

    Raises: ValueError for a dtype that is neither floating nor complex.
    Example:
        >>> jnp.corrcoef(jnp.array([1.0, 2.0, 3.0]), jnp.array([2.0, 4.0, 6.0])).round(4)
        Array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    if dtype is not None and not dtypes.issubdtype(dtypes.as_dtype(dtype), np.inexact):
        raise ValueError(
            three_lines(
                f"corrcoef(..., dtype={dtype}) at {current_source()}",
                "corrcoef: dtype must be a subclass of float or complex",
                "use a floating dtype",
            )
        )
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return divide(c, c)
    spread = sqrt(real(diagonal(c)))
    c = divide(divide(c, expand_dims(spread, (1,))), expand_dims(spread, (0,)))
    if dtypes.issubdtype(c.dtype, np.complexfloating):
        return conversion.complex(clip(real(c), -1, 1), clip(conversion.imag(c), -1, 1))
    return clip(c, -1, 1)
