"""LAPACK on the host, through scipy: one call for each matrix of a batch.

jaxlib calls the same routines, so results agree in every choice of sign and order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.lazy import scipy_linalg

Core = tuple[tuple[int, ...], Any]
"""Shape and dtype of one result for one matrix."""
NAN = complex(np.nan, np.nan)


def routine(name: str, dtype: Any) -> Callable[..., Any]:
    """Return a LAPACK routine for a dtype: `routine("getrf", float32)` is sgetrf."""
    found: Callable[..., Any] = getattr(scipy_linalg.lapack, _PREFIX[dtype] + name)
    return found


def blas(name: str, dtype: Any) -> Callable[..., Any]:
    """Return a BLAS routine for a dtype."""
    found: Callable[..., Any] = getattr(scipy_linalg.blas, _PREFIX[dtype] + name)
    return found


_PREFIX = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}


def each(
    fun: Callable[..., Sequence[np.ndarray] | None],
    results: Sequence[Core],
    *stacks: tuple[np.ndarray, int],
) -> list[np.ndarray]:
    """Call `fun` on each matrix of batches, given as (array, number of axes of one matrix).

    Where `fun` returns None, the routine has failed and the results are nan.
    """
    first, rank = stacks[0]
    batch = first.shape[: first.ndim - rank]
    count = int(np.prod(batch))
    outs = [np.empty((count, *shape), dtype) for shape, dtype in results]
    if any(out.size for out in outs):
        flat = [x.reshape((count, *x.shape[x.ndim - core :])) for x, core in stacks]
        for i in range(count):
            found = fun(*[x[i] for x in flat])
            if found is None:
                for out in outs:
                    out[i] = NAN if out.dtype.kind == "c" else np.nan
                continue
            for out, value in zip(outs, found, strict=True):
                out[i] = value
    return [out.reshape((*batch, *out.shape[1:])) for out in outs]


def workspace(result: Sequence[Any]) -> int:
    """Return the optimal workspace size that a routine reports."""
    return int(np.real(np.ravel(result[-2])[0]))
