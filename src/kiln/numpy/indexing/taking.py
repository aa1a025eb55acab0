"""Indexing functions: take, put, choose, diagonals; and re-exports of the whole family.

`x[index]` is in `subscripts.py`, `x.at[index]` in `updates.py`, functions that create indices are
in `index_arrays.py`, and those whose result size depends on a condition in `nonzero.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.indexing.index_arrays import (
    diag_indices,
    diag_indices_from,
    in_range,
    integers,
    ix_,
    modulo,
    not_square,
    ravel_multi_index,
    tril_indices,
    tril_indices_from,
    triu_indices,
    triu_indices_from,
    unravel_index,
)
from kiln.numpy.indexing.index_expressions import along, joint_shape
from kiln.numpy.indexing.nonzero import (
    argwhere,
    compress,
    extract,
    flatnonzero,
    immutable,
    indices_of,
    mask_indices,
    nonzero,
    place,
)
from kiln.numpy.indexing.subscripts import clipped, getitem, read
from kiln.numpy.indexing.updates import AtIndexer, IndexUpdate, at
from kiln.numpy.promotion import broadcast_to, one, promote_dtypes, shape_of
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
)
from kiln.ops.indexing.indexing import gather
from kiln.ops.indexing.slicing import from_end
from kiln.ops.shape import canonical_axis, expand_dims, reshape
from kiln.ops.shape import full as filled_with

__all__ = [
    "AtIndexer",
    "IndexUpdate",
    "argwhere",
    "at",
    "choose",
    "compress",
    "diag_indices",
    "diag_indices_from",
    "extract",
    "fill_diagonal",
    "flatnonzero",
    "getitem",
    "indices_of",
    "ix_",
    "mask_indices",
    "nonzero",
    "place",
    "put",
    "put_along_axis",
    "ravel_multi_index",
    "take",
    "take_along_axis",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]

_INT32 = np.dtype(np.int32)


@eager
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Take elements along an axis, or from the flattened array if `axis` is None.

    `mode` says what out-of-bounds indices return: 'fill' (the default) returns `fill_value`, by
    default nan for floats; 'clip' the nearest element; 'wrap' counts modulo the size.

    Raises: NotImplementedError for mode 'raise' and for `out`.
    Example:
        >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
        Array([30, 10], dtype=int32)
    """
    _refuse_out("take", out)
    a, indices = one("take", a), one("take", indices)
    if axis is None:
        a, axis = reshape(a, (aval_of(a).size,)), 0
    elif not aval_of(a).shape and axis in (0, -1):
        a = reshape(a, (1,))
    shape = aval_of(a).shape
    axis = canonical_axis("take", axis, len(shape))
    index = integers("take", indices)
    size = shape[axis]
    if size == 0 and aval_of(index).size != 0:
        raise IndexError(
            three_lines(
                f"take: array {aval_of(a)}, indices {aval_of(index)} at {current_source()}",
                "Cannot do a non-empty jnp.take() from an empty axis.",
                "check the size of the axis first",
            )
        )
    how, index = _resolved("take", mode, index, size, axis)
    return read(
        a,
        along(shape, axis, index),
        mode=how,
        fill_value=fill_value,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        wrap=False,
    )


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(
            three_lines(
                f"{name}(..., out=...) at {current_source()}",
                f"The 'out' argument to kiln.numpy.{name} is not supported.",
                "use the result",
            )
        )


def _resolved(
    name: str, mode: str | None, index: Any, size: Dim, axis: int
) -> tuple[GatherScatterMode, Any]:
    """Return the mode, and the indices with negative and wrapping ones resolved."""
    if mode == "raise":
        raise NotImplementedError(
            three_lines(
                f"{name}(..., mode='raise') at {current_source()}",
                f"The 'raise' mode to kiln.numpy.{name} is not supported.",
                "use mode='fill', 'clip' or 'wrap'",
            )
        )
    if mode == "wrap":
        return PROMISE_IN_BOUNDS, modulo(index, size)
    if mode == "clip":
        return CLIP, index
    return GatherScatterMode.from_any(mode), from_end(index, size)


