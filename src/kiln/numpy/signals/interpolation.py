"""Linear interpolation, and unwrapping of angles."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.elements.arithmetic import (
    absolute,
    add,
    divide,
    floor_divide,
    multiply,
    negative,
    remainder,
    subtract,
)
from kiln.numpy.elements.logic import choose_by, equal, less, logical_and
from kiln.numpy.indexing.taking import take
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.promotion import one, operands, promote_dtypes, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions.cumulative import cumsum
from kiln.numpy.search import searchsorted
from kiln.numpy.shapes import moveaxis
from kiln.numpy.signals.differences import diff
from kiln.numpy.sorting import argsort
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import index_in_dim, slice_in_dim
from kiln.ops.size_value import as_index


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Interpolate linearly between the points (xp, fp); return `left` and `right` outside.

    `period` makes x and `xp` periodic.

    Example:
        >>> jnp.interp(jnp.array([0.5, 5.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
        Array([15., 20.], dtype=float32)
    """
    x, xp, fp = operands("interp", x, xp, fp)
    if len(shape_of(xp)) != 1 or shape_of(xp) != shape_of(fp):
        raise ValueError(
            three_lines(
                f"interp with xp {aval_of(xp)}, fp {aval_of(fp)} at {current_source()}",
                "xp and fp must be one-dimensional arrays of equal size",
                "pass one value per point",
            )
        )
    x, xp = (one("interp", v) for v in promote_dtypes_inexact(x, xp))
    (fp,) = (one("interp", v) for v in promote_dtypes_inexact(fp))
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError(
            three_lines(
                f"interp with x {x.aval}, xp {xp.aval} at {current_source()}",
                "complex x values not supported.",
                "interpolate at real numbers; fp may be complex",
            )
        )
    if period is not None:
        x, xp, fp = _one_period(x, xp, fp, period)
        left = right = None
    n = xp.shape[0]
    out = _between_points(x, xp, fp)
    if period is not None:
        return out
    first, last = (index_in_dim(xp, i, 0, keepdims=False) for i in (0, n - 1))
    sides = [(elementwise.lt(x, first), left, 0), (elementwise.gt(x, last), right, n - 1)]
    for outside, value, end in sides:
        if isinstance(value, str) and value == "extrapolate":
            continue
        if value is None:
            value = index_in_dim(fp, end, 0, keepdims=False)
        out = choose_by(outside, value, out)
    return out


@functools.partial(jit, inline=True)
def _between_points(x: Any, xp: Any, fp: Any) -> Any:
    """Return the values at `x` on the lines through neighboring points."""
    n = xp.shape[0]
    place = searchsorted(xp, x, "right")
    place = elementwise.min(elementwise.max(place, np.int32(1)), as_index(n - 1))
    before = elementwise.sub(place, np.int32(1))
    x0, x1 = take(xp, before, mode="clip"), take(xp, place, mode="clip")
    f0, f1 = take(fp, before, mode="clip"), take(fp, place, mode="clip")
    width = subtract(x1, x0)
    rise = subtract(f1, f0)
    tiny = constant(float(np.spacing(dtypes.finfo(xp.dtype).eps)), width)
    flat = elementwise.le(elementwise.abs(width), tiny)
    slope = divide(subtract(x, x0), choose_by(flat, constant(1, width), width))
    return choose_by(flat, f0, add(f0, multiply(slope, rise)))


def _one_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Return the points of one period in order, extended by a neighboring point at each end."""
    (period,) = operands("interp", period)
    period = elementwise.abs(one("interp", promote_dtypes_inexact(period)[0]))
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    n = xp.shape[0]
    first, last = slice_in_dim(xp, 0, 1), slice_in_dim(xp, n - 1, n)
    xp = concatenate([subtract(last, period), xp, add(first, period)])
    return x, xp, concatenate([slice_in_dim(fp, n - 1, n), fp, slice_in_dim(fp, 0, 1)])


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """Add multiples of the period so that neighbors differ by at most half of it.

    Jumps of at least `discont`, by default half a period, are corrected.

    Example:
        >>> jnp.unwrap(jnp.array([0.0, 3.0, -3.0])).round(4)
        Array([0.    , 3.    , 3.2832], dtype=float32)
    """
    p = one("unwrap", p)
    if not p.shape:
        raise ValueError(
            f"unwrap of {p.aval} at {current_source()}\nthe array must have an axis\nuse a vector"
        )
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise ValueError(
            f"unwrap of {p.aval} at {current_source()}\n"
            "jnp.unwrap does not support complex inputs.\nunwrap jnp.angle(p)"
        )
    p, period = (one("unwrap", x) for x in promote_dtypes(p, *operands("unwrap", period)))
    p = moveaxis(p, axis, -1)
    if type(p.shape[-1]) is int and p.shape[-1] == 0:
        return moveaxis(p, -1, axis)
    whole = dtypes.issubdtype(p.dtype, np.integer)
    half = (floor_divide if whole else divide)(period, 2)
    if discont is None:
        discont = divide(period, 2)
    step = diff(p)
    short = subtract(remainder(add(step, half), period), half)
    # A step of exactly half a period keeps its direction.
    at_edge = logical_and(equal(short, negative(half)), elementwise.gt(step, constant(0, step)))
    short = choose_by(at_edge, half, short)
    correction = choose_by(less(absolute(step), discont), constant(0, step), subtract(short, step))
    last = len(p.shape) - 1
    n = p.shape[-1]
    tail = add(slice_in_dim(p, 1, n, 1, last), cumsum(correction, -1))
    out = concatenate([slice_in_dim(p, 0, 1, 1, last), tail], -1)
    return moveaxis(out, -1, axis)
