"""What JAX's tests of sparse arrays ask of private functions: methods of kiln's, on the buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln.experimental.sparse import BCOO, COO, CSR
from kiln.experimental.sparse.bcoo_storage import extracted

_SOLVED = ("float32", "float64", "complex64", "complex128")


def _count(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    return jnp.asarray(BCOO.fromdense(mat, n_batch=n_batch, n_dense=n_dense).nse)


def _of_bcoo(mat: Any, **options: Any) -> tuple[Any, Any]:
    made = BCOO.fromdense(mat, **options)
    return made.data, made.indices


def _of_coo(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> tuple[Any, Any, Any]:
    made = COO.fromdense(mat, nse=nse, index_dtype=index_dtype)
    return made.data, made.row, made.col


def _of_csr(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> tuple[Any, Any, Any]:
    made = CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)
    return made.data, made.indices, made.indptr


def _coo_product(
    data: Any, row: Any, col: Any, x: Any, *, spinfo: Any, transpose: bool = False
) -> Any:
    mat = COO((data, row, col), shape=spinfo.shape, rows_sorted=spinfo.rows_sorted)
    return (mat.T if transpose else mat) @ x


def _csr_product(
    data: Any, indices: Any, indptr: Any, x: Any, *, shape: Any, transpose: bool = False
) -> Any:
    mat = CSR((data, indices, indptr), shape=shape)
    return (mat.T if transpose else mat) @ x


def sparse_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {
        "jax.experimental.sparse._lowerings": {
            "SUPPORTED_DATA_DTYPES": [np.dtype(kind) for kind in _SOLVED],
        },
        "jax.experimental.sparse.bcoo": {
            "_bcoo_extract": lambda indices, arr, *, assume_unique=True: extracted(
                indices, jnp.asarray(arr), assume_unique
            ),
            "_bcoo_fromdense": _of_bcoo,
            "_bcoo_todense": lambda data, indices, *, spinfo: BCOO(
                (data, indices), shape=spinfo.shape
            ).todense(),
        },
        "jax.experimental.sparse.coo": {
            "_coo_fromdense": _of_coo,
            "_coo_todense": lambda data, row, col, *, spinfo: COO(
                (data, row, col), shape=spinfo.shape
            ).todense(),
            "_coo_matvec": _coo_product,
            "_coo_matmat": _coo_product,
        },
        "jax.experimental.sparse.csr": {
            "_csr_fromdense": _of_csr,
            "_csr_todense": lambda data, indices, indptr, *, shape: CSR(
                (data, indices, indptr), shape=shape
            ).todense(),
            "_csr_matvec": _csr_product,
            "_csr_matmat": _csr_product,
        },
        "jax.experimental.sparse.util": {"_count_stored_elements": _count},
    }
