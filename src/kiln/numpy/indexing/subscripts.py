"""Reading `x[index]`: by slices, by dynamic slices for traced scalars, by gather for arrays.

Positions out of bounds are clamped unless a mode says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import error_check
from kiln.base.options.config import ERRORS_NOTED, options
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray
from kiln.core.slices import Slice
from kiln.core.trace import aval_of, is_typed, require_unmasked
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim, Size, is_constant
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.indexing.index_expressions import (
    GROUP,
    NEW,
    Fixed,
    GatherPlan,
    Positions,
    along,
    check_static,
    parse,
)
from kiln.numpy.indexing.slice_bounds import Kept, Part, Steps
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    add,
    bitwise_and,
    bitwise_or,
    clamp,
    constant,
    ge,
    le,
    lt,
    mul,
    neg,
    select,
)
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
)
from kiln.ops.indexing.indexing import default_fill, gather
from kiln.ops.indexing.slicing import concatenate, dynamic_slice_in_dim, dynamic_slice_p, from_end
from kiln.ops.indexing.static_slicing import slice as static_slice
from kiln.ops.shape import broadcast_in_dim, expand_dims, full, reshape, rev, squeeze
from kiln.ops.size_value import as_index

_INT32 = np.iinfo(np.int32)


@eager
def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]` as NumPy does; positions out of bounds are clamped.

    Raises: IndexError, TypeError for unsupported indices, or if the option `check_static_indices`
        finds one out of bounds.
    """
    aval = aval_of(x)
    plan = parse(aval, index)
    check_static(aval, plan)
    if ERRORS_NOTED:
        note_places(plan)
    return read(x, plan)


def read(
    x: Any,
    plan: GatherPlan,
    *,
    mode: GatherScatterMode = PROMISE_IN_BOUNDS,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap: bool = True,
) -> Any:
    """Return what a plan selects."""
    if plan.added:
        x = expand_dims(x, plan.added)
    if plan.parts:
        x = taken(x, plan.parts, mode=mode, fill_value=fill_value, wrap=wrap)
    grouped = GROUP in plan.result_axes
    if not grouped and not (mode.fills and _may_miss(plan)):
        return _with_new_axes(_basic(x, plan, wrap, clips=mode is CLIP), plan)
    shape = plan.result_shape()
    if any(type(size) is int and size == 0 for size in shape):
        return full(shape, 0, aval_of(x).dtype)
    x, axes = _static_part(x, plan)
    moving = [(i, axis) for i, axis in enumerate(axes) if not isinstance(axis, Kept)]
    group = plan.group
    columns = [
        column(axis.index, size, wrap, clips=mode is CLIP)
        for (i, axis), size in zip(moving, [aval_of(x).shape[i] for i, _ in moving], strict=True)
    ]
    before = plan.result_axes.index(GROUP) if grouped else 0
    place = sum(type(item) is int for item in plan.result_axes[:before])
    rank = len(axes) - len(moving)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(i if i < place else i + len(group) for i in range(rank)),
        collapsed_slice_dims=tuple(i for i, _ in moving),
        start_index_map=tuple(i for i, _ in moving),
    )
    sizes = [1 if not isinstance(axis, Kept) else axis.size for axis in axes]
    out = gather(
        x,
        coordinates(columns, group),
        numbers,
        sizes,
        mode=mode,
        fill_value=fill_value,
        indices_are_sorted=indices_are_sorted or not group,
        unique_indices=unique_indices or plan.distinct,
    )
    return _with_new_axes(out, plan)


def taken(
    x: Any,
    parts: Sequence[Part],
    *,
    mode: GatherScatterMode = PROMISE_IN_BOUNDS,
    fill_value: Any = None,
    wrap: bool,
) -> Any:
    """Return parts of axes whose place may be traced, one after the other.

    Without a stride a part is a window: one that does not fit is clamped, or with a mode that
    fills, filled whole. With `wrap`, a window that starts before 0 counts from the end. With a
    stride each position counts alone.
    """
    for axis, part in parts:
        shape = aval_of(x).shape
        if isinstance(part, Steps) or part.stride != 1:
            plan = along(shape, axis, positions(part))
            how = mode if mode.fills else CLIP
            x = read(x, plan, mode=how, fill_value=fill_value, wrap=False)
            continue
        counts = wrap and not mode.fills
        found = dynamic_slice_in_dim(
            x, start_of(part), part.size, axis, allow_negative_indices=counts
        )
        if mode.fills:
            aval = aval_of(found)
            fill = default_fill(aval.dtype) if fill_value is None else fill_value
            other = convert_element_type(
                full(aval.shape, fill, aval.dtype), aval.dtype, aval.weak_type
            )
            found = select(is_inside(part, shape[axis]), found, other)
        x = found
    return x


