"""Functions of sparse arrays in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.trace import Tracer
from kiln.experimental.sparse.array import JAXSparse
from kiln.experimental.sparse.bcoo_array import BCOO, invalid
from kiln.experimental.sparse.bcsr import BCSR
from kiln.experimental.sparse.coo import COO
from kiln.experimental.sparse.csr import CSC, CSR
from kiln.ops.identity import name_p

__all__ = ["empty", "eye", "todense"]

DENSE = "sparse.todense"
"""The name that marks, in a recorded function, a value to be made dense."""

_LAYOUTS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def todense(arr: Any) -> Any:
    """Convert a sparse array to a dense one; return a dense one unchanged.

    In a function under `sparsify`, it makes sparse values dense.
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return name_p.bind(arr, name=DENSE) if isinstance(arr, Tracer) else arr


def _layout(name: str) -> Any:
    if name not in _LAYOUTS:
        raise invalid(
            f"sparse_format={name!r}", "it is not recognized", f"use one of {list(_LAYOUTS)}"
        )
    return _LAYOUTS[name]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Return an array without stored elements; `kwds` are those of the layout.

    Raises: ValueError for an unknown layout.
    """
    return _layout(sparse_format)._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Return an N x M matrix with ones on the diagonal k; a positive k is above the main one.

    Raises: ValueError for an unknown layout.
    Example:
        >>> sparse.eye(3)
        BCOO(float32[3, 3], nse=3)
    """
    return _layout(sparse_format)._eye(
        N, N if M is None else M, k, dtype=dtype, index_dtype=index_dtype, **kwds
    )
