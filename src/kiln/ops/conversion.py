"""From one dtype to another: convert, reinterpret, complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.core.absent import Zero
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.shape import to_front
from kiln.ops.families import ANY, FLOAT, NUMBER, Elementwise, binary, full_like, neg, unary


class ConvertElementType(Elementwise):
    """Convert to `new_dtype`; floats to integers truncate, saturate, and send nan to 0."""

    def infer(self, x: Any, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
        if dtypes.is_extended(x.dtype) != dtypes.is_extended(new_dtype):
            raise TypeError(
                three_lines(
                    f"convert_element_type: operand {x} to {dtypes.long_name(new_dtype)}",
                    "keys do not convert to numbers, nor numbers to keys",
                    "use random.key_data or random.wrap_key_data",
                )
            )
        return ShapedArray(x.shape, new_dtype, weak_type)

    def numpy(self, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        return convert(x, new_dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        (t,) = tangents
        aval = aval_of(out).tangent()
        if aval.dtype == dtypes.float0:
            return out, Zero(aval)
        return out, self.bind(t, **params)

    def transpose(self, ct: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        return [convert_element_type(ct, x.aval.dtype)]


def convert(x: np.ndarray, dtype: Any) -> Any:
    """Convert host data as compiled code does."""
    if x.dtype == dtype:
        return x
    floating = dtypes.issubdtype(x.dtype, np.floating)
    if dtypes.issubdtype(x.dtype, np.complexfloating) and dtype != np.bool_:
        if dtypes.issubdtype(dtype, np.complexfloating):
            return x.astype(dtype)
        x, floating = x.real, True
    if dtype == np.bool_:
        return x != 0
    if floating and dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        wide = x.astype(np.float64)
        inside = np.clip(np.nan_to_num(np.trunc(wide), nan=0.0), float(info.min), float(info.max))
        # The largest int64 has no float64; compare before converting.
        out = np.where(inside >= float(info.max), 0, inside).astype(dtype)
        return np.where(inside >= float(info.max), np.asarray(info.max, dtype), out)
    return x.astype(dtype)


class BitcastConvertType(Elementwise):
    """Reinterpret the bits as `new_dtype`; a wider dtype takes, a narrower one adds, a last axis."""

    def infer(self, x: Any, *, new_dtype: Any) -> ShapedArray:
        before, after = _bits(x.dtype), _bits(new_dtype)
        shape = x.shape
        if before > after:
            shape = (*shape, before // after)
        elif before < after:
            if not shape or shape[-1] != after // before:
                raise ValueError(
                    three_lines(
                        f"bitcast_convert_type: operand {x} to {dtypes.long_name(new_dtype)}",
                        f"the last axis must have size {after // before}",
                        "reshape the operand, or choose a dtype of the same width",
                    )
                )
            shape = shape[:-1]
        return ShapedArray(shape, new_dtype)

    def numpy(self, x: Any, *, new_dtype: Any) -> Any:
        before, after = _bits(x.dtype), _bits(new_dtype)
        x = np.ascontiguousarray(x)
        if before > after:
            return x[..., None].view(new_dtype)
        if before < after:
            return x.view(new_dtype)[..., 0]
        return x.view(new_dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        return out, Zero(aval_of(out).tangent())

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        return self.bind(to_front(xs[0], axes[0]), **params), 0


def _bits(dtype: Any) -> int:
    return dtypes.bit_width(dtype)


class _Float(Elementwise):
    """A part of a complex number."""

    def infer(self, *xs: Any) -> ShapedArray:
        inner = super().infer(*xs)
        return ShapedArray(inner.shape, _real_dtype(inner.dtype), inner.weak_type)


def _real_dtype(dtype: Any) -> Any:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _complex_dtype(dtype: Any) -> Any:
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


class _Complex(Elementwise):
    def infer(self, *xs: Any) -> ShapedArray:
        inner = super().infer(*xs)
        return ShapedArray(inner.shape, _complex_dtype(inner.dtype), inner.weak_type)


COMPLEX = (np.complexfloating,)

convert_element_type_p = ConvertElementType("convert_element_type", convert, ANY)
bitcast_convert_type_p = BitcastConvertType("bitcast_convert_type", np.copy, ANY)
real_p = _Float(
    "real",
    np.real,
    COMPLEX,
    lambda t, o, x: real(t),
    linear=lambda ct, x: [complex(ct, full_like(ct, 0))],
)
imag_p = _Float(
    "imag",
    np.imag,
    COMPLEX,
    lambda t, o, x: imag(t),
    linear=lambda ct, x: [complex(full_like(ct, 0), neg(ct))],
)
complex_p = _Complex(
    "complex",
    lambda x, y: (x + 1j * y).astype(_complex_dtype(x.dtype)),
    FLOAT,
    lambda t, o, x, y: complex(t, full_like(t, 0)),
    lambda t, o, x, y: complex(full_like(t, 0), t),
    linear=lambda ct, x, y: [real(ct), imag(neg(ct))],
)
conj_p = Elementwise(
    "conj", np.conj, NUMBER, lambda t, o, x: conj(t), linear=lambda ct, x: [conj(ct)]
)
real, imag, conj = map(unary, (real_p, imag_p, conj_p))
complex = binary(complex_p)


def convert_element_type(x: Any, new_dtype: Any, weak_type: bool = False) -> Any:
    """Convert to a dtype.

    Raises: TypeError between keys and numbers.
    """
    dtype = dtypes.canonicalize_dtype(new_dtype)
    aval = aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak_type and hasattr(x, "aval"):
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def bitcast_convert_type(x: Any, new_dtype: Any) -> Any:
    """Reinterpret the bits as another dtype."""
    return bitcast_convert_type_p.bind(x, new_dtype=dtypes.canonicalize_dtype(new_dtype))
