"""Trees of arrays in the safetensors format: flat names, raw bytes, a header with their offsets.

A file consists of the length of the header (8 bytes), the header (JSON: name -> dtype, shape,
offsets of the bytes; padded with spaces), and the bytes of all tensors, widest dtypes first, in the
order of the package `safetensors`. That package is not used: this file implements the whole format,
and the package's NumPy interface (0.8) writes bfloat16 but cannot read it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.arrays.array import Array
from kiln.serialization.flat_names import named_arrays, restored
from kiln.serialization.host_arrays import host_array

_NAMES: dict[Any, str] = {
    np.dtype(dtype): name
    for dtype, name in [
        (np.bool_, "BOOL"),
        (np.uint8, "U8"),
        (np.int8, "I8"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"),
        (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e8m0fnu, "F8_E8M0"),
        (np.int16, "I16"),
        (np.uint16, "U16"),
        (np.float16, "F16"),
        (ml_dtypes.bfloat16, "BF16"),
        (np.int32, "I32"),
        (np.uint32, "U32"),
        (np.float32, "F32"),
        (np.complex64, "C64"),
        (np.float64, "F64"),
        (np.int64, "I64"),
        (np.uint64, "U64"),
    ]
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_RANK = {dtype: rank for rank, dtype in enumerate(_NAMES)}
_METADATA = "__metadata__"
_LARGEST_HEADER = 100_000_000


def to_safetensors(target: Any, metadata: Mapping[str, str] | None = None) -> bytes:
    """Serialize a tree as the content of a safetensors file.

    A tensor's name is its path in the state dict, joined by dots. Python numbers are saved as
    arrays without dimensions; None and empty dicts are omitted.

    Raises: TypeError and ValueError with the path, for values that such files cannot hold.
    """
    return b"".join(pieces(target, metadata))


def from_safetensors(target: Any, data: bytes, strict: bool = True) -> Any:
    """Restore a tree like `target` from the content of a safetensors file.

    If the target is None, return nested dicts of arrays. Arrays share the memory of `data`. Unless
    `strict`, tensors that the target does not have are ignored.

    Raises: ValueError, with the paths, for missing and unexpected names, wrong shapes and dtypes,
        and for data in another format.
    """
    return restored(target, tensors(data), strict, "from_safetensors")


def pieces(target: Any, metadata: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Yield the content of a safetensors file: the header, then the bytes of each tensor."""
    arrays = named_arrays(target, _tensor, "to_safetensors")
    order = sorted(arrays, key=lambda name: (-_RANK[arrays[name].dtype], name))
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        array = arrays[name]
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield arrays[name].tobytes()


def tensors(data: bytes) -> dict[str, np.ndarray]:
    """Return the tensors in the content of a safetensors file by name; they share its memory.

    Raises: ValueError for data in another format, and for dtypes that NumPy does not have.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, _LARGEST_HEADER):
        _damaged(data, f"its length field says {size} bytes")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        _damaged(data, f"the header is not JSON: {error}")
    if not isinstance(header, dict):
        _damaged(data, "the header is not a JSON object")
    header.pop(_METADATA, None)
    found = {}
    for name, entry in header.items():
        try:
            dtype = _DTYPES[entry["dtype"]]
            shape = [operator.index(n) for n in entry["shape"]]
            start, end = map(operator.index, entry["data_offsets"])
        except (KeyError, TypeError, ValueError):
            _damaged(data, f"the tensor {name} has the unknown description {entry}")
        count = math.prod(shape)
        fits = min([0, *shape]) == 0 <= start <= end <= len(data) - 8 - size
        if not fits or end - start != count * dtype.itemsize:
            _damaged(data, f"the tensor {name} has invalid offsets: {entry}")
        found[name] = np.frombuffer(data, dtype, count, 8 + size + start).reshape(shape)
    return found


def _damaged(data: bytes, wrong: str) -> NoReturn:
    raise ValueError(
        three_lines(
            f"reading of {len(data)} bytes in the safetensors format at {current_source()}",
            wrong,
            "pass the complete content of a .safetensors file",
        )
    )


def _tensor(leaf: Any, name: str) -> np.ndarray:
    if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
        leaf = np.asarray(leaf)
    if not isinstance(leaf, (Array, np.ndarray, np.generic)):
        raise TypeError(
            three_lines(
                f"to_safetensors of {leaf!r:.60} at path {name} at {current_source()}",
                f"the format supports arrays and numbers, not a {type(leaf).__name__}",
                "pass it in metadata, as a string, or save to a .msgpack file",
            )
        )
    array = host_array(leaf, name)
    if array.dtype not in _NAMES:
        raise ValueError(
            three_lines(
                f"to_safetensors of an array of dtype {array.dtype} at path {name}"
                f" at {current_source()}",
                "the format has no such dtype",
                f"convert it to one of {', '.join(str(d) for d in _NAMES)}, or save to a .msgpack "
                "file",
            )
        )
    return array
