"""Storage of BCOO arrays: conversion to and from dense, order, duplicates, layout.

Batch axes of size 1 are broadcast, so functions are mapped by `broadcasting_vmap`. Elements outside
the array are padding: reads yield 0, writes are dropped.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

from kiln import lax
from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import Tracer
from kiln.experimental.sparse.bcoo_array import (
    BCOO,
    BCOOProperties,
    beside,
    check_indices,
    invalid,
    padding,
)
from kiln.experimental.sparse.util import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    nfold_vmap,
)


def columns(indices: Any) -> tuple[Any, ...]:
    """Return the indices along each sparse axis."""
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def static_count(nse: Any, what: str) -> int:
    """Return a number of elements, which must be static.

    Raises: TypeError if it is traced.
    """
    if isinstance(nse, Tracer):
        raise TypeError(
            three_lines(
                f"{what} at {current_source()}",
                "nse, the number of stored elements, depends on values that are not known while "
                "tracing",
                "pass nse=..., a Python int",
            )
        )
    return operator.index(nse)


def bcoo_todense(mat: BCOO) -> Any:
    """Return the dense array of a sparse one.

    Elements of `mat` with equal indices are summed; those out of bounds are dropped.
    """
    shape = (*mat.sparse_shape, *mat.dense_shape)

    def dense(data: Any, indices: Any) -> Any:
        if not indices.shape[-1]:
            return data.sum(0, dtype=data.dtype)
        return jnp.zeros(shape, data.dtype).at[columns(indices)].add(data)

    return jnp.broadcast_to(nfold_vmap(dense, mat.n_batch)(mat.data, mat.indices), mat.shape)


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = None
) -> BCOO:
    """Return the nonzero elements of a dense array as a sparse one.

    `nse` is the number of elements stored in each batch, by default the largest that is needed.
    Raises: TypeError without `nse` in traced code.
    """
    mat = jnp.asarray(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    there = mat != 0
    if n_dense:
        there = there.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = there.sum(tuple(range(n_batch, there.ndim)))
    if nse is None:
        nse = static_count(counts.max(initial=0), "BCOO.fromdense")
    nse = static_count(nse, "BCOO.fromdense")
    inner = mat.shape[n_batch : n_batch + n_sparse]
    dtype = jnp.dtype(index_dtype or jnp.int32)

    def indices_of(flags: Any) -> Any:
        if not inner:
            return jnp.zeros((nse, 0), dtype)
        found = jnp.nonzero(flags, size=nse, fill_value=inner)
        return jnp.stack(found, -1).astype(dtype)

    indices = nfold_vmap(indices_of, n_batch, broadcasted=False)(there)
    data = extracted(indices, mat)
    if not n_sparse:
        # The array is a single dense element, whose zeros are stored, too.
        counts = jnp.ones_like(counts)
    stored = lax.broadcasted_iota(counts.dtype, (*counts.shape, nse), n_batch) < counts[..., None]
    data = jnp.where(jnp.expand_dims(stored, tuple(range(stored.ndim, data.ndim))), data, 0)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def extracted(indices: Any, mat: Any, unique: bool = True) -> Any:
    """Return the elements of a dense array at indices; if `unique`, only the first of equal ones.

    Shapes: `mat` dense, indices (*batch, nse, n_sparse) -> (*batch, nse, *dense). Elements out of
        bounds are 0.
    """
    props = check_indices(indices, mat.shape)

    def read(index: Any, x: Any) -> Any:
        if not props.n_sparse:
            out = jnp.broadcast_to(x, (props.nse, *x.shape))
        else:
            out = x.at[columns(index)].get(mode="fill", fill_value=0)
        if unique:
            return out
        first = _is_first(index)
        return jnp.where(jnp.expand_dims(first, tuple(range(1, out.ndim))), out, 0)

    return nfold_vmap(read, props.n_batch)(indices, mat)


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """Return the elements of a dense array at the indices of a sparse one.

    Unless indices are known to be unique, or assumed to be, each element is extracted once.
    Raises: TypeError if the first argument is not a BCOO array; ValueError for another shape.
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"First argument to bcoo_extract should be a BCOO array. Got {type(sparr)}")
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise invalid(
            "bcoo_extract",
            f"shape mismatch: {sparr.shape=} {arr.shape=}",
            "pass arrays of equal shape",
        )
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    return BCOO((extracted(sparr.indices, arr, unique), sparr.indices), **sparr._info._asdict())


def _sorted(indices: Any) -> tuple[Any, Any]:
    """Return sorted indices [nse, n_sparse], and the permutation."""
    nse, n_sparse = indices.shape
    *cols, order = lax.sort(
        (*columns(indices), lax.iota(indices.dtype, nse)), dimension=0, num_keys=n_sparse
    )
    return jnp.stack(cols, -1), order


def _starts(ordered: Any) -> Any:
    """Tell where a run of equal indices starts."""
    changes = (ordered[1:] != ordered[:-1]).any(-1)
    return jnp.concatenate([jnp.ones(min(1, ordered.shape[0]), bool), changes])


