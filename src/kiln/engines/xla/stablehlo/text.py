"""Types and constants as MLIR text.

An extended dtype such as `key<fry>` is written as its physical dtype; float0, which has no data, as
booleans. Numbers are written so that they round-trip bit for bit.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray

_NAMES: dict[np.dtype, str] = {
    np.dtype(kind): name
    for kind, name in (
        (np.bool_, "i1"),
        (np.int8, "i8"),
        (np.int16, "i16"),
        (np.int32, "i32"),
        (np.int64, "i64"),
        (np.uint8, "ui8"),
        (np.uint16, "ui16"),
        (np.uint32, "ui32"),
        (np.uint64, "ui64"),
        (np.float16, "f16"),
        (np.float32, "f32"),
        (np.float64, "f64"),
        (np.complex64, "complex<f32>"),
        (np.complex128, "complex<f64>"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.int2, "i2"),
        (ml_dtypes.uint2, "ui2"),
        (ml_dtypes.int4, "i4"),
        (ml_dtypes.uint4, "ui4"),
        (ml_dtypes.float4_e2m1fn, "f4E2M1FN"),
        (ml_dtypes.float8_e3m4, "f8E3M4"),
        (ml_dtypes.float8_e4m3, "f8E4M3"),
        (ml_dtypes.float8_e4m3b11fnuz, "f8E4M3B11FNUZ"),
        (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
        (ml_dtypes.float8_e4m3fnuz, "f8E4M3FNUZ"),
        (ml_dtypes.float8_e5m2, "f8E5M2"),
        (ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ"),
        (ml_dtypes.float8_e8m0fnu, "f8E8M0FNU"),
    )
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_PACKED = {np.dtype(t) for t in (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4)}
_PACKED.add(np.dtype(ml_dtypes.float4_e2m1fn))
_INLINE_ELEMENTS = 64


def host_dtype(aval: ShapedArray) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and dtype of the physical type."""
    shape, dtype = aval.shape, aval.dtype
    if dtypes.is_extended(dtype):
        shape, dtype = (*shape, *dtype.physical_shape), np.dtype(dtype.physical_dtype)
    elif dtype == dtypes.float0:
        dtype = np.dtype(np.bool_)
    return shape, dtype  # type: ignore[return-value]


def element_type(dtype: Any) -> str:
    """Return a dtype's name in MLIR: `f32`, `ui8`, `complex<f32>`."""
    name = _NAMES.get(np.dtype(dtype))
    if name is None:
        raise NotImplementedError(
            three_lines(
                f"a program with values of dtype {dtype}",
                "the xla engine does not support this type",
                "convert to another dtype first",
            )
        )
    return name


def dtype_of(name: str) -> np.dtype | None:
    """Return the dtype of an element type's name in MLIR; None if there is none."""
    return _DTYPES.get(name)


def tensor_type(aval: ShapedArray) -> str:
    """Return a type in MLIR: `tensor<2x3xf32>`, or `tensor<?x3xf32>` if a size has a name."""
    shape, dtype = host_dtype(aval)
    sizes = "".join([f"{size}x" if is_constant((size,)) else "?x" for size in shape])
    return f"tensor<{sizes}{element_type(dtype)}>"


def int_list(values: Any) -> str:
    """Return `[0, 1]`."""
    return f"[{', '.join(str(int(v)) for v in values)}]"


def int_array(values: Any) -> str:
    """Return the attribute `array<i64: 0, 1>`."""
    listed = ", ".join(str(int(v)) for v in values)
    return f"array<i64: {listed}>" if listed else "array<i64>"


def quoted(text: str) -> str:
    """Return a string literal."""
    safe = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
        for c in text
    )
    return f'"{safe}"'


def symbol(name: str) -> str:
    """Return a name that may follow `@`."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name)
    return safe if safe and not safe[0].isdigit() else f"_{safe}"


def scalar(value: Any, dtype: np.dtype) -> str:
    """Return one number as text that round-trips bit for bit."""
    value = np.asarray(value).astype(dtype)
    kind = dtype.kind
    if kind == "b":
        return "true" if value else "false"
    if kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        return f"({scalar(value.real, part)}, {scalar(value.imag, part)})"
    if dtypes.issubdtype(dtype, np.integer):
        return str(int(value))
    return _float(value, dtype)


def _float(value: np.ndarray, dtype: np.dtype) -> str:
    number = float(value)
    if math.isfinite(number) and dtype.itemsize > 1:
        # The shortest text of the exact double if it is short and readable, otherwise the bits.
        text = repr(number)
        if len(text) <= 8:
            mantissa, e, exponent = text.partition("e")
            return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"
    bits = int.from_bytes(value.tobytes(), "little")
    if dtype in _PACKED:
        return f"0x{bits & 0xF:X}"
    return f"0x{bits:0{2 * dtype.itemsize}X}"


def dense(value: np.ndarray) -> str:
    """Return the text between `dense<` and `>` for an array of the same shape."""
    if value.size == 0:
        return ""
    dtype = value.dtype
    flat = np.ascontiguousarray(value).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    if (raw == raw[0]).all():
        return scalar(flat[0], dtype)
    if value.size > _INLINE_ELEMENTS and dtype not in _PACKED:
        return f'"0x{flat.tobytes().hex().upper()}"'
    return _nested(value, dtype)


def _nested(value: np.ndarray, dtype: np.dtype) -> str:
    if value.ndim == 0:
        return scalar(value, dtype)
    return f"[{', '.join(_nested(part, dtype) for part in value)}]"
