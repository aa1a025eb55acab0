"""Functions along axes: softmax and its logarithm, standardization, one-hot encoding."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.elements.arithmetic import clip, sign, square
from kiln.numpy.elements.elementary import exp, log
from kiln.numpy.elements.logic import isfinite
from kiln.numpy.indexing.selection import where as choose
from kiln.numpy.promotion import lifted, operands, promote_dtypes_inexact
from kiln.numpy.reductions.reductions import max as maximum_along
from kiln.numpy.reductions.reductions import sum as sum_along
from kiln.numpy.reductions.statistics import mean as mean_along
from kiln.numpy.reductions.statistics import var as variance_along
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import rsqrt, stop_gradient
from kiln.ops.elements.families import full_like
from kiln.ops.shape import canonical_axis, expand_dims, squeeze

ALGORITHMS = ("fast", "stable")


def _from_largest(x: Any, axis: Any, where: Any) -> tuple[Any, Any]:
    """Return x minus its maximum along the axes, and exp of that, where `where` holds."""
    greatest = maximum_along(x, axis, where=where, initial=-np.inf, keepdims=True)
    known = x if where is None else choose(where, x, -np.inf)
    distance = known - stop_gradient(greatest)
    return distance, exp(distance)


def softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """Return exp(x) divided by its sum along axes; elements outside `where` are 0.

    Example:
        >>> nn.softmax(jnp.array([0.0, 0.0]))
        Array([0.5, 0.5], dtype=float32)
        >>> nn.softmax(jnp.array([[1.0, 2.0], [3.0, 3.0]]), axis=0).sum(axis=0).round(5)
        Array([1., 1.], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(*operands("softmax", x))
    _, parts = _from_largest(x, axis, where)
    out = parts / sum_along(parts, axis, where=where, keepdims=True)
    return out if where is None else choose(where, out, 0)


def log_softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """Return the logarithm of softmax, computed without underflow; -inf outside `where`.

    Example:
        >>> nn.log_softmax(jnp.array([0.0, 100.0]))
        Array([-100.,    0.], dtype=float32)
        >>> jnp.exp(nn.log_softmax(jnp.ones((2, 4)), axis=0))
        Array([[0.5, 0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5, 0.5]], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(*operands("log_softmax", x))
    distance, parts = _from_largest(x, axis, where)
    out = distance - log(sum_along(parts, axis, where=where, keepdims=True))
    return out if where is None else choose(where, out, -np.inf)


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axes = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array: ...


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axes = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = ...,
) -> tuple[Array, Array]: ...


def logsumexp(
    a: ArrayLike,
    axis: Axes = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Return log(sum(b * exp(a))) along axes, computed without overflow.

    If `return_sign`, return the logarithm of the absolute sum, and the sign of the sum.

    Example:
        >>> float(nn.logsumexp(jnp.array([1000.0, -1000.0])))
        1000.0
    """
    if b is None:
        (a,) = promote_dtypes_inexact(*operands("logsumexp", a))
    else:
        a, b = promote_dtypes_inexact(*operands("logsumexp", a, b))
        a = choose(b != 0, a, -np.inf)
    a = lifted(a)
    if where is not None:
        a = choose(where, a, 0)
    real = a.real if dtypes.issubdtype(a.dtype, np.complexfloating) else a
    # An unneeded infinity would be reported by checks for infinities.
    some = where is None and all(type(size) is int and size > 0 for size in a.shape)
    least: dict[str, Any] = {} if some else {"initial": -np.inf}
    greatest = maximum_along(real, axis, where=where, keepdims=True, **least)
    greatest = stop_gradient(choose(isfinite(greatest), greatest, 0))
    parts = exp(a - convert_element_type(greatest, a.dtype))
    if b is not None:
        parts = parts * b
    total = sum_along(parts, axis, where=where, keepdims=True)
    signs = sign(total)
    out = log(abs(total)) + greatest
    if not keepdims:
        named = range(a.ndim) if axis is None else np.atleast_1d(axis)
        axes = [canonical_axis("logsumexp", i, a.ndim) for i in named]
        out, signs = squeeze(out, axes), squeeze(signs, axes)
    if return_sign:
        return out, signs
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        return log(signs) + convert_element_type(out, a.dtype)
    return out if b is None else choose(signs < 0, np.nan, out)


def logmeanexp(
    x: ArrayLike, axis: Axes = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """Return log(mean(exp(x))) along axes, without overflow.

    `where` chooses the elements that count; with `keepdims` the axes stay, of size 1.

    Example:
        >>> nn.logmeanexp(jnp.array([1000.0, 1000.0]))
        Array(1000., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(*operands("logmeanexp", x))
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    counted = full_like(x, 1) if where is None else choose(where, full_like(x, 1), 0)
    return total - log(sum_along(counted, axis, keepdims=keepdims))


def standardize(
    x: ArrayLike,
    axis: Any = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) along axes.

    If the variance is not given, "fast" computes it as the mean of the squares minus the square of
    the mean; "stable" takes a second pass.

    Example:
        >>> nn.standardize(jnp.array([1.0, 2.0, 3.0]))
        Array([-1.2247359,  0.       ,  1.2247359], dtype=float32)
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(
            three_lines(
                f"standardize(..., algorithm={algorithm!r}) at {current_source()}",
                f"Unknown algorithm {algorithm!r}. Expected 'fast' or 'stable'.",
                "use 'stable' where the mean is much larger than the deviation",
            )
        )
    x, epsilon = promote_dtypes_inexact(*operands("standardize", x, epsilon))
    if mean is None:
        mean = mean_along(x, axis, keepdims=True, where=where)
    if variance is None and algorithm == "fast":
        # The difference of two roundings may be negative.
        squares = mean_along(square(x), axis, keepdims=True, where=where)
        variance = clip(squares - square(mean), 0, None)
    elif variance is None:
        variance = variance_along(x, axis, keepdims=True, where=where)
    return (x - mean) * rsqrt(variance + epsilon)


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """Encode integers as vectors with a 1 at that index of a new axis; all 0 if out of range.

    Shapes: (...) -> (..., num_classes), or the new axis at `axis`.
    Example:
        >>> nn.one_hot(jnp.array([0, 2]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
        >>> nn.one_hot(-1, 2, dtype=jnp.int32)
        Array([0, 0], dtype=int32)
    """
    x = lifted(*operands("one_hot", x))
    found = (
        dtypes.default_float_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "one_hot")
    )
    axis = canonical_axis("one_hot", axis, x.ndim + 1)
    shape: list[Any] = [1] * (x.ndim + 1)
    (shape[axis],) = canonical_shape("one_hot", (num_classes,))
    classes = broadcasted_iota(x.dtype, shape, axis)
    return convert_element_type(expand_dims(x, (axis,)) == classes, found)