def _is_first(indices: Any) -> Any:
    if not indices.shape[-1]:
        return jnp.arange(indices.shape[0]) == 0
    ordered, order = _sorted(indices)
    return jnp.zeros(order.shape, bool).at[order].set(_starts(ordered))


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Return the array with its elements in the order of their indices.

    Each batch of `mat` is sorted on its own; the sort is lexicographic.
    """
    data, indices = mat.data, mat.indices
    if mat.n_sparse:
        indices, order = nfold_vmap(_sorted, mat.n_batch, broadcasted=False)(indices)
        data = nfold_vmap(lambda d, o: d[o], mat.n_batch)(data, order)
    return BCOO(
        (data, indices), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


def _groups(indices: Any, none: Any) -> tuple[Any, Any, Any]:
    """Return the distinct indices in order, the position of each index, and their number.

    Padding comes last, and is not counted.
    """
    limits = beside(none, indices)
    outside = (indices >= limits).any(-1, keepdims=True)
    ordered, order = _sorted(jnp.where(outside, limits, indices))
    starts = _starts(ordered)
    place = jnp.cumsum(starts, dtype=jnp.int32) - 1
    places = jnp.zeros_like(place).at[order].set(place)
    different = jnp.broadcast_to(none, indices.shape).at[place].set(ordered)
    count = (starts & (ordered < limits).all(-1)).sum()
    return different, places, count


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the array with duplicates summed, sorted by index.

    `nse` is the number of stored elements of the result: missing ones are padded, surplus ones
    dropped.
    Raises: TypeError without `nse` in traced code.
    """
    props, shape = mat.props, mat.shape
    data, indices = mat.data, mat.indices
    none = padding(shape, props, indices.dtype)
    if not props.n_sparse:
        nse = 1 if nse is None else static_count(nse, "bcoo_sum_duplicates")
        indices = jnp.zeros((*indices.shape[:-2], nse, 0), indices.dtype)
        total = data.sum(props.n_batch, keepdims=True, dtype=data.dtype)
        rest = jnp.zeros((*total.shape[: props.n_batch], max(nse - 1, 0), *mat.dense_shape))
        kept = lax.slice_in_dim(total, 0, min(nse, 1), axis=props.n_batch)
        data = jnp.concatenate([kept, rest.astype(data.dtype)], props.n_batch)
    else:
        grouped = nfold_vmap(
            functools.partial(_groups, none=none), props.n_batch, broadcasted=False
        )
        different, places, counts = grouped(indices)
        if nse is None:
            nse = static_count(counts.max(initial=0), "bcoo_sum_duplicates")
        nse = static_count(nse, "bcoo_sum_duplicates")
        indices = _resized(different, nse, none)

        def gathered(values: Any, place: Any) -> Any:
            out = jnp.zeros((nse, *values.shape[1:]), values.dtype)
            return out.at[place].add(values, mode="drop")

        data = nfold_vmap(gathered, props.n_batch)(data, places)
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def _resized(indices: Any, nse: int, none: Any) -> Any:
    if nse <= indices.shape[-2]:
        return indices[..., :nse, :]
    more = (*indices.shape[:-2], nse - indices.shape[-2], indices.shape[-1])
    return jnp.concatenate([indices, jnp.broadcast_to(none, more)], -2)


def bcoo_set_nse(mat: BCOO, nse: int) -> BCOO:
    """Return the array with `nse` stored elements: padded or truncated.

    Elements of `mat` beyond the first `nse` are lost.
    """
    if mat.nse == nse:
        return mat
    at = mat.n_batch
    indices = _resized(mat.indices, nse, padding(mat.shape, mat.props, mat.indices.dtype))
    if nse < mat.nse:
        data = lax.slice_in_dim(mat.data, 0, nse, axis=at)
    else:
        widths = [(0, nse - mat.nse if axis == at else 0) for axis in range(mat.data.ndim)]
        data = jnp.pad(mat.data, widths)
    return BCOO((data, indices), **mat._info._asdict())


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the array without stored zeros and duplicates; not for derivatives.

    `mat` is an array of any layout. `nse` is the number of stored elements, by default as many as
    needed.
    Raises: TypeError without `nse` in traced code.
    """
    zero = (mat.data == 0).all(tuple(range(mat.n_batch + 1, mat.data.ndim)))
    # Indices that are broadcast along a batch axis are removed only if all their elements are zero.
    repeated = tuple(a for a in range(mat.n_batch) if mat.indices.shape[a] == 1)
    zero = zero.all(repeated, keepdims=True)
    none = padding(mat.shape, mat.props, mat.indices.dtype)
    indices = jnp.where(zero[..., None], none, mat.indices)
    return bcoo_sum_duplicates(BCOO((mat.data, indices), shape=mat.shape), nse=nse)


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """Return the array with other numbers of batch and dense axes.

    `on_inefficient` ('error', 'warn', None) is the action if many zeros would be stored.
    Raises: ValueError for impossible numbers; SparseEfficiencyError.
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    if on_inefficient not in ("error", "warn", None):
        raise invalid(
            "update_layout", f"{on_inefficient=}", "expected one of ['error', 'warn', None]"
        )
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise invalid(
            f"update_layout of {mat!r}",
            f"sum of {n_batch=} and {n_dense=} cannot be larger than mat.ndim={mat.ndim}, and "
            "neither may be negative",
            "choose other numbers",
        )
    more_dense = mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]
    more_batch = mat.shape[mat.n_batch : n_batch]
    for name, sizes in (("n_dense", more_dense), ("n_batch", more_batch)):
        if any(n > 1 for n in sizes):
            _inefficient(mat, name, on_inefficient)
    props = mat.props
    data, indices = mat.data, mat.indices
    if n_dense < props.n_dense:
        data, indices = _dense_to_sparse(data, indices, props, props.n_dense - n_dense)
        props = _counted(mat, data, indices)
    if n_batch < props.n_batch:
        data, indices = _batch_to_sparse(data, indices, mat.shape, props, n_batch)
        props = _counted(mat, data, indices)
    if n_dense > props.n_dense:
        n = n_dense - props.n_dense
        data, indices = _sparse_to_dense(data, indices, mat.shape, props, n)
        props = _counted(mat, data, indices)
    if n_batch > props.n_batch:
        data, indices = _sparse_to_batch(data, indices, mat.shape, props, n_batch)
    return BCOO((data, indices), shape=mat.shape)


