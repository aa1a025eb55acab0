"""Operations that rearrange a BCOO array: transposition, slicing, concatenation.

They have the signatures of the `lax` functions of the same name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.api.make_jaxpr import eval_shape
from kiln.api.mapping.vmap import vmap
from kiln.experimental.sparse.bcoo_array import BCOO, beside, invalid, not_done, padding
from kiln.experimental.sparse.bcoo_storage import (
    bcoo_set_nse,
    bcoo_sum_duplicates,
    bcoo_update_layout,
    columns,
)
from kiln.jit.signatures.struct import ShapeDtypeStruct


def dense_type(mat: Any) -> ShapeDtypeStruct:
    """Return the type of the dense array, for checking arguments.

    `mat` has a shape and a dtype.
    """
    return ShapeDtypeStruct(mat.shape, mat.dtype)


def _split_axes(mat: BCOO, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    first = mat.n_batch + mat.n_sparse
    values = list(values)
    return values[: mat.n_batch], values[mat.n_batch : first], values[first:]


def _permutations(mat: BCOO, permutation: Any) -> tuple[list[int], list[int], list[int]]:
    if not isinstance(permutation, (tuple, list, np.ndarray)):
        raise TypeError(
            f"transpose permutation must be a tuple/list/ndarray, got {type(permutation)}."
        )
    axes = [operator.index(p) for p in permutation]
    if sorted(axes) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for shape {mat.shape}."
        )
    batch, inner, dense = _split_axes(mat, axes)
    first = mat.n_batch + mat.n_sparse
    if sorted(batch) != list(range(mat.n_batch)) or sorted(dense) != list(range(first, mat.ndim)):
        raise not_done(
            f"permutation {tuple(axes)} of {mat!r}",
            "batch, sparse and dense axes can only be permuted among themselves",
            "change the layout first: update_layout(n_batch=0, n_dense=0)",
        )
    return batch, [p - mat.n_batch for p in inner], [p - first for p in dense]


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Return the array with its axes permuted, each kind of axes among themselves.

    Raises: NotImplementedError if kinds would be mixed; TypeError if it is not a permutation.
    """
    batch, inner, dense = _permutations(mat, permutation)
    if list(permutation) == list(range(mat.ndim)):
        return BCOO(mat._bufs, **mat._info._asdict())
    at = mat.n_batch
    indices, data = mat.indices, mat.data
    if inner != sorted(inner):
        indices = indices[..., np.array(inner)]
    if batch != sorted(batch):
        indices = indices.transpose(*batch, at, at + 1)
    if [*batch, *dense] != [*sorted(batch), *sorted(dense)]:
        data = data.transpose(*batch, at, *(d + at + 1 for d in dense))
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[p] for p in permutation),
        unique_indices=mat.unique_indices,
    )


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> BCOO:
    """Return the array broadcast along new axes; those before sparse ones are batch axes.

    Raises: ValueError if kinds of axes would be mixed; NotImplementedError for new sparse axes
        with a size other than 1.
    """
    shape = tuple(shape)
    places = tuple(broadcast_dimensions)
    if len(places) != mat.ndim:
        raise invalid(
            f"broadcast_in_dim of {mat!r}",
            f"{places=} must have the same length as the shape",
            "name an axis of the result for each axis",
        )
    batch, inner, dense = _split_axes(mat, places)
    end = len(shape)
    if max(batch, default=0) > min(inner, default=end) or (
        max(inner, default=0) > min(dense, default=end)
    ):
        raise invalid(
            f"broadcast_in_dim of {mat!r} to {shape}",
            "Cannot mix batch and sparse dimensions, or sparse and dense dimensions",
            "keep the axes in order, or call update_layout first",
        )
    n_batch = min(places[mat.n_batch :], default=end)
    n_dense = end - min(dense) if dense else 0
    n_sparse = end - n_batch - n_dense
    if math.prod(mat.sparse_shape) != math.prod(shape[n_batch : n_batch + n_sparse]):
        raise not_done(
            f"broadcast_in_dim of {mat!r} to {shape}",
            "Adding sparse dimensions with lengths != 1 would store elements many times",
        )
    data, indices = mat.data, mat.indices
    if (n_batch, n_dense) != (mat.n_batch, mat.n_dense):
        dense_at = [d + 1 - n_sparse for d in dense]
        data = lax.broadcast_in_dim(
            data,
            (*shape[:n_batch], mat.nse, *shape[n_batch + n_sparse :]),
            (*batch, n_batch, *dense_at),
        )
        indices = lax.broadcast_in_dim(
            indices,
            (*shape[:n_batch], mat.nse, mat.n_sparse),
            (*batch, n_batch, n_batch + 1),
        )
    if n_sparse != mat.n_sparse:
        at = np.array(inner, int) - n_batch
        wider = jnp.zeros((*indices.shape[:-1], n_sparse), indices.dtype)
        indices = wider.at[..., at].set(indices)
    return BCOO((data, indices), shape=shape)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Join arrays of one layout along a batch or sparse axis.

    Raises: ValueError for different layouts; NotImplementedError along a dense axis.
    """
    dimension = operator.index(dimension)
    if not all(isinstance(x, BCOO) for x in operands):
        raise invalid(
            "bcoo_concatenate",
            "expected operands to be a sequence of BCOO arrays",
            "make them sparse with BCOO.fromdense",
        )
    out = eval_shape(lambda *xs: lax.concatenate(xs, dimension), *map(dense_type, operands))
    operands = _with_equal_batches(operands)
    layouts = {(x.n_batch, x.n_dense) for x in operands}
    if len(layouts) > 1:
        raise invalid(
            "bcoo_concatenate",
            "requires inputs to have matching batch and dense dimensions",
            "call update_layout first",
        )
    n_batch, n_sparse = operands[0].n_batch, operands[0].n_sparse
    if dimension >= n_batch + n_sparse:
        raise not_done(
            f"concatenation of {operands[0]!r} and others along axis {dimension}",
            "it is a dense dimension, along which the arrays have different indices",
        )
    stored = {_batch_sizes(x, dimension) for x in operands}
    if len(stored) > 1:
        raise not_done(
            "bcoo_concatenate",
            "concatenation of arrays with broadcasted batch indices: they repeat differently",
        )
    if dimension < n_batch:
        most = max(x.nse for x in operands)
        operands = [bcoo_set_nse(x, most) for x in operands]
        data = lax.concatenate([x.data for x in operands], dimension)
        indices = lax.concatenate([x.indices for x in operands], dimension)
    else:
        offsets = np.cumsum([0, *(x.shape[dimension] for x in operands[:-1])])
        data = lax.concatenate([x.data for x in operands], n_batch)
        moved = [
            x.indices.at[..., dimension - n_batch].add(np.array(offset, x.indices.dtype))
            for x, offset in zip(operands, offsets, strict=True)
        ]
        indices = lax.concatenate(moved, n_batch)
    return BCOO((data, indices), shape=out.shape)


def _batch_sizes(x: BCOO, without: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(n for i, n in enumerate(buffer.shape[: x.n_batch]) if i != without)
        for buffer in x._bufs
    )


def _with_equal_batches(operands: Sequence[BCOO]) -> list[BCOO]:
    """Add the batch axis of the other arrays to those without it, such as x[None], or remove it."""
    found = {x.n_batch for x in operands}
    if len(found) == 1 or max(found) != 1:
        return list(operands)
    for n in (1, 0):
        if all(x.shape[0] == 1 for x in operands if x.n_batch != n):
            return [bcoo_update_layout(x, n_batch=n) for x in operands]
    return list(operands)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> BCOO:
    """Return the array with another shape, each kind of axes reshaped by itself.

    `dimensions` permutes the axes first.
    Raises: ValueError if the shape mixes kinds of axes.
    """
    sizes = tuple(int(n) for n in new_sizes)
    batch, inner, dense = _permutations(mat, dimensions or tuple(range(mat.ndim)))
    batch_size = math.prod(mat.shape[: mat.n_batch])
    sparse_size = math.prod(mat.sparse_shape)
    ends = np.cumprod(sizes, dtype=int)
    kinds = ((batch_size, "batch and sparse"), (batch_size * sparse_size, "sparse and dense"))
    for size, between in kinds:
        if size not in (1, *ends):
            raise invalid(
                f"reshape of {mat!r} to {sizes}",
                f"bcoo_reshape: new shape cannot mix {between} dimensions",
                "call update_layout first",
            )
    first = int(ends.searchsorted(batch_size, side="right"))
    second = max(first, int(ends.searchsorted(batch_size * sparse_size, side="right")))
    outer, middle, block = sizes[:first], sizes[first:second], sizes[second:]
    at = mat.n_batch
    whole = mat.shape[:at]
    data = lax.reshape(
        jnp.broadcast_to(mat.data, (*whole, *mat.data.shape[at:])),
        (*outer, mat.nse, *block),
        (*batch, at, *(p + at + 1 for p in dense)),
    )
    indices = lax.reshape(
        jnp.broadcast_to(mat.indices, (*whole, *mat.indices.shape[at:])),
        (*outer, mat.nse, mat.n_sparse),
        (*batch, at, at + 1),
    )
    if not middle:
        indices = jnp.zeros((*outer, mat.nse, 0), indices.dtype)
    elif mat.n_sparse:
        indices = _renumbered(indices, [mat.sparse_shape[p] for p in inner], inner, middle)
    else:
        indices = jnp.zeros((*outer, mat.nse, len(middle)), indices.dtype)
    return BCOO((data, indices), shape=sizes)


def _renumbered(
    indices: Any, axes: Sequence[int], order: Sequence[int], shape: Sequence[int]
) -> Any:
    cols = columns(indices)
    ordered = [cols[p] for p in order]
    flat = jnp.ravel_multi_index(tuple(ordered), tuple(axes), mode="clip")
    limits = np.array(axes, indices.dtype)
    stacked = jnp.stack(ordered, -1)
    outside = (stacked >= beside(limits, stacked)).any(-1, keepdims=True)
    moved = jnp.stack(jnp.unravel_index(flat, tuple(shape)), -1).astype(indices.dtype)
    return jnp.where(outside, beside(np.array(shape, indices.dtype), moved), moved)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Return the array with the order of elements reversed along axes.

    `dimensions` are numbers of axes, of any kind.
    Raises: the errors of `lax.rev`.
    """
    eval_shape(lambda x: lax.rev(x, dimensions), dense_type(operand))
    first = operand.n_batch + operand.n_sparse
    batch = [d for d in dimensions if d < operand.n_batch]
    inner = np.array([d - operand.n_batch for d in dimensions if operand.n_batch <= d < first], int)
    dense = [d + 1 - operand.n_sparse for d in dimensions if d >= first]
    data, indices = operand.data, operand.indices
    if batch:
        indices = lax.rev(indices, batch)
    if batch or dense:
        data = lax.rev(data, [*batch, *dense])
    if inner.size:
        limits = beside(padding(operand.shape, operand.props, indices.dtype), indices)
        mirrored = indices.at[..., inner].set(limits[..., inner] - 1 - indices[..., inner])
        # Padding would be mirrored to negative indices.
        indices = jnp.where(mirrored < 0, limits, mirrored)
    return BCOO((data, indices), shape=operand.shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Return the array without some axes of size 1.

    Raises: ValueError if an axis has another size.
    """
    gone = {range(arr.ndim)[d] for d in dimensions}
    if any(arr.shape[d] != 1 for d in gone):
        raise invalid(
            f"squeeze of {arr!r} along {tuple(dimensions)}",
            "cannot select an axis to squeeze out which has size not equal to one",
            "name axes of size 1",
        )
    first = arr.n_batch + arr.n_sparse
    batch = tuple(d for d in sorted(gone) if d < arr.n_batch)
    kept = [i for i in range(arr.n_sparse) if i + arr.n_batch not in gone]
    dense = tuple(d - arr.n_sparse + 1 for d in sorted(gone) if d >= first)
    indices = arr.indices
    if len(kept) < arr.n_sparse:
        indices = indices[..., np.array(kept, int)]
    return BCOO(
        (lax.squeeze(arr.data, (*batch, *dense)), lax.squeeze(indices, batch)),
        shape=tuple(n for i, n in enumerate(arr.shape) if i not in gone),
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def _kept(mat: BCOO, data: Any, indices: Any, keep: Any, shape: Sequence[int]) -> BCOO:
    """Return the elements selected by `keep`, with at most as many as the result has places."""
    there = jnp.expand_dims(keep, tuple(range(keep.ndim, keep.ndim + mat.n_dense)))
    out = BCOO((jnp.where(there, data, 0), indices), shape=shape)
    most = math.prod(out.sparse_shape)
    if mat.nse <= most:
        return out
    fewer = bcoo_sum_duplicates(out, nse=most)
    return BCOO(fewer._bufs, shape=shape)


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """Return the slice of an array between indices, with strides.

    Raises: TypeError if it is not a BCOO array; ValueError for indices out of bounds.
    """
    if not isinstance(mat, BCOO):
        raise TypeError(f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}")
    starts = list(map(operator.index, start_indices))
    ends = list(map(operator.index, limit_indices))
    steps = [1] * mat.ndim if strides is None else list(map(operator.index, strides))
    if not len(starts) == len(ends) == len(steps) == mat.ndim:
        raise invalid(
            "bcoo_slice", f"indices must have size mat.ndim={mat.ndim}", "pass one per axis"
        )
    inside = all(0 <= a <= b <= n for a, b, n in zip(starts, ends, mat.shape, strict=True))
    if not inside or any(s <= 0 for s in steps):
        raise invalid(
            f"bcoo_slice of {mat!r}",
            f"invalid indices. Got {start_indices=}, {limit_indices=}, {strides=}",
            "0 <= start <= limit <= size, and strides are positive",
        )
    parts = [slice(*part) for part in zip(starts, ends, steps, strict=True)]
    shape = tuple(len(range(n)[p]) for n, p in zip(mat.shape, parts, strict=True))
    batch, _, dense = _split_axes(mat, parts)
    every = slice(None)
    data = mat.data[(*_stored(mat, mat.data, batch), every, *dense)]
    indices = mat.indices[_stored(mat, mat.indices, batch)]
    if not mat.n_sparse:
        return BCOO((data, indices), shape=shape)
    a, b, s = (
        beside(np.array(_split_axes(mat, values)[1], indices.dtype), indices)
        for values in (starts, ends, steps)
    )
    keep = ((indices >= a) & (indices < b) & ((indices - a) % s == 0)).all(-1, keepdims=True)
    none = (b - a + s - 1) // s
    indices = jnp.where(keep, (indices - a) // s, none)
    return _kept(mat, data, indices, keep[..., 0], shape)


def _stored(mat: BCOO, buffer: Any, parts: Sequence[slice]) -> tuple[slice, ...]:
    # An axis along which the buffer is broadcast is kept.
    return tuple(p if buffer.shape[i] == mat.shape[i] else slice(None) for i, p in enumerate(parts))


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Return the slice of an array at traced indices, which are clamped.

    Raises: TypeError if it is not a BCOO array, or sizes exceed the shape.
    """
    if not isinstance(mat, BCOO):
        raise TypeError(f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}")
    sizes = tuple(map(operator.index, slice_sizes))
    starts = [jnp.asarray(i) for i in start_indices]
    eval_shape(lambda x, *i: lax.dynamic_slice(x, i, sizes), dense_type(mat), *starts)
    at = mat.n_batch
    batch, inner, dense = _split_axes(mat, starts)
    batch_sizes, sparse_sizes, dense_sizes = _split_axes(mat, sizes)
    zero = jnp.zeros((), starts[0].dtype if starts else jnp.int32)

    def part(buffer: Any, more: Sequence[Any], more_sizes: Sequence[int]) -> Any:
        repeated = [buffer.shape[i] != mat.shape[i] for i in range(at)]
        at_batch = [zero if r else i for r, i in zip(repeated, batch, strict=True)]
        of_batch = [1 if r else n for r, n in zip(repeated, batch_sizes, strict=True)]
        return lax.dynamic_slice(
            buffer, [*at_batch, zero, *more], [*of_batch, mat.nse, *more_sizes]
        )

    data = part(mat.data, dense, dense_sizes)
    indices = part(mat.indices, [zero], [mat.n_sparse])
    if not mat.n_sparse:
        return BCOO((data, indices), shape=sizes)
    whole = np.array(mat.sparse_shape, indices.dtype)
    wanted = np.array(sparse_sizes, indices.dtype)
    first = jnp.stack([i.astype(indices.dtype) for i in inner])
    first = jnp.clip(jnp.where(first < 0, first + whole, first), 0, whole - wanted)
    first, wanted = beside(first, indices), beside(wanted, indices)
    keep = ((indices >= first) & (indices < first + wanted)).all(-1, keepdims=True)
    indices = jnp.where(keep, indices - first, wanted)
    return _kept(mat, data, indices, keep[..., 0], sizes)


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Gather windows of an array, as `lax.gather` does for indices within bounds.

    Raises: NotImplementedError for another mode.
    """
    parsed = lax.GatherScatterMode.from_any(mode)
    if mode is not None and parsed != lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        raise not_done("bcoo_gather", f"{mode=} not yet supported", "use indices within bounds")
    options = {
        "dimension_numbers": dimension_numbers,
        "slice_sizes": tuple(slice_sizes),
        "unique_indices": unique_indices,
        "indices_are_sorted": indices_are_sorted,
        "mode": mode,
        "fill_value": fill_value,
    }
    index_type = ShapeDtypeStruct(start_indices.shape, start_indices.dtype)
    out = eval_shape(lambda x, i: lax.gather(x, i, **options), dense_type(operand), index_type)
    sizes = list(operand.shape)
    axes: list[int | None] = [None] * operand.ndim
    starts: list[Any] = [jnp.zeros((), start_indices.dtype)] * operand.ndim
    for i, axis in enumerate(dimension_numbers.start_index_map):
        starts[axis], axes[axis] = start_indices[..., i].ravel(), 0
        sizes[axis] = slice_sizes[axis]

    def one(*index: Any) -> BCOO:
        found = bcoo_dynamic_slice(operand, index, sizes)
        return bcoo_squeeze(found, dimensions=dimension_numbers.collapsed_slice_dims)

    result = vmap(one, tuple(axes))(*starts)
    outer = start_indices.shape[:-1]
    result = bcoo_reshape(result, new_sizes=(*outer, *result.shape[1:]))
    offsets = dimension_numbers.offset_dims
    places = [d for d in range(len(out.shape)) if d not in offsets]
    permutation = np.zeros(result.ndim, int)
    permutation[np.array([*places, *offsets], int)] = np.arange(result.ndim)
    if set(permutation[: len(places)]) != set(range(len(places))):
        result = bcoo_update_layout(result, n_batch=0)
    return bcoo_transpose(result, permutation=tuple(int(p) for p in permutation))
