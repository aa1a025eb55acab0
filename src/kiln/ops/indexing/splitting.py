"""Splitting: an array into parts along an axis, the transpose of concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.indexing.static_slicing import concatenate_p, dims, fail
from kiln.ops.out_sharding import resized
from kiln.ops.out_sums import passed
from kiln.ops.shape import (
    canonical_axis,
    filled,
    to_front,
)


class Split(Primitive):
    """Split an array into parts of `sizes` along `axis`."""

    name = "split"
    on_keys = "move"
    on_host = True
    multiple = True

    def infer(self, x: Any, *, sizes: Any, axis: int) -> list[ShapedArray]:
        asked = f"split: operand {x}, sizes {sizes}, axis {axis} at {current_source()}"
        if not all(size >= 0 for size in sizes):
            fail(ValueError, asked, f"Sizes passed to split must be nonnegative, got {list(sizes)}")
        if sum(sizes) != x.shape[axis]:
            fail(
                ValueError,
                asked,
                f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
                f"{list(x.shape)}",
            )
        return [x.with_(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [resized(self.name, xs[0], result) for result in results]

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return passed(self.name, operands)

    def numpy(self, x: Any, *, sizes: Any, axis: int) -> Any:
        return np.split(x, list(itertools.accumulate(sizes))[:-1], axis) if sizes else []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def transpose(self, cts: Any, x: Any, *, sizes: Any, axis: int) -> Any:
        return [concatenate_p.bind(*map(filled, cts), dimension=axis)]

    def batch(self, size: Any, xs: Any, axes: Any, *, sizes: Any, axis: int) -> Any:
        outs = self.bind(to_front(xs[0], axes[0]), sizes=sizes, axis=axis + 1)
        return outs, [0] * len(outs)


split_p = Split()


def split(operand: ArrayLike, sizes: Sequence[Any], axis: int = 0) -> list[Array]:
    """Split an array into parts of the given sizes along an axis.

    Raises: ValueError if the sizes do not add up.
    Example:
        >>> lax.split(jnp.arange(5), [2, 3])
        [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    axis = canonical_axis("split", axis, len(aval_of(operand).shape))
    return split_p.bind(operand, sizes=dims(sizes), axis=axis)