def _counted(mat: BCOO, data: Any, indices: Any) -> BCOOProperties:
    n_batch = indices.ndim - 2
    return BCOOProperties(n_batch, indices.shape[-1], data.ndim - 1 - n_batch, indices.shape[-2])


def _inefficient(mat: BCOO, name: str, on_inefficient: str | None) -> None:
    text = f"For matrix of shape {mat.shape}, increasing {name} results in inefficient storage"
    if on_inefficient == "error":
        raise SparseEfficiencyError(f"{text}; pass on_inefficient='warn' or None to do it")
    if on_inefficient == "warn":
        warnings.warn(text, SparseEfficiencyWarning, stacklevel=5)


def _grid(shape: Sequence[int], dtype: Any) -> Any:
    """Return the indices of all elements of an array, [*shape, len(shape)]."""
    return jnp.stack([lax.broadcasted_iota(dtype, shape, i) for i in range(len(shape))], -1)


def _dense_to_sparse(data: Any, indices: Any, props: BCOOProperties, n: int) -> tuple[Any, Any]:
    batch = props.n_batch
    axes = data.shape[batch + 1 : batch + 1 + n]
    nse = props.nse * math.prod(axes)
    inner = _grid(axes, indices.dtype).reshape(-1, n)
    whole = (*indices.shape[:batch], props.nse, inner.shape[0])
    indices = jnp.concatenate(
        [
            jnp.broadcast_to(indices[..., None, :], (*whole, props.n_sparse)),
            jnp.broadcast_to(inner, (*whole, n)),
        ],
        -1,
    )
    return (
        data.reshape(*data.shape[:batch], nse, *data.shape[batch + 1 + n :]),
        indices.reshape(*whole[:batch], nse, props.n_sparse + n),
    )


def _batch_to_sparse(
    data: Any, indices: Any, shape: Sequence[int], props: BCOOProperties, n_batch: int
) -> tuple[Any, Any]:
    n = props.n_batch - n_batch
    axes = tuple(shape[n_batch : props.n_batch])
    rest = data.shape[props.n_batch :]
    nse = math.prod(axes) * props.nse
    data = jnp.broadcast_to(data, (*data.shape[:n_batch], *axes, *rest))
    whole = (*indices.shape[:n_batch], *axes, props.nse)
    outer = jnp.expand_dims(_grid(axes, indices.dtype), n)
    indices = jnp.concatenate(
        [
            jnp.broadcast_to(outer, (*whole, n)),
            jnp.broadcast_to(indices, (*whole, props.n_sparse)),
        ],
        -1,
    )
    return (
        data.reshape(*data.shape[:n_batch], nse, *rest[1:]),
        indices.reshape(*whole[:n_batch], nse, props.n_sparse + n),
    )


def _sparse_to_dense(
    data: Any, indices: Any, shape: Sequence[int], props: BCOOProperties, n: int
) -> tuple[Any, Any]:
    block = tuple(shape[len(shape) - props.n_dense - n :])

    def spread(values: Any, index: Any) -> Any:
        return jnp.zeros(block, values.dtype).at[tuple(index)].set(values)

    data = nfold_vmap(spread, props.n_batch + 1)(data, indices[..., props.n_sparse - n :])
    return data, indices[..., : props.n_sparse - n]


def _sparse_to_batch(
    data: Any, indices: Any, shape: Sequence[int], props: BCOOProperties, n_batch: int
) -> tuple[Any, Any]:
    n = n_batch - props.n_batch
    axes = tuple(shape[props.n_batch : n_batch])

    def spread(values: Any, index: Any) -> tuple[Any, Any]:
        place = (*columns(index[:, :n]), jnp.arange(props.nse))
        out = jnp.zeros((*axes, *values.shape), values.dtype).at[place].set(values)
        return out, jnp.broadcast_to(index[:, n:], (*axes, props.nse, props.n_sparse - n))

    return nfold_vmap(spread, props.n_batch)(data, indices)
