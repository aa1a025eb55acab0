"""What JAX's tests of sparse arrays ask of private functions: methods of kiln's, on the buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.base.records import Record
from kiln.experimental.sparse import BCOO, BCSR, COO, CSR, sparsify
from kiln.experimental.sparse.bcoo_storage import extracted
from kiln.experimental.sparse.linalg import lobpcg_standard

_SOLVED = ("float32", "float64", "complex64", "complex128")


def _count(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    return jnp.asarray(BCOO.fromdense(mat, n_batch=n_batch, n_dense=n_dense).nse)


def _count_by_batch(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    mat = np.asarray(mat)
    batches = mat.shape[:n_batch]
    counts = [_count(mat[at], n_dense=n_dense) for at in np.ndindex(batches)]
    return jnp.asarray(counts).reshape(batches)


def _rows_of_csr(indices: Any, indptr: Any) -> tuple[Any, Any]:
    size = (len(indptr) - 1, int(np.max(indices, initial=0)) + 1)
    mat = CSR((jnp.ones(len(indices)), indices, indptr), shape=size)
    found = BCSR((mat.data, mat.indices, mat.indptr), shape=size).to_bcoo()
    return found.indices[:, 0], found.indices[:, 1]


def _bcsr_of(indices: Any, *, shape: Any, index_dtype: Any) -> tuple[Any, Any]:
    stored = jnp.ones((*indices.shape[:-1], *shape[indices.ndim :]))
    made = BCSR.from_bcoo(BCOO((stored, indices), shape=shape, indices_sorted=True))
    return made.indices.astype(index_dtype), made.indptr.astype(index_dtype)


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


def _lobpcg_history(A: Any, X: Any, m: int, tol: Any, debug: bool = False) -> Any:
    """Return the eigenvalues after m steps, and those after fewer; kiln keeps no others."""
    found = kiln.jit(lambda steps: lobpcg_standard(A, X, steps, tol))
    history = [found(i)[0] for i in range(1, m + 1)]
    theta, vectors, steps = found(m)
    norms = jnp.linalg.norm(vectors, axis=0)
    info = {"lambda history": jnp.stack(history), "X zeros": (norms == 0).sum()[None]}
    return theta, vectors, steps, info


def _bcoo_of(indices: Any, indptr: Any, *, shape: Any) -> Any:
    stored = jnp.ones((*indices.shape, *shape[indices.ndim + 1 :]))
    return BCSR((stored, indices, indptr), shape=shape).to_bcoo().indices


class SparsifyValue(Record):
    """A value as places of its buffers in an environment."""

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False


class SparsifyEnv:
    """Buffers that values may share."""

    def __init__(self, bufs: Sequence[Any] = ()) -> None:
        self._buffers = list(bufs)

    def _place(self, buffer: Any) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def sparse(self, shape: tuple[int, ...], **places: Any) -> SparsifyValue:
        """Return a value of buffers that are there."""
        return SparsifyValue(tuple(shape), **places)

    def put(self, x: Any) -> SparsifyValue:
        """Add the buffers of an array."""
        if not isinstance(x, BCOO):
            return SparsifyValue(np.shape(x), self._place(x))
        places = (self._place(x.data), self._place(x.indices))
        told = {"indices_sorted": x.indices_sorted, "unique_indices": x.unique_indices}
        return SparsifyValue(x.shape, *places, **told)

    def take(self, value: SparsifyValue) -> Any:
        """Return a value as an array."""
        data = self._buffers[value.data_ref]
        if value.indices_ref is None:
            return data
        return BCOO(
            (data, self._buffers[value.indices_ref]),
            shape=value.shape,
            indices_sorted=bool(value.indices_sorted),
            unique_indices=bool(value.unique_indices),
        )


def _is_sparse(x: Any) -> bool:
    return isinstance(x, (BCOO, SparsifyValue))


def _put(env: SparsifyEnv, arrays: Any) -> Any:
    return kiln.tree.map(env.put, arrays, is_leaf=_is_sparse)


def _take(env: SparsifyEnv, values: Any) -> Any:
    return kiln.tree.map(env.take, values, is_leaf=_is_sparse)


def _sparsified(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of values in an environment, by kiln's of sparse arrays."""

    def raw(env: SparsifyEnv, *values: Any) -> Any:
        outs, tree = kiln.tree.flatten(sparsify(fun)(*_take(env, values)), is_leaf=_is_sparse)
        return [env.put(x) for x in outs], tree

    return raw


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
        "jax.experimental.sparse.bcsr": {
            "_bcoo_to_bcsr": _bcsr_of,
            "_bcsr_to_bcoo": _bcoo_of,
        },
        "jax.experimental.sparse.transform": {
            "SparsifyEnv": SparsifyEnv,
            "SparsifyValue": SparsifyValue,
            "arrays_to_spvalues": _put,
            "sparsify_raw": _sparsified,
            "spvalues_to_arrays": _take,
        },
        "jax.experimental.sparse.linalg": {"_lobpcg_standard_matrix": _lobpcg_history},
        "jax.experimental.sparse.util": {
            "_count_stored_elements": _count,
            "_count_stored_elements_per_batch": _count_by_batch,
            "_csr_to_coo": _rows_of_csr,
        },
    }