@eager
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Take elements along an axis by indices of the same rank, line by line.

    Raises: TypeError if the indices are not integers; ValueError for incompatible shapes.
    Example:
        >>> x = jnp.array([[3, 1], [2, 4]])
        >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
        Array([[1, 3],
               [2, 4]], dtype=int32)
        >>> jnp.take_along_axis(x, jnp.array([[1], [0]]), axis=1)
        Array([[1],
               [2]], dtype=int32)
    """
    arr, indices = one("take_along_axis", arr), one("take_along_axis", indices)
    dtype = aval_of(indices).dtype
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            three_lines(
                f"take_along_axis: indices {aval_of(indices)} at {current_source()}",
                f"take_along_axis indices must be of integer type, got {dtypes.long_name(dtype)}",
                "convert them first: indices.astype('int32')",
            )
        )
    if axis is None:
        arr, axis = reshape(arr, (aval_of(arr).size,)), 0
    rank = aval_of(arr).ndim
    _check_ranks("take_along_axis", arr, indices)
    axis = canonical_axis("take_along_axis", axis, rank)
    size = aval_of(arr).shape[axis]
    if wrap_negative_indices is not False:
        indices = from_end(indices, size)
    arr, indices = _lined_up(arr, indices, axis)
    others = tuple(i for i in range(rank) if i != axis)
    shape = aval_of(indices).shape
    # Of an axis without elements no position is read, whatever the indices say.
    if (type(size) is int and size == 0) or any(
        type(shape[i]) is int and shape[i] == 0 for i in others
    ):
        return filled_with(shape, 0, aval_of(arr).dtype)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    if mode == "one_hot":
        # A sum over all positions, of which one counts: out of bounds none does.
        mode, fill_value = "fill", 0
    how = FILL_OR_DROP if mode is None else GatherScatterMode.from_any(mode)
    if how is CLIP:
        indices = clipped(indices, size)
    return gather(
        arr,
        expand_dims(indices, (rank,)),
        numbers,
        (1,) * rank,
        mode=how,
        fill_value=fill_value,
    )


def _check_ranks(name: str, arr: Any, indices: Any) -> None:
    if aval_of(arr).ndim != aval_of(indices).ndim:
        raise ValueError(
            three_lines(
                f"{name}: array {aval_of(arr)}, indices {aval_of(indices)} at {current_source()}",
                "indices and arr must have the same number of dimensions; "
                f"{aval_of(indices).ndim} vs. {aval_of(arr).ndim}",
                "add axes of size 1 to the indices: indices[:, None]",
            )
        )


def _lined_up(arr: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Broadcast array and indices against each other along all axes but one."""
    own, theirs = list(aval_of(arr).shape), list(aval_of(indices).shape)
    size, count = own[axis], theirs[axis]
    own[axis] = theirs[axis] = 1
    common = list(joint_shape([tuple(theirs), tuple(own)]))
    common[axis] = size
    arr = broadcast_to(arr, tuple(common))
    common[axis] = count
    return arr, broadcast_to(indices, tuple(common))


