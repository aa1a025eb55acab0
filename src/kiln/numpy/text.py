"""Arrays as text and as files, by NumPy's own functions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kiln.numpy.creation import asarray

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions
array_str = np.array_str
save, savez = np.save, np.savez


class _Array(np.ndarray):
    """Values under the class name that arrays print."""


_Array.__name__ = "Array"


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return the `repr` of an array, with print options."""
    if hasattr(arr, "aval"):
        arr = np.asarray(arr).view(_Array)
    return np.array_repr(arr, max_line_width, precision, suppress_small)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or a dictionary of arrays, that `save` or `savez` wrote."""
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    # NumPy's files have no name for bfloat16.
    return asarray(found.view(ml_dtypes.bfloat16) if found.dtype == np.dtype("V2") else found)
