"""The text of arrays."""

from __future__ import annotations

import numpy as np

from kiln.base import dtypes
from kiln.ir.types import ShapedArray


def printable(value: np.ndarray, aval: ShapedArray) -> np.ndarray:
    """Return the values of an array for printing; for a random key its words."""
    if dtypes.is_extended(aval.dtype):
        return np.asarray(value, order="C")[..., None].view(np.uint32)
    return value


def representation(value: np.ndarray, aval: ShapedArray) -> str:
    """Return the text of an array with its type."""
    value = printable(value, aval)
    dtype = dtypes.long_name(aval.dtype)
    name = "Array"
    if dtypes.is_extended(aval.dtype):
        shape = ", ".join(map(str, aval.shape)) + ("," if len(aval.shape) == 1 else "")
        return f"{name}(({shape}), dtype={dtype}) overlaying:\n{value}"
    weak = _weak(aval)
    if value.size == 0:
        shape = f", shape={value.shape}"
        return f"{name}([]{shape}, dtype={dtype}{weak})"
    body = np.array2string(
        value,
        separator=", ",
        prefix=f"{name}(",
        suffix=f", dtype={dtype}{weak})",
        threshold=np.get_printoptions()["threshold"],
    )
    return f"{name}({body}, dtype={dtype}{weak})"


def _weak(aval: ShapedArray) -> str:
    return ", weak_type=True" if aval.weak_type else ""


def outline(aval: ShapedArray) -> str:
    """Return the text of an array whose values are not all in this process: its type."""
    weak = _weak(aval)
    return f"Array(shape={aval.shape}, dtype={dtypes.long_name(aval.dtype)}{weak})"
