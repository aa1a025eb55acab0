"""Packing bools into bytes, and unpacking them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.logic import truth
from kiln.numpy.promotion import one
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.shape import broadcast_in_dim, reduce_sum, reshape

_BYTE = np.dtype(np.uint8)


def _shifts(shape: Any, bitorder: str, name: str) -> Any:
    if bitorder not in ("big", "little"):
        raise ValueError(
            f"{name}(bitorder={bitorder!r}) at {current_source()}\n"
            "'order' must be either 'little' or 'big'\n"
        )
    count = np.arange(8, dtype=np.uint8)
    return np.broadcast_to(count[::-1] if bitorder == "big" else count, shape)


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack truth values, eight to a byte, along an axis or from the flattened array.

    Example:
        >>> jnp.packbits(jnp.array([1, 0, 1, 0, 0, 0, 0, 0]))
        Array([160], dtype=uint8)
    """
    a = one("packbits", a)
    if not (a.dtype == np.bool_ or dtypes.issubdtype(a.dtype, np.integer)):
        raise TypeError(
            three_lines(
                f"packbits of {a.aval} at {current_source()}",
                "Expected an input array of integer or boolean data type",
                "compare first, to get bools",
            )
        )
    a = cast(truth(a), _BYTE)
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = canonical_axes("packbits", axis, len(a.shape))
    a = moveaxis(a, axis, -1)
    last = len(a.shape) - 1
    missing = -a.shape[-1] % 8
    a = pad(a, constant(0, a), [(0, missing if d == last else 0, 0) for d in range(last + 1)])
    a = reshape(a, (*a.shape[:-1], a.shape[-1] // 8, 8))
    bits = elementwise.shift_left(
        a, cast(one("packbits", _shifts(a.shape, bitorder, "packbits")), _BYTE)
    )
    return moveaxis(reduce_sum(bits, (last + 1,)), -1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpack bytes into zeros and ones, along an axis or from the flattened array.

    Example:
        >>> jnp.unpackbits(jnp.array([160], jnp.uint8))
        Array([1, 0, 1, 0, 0, 0, 0, 0], dtype=uint8)
    """
    a = one("unpackbits", a)
    if a.dtype != _BYTE:
        raise TypeError(
            three_lines(
                f"unpackbits of {a.aval} at {current_source()}",
                "Expected an input array of unsigned byte data type",
                "convert first: x.astype('uint8')",
            )
        )
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = canonical_axes("unpackbits", axis, len(a.shape))
    a = moveaxis(a, axis, -1)
    rank = len(a.shape)
    shape = (*a.shape, 8)
    spread = broadcast_in_dim(a, shape, range(rank))
    shifts = one("unpackbits", np.array(_shifts(shape, bitorder, "unpackbits")))
    bits = elementwise.bitwise_and(elementwise.shift_right_logical(spread, shifts), np.uint8(1))
    bits = reshape(bits, (*a.shape[:-1], a.shape[-1] * 8))
    if count is not None:
        total = bits.shape[-1]
        if count < 0:
            bits = slice_in_dim(bits, 0, total + count, 1, rank - 1)
        elif count <= total:
            bits = slice_in_dim(bits, 0, count, 1, rank - 1)
        else:
            config = [(0, count - total if d == rank - 1 else 0, 0) for d in range(rank)]
            bits = pad(bits, constant(0, bits), config)
    return moveaxis(bits, -1, axis)