def start_of(part: Slice | Steps) -> Any:
    """Return the start of a part as an integer of a program.

    Raises: TypeError for another start.
    """
    start = part.start if is_typed(part.start) else asarray(part.start)
    aval = aval_of(start)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(
            three_lines(
                f"an index by a part that starts at {part.start!r:.60} at {current_source()}",
                f"the start must be one integer, got {aval}",
                "write kiln.ds(start, size) with a scalar of an integer dtype",
            )
        )
    return start


def positions(part: Slice | Steps) -> Any:
    """Return the positions of a part."""
    if isinstance(part, Steps) and is_constant(part):
        first, size, stride = map(int, part)
        return np.arange(size, dtype=np.int32) * np.int32(stride) + np.int32(first)
    start = convert_element_type(start_of(part), np.int32)
    if isinstance(part, Steps):
        counted = iota(np.int32, part.size)
        return add(start, mul(counted, constant(part.stride, counted)))
    steps = np.arange(part.size, dtype=np.int32) * np.int32(part.stride)
    return add(broadcast_in_dim(start, (part.size,), ()), steps)


def is_inside(part: Slice, size: Dim) -> Any:
    """Return whether a window is in bounds of an axis."""
    start = convert_element_type(start_of(part), np.int32)
    last = as_index(size - part.size)
    return bitwise_and(ge(start, np.int32(0)), le(start, convert_element_type(last, np.int32)))


def _may_miss(plan: GatherPlan) -> bool:
    return any(isinstance(axis, Positions) for axis in plan.axes)


def _with_new_axes(out: Any, plan: GatherPlan) -> Any:
    if NEW not in plan.result_axes:
        return out
    new: list[int] = []
    position = 0
    for item in plan.result_axes:
        if item == NEW:
            new.append(position)
        position += len(plan.group) if item == GROUP else 1
    return expand_dims(out, new)


def region(plan: GatherPlan) -> tuple[list[Dim], list[Dim], list[int]]:
    """Return start, limit and positive stride of the part of each axis that is kept or fixed.

    Positions from arrays keep the whole axis.
    """
    starts: list[Dim] = []
    limits: list[Dim] = []
    steps: list[int] = []
    for axis, size in zip(plan.axes, plan.shape, strict=True):
        start: Dim = 0
        limit, step = size, 1
        if isinstance(axis, Fixed):
            start = axis.index
            limit = start + 1
        elif isinstance(axis, Kept) and not axis.whole(size):
            step = abs(axis.step)
            start = axis.start if axis.step > 0 else axis.start + (axis.size - 1) * axis.step
            if type(axis.size) is int and axis.size == 0:
                start = limit = 0
            else:
                limit = start + (axis.size - 1) * step + 1
        starts.append(start)
        limits.append(limit)
        steps.append(step)
    return starts, limits, steps


def _basic(x: Any, plan: GatherPlan, wrap: bool, *, clips: bool) -> Any:
    """Return what slices, ints and scalars select, without new axes."""
    starts, limits, steps = region(plan)
    dropped = [i for i, axis in enumerate(plan.axes) if not isinstance(axis, Kept)]
    scalars = [i for i, axis in enumerate(plan.axes) if isinstance(axis, Positions)]
    if type(x) is ConcreteArray and all(step == 1 for step in steps) and (dropped or any(starts)):
        # With starts as operands a loop over x[i] compiles one program, not one for each i.
        places: list[Any] = list(map(as_index, starts))
        sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    else:
        x = static_slice(x, starts, limits, steps)
        places = [np.int32(0)] * len(starts)
        sizes = list(aval_of(x).shape)
        if not scalars:
            places = []
    for i in scalars:
        axis = plan.axes[i]
        assert isinstance(axis, Positions)
        places[i] = column(axis.index, plan.shape[i], wrap, clips=clips)
        sizes[i] = 1
    if places:
        x = dynamic_slice_p.bind(x, *_of_one_dtype(places), slice_sizes=tuple(sizes))
    flipped = [i for i, axis in enumerate(plan.axes) if isinstance(axis, Kept) and axis.step < 0]
    return squeeze(rev(x, flipped), dropped)


def _static_part(x: Any, plan: GatherPlan) -> tuple[Any, list[Any]]:
    """Apply slices and ints; return the remaining axes, now whole or with positions."""
    starts, limits, steps = region(plan)
    axes: list[Any] = []
    dropped = []
    for i, axis in enumerate(plan.axes):
        if isinstance(axis, Fixed):
            dropped.append(i)
        elif isinstance(axis, Kept):
            axes.append(Kept(0, axis.size, 1))
        else:
            axes.append(axis)
    flipped = [i for i, axis in enumerate(plan.axes) if isinstance(axis, Kept) and axis.step < 0]
    return squeeze(rev(static_slice(x, starts, limits, steps), flipped), dropped), axes


