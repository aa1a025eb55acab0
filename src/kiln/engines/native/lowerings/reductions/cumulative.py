"""Cumulative reductions by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import by_kernel
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.linear.matrices import arranged
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import cumulative as ops


def _along(primitive: Operation) -> Lowering:
    """Return the lowering along contiguous rows, whose order of terms is not that of columns."""
    usual = by_kernel(primitive)

    def lower(
        b: Builder, out: Sequence[ShapedArray], x: Layout, *, axis: int, reverse: bool
    ) -> Any:
        if not b.is_batch_invariant or axis == len(x.shape) - 1:
            return usual(b, out, x, axis=axis, reverse=reverse)
        order = [*(d for d in range(len(x.shape)) if d != axis), axis]
        transposed = arranged(b, x, order)
        aval = ShapedArray(transposed.shape, out[0].dtype)
        made = usual(b, [aval], transposed, axis=len(order) - 1, reverse=reverse)
        return made.with_axes([(made.shape[d], made.strides[d]) for d in np.argsort(order)])

    return lower


LOWERINGS: dict[Operation, Lowering] = {
    p: _along(p)
    for p in (ops.cumsum_p, ops.cumprod_p, ops.cummax_p, ops.cummin_p, ops.cumlogsumexp_p)
}
