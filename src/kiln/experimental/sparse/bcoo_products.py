"""Products, sums and convolutions of BCOO arrays, with dense arrays and with each other."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.api.make_jaxpr import eval_shape, make_jaxpr
from kiln.experimental.sparse.bcoo_arrangement import bcoo_transpose, dense_type
from kiln.experimental.sparse.bcoo_array import BCOO, beside, invalid, not_done, padding
from kiln.experimental.sparse.bcoo_storage import (
    bcoo_sum_duplicates,
    bcoo_update_layout,
    columns,
    extracted,
)
from kiln.experimental.sparse.util import nfold_vmap

Numbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def _axes(numbers: Any) -> tuple[tuple[int, ...], ...]:
    """Return contracted axes of both operands, then batch axes of both."""
    found = (axes for pair in numbers for axes in pair)
    return tuple(
        tuple(map(operator.index, axes))
        if isinstance(axes, (tuple, list, np.ndarray))
        else (operator.index(axes),)
        for axes in found
    )


def _others(axes: range, *taken: Sequence[int]) -> list[int]:
    gone = {a for group in taken for a in group}
    return [a for a in axes if a not in gone]


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Contract two arrays as `lax.dot_general` does: sparse if both are, dense otherwise.

    Raises: NotImplementedError for batch axes that are stored as sparse ones, and contracted
        dense axes.
    """
    kind = preferred_element_type
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_product(lhs, rhs, dimension_numbers, kind)
    if isinstance(lhs, BCOO):
        return _dense_product(lhs, jnp.asarray(rhs), dimension_numbers, kind)
    if isinstance(rhs, BCOO):
        contract, batch = dimension_numbers
        turned = (tuple(contract)[::-1], tuple(batch)[::-1])
        out = _dense_product(rhs, jnp.asarray(lhs), turned, kind)
        n_contract, n_batch = len(_axes(turned)[0]), len(_axes(turned)[2])
        swap = rhs.ndim - n_contract
        return lax.transpose(out, (*range(n_batch), *range(swap, out.ndim), *range(n_batch, swap)))
    return lax.dot_general(
        lhs, rhs, dimension_numbers, precision=precision, preferred_element_type=kind
    )


def _product_type(lhs: Any, rhs: Any, numbers: Any, kind: Any) -> Any:
    return eval_shape(
        lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=kind),
        dense_type(lhs),
        dense_type(rhs),
    )


def _dense_product(lhs: BCOO, rhs: Any, numbers: Any, kind: Any) -> Any:
    out_type = _product_type(lhs, rhs, numbers, kind)
    contract, rhs_contract, batch, rhs_batch = _axes(numbers)
    if any(d >= lhs.n_batch for d in batch):
        raise not_done(
            f"product of {lhs!r}",
            "bcoo_dot_general batch dimensions must be among the batch dimensions in the sparse "
            "representation",
            "call update_layout(n_batch=...) first",
        )
    if any(d >= lhs.n_batch + lhs.n_sparse for d in contract):
        raise not_done(
            f"product of {lhs!r}",
            "bcoo_dot_general: contracting over dense dimensions",
            "call update_layout(n_dense=0) first",
        )
    # Contracted batch axes become the first sparse axes.
    pairs = sorted(zip(contract, rhs_contract, strict=True))
    moved = [a for a, _ in pairs if a < lhs.n_batch]
    free = _others(range(lhs.n_batch), batch, moved)
    order = (*batch, *free, *moved, *range(lhs.n_batch, lhs.ndim))
    mat = bcoo_transpose(lhs, permutation=order)
    mat = bcoo_update_layout(mat, n_batch=lhs.n_batch - len(moved))
    first = mat.n_batch
    inner = [*range(len(moved)), *(a - lhs.n_batch + len(moved) for a, _ in pairs[len(moved) :])]
    outer = _others(range(mat.n_sparse), inner)
    rest = _others(range(rhs.ndim), rhs_batch, rhs_contract)
    rhs = lax.transpose(rhs, (*rhs_batch, *(b for _, b in pairs), *rest))
    rhs = lax.expand_dims(rhs, tuple(range(len(batch), first)))
    n_dense = mat.n_dense
    shape = out_type.shape[first:]

    def product(data: Any, indices: Any, y: Any) -> Any:
        cols = columns(indices)
        if inner:
            y = y.at[tuple(cols[i] for i in inner)].get(mode="fill", fill_value=0)
        else:
            y = jnp.expand_dims(y, 0)
        if not outer and inner and not n_dense:
            return lax.dot_general(
                data.astype(out_type.dtype), y.astype(out_type.dtype), (((0,), (0,)), ((), ()))
            )
        block = jnp.expand_dims(data, tuple(range(data.ndim, data.ndim + len(rest))))
        y = jnp.expand_dims(y, tuple(range(1, 1 + n_dense)))
        terms = block.astype(out_type.dtype) * y.astype(out_type.dtype)
        if not outer:
            return terms.sum(0, dtype=out_type.dtype)
        out = jnp.zeros(shape, out_type.dtype)
        return out.at[tuple(cols[i] for i in outer)].add(terms)

    out = nfold_vmap(product, first)(mat.data, mat.indices, rhs)
    return jnp.broadcast_to(out, out_type.shape)


