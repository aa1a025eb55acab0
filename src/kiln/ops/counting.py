"""Arrays that count along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, DTypeLike
from kiln.core.primitive import RejectsSharding
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.axes import canonical_axis, check_sizes
from kiln.ops.out_sharding import sharded


class Iota(RejectsSharding):
    """Count along `dimension`: an array of `shape` whose elements are their index there."""

    name = "iota"
    on_host = True

    def infer(self, *, dtype: Any, shape: Any, dimension: Any) -> ShapedArray:
        check_sizes("iota", shape)
        if not dtypes.issubdtype(dtype, np.number):
            raise TypeError(
                three_lines(
                    f"iota: dtype {dtypes.long_name(dtype)}, shape {shape} at {current_source()}",
                    f"iota does not accept dtype {dtypes.long_name(dtype)}",
                    "count in int32 and compare or convert",
                )
            )
        return ShapedArray(shape, dtype)

    def numpy(self, *, dtype: Any, shape: Any, dimension: Any) -> Any:
        view = [1] * len(shape)
        view[dimension] = shape[dimension]
        count = np.arange(shape[dimension]).astype(dtype)
        return np.broadcast_to(count.reshape(view), shape)


iota_p = Iota()


def broadcasted_iota(
    dtype: DTypeLike, shape: Sequence[Dim], dimension: int, *, out_sharding: Any = None
) -> Array:
    """Return an array of `shape` whose elements count along `dimension`.

    Raises: ValueError if `dimension` is out of bounds.
    Example:
        >>> lax.broadcasted_iota(jnp.int32, (2, 3), 1)
        Array([[0, 1, 2],
               [0, 1, 2]], dtype=int32)
    """
    dtype = dtypes.check_user_dtype(dtype, "iota")
    dimension = canonical_axis("iota", dimension, len(shape))
    found = iota_p.bind(dtype=dtype, shape=tuple(shape), dimension=dimension)
    return found if out_sharding is None else sharded(found, out_sharding, "broadcasted_iota")


def iota(dtype: DTypeLike, size: Dim) -> Array:
    """Return 0, 1, ..., size-1.

    Example:
        >>> lax.iota(jnp.float32, 3)
        Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)
