"""Reductions: sum, product, extremes, logic, counts.

Sums and products of narrow integers and bools are computed in 32 bits; of 16-bit floats, in 32-bit
floats. The result is strongly typed. `where` excludes elements, `initial` takes part once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named, eager
from kiln.ir.sizes.decisions import is_surely
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.arithmetic import add, maximum, minimum, multiply, refuse_out, subtract
from kiln.numpy.elements.logic import choose_by, logical_and, logical_or, truth
from kiln.numpy.promotion import one, operands, shape_of, summing_dtype
from kiln.numpy.shapes import canonical_axes
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.elements.families import ANY
from kiln.ops.reductions import product, reduction
from kiln.ops.shape import expand_dims, reduce_sum, reshape

_BOOL = np.dtype(np.bool_)
_ACCUMULATORS = {
    dtype: np.dtype(np.float32)
    for dtype in dtypes.SUPPORTED.values()
    if dtypes.issubdtype(dtype, np.floating) and dtypes.bit_width(dtype) < 32
}
Reduction = Callable[..., Any]


def reduced_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes to reduce, in order; all axes for None."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(canonical_axes(name, axis, ndim)))


def kept(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Restore reduced axes with size 1."""
    return expand_dims(x, axes) if keepdims and axes else x


def masked(name: str, a: Any, where: Any, neutral: Any) -> Any:
    """Replace the elements that `where` excludes by a neutral number."""
    return a if where is None else choose_by(mask(name, where), a, constant(neutral, a))


def mask(name: str, where: Any) -> Any:
    """Check the argument `where` of a function, which must be bools, and return it.

    Raises: ValueError for numbers.
    """
    (where,) = operands(name, where)
    dtype = aval_of(where).dtype
    if dtype != _BOOL:
        raise ValueError(
            three_lines(
                f"{name}(..., where={aval_of(where)}) at {current_source()}",
                f"jnp.{name}: where must be None or a boolean array; got where.dtype={dtype}",
                "compare to get bools: where=weights != 0",
            )
        )
    return where


def _unreduced(name: str, a: Any) -> Any:
    """Return numbers unchanged, since no axis is reduced; reject keys."""
    reduction.check_dtype(name, a.aval, ANY)
    return a


def computing_dtype(found: Any) -> Any:
    """Return the dtype in which sums of a dtype are accumulated."""
    return _ACCUMULATORS.get(found, found)


