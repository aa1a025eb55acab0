"""Cumulative reductions by kernels."""

from __future__ import annotations

from kiln.engines.native.builder import Lowering
from kiln.engines.native.lowerings.by_kernel import by_kernel
from kiln.ir.operation import Operation
from kiln.ops import cumulative as ops

LOWERINGS: dict[Operation, Lowering] = {
    p: by_kernel(p)
    for p in (ops.cumsum_p, ops.cumprod_p, ops.cummax_p, ops.cummin_p, ops.cumlogsumexp_p)
}
