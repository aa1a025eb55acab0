"""gather and the scatters as StableHLO.

StableHLO's gather clamps indices, and its scatter drops windows out of bounds; the other modes are
implemented explicitly: reads with a fill value are masked, writes with clipping clamp the indices
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.arrays.slicing import signed_index
from kiln.engines.xla.lowerings.elements.elementwise import is_complex, less
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.engines.xla.stablehlo.text import int_list
from kiln.ir.types import ShapedArray
from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import CLIP, Window

Out = Sequence[ShapedArray]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _limits(b: Builder, indices: Value, window: Window, shape: Any, sizes: Any) -> Value:
    """Return the largest index of each coordinate, in the indices' shape."""
    row = b.vector([shape[axis] - sizes[axis] for axis in window.coordinates], indices.dtype)
    return b.broadcast(row, indices.aval, [indices.ndim - 1])


def _gather(
    b: Builder,
    out: Out,
    operand: Value,
    indices: Value,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
    fill_value: Any,
) -> Value:
    window: Window = dimension_numbers.window
    if 0 in out[0].shape:
        return b.constant(0, out[0])
    indices = signed_index(b, indices)
    attrs = (
        "dimension_numbers = #stablehlo.gather<"
        f"offset_dims = {int_list(window.placed)}, "
        f"collapsed_slice_dims = {int_list(window.dropped)}, "
        f"operand_batching_dims = {int_list(window.batching)}, "
        f"start_indices_batching_dims = {int_list(window.along)}, "
        f"start_index_map = {int_list(window.coordinates)}, "
        f"index_vector_dim = {indices.ndim - 1}>, "
        f"indices_are_sorted = {_flag(indices_are_sorted)}"
    )
    picked = b.gather(operand, indices, out[0], attrs, slice_sizes)
    if not mode.fills or not window.coordinates:
        return picked
    above = b.compare("GE", indices, b.like(0, indices))
    below = b.compare("LE", indices, _limits(b, indices, window, operand.shape, slice_sizes))
    inside = b.reduce_with("and", b.apply("and", above, below), True, [indices.ndim - 1])
    numbered = [axis for axis in range(picked.ndim) if axis not in window.placed]
    mask = b.broadcast(inside, inside.aval.with_(shape=picked.shape), numbered)
    fill = ops.default_fill(operand.aval.physical().dtype) if fill_value is None else fill_value
    return b.select(mask, picked, b.like(fill, picked))


def _joined(name: str) -> Any:
    def body(b: Builder, old: Value, new: Value) -> Value:
        if name in ("minimum", "maximum") and is_complex(old):
            smaller = less(b, old, new)
            return b.select(smaller, old, new) if name == "minimum" else b.select(smaller, new, old)
        return b.apply(name, old, new)

    return body


def _scatter(join: Any) -> Lowering:
    def lower(
        b: Builder,
        out: Out,
        operand: Value,
        indices: Value,
        updates: Value,
        *,
        dimension_numbers: Any,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: Any,
    ) -> Value:
        window: Window = dimension_numbers.window
        if 0 in updates.shape or 0 in operand.shape:
            return operand
        indices = signed_index(b, indices)
        if mode is CLIP and window.coordinates:
            sizes = window.sizes(operand.shape, updates.shape)
            last = _limits(b, indices, window, operand.shape, sizes)
            indices = b.apply("maximum", b.apply("minimum", indices, last), b.like(0, indices))
        attrs = (
            "scatter_dimension_numbers = #stablehlo.scatter<"
            f"update_window_dims = {int_list(window.placed)}, "
            f"inserted_window_dims = {int_list(window.dropped)}, "
            f"input_batching_dims = {int_list(window.batching)}, "
            f"scatter_indices_batching_dims = {int_list(window.along)}, "
            f"scatter_dims_to_operand_dims = {int_list(window.coordinates)}, "
            f"index_vector_dim = {indices.ndim - 1}>, "
            f"indices_are_sorted = {_flag(indices_are_sorted)}, "
            f"unique_indices = {_flag(unique_indices)}"
        )
        element = ShapedArray((), operand.dtype)
        region = b.region([element, element], lambda b, old, new: [join(b, old, new)])
        return b.op("stablehlo.scatter", [operand, indices, updates], out[0], attrs, [region])

    return lower


def _replaced(b: Builder, old: Value, new: Value) -> Value:
    return new


def _multiplied(b: Builder, old: Value, new: Value) -> Value:
    return b.apply("and" if dtypes.issubdtype(old.dtype, np.bool_) else "multiply", old, new)


def _added(b: Builder, old: Value, new: Value) -> Value:
    return b.apply("or" if dtypes.issubdtype(old.dtype, np.bool_) else "add", old, new)


LOWERINGS: dict[Primitive, Lowering] = {
    ops.gather_p: _gather,
    ops.scatter_p: _scatter(_replaced),
    ops.scatter_add_p: _scatter(_added),
    ops.scatter_mul_p: _scatter(_multiplied),
    ops.scatter_min_p: _scatter(_joined("minimum")),
    ops.scatter_max_p: _scatter(_joined("maximum")),
}
