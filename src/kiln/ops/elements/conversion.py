"""Converting dtypes: convert, reinterpret, complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.primitive import RejectsSharding
from kiln.core.trace import aval_of, is_typed
from kiln.ir.shardings.sums import NOWHERE
from kiln.ir.types import ShapedArray
from kiln.ops.elements import edge_semantics
from kiln.ops.elements.families import (
    ANY,
    NUMBER,
    Binary,
    Elementwise,
    Unary,
    binary,
    constant,
    full_like,
    neg,
    unary,
)
from kiln.ops.out_sharding import whole_along
from kiln.ops.out_sums import of_elements, passed
from kiln.ops.shape import to_front


class ConvertElementType(RejectsSharding, Elementwise):
    """Convert to `new_dtype`; floats to integers truncate, saturate, and send nan to 0."""

    def infer(self, x: Any, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
        if dtypes.is_extended(x.dtype) != dtypes.is_extended(new_dtype):
            raise TypeError(
                three_lines(
                    f"convert_element_type: operand {x} to {dtypes.long_name(new_dtype)}"
                    f" at {current_source()}",
                    "keys do not convert to numbers, nor numbers to keys",
                    "use random.key_data or random.wrap_key_data",
                )
            )
        return ShapedArray(x.shape, new_dtype, weak_type)

    def numpy(self, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        return edge_semantics.convert(x, new_dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        (t,) = tangents
        aval = aval_of(out).tangent()
        if aval.dtype == dtypes.float0:
            return out, Zero(aval)
        return out, self.bind(t, **params)

    def transpose(self, ct: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
        return [convert_element_type(ct, x.aval.dtype, x.aval.weak_type)]

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Any:
        return None if dtypes.issubdtype(params["new_dtype"], np.inexact) else NOWHERE

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        before, after = operands[0].dtype, params["new_dtype"]
        # The sum changes if partial sums are rounded to integers.
        is_linear = dtypes.issubdtype(after, np.inexact) or (
            dtypes.issubdtype(before, np.integer) and dtypes.issubdtype(after, np.integer)
        )
        return passed(self.name, operands) if is_linear else of_elements(self.name, operands)


class BitcastConvertType(Elementwise):
    """Reinterpret bits as `new_dtype`: a wider one removes a last axis, a narrower one adds one."""

    def infer(self, x: Any, *, new_dtype: Any) -> ShapedArray:
        # XLA rejects some of these and crashes the process on others.
        if x.dtype != new_dtype and any(map(_has_no_bits, (x.dtype, new_dtype))):
            raise TypeError(
                three_lines(
                    f"bitcast_convert_type: operand {x} to {dtypes.long_name(new_dtype)} "
                    f"at {current_source()}",
                    "bitcast_convert_type does not support bool or complex values",
                    "take real and imaginary parts, or compare with 0, or use x.view(dtype)",
                )
            )
        before, after = _bits(x.dtype), _bits(new_dtype)
        shape = x.shape
        if before > after:
            shape = (*shape, before // after)
        elif before < after:
            if not shape or shape[-1] != after // before:
                raise ValueError(
                    three_lines(
                        f"bitcast_convert_type: operand {x} to {dtypes.long_name(new_dtype)}"
                        f" at {current_source()}",
                        f"the last axis must have size {after // before}",
                        "reshape the operand, or choose a dtype of the same width",
                    )
                )
            shape = shape[:-1]
        return ShapedArray(shape, new_dtype)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        # An axis of bits is new, or must not be split.
        split = xs[0].split
        if results[0].ndim < xs[0].ndim:
            return whole_along(self.name, xs[0], [xs[0].ndim - 1])[:-1]
        return (*split, None) if results[0].ndim > xs[0].ndim else split

    def numpy(self, x: Any, *, new_dtype: Any) -> Any:
        before, after = _bits(x.dtype), _bits(new_dtype)
        x = np.asarray(x, order="C")
        # In memory, an element of less than a byte takes a byte, whose upper bits are undefined.
        if before < 8 and before < after:
            x, before = _packed(x, before, min(after, 8)), min(after, 8)
            if after == before:
                return x[..., 0].view(new_dtype)
        elif after < 8 and after < before:
            return _unpacked(x, before, after).view(new_dtype)
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


def _packed(x: np.ndarray, bits: int, wanted: int) -> np.ndarray:
    """Pack elements of less than a byte along the last axis to this many bits, lowest first."""
    count = wanted // bits
    parts = x.view(np.uint8) & (2**bits - 1)
    parts = parts.reshape(*x.shape[:-1], x.shape[-1] // count, count)
    shifts = np.arange(count, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(parts << shifts, axis=-1)


def _unpacked(x: np.ndarray, bits: int, wanted: int) -> np.ndarray:
    """Split elements into ones of less than a byte along a new last axis, lowest bits first."""
    in_bytes = x[..., None].view(np.uint8)
    shifts = np.arange(min(bits, 8) // wanted, dtype=np.uint8) * np.uint8(wanted)
    parts = (in_bytes[..., None] >> shifts) & np.uint8(2**wanted - 1)
    return parts.reshape(*x.shape, bits // wanted)


def _has_no_bits(dtype: Any) -> bool:
    return dtype == np.bool_ or dtypes.issubdtype(dtype, np.complexfloating)


def _bits(dtype: Any) -> int:
    return dtypes.bit_width(dtype)


def _real_dtype(dtype: Any) -> Any:
    return np.dtype(f"f{dtype.itemsize // 2}")


def _complex_dtype(dtype: Any) -> Any:
    return np.dtype(f"c{dtype.itemsize * 2}")


COMPLEX = (np.complexfloating,)
PARTS = (np.float32, np.float64)

convert_element_type_p = ConvertElementType("convert_element_type", edge_semantics.convert, ANY)
bitcast_convert_type_p = BitcastConvertType("bitcast_convert_type", np.copy, ANY)
real_p = Elementwise(
    "real",
    np.real,
    COMPLEX,
    lambda t, o, x: real(t),
    linear=lambda ct, x: [complex(ct, full_like(ct, 0))],
    result=_real_dtype,
)
imag_p = Elementwise(
    "imag",
    np.imag,
    COMPLEX,
    lambda t, o, x: imag(t),
    linear=lambda ct, x: [complex(full_like(ct, 0), neg(ct))],
    result=_real_dtype,
)
complex_p = Elementwise(
    "complex",
    edge_semantics.join_complex,
    PARTS,
    lambda t, o, x, y: complex(t, full_like(t, 0)),
    lambda t, o, x, y: complex(full_like(t, 0), t),
    linear=lambda ct, x, y: [real(ct), imag(neg(ct))],
    result=_complex_dtype,
)
conj_p: Elementwise = Elementwise(
    "conj",
    np.conj,
    NUMBER,
    lambda t, o, x: conj_p.bind(t),
    linear=lambda ct, x: [conj_p.bind(ct)],
)
real: Unary = unary(real_p)
imag: Unary = unary(imag_p)
complex: Binary = binary(complex_p)


def conj(x: ArrayLike) -> Array:
    """Return the complex conjugate; real numbers become complex ones.

    Example:
        >>> lax.conj(jnp.array([1 + 2j]))
        Array([1.-2.j], dtype=complex64)
    """
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        return conj_p.bind(x)
    return complex(x, constant(0, x))


def convert_element_type(x: ArrayLike, new_dtype: DTypeLike, weak_type: bool = False) -> Array:
    """Convert to a dtype.

    Raises: TypeError between keys and numbers.
    Example:
        >>> lax.convert_element_type(jnp.array([1.7, -1.7]), jnp.int32)
        Array([ 1, -1], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "convert_element_type")
    if not is_typed(x) and hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    if type(x) is int:
        x = _within_range(x, dtype)
    aval = aval_of(x)
    if aval.dtype == dtype and aval.weak_type == weak_type and is_typed(x):
        return x  # type: ignore[return-value]
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def _within_range(x: int, dtype: Any) -> Any:
    """Return a Python number, which may exceed kiln's ints, as a value for an array of `dtype`.

    Integers of at most 64 bits wrap.
    """
    fits = -(1 << 63) <= x < 1 << 64
    if not dtypes.issubdtype(dtype, np.integer):
        if x.bit_length() <= 31 or dtypes.is_extended(dtype):
            return x
        # Converting to float first would round twice.
        return np.asarray(x).astype(dtype) if fits else float(x)
    if not fits:
        return x
    low = int(dtypes.iinfo(dtype).min)
    return np.asarray((x - low) % (1 << dtypes.iinfo(dtype).bits) + low, dtype)


def bitcast_convert_type(x: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Reinterpret the bits as another dtype.

    Shapes: that of the operand if both types have one size; a smaller `new_dtype` adds a last axis,
        a larger one removes it.
    Raises: TypeError or ValueError for types whose bits do not fit.
    Example:
        >>> lax.bitcast_convert_type(jnp.array([1.0, -0.0]), jnp.uint32)
        Array([1065353216, 2147483648], dtype=uint32)
    """
    dtype = dtypes.check_user_dtype(new_dtype, "bitcast_convert_type")
    return bitcast_convert_type_p.bind(x, new_dtype=dtype)
