"""Exchanging arrays with other libraries without a copy, through DLPack.

https://dmlc.github.io/dlpack/latest/ and the array API standard's `from_dlpack`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.source import current_source

HOST = 1
"""DLPack's device type of host memory."""
HOSTLIKE = {1, 3, 11}
"""Device types of memory that the host can read: its own, and that pinned for CUDA or ROCm."""
DEVICE_KINDS = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda managed"}

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_EXTRA: dict[np.dtype, tuple[int, int]] = {
    np.dtype(ml_dtypes.bfloat16): (4, 16),
    np.dtype(ml_dtypes.float8_e3m4): (7, 8),
    np.dtype(ml_dtypes.float8_e4m3): (8, 8),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): (9, 8),
    np.dtype(ml_dtypes.float8_e4m3fn): (10, 8),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (11, 8),
    np.dtype(ml_dtypes.float8_e5m2): (12, 8),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (13, 8),
    np.dtype(ml_dtypes.float8_e8m0fnu): (14, 8),
}
_KINDS = {code: kind for kind, code in _CODES.items() if kind != "b"}
_EXTRA_DTYPES: dict[tuple[int, int], np.dtype] = {
    spelled: dtype for dtype, spelled in _EXTRA.items()
}


def spelled(dtype: np.dtype) -> tuple[int, int] | None:
    """Return a dtype as DLPack's code and bits, or None if unsupported."""
    if dtype in _EXTRA:
        return _EXTRA[dtype]
    code = _CODES.get(dtype.kind)
    return None if code is None or not dtype.isbuiltin else (code, 8 * dtype.itemsize)


def _dtype_of(code: int, bits: int) -> np.dtype:
    found = _EXTRA_DTYPES.get((code, bits))
    if found is not None:
        return found
    if code == _CODES["b"] and bits == 8:
        return np.dtype(np.bool_)
    kind = _KINDS.get(code)
    if kind is None or bits not in (8, 16, 32, 64, 128):
        raise _refused(f"elements of DLPack's type {code} with {bits} bits", "convert them first")
    return np.dtype(f"{kind}{bits // 8}")


def _refused(wrong: str, instead: str) -> BufferError:
    return BufferError(three_lines(f"from_dlpack at {current_source()}", wrong, instead))


def capsule_of(
    value: np.ndarray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return read-only host data as a capsule for another library.

    Raises: BufferError for another device, or a dtype that DLPack does not have.
    """
    what = f"__dlpack__ of an array {value.dtype}{list(value.shape)} at {current_source()}"
    if dl_device is not None and dl_device[0] not in HOSTLIKE:
        wrong = f"it is in host memory, and was requested on {_kind(dl_device[0])}"
        raise BufferError(three_lines(what, wrong, "copy it there with the other library"))
    if stream is not None:
        wrong = f"host memory has no streams, and stream={stream!r} was given"
        raise BufferError(three_lines(what, wrong, "leave the stream out"))
    code = spelled(value.dtype)
    if code is None:
        wrong = f"DLPack has no elements of type {value.dtype}"
        raise BufferError(three_lines(what, wrong, "convert it with x.astype, or use np.asarray"))
    versioned = max_version is not None and max_version[0] >= 1
    if copy:
        value = value.copy()
    return _runtime.to_dlpack(value, *code, versioned, bool(copy))


def host_view(x: Any, copy: bool | None = None) -> tuple[np.ndarray, bool]:
    """Return another library's array as read-only NumPy memory, and whether it is a copy.

    `copy` is passed on to libraries that support it.

    Raises: TypeError for objects without `__dlpack__`; BufferError for memory that the host cannot
        read.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            three_lines(
                f"from_dlpack({x!r:.60}) at {current_source()}",
                f"a {type(x).__name__} has no __dlpack__ and __dlpack_device__",
                "pass an array that has them, or use kiln.numpy.asarray",
            )
        )
    device = int(x.__dlpack_device__()[0])
    if device not in HOSTLIKE:
        raise _refused(
            f"the data is on {_kind(device)}, which the host cannot read",
            "copy it to the host first, with the library it comes from",
        )
    try:
        capsule = x.__dlpack__(max_version=(1, 0), copy=copy)
    except TypeError:
        # Producers older than DLPack 1.0 take no arguments.
        capsule = x.__dlpack__()
    return _runtime.from_dlpack(capsule, _dtype_of)


def _kind(device: int) -> str:
    return DEVICE_KINDS.get(device, f"device type {device}")
