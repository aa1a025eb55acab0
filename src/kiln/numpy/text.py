"""Arrays as text and as files, by NumPy's own functions."""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np

from kiln.base.files.npy import require_harmless_file
from kiln.base.files.writing import replacing
from kiln.base.named_tuples import NamedTuple
from kiln.core.trace import is_typed
from kiln.numpy.creation.arrays import asarray

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions
array_str = np.array_str


class _Array(np.ndarray):
    """Values under the class name that arrays print."""


_Array.__name__ = "Array"


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """Return the `repr` of an array, with print options.

    Example:
        >>> jnp.array_repr(jnp.array([1.23456]), precision=2)
        'Array([1.23], dtype=float32)'
    """
    if is_typed(arr):
        arr = np.asarray(arr).view(_Array)
    return np.array_repr(arr, max_line_width, precision, suppress_small)


class _Writer(NamedTuple):
    """A file by its `write` alone: into others NumPy writes itself, and misses a full disk."""

    write: Any


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a file in NumPy's `.npy` format; one with a name appears once it is whole.

    `allow_pickle` has no effect on arrays of numbers.

    Raises: OSError.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jnp.save(f"{folder}/x.npy", jnp.arange(3))
        ...     print(np.load(f"{folder}/x.npy"))
        [0 1 2]
    """
    if hasattr(file, "write"):
        np.save(_Writer(file.write), arr, allow_pickle=allow_pickle)
        return
    with replacing(_named(file, ".npy")) as opened:
        np.save(_Writer(opened.write), arr, allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Write arrays to a file in NumPy's `.npz` format; one with a name appears once it is whole.

    `allow_pickle` has no effect on arrays of numbers.

    Raises: OSError.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jnp.savez(f"{folder}/both.npz", a=jnp.arange(3), b=jnp.ones(2))
        ...     print(jnp.load(f"{folder}/both.npz")["b"])
        [1. 1.]
    """
    # An older NumPy takes `allow_pickle` for the name of an array.
    options = {} if allow_pickle else {"allow_pickle": False}
    if hasattr(file, "write"):
        np.savez(file, *args, **options, **kwds)
        return
    with replacing(_named(file, ".npz")) as opened:
        np.savez(opened, *args, **options, **kwds)


def _named(file: Any, ending: str) -> str:
    name: str = os.fsdecode(file)
    return name if name.endswith(ending) else name + ending


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or a dictionary of arrays, that `save` or `savez` wrote.

    Raises: OSError; ValueError for what is no such file, or has a header that ends the process.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     jnp.save(f"{folder}/x.npy", jnp.arange(3))
        ...     print(jnp.load(f"{folder}/x.npy"))
        [0 1 2]
    """
    if hasattr(file, "read"):
        require_harmless_file(file)
    else:
        with open(file, "rb") as opened:
            require_harmless_file(opened)
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    # NumPy's files have no name for bfloat16.
    return asarray(found.view(ml_dtypes.bfloat16) if found.dtype == np.dtype("V2") else found)
