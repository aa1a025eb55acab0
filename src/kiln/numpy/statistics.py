"""Averages and spreads: mean, variance, quantiles, covariance."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ir.sizes import is_constant
from kiln.numpy.arithmetic import clip, divide, multiply, refuse_out, subtract
from kiln.numpy.creation import cast, full
from kiln.numpy.elementary import conj, sqrt
from kiln.numpy.logic import choose_by, isnan, truth
from kiln.numpy.manipulation import one
from kiln.numpy.promotion import broadcast_to, operands, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions import (
    any,
    computing_dtype,
    element_count,
    kept,
    masked,
    real_part_of,
    reduced_axes,
    sum,
)
from kiln.ops import conversion, elementwise
from kiln.ops.elementwise import constant
from kiln.ops.shape import expand_dims, reduce_sum, reshape, transpose


def _mean_dtypes(name: str, found: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the dtypes in which to compute an average and to return it."""
    wanted = (
        dtypes.to_inexact_dtype(found) if dtype is None else dtypes.check_user_dtype(dtype, name)
    )
    computing = computing_dtype(dtypes.lattice_result_type(wanted, dtypes.to_inexact_dtype(found))[0])
    return (wanted if not dtypes.issubdtype(wanted, np.inexact) else computing), wanted


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """Average over axes."""
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
        if type(count) is int and not hasattr(ddof, "aval"):
            left = count - ddof
            if dtypes.issubdtype(total.dtype, np.integer):
                return elementwise.div(total, constant(left, total))
            return elementwise.div(total, constant(left if left > 0 else _not_a_number(count), total))
        return divide(total, subtract(count, ddof))
    shape = tuple(a.shape)
    where = truth(*operands("mean", where))
    where = where if shape_of(where) == shape else broadcast_to(where, shape)
    count = sum(where, axes, dtypes.to_floating_dtype(total.dtype))
    left = subtract(count, ddof) if not (type(ddof) is int and ddof == 0) else count
    out = divide(total, left)
    return choose_by(elementwise.gt(left, constant(0, left)), out, constant(math.nan, out))


def _not_a_number(count: int) -> float:
    return 0.0 if count == 0 else math.nan


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Average over axes, by weights."""
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
        if len(weights.shape) != 1 or len(axes) != 1 or weights.shape[0] != a.shape[axes[0]]:
            raise ValueError(
                three_lines(
                    f"average of {a.aval} with weights {weights.aval} at {current_source()}",
                    "1D weights expected when shapes of a and weights differ, of the axis' length.",
                    "broadcast the weights to the shape of the array",
                )
            )
        others = [d for d in range(len(a.shape)) if d != axes[0]]
        weights = broadcast_to(expand_dims(weights, others), a.shape)
    total = sum(weights, axes, keepdims=keepdims)
    out = divide(sum(multiply(a, weights), axes, keepdims=keepdims), total)
    return (out, total) if returned else out


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """Return the variance over axes; `ddof` is subtracted from the number of elements."""
    refuse_out("var", out)
    a = one("var", a)
    if correction is not None:
        ddof = correction
    computing, wanted = _var_dtypes(a.dtype, dtype)
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


def _var_dtypes(found: Any, dtype: Any) -> tuple[Any, Any]:
    if dtype is None:
        computing = computing_dtype(dtypes.to_inexact_dtype(found))
        return computing, dtypes.to_floating_dtype(dtypes.to_inexact_dtype(found))
    wanted = dtypes.check_user_dtype(dtype, "var")
    if not dtypes.issubdtype(wanted, np.complexfloating) and dtypes.issubdtype(
        found, np.complexfloating
    ):
        raise ValueError(
            three_lines(
                f"var(..., dtype={wanted}) of {found} at {current_source()}",
                "jax.numpy.var does not yet support real dtype parameters when computing the "
                "variance of an array of complex values.",
                "leave dtype out",
            )
        )
    computing = computing_dtype(dtypes.lattice_result_type(wanted, dtypes.to_inexact_dtype(found))[0])
    return computing, wanted


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """Return the standard deviation over axes."""
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
    return sqrt(
        var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantiles `q` (from 0 to 1) over axes; nan where there is a nan."""
    refuse_out("quantile", out)
    return quantile_of("quantile", a, q, axis, method, keepdims, False)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantiles `q` (from 0 to 1) over axes, without nans."""
    refuse_out("nanquantile", out)
    return quantile_of("nanquantile", a, q, axis, method, keepdims, True)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantiles `q` (from 0 to 100) over axes; nan where there is a nan."""
    refuse_out("percentile", out)
    return quantile_of("percentile", a, _hundredths(q), axis, method, keepdims, False)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the quantiles `q` (from 0 to 100) over axes, without nans."""
    refuse_out("nanpercentile", out)
    return quantile_of("nanpercentile", a, _hundredths(q), axis, method, keepdims, True)


def _hundredths(q: Any) -> Any:
    return divide(q, 100)


def median(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the median over axes; nan where there is a nan."""
    refuse_out("median", out)
    return quantile_of("median", a, 0.5, axis, "midpoint", keepdims, False)