def _sparse_product(lhs: BCOO, rhs: BCOO, numbers: Any, kind: Any) -> BCOO:
    out_type = _product_type(lhs, rhs, numbers, kind)
    contract, rhs_contract, batch, rhs_batch = _axes(numbers)
    if lhs.n_dense or rhs.n_dense:
        raise not_done("bcoo_spdot_general", "it does not support dense dimensions")
    for mat, axes, along in ((lhs, batch, contract), (rhs, rhs_batch, rhs_contract)):
        if any(d >= mat.n_batch for d in axes):
            raise not_done(
                f"product of {mat!r} with a sparse array",
                "bcoo_spdot_general: batch_dims must correspond to batch dimensions of the sparse "
                "representation",
                "call update_layout(n_batch=...) first",
            )
        if any(d < mat.n_batch for d in along):
            raise not_done(
                f"product of {mat!r} with a sparse array",
                "bcoo_spdot_general only supports contraction of sparse indices",
                "call update_layout(n_batch=...) first",
            )
    outer_l = _others(range(lhs.n_sparse), [d - lhs.n_batch for d in contract])
    outer_r = _others(range(rhs.n_sparse), [d - rhs.n_batch for d in rhs_contract])
    free_l = _others(range(lhs.n_batch), batch)
    free_r = _others(range(rhs.n_batch), rhs_batch)
    if free_r and outer_l:
        raise invalid(
            f"product of {lhs!r} and {rhs!r}",
            "bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on "
            "lhs",
            "change a layout with update_layout",
        )
    n_batch = len(batch) + len(free_l) + len(free_r)
    most = math.prod(out_type.shape[n_batch:])
    nse = min((lhs.nse if outer_l else 1) * (rhs.nse if outer_r else 1), most)
    product: Callable[..., Any] = functools.partial(
        _one_sparse_product,
        axes=(
            [d - lhs.n_batch for d in contract],
            [d - rhs.n_batch for d in rhs_contract],
            outer_l,
            outer_r,
        ),
        limits=(padding(lhs.shape, lhs.props, np.int64), padding(rhs.shape, rhs.props, np.int64)),
        shape=out_type.shape[n_batch:],
        dtype=out_type.dtype,
        nse=nse,
    )
    product = nfold_vmap(product, len(free_r), in_axes=(None, None, 0, 0))
    product = nfold_vmap(product, len(free_l), in_axes=(0, 0, None, None))
    product = nfold_vmap(product, len(batch))
    buffers = [
        lax.transpose(x, (*axes, *range(mat.n_batch, x.ndim)))
        for mat, axes in ((lhs, (*batch, *free_l)), (rhs, (*rhs_batch, *free_r)))
        for x in mat._bufs
    ]
    return BCOO(product(*buffers), shape=out_type.shape)