@eager
def sum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum over axes.

    `where` excludes elements; `initial` is added once. Narrow integers and bools are summed in 32
    bits unless `promote_integers` is False or a `dtype` is given. `keepdims` keeps the reduced
    axes, with size 1; `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Source: numpy.sum.
    Example:
        >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=0)
        Array([4, 6], dtype=int32)
        >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=1, keepdims=True)
        Array([[3],
               [7]], dtype=int32)
    """
    refuse_out("sum", out)
    return _accumulated(
        "sum", reduce_sum, 0, a, axis, dtype, keepdims, initial, where, promote_integers
    )


@eager
def prod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Return the product of the elements over axes; options as for `sum`.

    `keepdims` keeps the reduced axes, with size 1; `out` must be None, since arrays do not change.

    Raises: NotImplementedError for `out`.
    Example:
        >>> int(jnp.prod(jnp.arange(1, 6)))
        120
    """
    refuse_out("prod", out)
    return _accumulated(
        "prod", product.reduce_prod, 1, a, axis, dtype, keepdims, initial, where, promote_integers
    )


def _accumulated(
    name: str,
    reduce: Reduction,
    identity: int,
    a: Any,
    axis: Any,
    dtype: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Any:
    a = one(name, a)
    axes = reduced_axes(name, axis, len(a.shape))
    wanted = summing_dtype(name, a.dtype, dtype, promote_integers)
    if wanted == _BOOL:
        return cast(_accumulated_bools(name, a, axes, keepdims, initial, where), _BOOL)
    a = masked(name, cast(a, computing_dtype(wanted)), where, identity)
    found = reduce(a, axes) if axes else _unreduced(name, a)
    if initial is not None:
        found = (add if identity == 0 else multiply)(found, _initial(name, initial, found))
    return kept(cast(found, wanted), axes, keepdims)


def _accumulated_bools(
    name: str, a: Any, axes: tuple[int, ...], keepdims: bool, initial: Any, where: Any
) -> Any:
    fun = any if name == "sum" else all
    found = fun(a, axes, keepdims=keepdims, where=where)
    if initial is None:
        return found
    return (logical_or if name == "sum" else logical_and)(found, initial)


def _initial(name: str, initial: Any, found: Any) -> Any:
    (initial,) = operands(name, initial)
    if shape_of(initial):
        raise ValueError(
            three_lines(
                f"{name}(..., initial={aval_of(initial)}) at {current_source()}",
                "initial value must be a scalar.",
                "pass one number",
            )
        )
    return cast(one(name, initial), found.dtype)


@eager
def max(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element along axes, propagating nans.

    `where` chooses the elements that count, and needs `initial`, which takes part once; `keepdims`
    keeps the reduced axes, with size 1; `out` must be None.

    Raises: ValueError for `where` without `initial`, or no elements; NotImplementedError for `out`.
    Example:
        >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=1)
        Array([5, 3], dtype=int32)
    """
    refuse_out("max", out)
    return _extreme("max", a, axis, keepdims, initial, where)


@eager
def min(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element along axes, propagating nans.

    `where` chooses the elements that count, and needs `initial`, which takes part once; `keepdims`
    keeps the reduced axes, with size 1; `out` must be None.

    Raises: ValueError for `where` without `initial`, or no elements; NotImplementedError for `out`.
    Example:
        >>> jnp.min(jnp.array([[1, 5], [3, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
    refuse_out("min", out)
    return _extreme("min", a, axis, keepdims, initial, where)


amax, amin = also_named("amax", max), also_named("amin", min)


def _extreme(name: str, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    a = one(name, a)
    axes = reduced_axes(name, axis, len(a.shape))
    if where is not None and initial is None:
        raise ValueError(
            three_lines(
                f"{name}(..., where=...) at {current_source()}",
                f"{name} does not have an identity, so to use a where mask one has to specify "
                "'initial'",
                "pass initial, the result where nothing is left",
            )
        )
    empty = [d for d in axes if is_surely(a.shape[d], 0)]
    if empty and initial is None:
        raise ValueError(
            three_lines(
                f"{name} of an array {a.aval} at {current_source()}",
                f"zero-size array to reduction operation {name} which has no identity",
                "pass initial, the result of reducing nothing",
            )
        )
    a = cast(a, a.dtype)
    identity = reduction.lowest if name == "max" else reduction.highest
    if where is not None:
        a = masked(name, a, where, np.asarray(identity(a.dtype)).item())
    if axes:
        reduce = reduction.reduce_max if name == "max" else reduction.reduce_min
        a = reduce(a, axes)
    else:
        _unreduced(name, a)
    if initial is not None:
        a = (maximum if name == "max" else minimum)(a, _initial(name, initial, a))
    return kept(a, axes, keepdims)


@eager
def ptp(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the range, largest minus smallest element, along axes.

    `keepdims` keeps the reduced axes, with size 1.

    Example:
        >>> jnp.ptp(jnp.array([[1, 5], [2, 9]]), axis=1)
        Array([4, 7], dtype=int32)
    """
    refuse_out("ptp", out)
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@eager
def all(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether all elements along axes are true.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes, with size 1; `out`
    must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> bool(jnp.all(jnp.arange(3) < 3))
        True
    """
    refuse_out("all", out)
    return _logic("all", reduction.reduce_and, True, a, axis, keepdims, where)


@eager
def any(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether any element along axes is true.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes, with size 1; `out`
    must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.any(jnp.eye(2) > 0, axis=0)
        Array([ True,  True], dtype=bool)
    """
    refuse_out("any", out)
    return _logic("any", reduction.reduce_or, False, a, axis, keepdims, where)


def _logic(
    name: str, reduce: Reduction, neutral: bool, a: Any, axis: Any, keepdims: bool, where: Any
) -> Any:
    a = truth(one(name, a))
    axes = reduced_axes(name, axis, len(a.shape))
    if where is not None:
        a = choose_by(mask(name, where), a, neutral)
    return kept(reduce(a, axes) if axes else a, axes, keepdims)


@eager
def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Array:
    """Count the elements along axes that differ from zero.

    `keepdims` keeps the reduced axes, with size 1.

    Example:
        >>> jnp.count_nonzero(jnp.array([[0, 1], [2, 3]]), axis=0)
        Array([1, 2], dtype=int32)
    """
    return sum(truth(one("count_nonzero", a)), axis, dtypes.default_int_dtype(), keepdims=keepdims)


@eager
def argmax(
    a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the index of the first maximum along an axis, or in the flattened array.

    `keepdims` keeps the reduced axes, with size 1; `out` must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> int(jnp.argmax(jnp.array([3, 9, 9])))
        1
        >>> jnp.argmax(jnp.array([[1, 5], [7, 2]]), axis=1)
        Array([1, 0], dtype=int32)
    """
    refuse_out("argmax", out)
    return _position("argmax", reduction.argmax, a, axis, bool(keepdims))


@eager
def argmin(
    a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the index of the first minimum along an axis, or in the flattened array.

    `keepdims` keeps the reduced axes, with size 1; `out` must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> int(jnp.argmin(jnp.array([3, 9, 2])))
        2
    """
    refuse_out("argmin", out)
    return _position("argmin", reduction.argmin, a, axis, bool(keepdims))


def _position(name: str, find: Callable[..., Any], a: Any, axis: Any, keepdims: bool) -> Any:
    a = one(name, a)
    rank = len(a.shape)
    index = dtypes.default_int_dtype()
    if axis is None:
        flat = reshape(a, (a.size,))
        _check_not_empty(name, flat.aval, 0)
        found = find(flat, 0, index)
        return expand_dims(found, range(rank)) if keepdims and rank else found
    (axis,) = canonical_axes(name, axis, rank)
    _check_not_empty(name, a.aval, axis)
    return kept(find(a, axis, index), (axis,), keepdims)


def _check_not_empty(name: str, aval: ShapedArray, axis: int) -> None:
    if is_surely(aval.shape[axis], 0):
        raise ValueError(
            three_lines(
                f"{name} of an array {aval} at {current_source()}",
                f"attempt to get {name} of an empty sequence",
                "use an array with elements",
            )
        )


def element_count(a: Any, axes: tuple[int, ...]) -> Any:
    """Return the number of elements that are reduced to one."""
    count: Any = 1
    for d in axes:
        count = count * a.shape[d]
    return count


def real_part_of(a: Any) -> Any:
    """Return |a|^2 for complex numbers, a^2 for real ones."""
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        size = elementwise.abs(a)
        return elementwise.square(size)
    return elementwise.square(a)