def nanmedian(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the median over axes, without nans."""
    refuse_out("nanmedian", out)
    return quantile_of("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


def quantile_of(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool
) -> Any:
    """Return quantiles over axes, as a new leading axis if `q` is a vector."""
    if method not in METHODS:
        raise ValueError(
            three_lines(
                f"{name}(..., method={method!r}) at {current_source()}",
                "method can only be 'linear', 'lower', 'higher', 'midpoint', or 'nearest'",
                "use one of them",
            )
        )
    a, q = operands(name, a, q)
    if len(shape_of(q)) > 1:
        raise ValueError(f"{name}(q={aval_of(q)})\nq must be have rank <= 1\nuse a vector")
    a, q = (one(name, x) for x in promote_dtypes_inexact(a, q))
    a, q = cast(a, a.dtype), cast(q, a.dtype)
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise ValueError(
            f"{name} of {a.aval}\nquantile does not support complex input, as the operation is "
            "poorly defined.\nuse real numbers"
        )
    rank = len(a.shape)
    axes = reduced_axes(name, axis, rank)
    rest = [d for d in range(rank) if d not in axes]
    n = element_count(a, axes)
    a = reshape(transpose(a, (*rest, *axes)), (*(a.shape[d] for d in rest), n))
    out = _sorted_quantile(name, a, q, n, method, skip_nan)
    if keepdims and axes:
        lead = len(q.shape)
        out = expand_dims(out, [lead + d for d in axes])
    return out


def _sorted_quantile(name: str, a: Any, q: Any, n: Any, method: str, skip_nan: bool) -> Any:
    if type(n) is int and n == 0:
        return full((*q.shape, *a.shape[:-1]), math.nan, a.dtype)
    rest = tuple(a.shape[:-1])
    shape = (*q.shape, *rest)
    ordered = sort_ops.sort(a, dimension=len(rest))
    if skip_nan:
        count = sum(elementwise.bitwise_not(isnan(a)), -1, a.dtype)
        last = elementwise.sub(count, constant(1, count))
        spread_q = broadcast_in_dim(q, shape, range(len(q.shape)))
        last = broadcast_in_dim(last, shape, range(len(q.shape), len(shape)))
        place = elementwise.mul(spread_q, last)
        low, high = elementwise.floor(place), elementwise.ceil(place)
        high_part = elementwise.sub(place, low)
        zero = constant(0, low)
        low = elementwise.max(elementwise.min(low, last), zero)
        high = elementwise.max(elementwise.min(high, last), zero)
    else:
        ordered = choose_by(any(isnan(a), -1, keepdims=True), math.nan, ordered)
        place = elementwise.mul(q, constant(n - 1, q))
        low, high = elementwise.floor(place), elementwise.ceil(place)
        high_part = elementwise.sub(place, low)
        low, high = (clip(x, 0, n - 1) for x in (low, high))
    if method == "nearest":
        # Halves go to the even place, as rounding does.
        low = high = elementwise.round(place, elementwise.RoundingMethod.TO_NEAREST_EVEN)
        low = high = clip(low, 0, n - 1)
    low_value, high_value = (_taken(ordered, i, len(q.shape), shape, skip_nan) for i in (low, high))
    if method in ("lower", "nearest"):
        return low_value
    if method == "higher":
        return high_value
    if method == "midpoint":
        both = elementwise.add(low_value, high_value)
        return elementwise.mul(both, constant(0.5, both))
    if not skip_nan:
        high_part = broadcast_in_dim(high_part, shape, range(len(q.shape)))
    low_part = elementwise.sub(constant(1, high_part), high_part)
    return elementwise.add(
        elementwise.mul(low_value, low_part), elementwise.mul(high_value, high_part)
    )