def column(index: Any, size: Dim, wrap: bool, *, clips: bool = False) -> Any:
    """Return the coordinates of an index array along an axis, as int32 if possible.

    With `wrap`, negative ones count from the end. With `clips`, those out of bounds are moved to
    the nearest position, so that no check takes them for mistakes. Known values remain a NumPy
    array.
    """
    found = _coordinates_of(index, size, wrap)
    return clipped(found, size) if clips else found


def clipped(index: Any, size: Dim) -> Any:
    """Return positions moved to the nearest ones of an axis."""
    if isinstance(index, np.ndarray) and type(size) is int:
        return np.clip(index, 0, size - 1)
    dtype = aval_of(index).dtype
    last = full((), size - 1, dtype) if type(size) is Size else dtype.type(size - 1)
    return clamp(dtype.type(0), index, last)


def _coordinates_of(index: Any, size: Dim, wrap: bool) -> Any:
    if isinstance(index, (int, np.ndarray, np.generic)):
        require_unmasked(index)
        value = np.asarray(index)
        if wrap and type(size) is not int and np.any(value < 0):
            return from_end(_coordinates_of(value, size, False), size)
        if wrap and type(size) is int and value.dtype.kind == "i":
            value = np.where(value < 0, value.astype(np.int64) + size, value)
        if value.dtype.itemsize > 4 or value.dtype == np.uint32:
            # Indices that do not fit are as far out of bounds as the largest int32.
            value = np.clip(value, _INT32.min if value.dtype.kind == "i" else 0, _INT32.max)
        return value.astype(np.int32)
    if wrap:
        index = from_end(index, size)
    dtype = aval_of(index).dtype
    if dtypes.bit_width(dtype) < 32 or dtype == np.int32:
        return convert_element_type(index, np.dtype(np.int32))
    return index if dtype == np.int64 else convert_element_type(index, np.dtype(np.int32))


def _of_one_dtype(columns: Sequence[Any]) -> list[Any]:
    wide = any(aval_of(c).dtype == np.int64 for c in columns if is_typed(c))
    if not wide:
        return [c[()] if isinstance(c, np.ndarray) else c for c in columns]
    dtype = np.dtype(np.int64)
    return [convert_element_type(c, dtype) if is_typed(c) else dtype.type(c) for c in columns]


def coordinates(columns: Sequence[Any], shape: tuple[Dim, ...]) -> Any:
    """Return index arrays as columns along a last axis, each broadcast to `shape`."""
    known = is_constant(shape)
    if known and not any(is_typed(c) for c in columns):
        return np.stack([np.broadcast_to(c, shape) for c in columns], -1)  # type: ignore[arg-type]
    wide = any(is_typed(c) and aval_of(c).dtype == np.int64 for c in columns)
    dtype = np.dtype(np.int64 if wide else np.int32)
    out = []
    for c in columns:
        if not is_typed(c):
            c = c.astype(dtype)
        elif aval_of(c).dtype != dtype:
            c = convert_element_type(c, dtype)
        own = aval_of(c).shape
        if len(columns) == 1 and own == shape:
            return expand_dims(c, (len(shape),))
        first = len(shape) - len(own)
        if own != shape:
            if is_typed(c) or not known:
                c = broadcast_in_dim(c, shape, range(first, len(shape)))
            else:
                c = np.broadcast_to(c, shape)  # type: ignore[arg-type]
        out.append(reshape(c, (*shape, 1)) if is_typed(c) else np.ascontiguousarray(c[..., None]))
    return concatenate(out, len(shape))


def note_places(plan: GatherPlan) -> None:
    """Note an error if positions of an index are out of bounds of their axes."""
    opts = options()
    if not opts.notes_errors or opts.error_checking_behavior_oob != "raise":
        return
    for axis, size in zip(plan.axes, plan.shape, strict=True):
        if isinstance(axis, Positions) and 0 not in axis.shape:
            error_check.set_error_if(_outside(axis.index, size), "Out of bounds index encountered")


def _outside(index: Any, size: Dim) -> Any:
    if not is_typed(index) and type(size) is int:
        known = np.asarray(index)
        return (known < -size) | (known >= size)
    kind = aval_of(index).dtype
    signed = dtypes.issubdtype(kind, np.signedinteger)
    if dtypes.bit_width(kind) < 32:
        index = convert_element_type(index, np.int32 if signed else np.uint32)
    end = constant(size, index)
    above = ge(index, end)
    return bitwise_or(lt(index, neg(end)), above) if signed else above
