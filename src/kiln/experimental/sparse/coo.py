"""COO: a matrix stored as row and column indices of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.base.named_tuples import NamedTuple
from kiln.experimental.sparse.array import JAXSparse, register_layout
from kiln.experimental.sparse.bcoo import bcoo_fromdense
from kiln.experimental.sparse.bcoo_array import invalid, not_done
from kiln.experimental.sparse.diagonals import diagonal_indices
from kiln.experimental.sparse.util import Shape

__all__ = ["COO", "COOInfo", "Shape", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense"]


class COOInfo(NamedTuple):
    """The properties of a COO matrix besides its buffers."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False


class COO(JAXSparse):
    """A sparse matrix: values, and the row and the column of each.

    BCOO has more operations. Raises: ValueError for a shape that is not two-dimensional.
    """

    row: Any
    col: Any

    _buffers = ("data", "row", "col")
    _stated = ("shape", "rows_sorted", "cols_sorted")

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape, rows_sorted=rows_sorted, cols_sorted=cols_sorted)
        check_matrix(self)

    @property
    def _info(self) -> COOInfo:
        return COOInfo(*(getattr(self, name) for name in self._stated))

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """Return the elements of a dense matrix that are not zero."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        none = jnp.zeros(0, index_dtype)
        return cls(
            (jnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True
        )

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        row, col = diagonal_indices(N, M, k, index_dtype)
        data = jnp.ones(row.shape, dtype)
        return cls((data, row, col), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        if vars(self)["rows_sorted"]:
            return self
        row, col, data = lax.sort((self.row, self.col, self.data), num_keys=2)
        return COO((data, row, col), shape=self.shape, rows_sorted=True)

    def todense(self) -> Any:
        """Return the matrix with all its elements."""
        return coo_todense(self)

    def transpose(self, axes: Any = None) -> COO:
        """Return the transpose."""
        if axes is not None:
            raise not_done("COO.transpose(axes)", "axes argument to transpose()", "leave it out")
        info = self._info
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=info.cols_sorted,
            cols_sorted=info.rows_sorted,
        )

    def __matmul__(self, other: Any) -> Any:
        return times_dense(self, other, coo_matvec, coo_matmat)


register_layout(COO)


def check_matrix(mat: Any) -> None:
    """Raise ValueError unless a shape has two axes.

    `mat` is named in the message by its class.
    """
    if mat.ndim != 2:
        raise invalid(
            f"{type(mat).__name__} of shape {mat.shape}",
            f"{type(mat).__name__} must have ndim=2",
            "use BCOO for other numbers of axes",
        )


def times_dense(mat: Any, other: Any, matvec: Any, matmat: Any) -> Any:
    """Return the product with a dense vector or matrix, in the dtype that both promote to.

    Raises: NotImplementedError for other operands.
    """
    if isinstance(other, JAXSparse):
        raise not_done(
            "product of sparse matrices", "matmul between two sparse objects", "use BCOO"
        )
    other = jnp.asarray(other)
    if other.ndim not in (1, 2):
        raise not_done(
            f"product of {mat!r}", f"matmul with object of shape {other.shape}", "use BCOO"
        )
    dtype = jnp.promote_types(mat.dtype, other.dtype)
    buffers, stated = mat.tree_flatten()
    promoted = mat.tree_unflatten(stated, (buffers[0].astype(dtype), *buffers[1:]))
    return (matvec if other.ndim == 1 else matmat)(promoted, other.astype(dtype))


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """Return the elements of a dense matrix that are not zero.

    Raises: TypeError without `nse` in traced code.
    """
    found = bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return COO(
        (found.data, found.indices[:, 0], found.indices[:, 1]),
        shape=found.shape,
        rows_sorted=True,
    )


def coo_todense(mat: COO) -> Any:
    """Return the dense matrix of a sparse one.

    Elements of `mat` with equal index are summed.
    """
    return jnp.zeros(mat.shape, mat.dtype).at[mat.row, mat.col].add(mat.data)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """Return the product of a matrix, or its transpose, and a dense matrix.

    Shapes: `mat` (m, n), or (n, m) with `transpose`; `B` (n, k) or (n,) -> (m, k) or (m,).
    """
    row, col = (mat.col, mat.row) if transpose else (mat.row, mat.col)
    B = jnp.asarray(B)
    data = mat.data if B.ndim == 1 else mat.data[:, None]
    terms = data * B.at[col].get(mode="fill", fill_value=0)
    rows = mat.shape[1] if transpose else mat.shape[0]
    return jnp.zeros((rows, *B.shape[1:]), terms.dtype).at[row].add(terms)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """Return the product of a matrix, or its transpose, and a dense vector.

    Shapes: `mat` (m, n), or (n, m) with `transpose`; `v` (n,) -> (m,).
    """
    return coo_matmat(mat, v, transpose=transpose)