def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """Return a copy with elements of the flattened array replaced; values repeat as needed.

    NumPy's changes its argument; `x.at[...].set(...)` is the usual way to write it.
    Raises: ValueError unless `inplace=False`: arrays are immutable.
    Example:
        >>> jnp.put(jnp.zeros((2, 2), int), jnp.array([1, 2]), jnp.array([7, 8]), inplace=False)
        Array([[0, 7],
               [8, 0]], dtype=int32)
    """
    if inplace:
        raise immutable("put")
    a, ind, v = one("put", a), one("put", ind), one("put", v)
    aval = aval_of(a)
    count: Any = aval_of(ind).size
    total: Any = aval_of(v).size
    if count == 0 or total == 0:
        return a
    how, index = _resolved("put", mode, integers("put", ind), aval.size, 0)
    flat = reshape(a, (aval.size,))
    values = getitem(reshape(v, (total,)), np.arange(count) % total)
    out = IndexUpdate(flat, reshape(index, (count,))).set(
        values, mode=how, wrap_negative_indices=False
    )
    return reshape(out, aval.shape)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """Return a copy with the elements that `take_along_axis` would take replaced.

    Raises: ValueError unless `inplace=False`: arrays are immutable.
    Example:
        >>> x = jnp.array([[1, 5], [6, 2]])
        >>> jnp.put_along_axis(x, x.argmax(1, keepdims=True), 0, axis=1, inplace=False)
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    if inplace:
        raise immutable("put_along_axis")
    arr, indices = one("put_along_axis", arr), one("put_along_axis", indices)
    shape = aval_of(arr).shape
    if axis is None:
        arr, axis = reshape(arr, (aval_of(arr).size,)), 0
    _check_ranks("put_along_axis", arr, indices)
    axis = canonical_axis("put_along_axis", axis, aval_of(arr).ndim)
    own = list(aval_of(arr).shape)
    own[axis] = aval_of(indices).shape[axis]
    target = tuple(own)
    indices = broadcast_to(indices, joint_shape([aval_of(indices).shape, target]))
    places = [
        indices if i == axis else broadcasted_iota(_INT32, target, i) for i in range(len(target))
    ]
    return reshape(IndexUpdate(arr, tuple(places)).set(values, mode=mode), shape)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Take each element from the choice whose number `a` gives.

    Raises: with mode 'raise', ValueError for a number out of range, ConcretizationTypeError if it
        cannot be checked because `a` is traced.
    Example:
        >>> jnp.choose(jnp.array([1, 0]), [jnp.array([10, 11]), jnp.array([20, 21])])
        Array([20, 11], dtype=int32)
    """
    _refuse_out("choose", out)
    a = one("choose", a)
    given = list(choices) if isinstance(choices, (list, tuple)) else list(one("choose", choices))
    cases = list(promote_dtypes(*[one("choose", choice) for choice in given]))
    cases = [convert_element_type(case, aval_of(case).dtype) for case in cases]
    index = in_range("choose", a, len(cases), mode, "invalid entry in choice array")
    common = joint_shape([shape_of(index), *map(shape_of, cases)])
    cases = [broadcast_to(case, common) for case in cases]
    if len(cases) == 1:
        return cases[0]
    return elementwise.select_n(broadcast_to(convert_element_type(index, _INT32), common), *cases)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """Return a copy with the diagonal replaced; values repeat as needed.

    NumPy's changes its argument and returns None.
    Raises: NotImplementedError for `wrap`, and unless `inplace=False`: arrays are immutable.
    Example:
        >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 3.0, inplace=False)
        Array([[3., 0.],
               [0., 3.]], dtype=float32)
    """
    if inplace or wrap:
        raise NotImplementedError(
            three_lines(
                f"fill_diagonal(..., wrap={wrap}, inplace={inplace}) at {current_source()}",
                "wrap=True is not implemented"
                if wrap
                else "kiln arrays are immutable, must use inplace=False",
                "pass inplace=False and leave wrap out",
            )
        )
    a = one("fill_diagonal", a)
    shape = aval_of(a).shape
    if len(shape) < 2:
        raise not_square("fill_diagonal", shape, "array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise not_square("fill_diagonal", shape, "All dimensions of input must be of equal length")
    n: Any = min(shape)
    values = asarray(val)
    count: Any = aval_of(values).size
    if count == 0 or n == 0:
        return a
    if aval_of(values).shape:
        values = getitem(reshape(values, (count,)), np.arange(n) % count)
    places = np.arange(n, dtype=np.int32)
    return IndexUpdate(a, (places,) * len(shape)).set(values, unique_indices=True)
