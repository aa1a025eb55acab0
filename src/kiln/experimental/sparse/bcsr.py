"""BCSR: batched compressed rows. Column indices are stored, and the start of each row.

Operations are implemented by BCOO, whose buffers are the same except for the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.api.mapping.mapped_containers import register_container
from kiln.base.named_tuples import NamedTuple
from kiln.experimental.sparse.array import JAXSparse, register_layout
from kiln.experimental.sparse.bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dot_general,
    bcoo_eliminate_zeros,
    bcoo_fromdense,
    bcoo_sum_duplicates,
    bcoo_todense,
)
from kiln.experimental.sparse.bcoo_array import invalid, not_done
from kiln.experimental.sparse.bcoo_storage import extracted
from kiln.experimental.sparse.util import SparseInfo, nfold_vmap

__all__ = [
    "BCSR",
    "BCSRProperties",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_eliminate_zeros",
    "bcsr_extract",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
]


class BCSRProperties(NamedTuple):
    """The number of axes of each kind, and of stored elements."""

    n_batch: int
    n_dense: int
    nse: int


class BCSR(JAXSparse):
    """A sparse array in compressed rows: two sparse axes, between batch axes and dense ones.

    `data` has the shape [*batch, nse, *dense], `indices` (of columns) [*batch, nse], `indptr`
    [*batch, rows + 1].
    Raises: ValueError if the buffers do not fit the shape.
    """

    indices: Any
    indptr: Any
    indices_sorted: bool
    unique_indices: bool

    _buffers = ("data", "indices", "indptr")
    _stated = ("shape", "indices_sorted", "unique_indices")

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(
            args, shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices
        )
        self._check()

    def _check(self) -> None:
        n_batch, shape = self.n_batch, self.shape
        buffers = self._bufs
        batch = shape[:n_batch]
        repeats = all(
            n in (1, m) for x in buffers for n, m in zip(x.shape[:n_batch], batch, strict=False)
        )
        data = (self.nse, *shape[n_batch + 2 :])
        fits = len(shape) >= n_batch + 2 and self.data.shape[n_batch:] == data
        if not repeats or not fits or self.indptr.shape[n_batch:] != (shape[n_batch] + 1,):
            raise invalid(
                f"BCSR of shape {shape}",
                "indptr shape must match the matrix shape plus 1, data the indices, and batch "
                f"dimensions the shape: got {[x.shape for x in buffers]}",
                "pass data [*batch, nse, *dense], indices [*batch, nse], indptr [*batch, rows + 1]",
            )

    @property
    def nse(self) -> int:
        """The number of stored elements, in each batch."""
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of leading batch axes."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes: rows and columns."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of trailing dense axes."""
        return self.data.ndim - self.indices.ndim

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _layout(self) -> str:
        batch = f", n_batch={self.n_batch}" if self.n_batch else ""
        return batch + (f", n_dense={self.n_dense}" if self.n_dense else "")

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCSR:
        shape = tuple(shape)
        if min(n_dense, n_batch, nse) < 0 or len(shape) - n_dense - n_batch != 2:
            raise invalid(
                f"empty({shape}, sparse_format='bcsr')",
                f"Invalid inputs: {n_dense=}, {n_batch=}, {nse=}; it must have 2 sparse dimensions",
                "choose n_batch and n_dense so that two axes remain",
            )
        batch = shape[:n_batch]
        return cls(
            (
                jnp.zeros((*batch, nse, *shape[n_batch + 2 :]), dtype),
                jnp.full((*batch, nse), shape[n_batch + 1], index_dtype),
                jnp.zeros((*batch, shape[n_batch] + 1), index_dtype),
            ),
            shape=shape,
        )

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> BCSR:
        return cls.from_bcoo(BCOO._eye(N, M, k, **options))

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """Return the nonzero elements of a dense array."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """Convert a BCOO array with two sparse axes."""
        if arr.n_sparse != 2:
            raise not_done(f"BCSR.from_bcoo({arr!r})", "it requires n_sparse=2")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        rows = arr.sparse_shape[0]

        def starts(row: Any) -> Any:
            # Padding is stored after the last row.
            counts = jnp.zeros(rows, arr.indices.dtype).at[row].add(1, mode="drop")
            return jnp.concatenate([jnp.zeros(1, counts.dtype), jnp.cumsum(counts)])

        indptr = nfold_vmap(starts, arr.n_batch, broadcasted=False)(arr.indices[..., 0])
        return cls((arr.data, arr.indices[..., 1], indptr), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """Convert a matrix of scipy.sparse."""
        if n_dense or n_batch:
            raise not_done("BCSR.from_scipy_sparse", "it does not support n_dense and n_batch")
        if mat.ndim != 2:
            raise invalid(
                "BCSR.from_scipy_sparse", f"it requires a 2D array; got {mat.ndim}D", "reshape it"
            )
        mat = mat.tocsr()
        dtype = index_dtype or np.int32
        indices, indptr = np.asarray(mat.indices, dtype), np.asarray(mat.indptr, dtype)
        return cls((mat.data, indices, indptr), shape=mat.shape)

    def to_bcoo(self) -> BCOO:
        """Convert the array to coordinates."""

        def coordinates(column: Any, starts: Any) -> Any:
            # Elements after the end of the last row get the row after it: padding.
            marks = jnp.zeros(column.shape, column.dtype).at[starts].add(1, mode="drop")
            row = jnp.cumsum(marks, dtype=column.dtype) - 1
            return jnp.stack([row, column], -1)

        indices = nfold_vmap(coordinates, self.n_batch)(self.indices, self.indptr)
        return BCOO((self.data, indices), shape=self.shape)

    def todense(self) -> Any:
        """Return the array with all its elements."""
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Return the array with elements of equal index summed, and without stored zeros."""
        return bcsr_eliminate_zeros(self, nse) if remove_zeros else bcsr_sum_duplicates(self, nse)

    def element_along(self, axis: int) -> BCSR:
        """Return an array with the shape of one element of a batch, for `vmap`."""
        if not 0 <= axis < self.n_batch:
            raise invalid(
                f"vmap of {self!r}",
                f"Cannot map in_axis={axis} for BCSR array with n_batch={self.n_batch}",
                "map batch axes",
            )
        return self._stating(self.shape[:axis] + self.shape[axis + 1 :])

    def stack_along(self, axis: int, size: Any) -> BCSR:
        """Return an array with the shape of a batch of such elements, for `vmap`."""
        if not 0 <= axis < self.n_batch:
            raise invalid(
                f"the result of vmap, a BCSR array with n_batch={self.n_batch - 1}",
                f"BCSR: cannot add out_axis={axis}",
                "batch axes are the leading ones",
            )
        return self._stating((*self.shape[:axis], size, *self.shape[axis:]))

    def _stating(self, shape: tuple[int, ...]) -> BCSR:
        stated = {"shape": shape, "indices_sorted": False, "unique_indices": False}
        return self.tree_unflatten(stated, self._bufs)


