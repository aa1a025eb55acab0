"""Reductions of sliding windows by kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import kernel_results
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import window as ops

Out = Sequence[ShapedArray]


def _windows(primitive: Operation) -> Lowering:
    def lower(b: Builder, out: Out, *xs: Layout, **params: Any) -> Layout:
        if not xs[-1].shape:
            # The only window has the only element.
            return xs[0]
        found = kernel_results(b, primitive, out, xs, params)
        if found is None:
            raise Unsupported(f"no kernel computes {primitive.name} of these types")
        return found[0]

    return lower


LOWERINGS: dict[Operation, Lowering] = {
    p: _windows(p)
    for p in (
        ops.reduce_window_sum_p,
        ops.reduce_window_max_p,
        ops.reduce_window_min_p,
        ops.select_and_gather_add_p,
        ops.select_and_scatter_add_p,
    )
}
