"""Shape operations as layouts; where elements must move, as copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.addresses import position
from kiln.engines.native.loop_ir.extents import at_least
from kiln.engines.native.loop_ir.layout import VIEWS, Layout
from kiln.engines.native.loop_ir.statements import Index, axis_index
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Size
from kiln.ir.types import ShapedArray
from kiln.ops import counting
from kiln.ops import shape as ops
from kiln.ops.indexing import static_slicing
from kiln.ops.size_value import size_value_p

Out = Sequence[ShapedArray]


def _view(primitive: Operation) -> Lowering:
    view = VIEWS[primitive]

    def lower(b: Builder, out: Out, x: Layout, **params: Any) -> Layout:
        seen = view(x, **params)
        return view(b.dense(x), **params) if seen is None else seen  # type: ignore[return-value]

    return lower


def _rev(b: Builder, out: Out, x: Layout, *, dimensions: Any) -> Layout:
    seen = VIEWS[ops.rev_p](x, dimensions=dimensions)
    return x if seen is None else seen


def _iota(b: Builder, out: Out, *, dtype: Any, shape: Any, dimension: int) -> Layout:
    made = b.room(out[0])
    axes = b.axes(made.shape)
    along = axis_index(axes[dimension]) if axes else Index()
    kind = made.buffer.dtype
    # 32-bit integers hold the low bits of the number, however large it is.
    is_short = kind[1:] == "32" and kind[0] in "iu"
    is_short = is_short or ("64" not in kind and at_least(1 << 31, made.size))
    counter = "i32" if is_short else "i64"
    counted = convert(position(b.scope, along, counter), made.dtype)
    b.nest(axes, b.stores(made, axes, counted))
    return made


def _size_value(b: Builder, out: Out, *, size: Any, **_: Any) -> Layout:
    if type(size) is not Size:
        return b.constant(size, out[0].dtype)
    return b.map(out[0], lambda: convert(b.scope.constant(size, "i64"), out[0].dtype))


LOWERINGS: dict[Operation, Lowering] = {
    **{
        p: _view(p)
        for p in (
            ops.broadcast_in_dim_p,
            ops.reshape_p,
            ops.transpose_p,
            ops.squeeze_p,
            static_slicing.slice_p,
        )
    },
    ops.rev_p: _rev,
    counting.iota_p: _iota,
    size_value_p: _size_value,
}
