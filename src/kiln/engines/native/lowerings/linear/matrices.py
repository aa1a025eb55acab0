"""Values copied to the layout that kernels require: dense, with permuted axes."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.building.builder import Builder
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import Kernel

FEW = 1 << 10
"""At most this many elements are copied by a nest."""


def arranged(b: Builder, x: Layout, axes: Sequence[int]) -> Layout:
    """Return a dense value whose axes are those of `x` in another order."""
    seen = x.with_axes([(x.shape[d], x.strides[d]) for d in axes])
    if seen.is_dense:
        return seen
    made = b.space(seen.shape, x.dtype)
    order = sorted(range(len(seen.shape)), key=lambda d: (-estimate(seen.strides[d]), d))
    source = seen.with_axes([(seen.shape[d], seen.strides[d]) for d in order])
    if estimate(seen.size) <= FEW or not source.is_dense or not 0 < seen.dtype.itemsize <= 16:
        b.write(made, seen)
        return made
    numbers = [
        seen.dtype.itemsize.bit_length() - 1,
        len(order),
        *source.shape,
        *[order.index(d) for d in range(len(order))],
    ]
    b.body.append(Kernel("kiln_transpose", [b.place(source)], [b.place(made)], numbers, b.source))
    return made


def as_it_lies(b: Builder, x: Layout) -> tuple[Layout, list[int]]:
    """Return a dense value with the axes of `x` in the order of memory, and where each is."""
    order = sorted(range(len(x.shape)), key=lambda d: (-abs(estimate(x.strides[d])), d))
    seen = x.with_axes([(x.shape[d], x.strides[d]) for d in order])
    if not seen.is_dense:
        return b.dense(x), list(range(len(x.shape)))
    return seen, [order.index(d) for d in range(len(order))]
