"""CSR and CSC: matrices with compressed rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.experimental.sparse.array import JAXSparse, register_layout
from kiln.experimental.sparse.bcoo_array import not_done
from kiln.experimental.sparse.bcsr import BCSR, bcsr_fromdense
from kiln.experimental.sparse.coo import COO, check_matrix, coo_matmat, coo_todense, times_dense
from kiln.experimental.sparse.diagonals import diagonal_indices
from kiln.experimental.sparse.util import Shape

__all__ = ["CSC", "CSR", "Shape", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense"]


class CSR(JAXSparse):
    """A sparse matrix in compressed rows: values, columns, and where each row starts.

    Raises: ValueError for a shape that is not two-dimensional.
    """

    indices: Any
    indptr: Any

    _buffers = ("data", "indices", "indptr")

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        check_matrix(self)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """Return the elements of a dense matrix that are not zero."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        starts = jnp.zeros(shape[0] + 1, index_dtype)
        return cls((jnp.zeros(0, dtype), jnp.zeros(0, index_dtype), starts), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        row, col = diagonal_indices(N, M, k, index_dtype)
        starts = np.searchsorted(row, np.arange(N + 1)).astype(index_dtype)
        return cls((jnp.ones(row.shape, dtype), col, starts), shape=(N, M))

    def todense(self) -> Any:
        """Return the matrix with all its elements."""
        return csr_todense(self)

    def transpose(self, axes: Any = None) -> CSC:
        """Return the transpose, whose columns are compressed."""
        if axes is not None:
            raise not_done("CSR.transpose(axes)", "axes argument to transpose()", "leave it out")
        return CSC(self._bufs, shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Any:
        return times_dense(self, other, csr_matvec, csr_matmat)


class CSC(JAXSparse):
    """A sparse matrix in compressed columns: values, rows, and where each column starts.

    Raises: ValueError for a shape that is not two-dimensional.
    """

    indices: Any
    indptr: Any

    _buffers = ("data", "indices", "indptr")

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        check_matrix(self)

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """Return the elements of a dense matrix that are not zero."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._empty(tuple(shape)[::-1], dtype=dtype, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    def todense(self) -> Any:
        """Return the matrix with all its elements."""
        return csr_todense(self.transpose()).T

    def transpose(self, axes: Any = None) -> CSR:
        """Return the transpose, whose rows are compressed."""
        if axes is not None:
            raise not_done("CSC.transpose(axes)", "axes argument to transpose()", "leave it out")
        return CSR(self._bufs, shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Any:
        def product(mat: CSC, x: Any) -> Any:
            return csr_matmat(mat.transpose(), x, transpose=True)

        return times_dense(self, other, product, product)


register_layout(CSR)
register_layout(CSC)


def _coordinates(mat: CSR) -> COO:
    found = BCSR(mat._bufs, shape=mat.shape).to_bcoo()
    return COO((found.data, found.indices[:, 0], found.indices[:, 1]), shape=mat.shape)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """Return the elements of a dense matrix that are not zero.

    Raises: TypeError without `nse` in traced code.
    """
    found = bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return CSR(found._bufs, shape=found.shape)


def csr_todense(mat: CSR) -> Any:
    """Return the dense matrix of a sparse one.

    Elements of `mat` with equal index are summed.
    """
    return coo_todense(_coordinates(mat))


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """Return the product of a matrix, or its transpose, and a dense matrix.

    Shapes: `mat` (m, n), or (n, m) with `transpose`; `B` (n, k) or (n,) -> (m, k) or (m,).
    """
    return coo_matmat(_coordinates(mat), B, transpose=transpose)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """Return the product of a matrix, or its transpose, and a dense vector.

    Shapes: `mat` (m, n), or (n, m) with `transpose`; `v` (n,) -> (m,).
    """
    return csr_matmat(mat, v, transpose=transpose)
