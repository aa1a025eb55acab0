"""State dicts as msgpack messages in Flax's format: each library reads the files of the other.

An array is an extension of type 1 that contains a message (shape, name of the dtype, bytes in
row-major order); complex numbers have type 2, NumPy scalars type 3. Objects in msgpack are limited
to 4 GiB: larger arrays in dicts become dicts of chunks.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.files.npy import require_harmless
from kiln.base.lazy import msgpack
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.core.arrays.array import Array
from kiln.serialization.host_arrays import host_array
from kiln.serialization.state_dicts import from_state_dict, to_state_dict

MAX_CHUNK_SIZE = 2**30
"""The size in bytes of the largest array that is written in one piece."""

_ARRAY, _COMPLEX, _SCALAR = 1, 2, 3
_CHUNKED = "__msgpack_chunked_array__"


def msgpack_serialize(pytree: Any, in_place: bool = False) -> bytes:
    """Serialize nested dicts and lists of arrays, NumPy scalars, numbers, text and bytes.

    Keys are sorted, or keep their order with `in_place`. The argument is never modified.

    Raises: TypeError and OverflowError with the path, for values that messages cannot hold.
    """
    tree = pytree if in_place else tree_map(lambda leaf: leaf, pytree)
    packed: bytes = msgpack.packb(_packable(tree, "."), strict_types=True)
    return packed


_MALFORMED = (
    *(ValueError, TypeError, LookupError, OverflowError, SyntaxError, RecursionError),
    MemoryError,
)
"""Exceptions of Python and NumPy for malformed messages; names of dtypes may be anything."""


def msgpack_restore(encoded_pytree: bytes) -> Any:
    """Restore the argument of `msgpack_serialize`; its NumPy arrays share the message's memory.

    Raises: ValueError if the bytes are not a message.
    """
    try:
        found = msgpack.unpackb(
            encoded_pytree, ext_hook=_unpack_extension, raw=False, strict_map_key=False
        )
        return _joined(found)
    except _MALFORMED as error:
        raise ValueError(
            three_lines(
                f"msgpack_restore of {len(encoded_pytree)} bytes at {current_source()}",
                f"they are not a complete message: {type(error).__name__}: {error}",
                "give the bytes that to_bytes or msgpack_serialize returned",
            )
        ) from error


def to_bytes(target: Any) -> bytes:
    """Serialize a tree as a message in Flax's format. The keys of dicts keep their order."""
    return msgpack_serialize(to_state_dict(target), in_place=True)


def from_bytes(target: Any, encoded_bytes: bytes) -> Any:
    """Restore a tree like `target` from a message; if the target is None, the state dict.

    Raises: ValueError with the path, as `from_state_dict`.
    """
    return from_state_dict(target, msgpack_restore(encoded_bytes))


def _packable(value: Any, path: str) -> Any:
    """Convert a value to types that msgpack supports."""
    if isinstance(value, dict):
        return {_key(key, path): _packable(child, f"{path}/{key}") for key, child in value.items()}
    if isinstance(value, list):
        return [_leaf(child, f"{path}/{i}", whole=True) for i, child in enumerate(value)]
    return _leaf(value, path, whole=False)


def _key(key: Any, path: str) -> Any:
    if type(key) not in (str, int, float, bool, bytes, type(None)):
        _unpackable(key, f"{path}/{key!r:.40}", "use names as the keys of dicts")
    return key


def _leaf(value: Any, path: str, whole: bool) -> Any:
    if isinstance(value, (dict, list)):
        return _packable(value, path)
    if isinstance(value, (Array, np.ndarray)):
        array = host_array(value, path)
        if array.nbytes > MAX_CHUNK_SIZE and not whole:
            return _chunks(array)
        return msgpack.ExtType(_ARRAY, _array_bytes(array))
    if isinstance(value, np.generic):
        return msgpack.ExtType(_SCALAR, _array_bytes(host_array(value, path)))
    if type(value) is complex:
        return msgpack.ExtType(_COMPLEX, msgpack.packb((value.real, value.imag)))
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise OverflowError(
            three_lines(
                f"msgpack_serialize of {value} at path {path} at {current_source()}",
                "Integer value out of range: a message holds integers of 64 bits",
                "save it as a string",
            )
        )
    if not isinstance(value, _PACKED):
        _unpackable(value, path, "call to_state_dict first, or to_bytes, which does")
    return value


_PACKED = (bool, int, float, str, bytes, bytearray, memoryview, type(None))


def _unpackable(value: Any, path: str, remedy: str) -> NoReturn:
    raise TypeError(
        three_lines(
            f"msgpack_serialize of {value!r:.60} at path {path} at {current_source()}",
            f"can not serialize '{type(value).__name__}' object",
            remedy,
        )
    )


def _array_bytes(array: np.ndarray) -> bytes:
    packed: bytes = msgpack.packb((array.shape, array.dtype.name, array.tobytes()))
    return packed


def _chunks(array: np.ndarray) -> dict[str, Any]:
    size = max(1, MAX_CHUNK_SIZE // array.dtype.itemsize)
    flat = array.reshape(-1)
    pieces = [flat[i : i + size] for i in range(0, flat.size, size)]
    return {
        _CHUNKED: True,
        "shape": {str(i): n for i, n in enumerate(array.shape)},
        "chunks": {
            str(i): msgpack.ExtType(_ARRAY, _array_bytes(piece)) for i, piece in enumerate(pieces)
        },
    }


def _unpack_extension(code: int, data: bytes) -> Any:
    if code in (_ARRAY, _SCALAR):
        shape, name, content = msgpack.unpackb(data, raw=False)
        if isinstance(name, bytes):
            name = name.decode()
        if not isinstance(name, str):
            raise TypeError(f"the name of a dtype is {name!r:.80}")
        require_harmless(name)
        array = np.frombuffer(content, np.dtype(name)).reshape(shape)
        return array if code == _ARRAY else array[()]
    if code == _COMPLEX:
        return complex(*msgpack.unpackb(data))
    return msgpack.ExtType(code, data)


def _joined(value: Any) -> Any:
    """Return the restored value with each dict of chunks joined to one array."""
    if not isinstance(value, dict):
        return value
    if _CHUNKED in value:
        shape, chunks = value["shape"], value["chunks"]
        flat = np.concatenate([chunks[str(i)] for i in range(len(chunks))])
        return flat.reshape([shape[str(i)] for i in range(len(shape))])
    return {key: _joined(child) for key, child in value.items()}