register_layout(BCSR)
register_container(BCSR)


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = None
) -> BCSR:
    """Return the nonzero elements of a dense array, with two sparse axes.

    Raises: ValueError for another number of sparse axes; TypeError without `nse` in traced code.
    """
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise invalid(
            f"bcsr_fromdense of shape {mat.shape}",
            f"must have 2 sparse dimensions; got {n_batch=}, {n_dense=}",
            "choose n_batch and n_dense so that two axes remain",
        )
    return BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


def bcsr_todense(mat: BCSR) -> Any:
    """Return the dense array of a sparse one.

    Elements of `mat` with equal index are summed.
    """
    return bcoo_todense(mat.to_bcoo())


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """Return the elements of a dense array at BCSR indices.

    Shapes: `mat` dense, indices (*batch, nse), `indptr` (*batch, rows + 1) -> (*batch, nse,
        *dense).
    """
    mat = jnp.asarray(mat)
    blank = jnp.zeros((*indices.shape, *mat.shape[indices.ndim + 1 :]), mat.dtype)
    return extracted(BCSR((blank, indices, indptr), shape=mat.shape).to_bcoo().indices, mat)


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Contract a BCSR array and a dense one as `lax.dot_general` does.

    Raises: NotImplementedError for other operands.
    """
    if isinstance(rhs, JAXSparse) or (isinstance(lhs, JAXSparse) and not isinstance(lhs, BCSR)):
        raise not_done("bcsr_dot_general", "it takes a BCSR lhs and a dense rhs")
    if not isinstance(lhs, BCSR):
        return lax.dot_general(
            lhs,
            rhs,
            dimension_numbers,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    return bcoo_dot_general(
        lhs.to_bcoo(),
        rhs,
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the array without stored zeros and duplicates.

    `mat` is an array of any layout. `nse` is the number of elements stored, by default as many as
    are needed.
    Raises: TypeError without `nse` in traced code.
    """
    return BCSR.from_bcoo(bcoo_eliminate_zeros(mat.to_bcoo(), nse))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the array with elements of equal index summed.

    `mat` is an array of any layout. `nse` is the number of elements stored, by default as many as
    are needed.
    Raises: TypeError without `nse` in traced code.
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse))


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> BCSR:
    """Return the array broadcast along new batch or dense axes.

    Axis i of `mat` is axis `broadcast_dimensions[i]` of the result, which has `shape`.
    Raises: the errors of `bcoo_broadcast_in_dim`.
    """
    out = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return BCSR.from_bcoo(out)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Join arrays along a batch or sparse axis.

    `operands` have the same layout; `dimension` is the number of the axis.
    Raises: the errors of `bcoo_concatenate`.
    """
    return BCSR.from_bcoo(
        bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension)
    )
