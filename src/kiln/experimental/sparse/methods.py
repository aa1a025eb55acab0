"""The methods of sparse arrays that need their operations; importing this module adds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.experimental.sparse import bcoo
from kiln.experimental.sparse.bcoo_array import BCOO, invalid, not_done
from kiln.experimental.sparse.bcsr import BCSR
from kiln.experimental.sparse.diagonals import diagonal_indices
from kiln.experimental.sparse.transform import sparsify


def fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    index_dtype: Any = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
) -> BCOO:
    """Return the nonzero elements of a dense array.

    `mat` has `n_batch` leading batch axes and `n_dense` trailing dense axes; `index_dtype` is the
    type of the indices. `nse` is the number of elements stored, by default as many as are needed.
    Raises: TypeError without `nse` in traced code.
    """
    return bcoo.bcoo_fromdense(
        mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
    )


def from_scipy_sparse(
    cls: type[BCOO], mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
) -> BCOO:
    """Convert a matrix of scipy.sparse.

    Raises: NotImplementedError for batch and dense axes.
    """
    if n_dense or n_batch:
        raise not_done(
            "BCOO.from_scipy_sparse",
            "BCOO.fromscipy with nonzero n_dense/n_batch",
            "call update_layout on the result",
        )
    mat = mat.tocoo()
    indices = np.stack([mat.row, mat.col], -1).astype(index_dtype or np.int32)
    return cls((mat.data, indices), shape=mat.shape)


def eye(
    cls: type[BCOO],
    N: int,
    M: int,
    k: int,
    *,
    dtype: Any = None,
    index_dtype: Any = "int32",
    n_batch: int = 0,
    n_dense: int = 0,
) -> BCOO:
    """Return a matrix with ones on a diagonal.

    Shapes: (`N`, `M`), with ones at (i, i + `k`); `n_batch` leading and `n_dense` trailing axes are
        batch and dense ones. `index_dtype` is the type of the indices.
    Raises: ValueError for impossible numbers of axes.
    """
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > 2:
        raise invalid(
            f"eye({N}, {M})", f"Invalid inputs: {n_batch=}, {n_dense=}", "a matrix has two axes"
        )
    row, col = diagonal_indices(N, M, k, index_dtype)
    if not row.size:
        return cls._empty(
            (N, M), dtype=dtype, index_dtype=index_dtype, n_batch=n_batch, n_dense=n_dense
        )
    if n_dense or n_batch > 1:
        whole = jnp.eye(N, M, k, dtype=dtype)
        return cls.fromdense(whole, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    if n_batch:
        there = np.isin(np.arange(N), row)
        place = np.full(N, M, index_dtype)
        place[row] = col
        data, indices = jnp.asarray(there[:, None], dtype or float), place[:, None, None]
    else:
        data, indices = jnp.ones(row.shape, dtype), np.stack([row, col], -1)
    return cls((data, indices), shape=(N, M), indices_sorted=True, unique_indices=True)


def todense(self: BCOO) -> Any:
    """Return the array with all its elements."""
    return bcoo.bcoo_todense(self)


def sort_indices(self: BCOO) -> BCOO:
    """Return the array with its elements in the order of their indices."""
    return bcoo.bcoo_sort_indices(self)


def sum_duplicates(self: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """Return the array with duplicates summed, sorted by index, without stored zeros.

    In traced code, `nse` must say how many elements the result stores. Zeros are removed only if
    `remove_zeros`, which is not differentiable.
    """
    if remove_zeros:
        return bcoo.bcoo_eliminate_zeros(self, nse)
    return bcoo.bcoo_sum_duplicates(self, nse)


def update_layout(
    self: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """Return the array with other numbers of batch and dense axes.

    `on_inefficient` ('error', 'warn', None) is the action if many zeros would be stored; by default
    `n_batch` and `n_dense` are unchanged.
    Raises: ValueError for impossible numbers; SparseEfficiencyError.
    """
    return bcoo.bcoo_update_layout(
        self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
    )


def transpose(self: BCOO, axes: Any = None) -> BCOO:
    """Return the array with its axes permuted, each kind of axes among themselves."""
    order = list(range(self.ndim)[::-1]) if axes is None else list(axes)
    out = bcoo.bcoo_transpose(self, permutation=order)
    inner = order[self.n_batch : self.n_batch + self.n_sparse]
    in_order = self.indices_sorted and inner == sorted(inner)
    return BCOO(
        out._bufs,
        shape=out.shape,
        indices_sorted=in_order,
        unique_indices=self.unique_indices,
    )


def sum_(self: BCOO, *args: Any, **kwargs: Any) -> Any:
    """Return the sum over axes, with the arguments of numpy.sum."""
    return sparsify(lambda x: x.sum(*args, **kwargs))(self)


def reshape(self: BCOO, *args: Any, **kwargs: Any) -> BCOO:
    """Return the array with another shape."""
    return sparsify(lambda x: x.reshape(*args, **kwargs))(self)


def astype(self: BCOO, *args: Any, **kwargs: Any) -> BCOO:
    """Return the array with another dtype."""
    return sparsify(lambda x: x.astype(*args, **kwargs))(self)


def getitem(self: Any, item: Any) -> Any:
    """Return the elements of an array at an index expression."""
    return sparsify(lambda x: x[item])(self)


def iterate(self: BCOO) -> Iterator[Any]:
    """Yield the subarrays along the first axis."""
    return iter([getitem(self, i) for i in range(self.shape[0])])


def power(self: BCOO, other: Any) -> BCOO:
    """Return a positive integer power of the array.

    `other` is the exponent.
    """
    return sparsify(lambda x: jnp.power(x, other))(self)


_product = sparsify(jnp.multiply)


def multiply(self: BCOO, other: Any) -> Any:
    """Return the elementwise product, sparse like the array.

    Shapes: `other`, dense or sparse, broadcasts to the array.
    """
    if isinstance(other, BCOO) and self.ndim == other.ndim and self.shape != other.shape:
        # Axes of size 1 are broadcast, without storing elements repeatedly.
        return bcoo.bcoo_multiply_sparse(self, other)
    return _product(self, other)


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return sparsify(lambda x, y: function(y, x))


for _method in (todense, sort_indices, sum_duplicates, update_layout, transpose, reshape, astype):
    setattr(BCOO, _method.__name__, _method)
for _name, _function in {
    "fromdense": staticmethod(fromdense),
    "from_scipy_sparse": classmethod(from_scipy_sparse),
    "_eye": classmethod(eye),
    "sum": sum_,
    "__getitem__": getitem,
    "__iter__": iterate,
    "__mul__": multiply,
    "__rmul__": _swapped(jnp.multiply),
    "__pow__": power,
    "__rpow__": _swapped(jnp.power),
    "__abs__": sparsify(jnp.abs),
    "__neg__": sparsify(jnp.negative),
    "__pos__": sparsify(jnp.positive),
}.items():
    setattr(BCOO, _name, _function)
for _name, _function in {
    "matmul": jnp.matmul,
    "truediv": jnp.divide,
    "add": jnp.add,
    "sub": jnp.subtract,
}.items():
    setattr(BCOO, f"__{_name}__", sparsify(_function))
    setattr(BCOO, f"__r{_name}__", _swapped(_function))
for _name, _function in {
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "eq": jnp.equal,
    "ne": jnp.not_equal,
}.items():
    setattr(BCOO, f"__{_name}__", sparsify(_function))
for _name, _function in {
    "__matmul__": sparsify(jnp.matmul),
    "__rmatmul__": _swapped(jnp.matmul),
    "__getitem__": getitem,
}.items():
    setattr(BCSR, _name, _function)
