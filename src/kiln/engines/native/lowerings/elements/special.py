"""Special functions: elementary functions that a pass expands, or kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import by_kernel
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.elements.elementwise import operation
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.elements import special as ops


def _broadcast(primitive: Operation) -> Lowering:
    """Return the lowering of a kernel whose operands have the shape of the result."""
    kernel = by_kernel(primitive)

    def lower(b: Builder, out: Sequence[ShapedArray], *xs: Layout) -> Any:
        sizes = b.sizes(out[0])
        return kernel(b, out, *[x.spread(sizes) for x in xs])

    return lower


LOWERINGS: dict[Operation, Lowering] = {
    **{
        p: operation(p.name)
        for p in (ops.erf_p, ops.erfc_p, ops.erf_inv_p, ops.lgamma_p, ops.digamma_p)
    },
    **{p: _broadcast(p) for p in (ops.polygamma_p, ops.zeta_p)},
}
