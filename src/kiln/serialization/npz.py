"""Trees of arrays in NumPy's npz format: a zip archive with one `.npy` file for each array."""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.files.npy import require_harmless_array
from kiln.base.source import current_source
from kiln.core.arrays.array import Array
from kiln.serialization.flat_names import named_arrays, restored
from kiln.serialization.host_arrays import host_array

_KINDS = "biufc"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those that NumPy writes. Errors of others are not those of `zlib`, and vary with Python."""
_MALFORMED = (
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, SyntaxError, EOFError, OSError),
    *(ValueError, TypeError, LookupError, OverflowError, NotImplementedError, RuntimeError),
    MemoryError,
)
"""Exceptions from reading malformed archives, and headers, which are Python literals."""


def to_npz(target: Any) -> bytes:
    """Serialize a tree as the content of an npz file, uncompressed; `numpy.load` reads it.

    An array's name is its path in the state dict, joined by dots. Python numbers are saved as
    arrays without dimensions; None and empty dicts are omitted.

    Raises: TypeError and ValueError with the path, for values that such files cannot hold.
    """
    arrays = named_arrays(target, _member, "to_npz")
    content = io.BytesIO()
    # Not `numpy.savez`, whose parameters cannot be names of arrays.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            # A fixed date: equal trees give equal files.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return content.getvalue()


def from_npz(target: Any, data: bytes, strict: bool = True) -> Any:
    """Restore a tree like `target` from the content of an npz file.

    If the target is None, return nested dicts of arrays. Unless `strict`, arrays that the target
    does not have are ignored.

    Raises: ValueError, with the paths, for missing and unexpected names, wrong shapes and dtypes,
        and for data in another format.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = {
                name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()
            }
    except _MALFORMED as error:
        raise ValueError(
            three_lines(
                f"reading of {len(data)} bytes in the npz format at {current_source()}",
                f"{type(error).__name__}: {error}",
                "pass the complete content of a .npz file of numbers",
            )
        ) from error
    return restored(target, found, strict, "from_npz")


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    method = archive.getinfo(name).compress_type
    if method not in _METHODS:
        raise ValueError(f"{name} is compressed by method {method}, which npz files do not use")
    with archive.open(name) as file:
        require_harmless_array(file)
        file.seek(0)
        found: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        return found


def _member(leaf: Any, name: str) -> np.ndarray:
    if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
        leaf = np.asarray(leaf)
    if not isinstance(leaf, (Array, np.ndarray, np.generic)):
        raise TypeError(
            three_lines(
                f"to_npz of {leaf!r:.60} at path {name} at {current_source()}",
                f"the format supports arrays and numbers, not a {type(leaf).__name__}",
                "save to a .msgpack file",
            )
        )
    array = host_array(leaf, name)
    if array.dtype.kind not in _KINDS or array.dtype.isbuiltin == 2:
        raise ValueError(
            three_lines(
                f"to_npz of an array of dtype {array.dtype} at path {name} at {current_source()}",
                "the format has only NumPy's own dtypes",
                "convert it, or save to a .safetensors file",
            )
        )
    return array
