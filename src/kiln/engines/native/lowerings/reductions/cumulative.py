"""Cumulative reductions: along contiguous rows by a kernel, along other axes as loops.

A row is scanned in the lanes of vectors. Columns are independent of one another, so the loop over
an axis that is not the last is sequential, and each iteration is a nest over a block of columns.
Products and extremes of complex columns are the kernel's: a nest would access them with a stride.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import by_kernel
from kiln.engines.native.building.element_types import (
    Scalar,
    is_narrow,
    numpy_type,
    part_dtype,
    real,
)
from kiln.engines.native.loop_ir.extents import estimate, is_named
from kiln.engines.native.loop_ir.layout import Layout, dense
from kiln.engines.native.loop_ir.statements import Axis, Index, Loop, Statement, axis_index
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.engines.native.lowerings.elements.elementwise import added, maximum, minimum, mul
from kiln.engines.native.lowerings.linear.matrices import arranged
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import cumulative as ops

Combine = Callable[[Scalar, Scalar], Scalar]

COLUMNS = 64
"""The columns of a block: they fill several vectors, and what was written last is in the cache."""
MANY_ROWS = 8
"""From this many on, threads share the axes before the scanned one; otherwise blocks of columns."""


def _log_sum_exp(x: Scalar, y: Scalar) -> Scalar:
    x, y = real(x), real(y)
    apart = x - y
    found = apart.gt(0).select(x, y) + (-abs(apart)).unary("exp").unary("log1p")
    return x.eq(y).select(x + math.log(2), apart.ne(apart).select(apart, found))


def _along(primitive: Operation, combine: Combine) -> Lowering:
    usual = by_kernel(primitive)

    def lower(
        b: Builder, out: Sequence[ShapedArray], x: Layout, *, axis: int, reverse: bool
    ) -> Any:
        inner = math.prod(x.shape[axis + 1 :])
        if inner == 1 and not is_named(inner):
            return usual(b, out, x, axis=axis, reverse=reverse)
        if not b.is_batch_invariant:
            is_complex = x.dtype.kind == "c"
            if is_complex and primitive is not ops.cumsum_p:
                return usual(b, out, x, axis=axis, reverse=reverse)
            return _by_columns(b, out[0], x, axis, reverse, combine)
        # The order of terms along contiguous rows is not that of columns.
        order = [*(d for d in range(len(x.shape)) if d != axis), axis]
        transposed = arranged(b, x, order)
        aval = ShapedArray(transposed.shape, out[0].dtype)
        made = usual(b, [aval], transposed, axis=len(order) - 1, reverse=reverse)
        return made.with_axes([(made.shape[d], made.strides[d]) for d in np.argsort(order)])

    return lower


def _by_columns(
    b: Builder, out: ShapedArray, x: Layout, axis: int, reverse: bool, combine: Combine
) -> Layout:
    """Return a reduction along an axis that is not the last; narrow floats in 32 bits."""
    kind = x.buffer.dtype
    wide = numpy_type("f32") if is_narrow(kind) else out.dtype
    made = b.space(x.shape, wide)
    if made.size == 0:
        return b.room(out)
    # The parts of complex numbers are summed separately.
    parts = 2 if x.dtype.kind == "c" else 1
    sizes = (math.prod(x.shape[:axis]), x.shape[axis], parts * math.prod(x.shape[axis + 1 :]))
    given = _forwards(b.dense(x), sizes, reverse)
    result = _forwards(made, sizes, reverse)
    first = _part(given, (), sizes[0], 1, sizes[2])
    start = _part(result, (), sizes[0], 1, sizes[2])
    axes = b.axes(start.shape)
    b.nest(axes, b.stores(start, axes, convert(b.read(first, axes), start.dtype)))
    columns = sizes[2]
    count = 1 if is_named(columns) else columns // COLUMNS
    if count <= 1:
        _scanned(b, given, result, Index(), 1, columns, combine)
    else:
        _scanned(b, given, result, Index(), count, COLUMNS, combine)
        rest = columns % COLUMNS
        if rest:
            _scanned(b, given, result, Index(columns - rest), 1, rest, combine)
    if wide == out.dtype:
        return made
    return b.map(out, lambda v: convert(v, out.dtype), made)


def _forwards(x: Layout, sizes: tuple[Dim, Dim, Dim], reverse: bool) -> Layout:
    """Return a dense value as axes before, along and after the scan, which begins at 0."""
    seen = dense(x.buffer, sizes, part_dtype(x.dtype))
    offset = x.offset if isinstance(x.offset, Index) else Index(x.offset)
    before, along, after = seen.strides
    if reverse:
        offset, along = offset + (sizes[1] - 1) * along, -along
    return seen.with_axes(list(zip(sizes, (before, along, after), strict=True))).moved(offset)


def _part(x: Layout, at: Sequence[Index], *sizes: Dim) -> Layout:
    """Return a box of some sizes, which starts at some indices along the last axes."""
    offset = x.offset
    strides = x.strides[len(x.strides) - len(at) :]
    for place, stride in zip(at, strides, strict=True):
        offset = offset + place * stride
    axes = list(zip(sizes, x.strides[len(x.strides) - len(sizes) :], strict=True))
    return x.with_axes(axes).moved(offset)


def _scanned(
    b: Builder,
    x: Layout,
    made: Layout,
    begin: Index,
    count: int,
    width: Dim,
    combine: Combine,
) -> None:
    """Add the loops over blocks of columns, from `begin` on."""
    rows, size, _ = x.shape
    row, block = b.fresh_axis("row", rows), b.fresh_axis("block", count)
    step = b.fresh_axis("i", size - 1)
    column = begin + axis_index(block) * width
    before, now = axis_index(step), axis_index(step) + 1
    with b.block() as body:
        old = _part(made, (axis_index(row), before, column), width)
        new = _part(made, (axis_index(row), now, column), width)
        own = _part(x, (axis_index(row), now, column), width)
        axes = b.axes(new.shape)
        value = convert(b.read(own, axes), made.dtype)
        b.nest(axes, b.stores(new, axes, combine(b.read(old, axes), value)))
    if not body or (not is_named(step.size) and step.size == 0):
        return
    statements: list[Statement] = [_loop(b, step, body)] if step.size != 1 else body
    shared: list[Axis] = [row, block] if estimate(rows) >= MANY_ROWS else [block, row]
    for axis in reversed(shared):
        if axis.size != 1:
            statements = [_loop(b, axis, statements, parallel=True)]
    b.body.extend(statements)


def _loop(b: Builder, axis: Axis, body: list[Statement], *, parallel: bool = False) -> Loop:
    return Loop(axis, body, parallel=parallel, source=b.source)


LOWERINGS: dict[Operation, Lowering] = {
    ops.cumsum_p: _along(ops.cumsum_p, added),
    ops.cumprod_p: _along(ops.cumprod_p, mul),
    ops.cummax_p: _along(ops.cummax_p, maximum),
    ops.cummin_p: _along(ops.cummin_p, minimum),
    ops.cumlogsumexp_p: _along(ops.cumlogsumexp_p, _log_sum_exp),
}