def _one_sparse_product(
    data: Any,
    indices: Any,
    rhs_data: Any,
    rhs_indices: Any,
    *,
    axes: Any,
    limits: Any,
    shape: tuple[int, ...],
    dtype: Any,
    nse: int,
) -> tuple[Any, Any]:
    """Multiply each element of one array with each of the other whose index agrees."""
    inner_l, inner_r, outer_l, outer_r = (np.array(a, int) for a in axes)
    mine, theirs = indices[:, inner_l], rhs_indices[:, inner_r]
    meets = (mine[:, None] == theirs[None, :]).all(-1)
    meets &= (mine < limits[0][None, inner_l].astype(mine.dtype)).all(-1)[:, None]
    meets &= (theirs < limits[1][None, inner_r].astype(theirs.dtype)).all(-1)[None, :]
    terms = data[:, None].astype(dtype) * rhs_data[None, :].astype(dtype)
    whole = meets.shape
    places = jnp.concatenate(
        [
            jnp.broadcast_to(indices[:, None, outer_l], (*whole, outer_l.size)),
            jnp.broadcast_to(rhs_indices[None, :, outer_r], (*whole, outer_r.size)),
        ],
        -1,
    )
    out = BCOO(
        (jnp.where(meets, terms, 0).ravel(), places.reshape(meets.size, places.shape[-1])),
        shape=shape,
    )
    # Zeros are kept: removing them is not differentiable.
    return bcoo_sum_duplicates(out, nse=nse)._bufs


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """Return the elements of a product of dense arrays at BCOO indices.

    Shapes: `A` and `B` as `dimension_numbers` say, as for `lax.dot_general`; indices (*batch, nse,
        n_sparse) of its result -> (*batch, nse, *dense).
    """
    contract, rhs_contract, batch, _rhs_batch = _axes(dimension_numbers)
    A, B = jnp.asarray(A), jnp.asarray(B)
    if batch or len(contract) != 1 or A.ndim != 2 or B.ndim != 2 or indices.shape[-1] != 2:
        return extracted(indices, lax.dot_general(A, B, dimension_numbers))
    # Only the requested rows and columns.
    rows = lax.transpose(A, (1 - contract[0], contract[0]))
    cols = lax.transpose(B, (1 - rhs_contract[0], rhs_contract[0]))
    left = rows.at[indices[:, 0]].get(mode="fill", fill_value=0)
    right = cols.at[indices[:, 1]].get(mode="fill", fill_value=0)
    return lax.dot_general(left, right, (((1,), (1,)), ((0,), (0,))))


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Return the sum over axes; elements with equal indices are kept as duplicates.

    `mat` may be summed over axes of any kind; sums over sparse axes only drop their indices.
    """
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    gone = sorted({operator.index(a) for a in axes})
    data = mat.data.sum(tuple(a - n_sparse + 1 for a in gone if a >= n_batch + n_sparse))
    indices = mat.indices
    if n_sparse:
        limits = padding(mat.shape, mat.props, indices.dtype)
        inside = (indices < beside(limits, indices)).all(-1)
        data = jnp.where(jnp.expand_dims(inside, tuple(range(inside.ndim, data.ndim))), data, 0)
    kept = np.array([i for i in range(n_sparse) if i + n_batch not in gone], int)
    indices = indices[..., kept]
    summed = [a for a in gone if a < n_batch]
    for a in summed:
        if data.shape[a] == indices.shape[a] == 1:
            data = data * np.array(mat.shape[a], data.dtype)
        elif data.shape[a] == 1:
            data = jnp.repeat(data, mat.shape[a], axis=a)
        elif indices.shape[a] == 1:
            data = data.sum(a, keepdims=True)
    outer = [a for a in range(n_batch) if a not in summed]
    nse = mat.nse * math.prod(data.shape[a] for a in summed)

    def merged(x: Any) -> Any:
        order = (*outer, *summed, *range(n_batch, x.ndim))
        sizes = [x.shape[a] for a in outer]
        return lax.reshape(x, (*sizes, nse, *x.shape[n_batch + 1 :]), order)

    shape = tuple(n for a, n in enumerate(mat.shape) if a not in gone)
    return BCOO((merged(data), merged(indices)), shape=shape)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """Return the values of the product with a dense array; its indices are those of `sp_mat`.

    Raises: NotImplementedError if the product is larger than the sparse array.
    """
    v = jnp.asarray(v)
    if not v.ndim:
        return lax.mul(sp_mat.data, v)
    if v.ndim > sp_mat.ndim or jnp.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        raise not_done(
            f"product of {sp_mat!r} and an array of shape {v.shape}",
            "multiplication between sparse and dense is only implemented for cases where the "
            "output shape matches the sparse matrix shape",
        )
    v = lax.expand_dims(v, tuple(range(sp_mat.ndim - v.ndim)))
    n_sparse = sp_mat.n_sparse

    def times(data: Any, indices: Any, x: Any) -> Any:
        if not n_sparse:
            return data * x[None]
        cols = columns(indices)
        place = tuple(0 if n == 1 else i for i, n in zip(cols, x.shape[:n_sparse], strict=True))
        if all(n == 1 for n in x.shape[:n_sparse]):
            return data * x[place][None]
        return data * x.at[place].get(mode="fill", fill_value=0)

    return nfold_vmap(times, sp_mat.n_batch)(sp_mat.data, sp_mat.indices, v)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Return the elementwise product of two arrays; axes of size 1 are broadcast.

    Raises: TypeError for different numbers of axes; NotImplementedError for different numbers of
        dense axes.
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            "bcoo_multiply_sparse: arrays must have same number of dimensions, got "
            f"{lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        raise not_done(
            f"product of {lhs!r} and {rhs!r}", "arrays with differing numbers of dense dimensions"
        )
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n_batch) for x in (lhs, rhs))
    shape: Any = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    limits = [padding(x.shape, x.props, x.indices.dtype) for x in (lhs, rhs)]
    none = np.array(shape[n_batch : n_batch + lhs.n_sparse], lhs.indices.dtype)
    both = np.flatnonzero((limits[0] != 1) & (limits[1] != 1))
    nse = lhs.nse * rhs.nse

    def product(data: Any, indices: Any, rhs_data: Any, rhs_indices: Any) -> tuple[Any, Any]:
        meets = (indices[:, None, both] == rhs_indices[None, :, both]).all(-1)
        meets &= (indices < limits[0][None]).all(-1)[:, None]
        meets &= (rhs_indices < limits[1][None]).all(-1)[None, :]
        i, j = jnp.nonzero(meets, size=nse, fill_value=(lhs.nse, rhs.nse))
        there = i < lhs.nse
        terms = data.at[i].get(mode="fill", fill_value=0)
        terms = terms * rhs_data.at[j].get(mode="fill", fill_value=0)
        # Where one array has size 1, its index is 0, and the other's is used.
        places = jnp.maximum(indices.at[i].get(mode="clip"), rhs_indices.at[j].get(mode="clip"))
        return terms, jnp.where(there[:, None], places, none)

    data, indices = nfold_vmap(product, n_batch)(*lhs._bufs, *rhs._bufs)
    return BCOO((data, indices), shape=shape)


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Any, padding: Any, **options: Any
) -> BCOO:
    """Return the convolution of a signal with a kernel, one or both of which are sparse.

    The arguments are those of `lax.conv_general_dilated`; shapes are [1, 1, length].
    Raises: NotImplementedError for more batches, features, strides or dilations.
    """
    program = make_jaxpr(
        lambda x, y: lax.conv_general_dilated(x, y, window_strides, padding, **options)
    )(dense_type(lhs), dense_type(rhs))
    found = program.eqns[-1].params
    ones = (1,) * (lhs.ndim - 2)
    plain = all(
        tuple(found[name]) == ones for name in ("lhs_dilation", "rhs_dilation", "window_strides")
    )
    single = lhs.shape[:2] == rhs.shape[:2] == (1, 1) and lhs.ndim == 3
    if not plain or not single or found["feature_group_count"] != 1:
        raise not_done(
            "bcoo_conv_general_dilated",
            "leading dimensions other than (1, 1), more than one axis, dilations, strides and "
            "groups are not implemented for sparse arrays",
        )
    ((before, after),) = found["padding"]
    kind = next(x.indices.dtype for x in (lhs, rhs) if isinstance(x, BCOO))
    (x, i), (y, j) = _signal(lhs, kind), _signal(rhs, kind)
    places = (i[:, None] + (before - j)[None, :]).ravel()
    terms = jnp.where(places < 0, 0, (x[:, None] * y[None, :]).ravel())
    length = max(0, lhs.shape[2] + before + after - rhs.shape[2] + 1)
    indices = jnp.where(places < 0, 0, places)[None, None, :, None]
    return BCOO((terms[None, None], indices), shape=(1, 1, length))


def _signal(mat: Any, dtype: Any) -> tuple[Any, Any]:
    if not isinstance(mat, BCOO):
        return mat[0, 0], jnp.arange(mat.shape[2], dtype=dtype)
    mat = bcoo_update_layout(mat, n_batch=2, n_dense=0)
    indices = mat.indices[0, 0, :, 0]
    # Padding would move into the array.
    return jnp.where(indices < mat.shape[2], mat.data[0, 0], 0), indices
