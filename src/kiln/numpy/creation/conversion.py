"""Converting elements, or reinterpreting bytes, as another dtype: astype, view."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.arrays.array import ConcreteArray
from kiln.execution.eager_plans import eager
from kiln.numpy.creation.arrays import cast
from kiln.numpy.promotion import one, shape_of
from kiln.ops import shape as shape_ops
from kiln.ops.elements.conversion import bitcast_convert_type, imag, real
from kiln.ops.elements.conversion import complex as complex_of
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.sharding import put


@eager
def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None
) -> Array:
    """Convert to a dtype; the result is strongly typed.

    A float that does not fit in an integer type is saturated, and nan becomes 0; in NumPy the
    result depends on the machine.

    Example:
        >>> jnp.astype(jnp.array([1.7, -1.7, 1e20]), jnp.int32)
        Array([         1,         -1, 2147483647], dtype=int32)
    """
    x = one("astype", x)
    wanted = (
        dtypes.default_float_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "astype")
    )
    source = x.dtype
    if (
        dtypes.issubdtype(source, np.complexfloating)
        and not dtypes.issubdtype(wanted, np.complexfloating)
        and wanted != np.bool_
    ):
        x = real(x)
    found = cast(x, wanted)
    if copy and found is x and isinstance(x, ConcreteArray):
        found = x.copy()
    return put(found, device)


@eager
def view(a: Any, dtype: Any = None) -> Any:
    """Reinterpret the bytes as another dtype; the last axis grows or shrinks with the width."""
    a = one("view", a)
    if dtype is None:
        return a
    wanted = dtypes.check_user_dtype(dtype, "view")
    if wanted == a.dtype:
        return a
    if a.dtype == np.bool_:
        a = cast(a, np.dtype(np.uint8))
    if wanted == np.bool_:
        return cast(view(a, np.uint8), wanted)
    before, after = dtypes.bit_width(a.dtype), dtypes.bit_width(wanted)
    shape = shape_of(a)
    from_complex = dtypes.issubdtype(a.dtype, np.complexfloating)
    if not shape and (before > after or from_complex):
        raise ValueError(
            three_lines(
                f"view of {a.aval} as {wanted} at {current_source()}",
                "an array without axes can only be viewed in a dtype of the same width",
                "give it an axis: x.reshape(1)",
            )
        )
    if before < after and (not shape or shape[-1] * before % after):
        raise ValueError(
            three_lines(
                f"view of {a.aval} as {wanted} at {current_source()}",
                "the last axis must be divisible by the ratio of the dtypes' widths",
                f"make its size a multiple of {after // before}",
            )
        )
    if from_complex:
        return view(_as_pairs(a), wanted)
    if dtypes.issubdtype(wanted, np.complexfloating):
        parts = view(a, dtypes.finfo(wanted).dtype)
        last = len(shape_of(parts)) - 1
        halves = (slice_in_dim(parts, i, None, 2, last) for i in (0, 1))
        return complex_of(*halves)
    if before > after:
        out = bitcast_convert_type(a, wanted)
        return shape_ops.reshape(out, (*shape[:-1], shape[-1] * (before // after)))
    if before < after:
        count = after // before
        grouped = shape_ops.reshape(a, (*shape[:-1], shape[-1] // count, count))
        return bitcast_convert_type(grouped, wanted)
    return bitcast_convert_type(a, wanted)


@eager
def byteswap(a: Any) -> Any:
    """Reverse the bytes of each element; of a complex number those of each part.

    Source: the behavior of `numpy.ndarray.byteswap`.
    """
    a = one("byteswap", a)
    parts = 2 if dtypes.issubdtype(a.dtype, np.complexfloating) else 1
    width = a.dtype.itemsize // parts
    if width == 1:
        return a
    shape = shape_of(a)
    octets = view(shape_ops.reshape(a, (*shape, 1)), np.uint8)
    turned = shape_ops.rev(shape_ops.reshape(octets, (*shape, parts, width)), (len(shape) + 1,))
    return shape_ops.reshape(
        view(shape_ops.reshape(turned, (*shape, parts * width)), a.dtype), shape
    )


def _as_pairs(a: Any) -> Any:
    """Return complex numbers as real and imaginary parts, alternating along the last axis."""
    shape = shape_of(a)
    parts = [shape_ops.expand_dims(x, (len(shape),)) for x in (real(a), imag(a))]
    return shape_ops.reshape(concatenate(parts, len(shape)), (*shape[:-1], shape[-1] * 2))
