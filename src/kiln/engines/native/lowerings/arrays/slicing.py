"""Dynamic slices as layouts with computed offsets, and updates of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import real
from kiln.engines.native.loop_ir.extents import at_least
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, bits, is_signed
from kiln.engines.native.loop_ir.statements import Index
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.ops.indexing import slicing as ops

Out = Sequence[ShapedArray]
_MOST = (1 << 31) - 1


def clamped(start: Value, last: Dim) -> Value:
    """Return an integer clamped to between 0 and `last`, as an i32 or i64."""
    is_long = start.dtype in ("u32", "i64", "u64") or not at_least(_MOST, last)
    kind = "i64" if is_long else "i32"
    if start.dtype == "u64":
        # Values above all positions stay above them.
        start = start.scope.op("min", "u64", start, start.scope.constant(last, "u64"))
    number = start.convert(kind)
    if is_signed(start.dtype) or start.dtype == "u64":
        number = _bounded("max", number, 0)
    return _bounded("min", number, last)


def _bounded(op: str, x: Value, bound: Dim) -> Value:
    if x.op == "constant" and type(bound) is not Size:
        signed = x.attr - (1 << bits(x.dtype)) if x.attr >> (bits(x.dtype) - 1) else x.attr
        return x.scope.constant((max if op == "max" else min)(signed, bound), x.dtype)
    return x.scope.op(op, x.dtype, x, x.scope.constant(bound, x.dtype))


def moved(x: Layout, axes: Sequence[tuple[int, int]], offset: Index) -> Layout:
    """Return a layout with other axes, and an offset in bytes that is computed."""
    start = x.offset if isinstance(x.offset, Index) else Index(x.offset)
    seen = x.with_axes(axes)
    return Layout(seen.buffer, start + offset, seen.shape, seen.strides, seen.dtype)


def _window(b: Builder, x: Layout, starts: Sequence[Layout], sizes: Sequence[int]) -> Layout:
    offset = Index()
    for d, (start, n, size, stride) in enumerate(
        zip(starts, x.shape, sizes, x.strides, strict=True)
    ):
        if size != n or "index" in b.checking.kinds:
            number = b.checking.in_bounds(b, real(b.read(start)), n - size, d, n)
            number = clamped(number, n - size)
            if number.op == "constant":
                offset = offset + number.attr * stride
            else:
                offset = offset + Index(0, ((number, stride),))
    return moved(x, list(zip(sizes, x.strides, strict=True)), offset)


def _dynamic_slice(b: Builder, out: Out, x: Layout, *starts: Layout, slice_sizes: Any) -> Layout:
    return _window(b, x, starts, slice_sizes)


def _dynamic_update_slice(
    b: Builder, out: Out, x: Layout, update: Layout, *starts: Layout
) -> Layout:
    made = b.room(out[0])
    if update.shape == made.shape:
        b.write(made, update)
        return made
    whole_copy(b, made, x)
    if update.size != 0:
        b.write(_window(b, made, starts, update.shape), update)
    return made


def whole_copy(b: Builder, to: Layout, x: Layout) -> None:
    """Copy a value, so that parts of it may be written."""
    if x.is_dense and x.shape == to.shape:
        b.copy(to, x)
    else:
        b.write(to, x)


LOWERINGS: dict[Operation, Lowering] = {
    ops.dynamic_slice_p: _dynamic_slice,
    ops.dynamic_update_slice_p: _dynamic_update_slice,
}
