"""gather and the scatters: nests over the result, or over the updates.

The coordinates of a window are integer values in an index, clamped so that no access is out of
bounds. A gather yields the fill value where the mask of its window is false, and a scatter writes
only where it is true. Rows of a window are contiguous, so they are read and written in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Complex, Scalar, is_narrow, real
from kiln.engines.native.loop_ir.extents import at_least, is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, is_signed
from kiln.engines.native.loop_ir.statements import Axis, Index, Reduce, axis_index
from kiln.engines.native.lowerings.arrays.slicing import clamped, whole_copy
from kiln.engines.native.lowerings.elements.elementwise import maximum, minimum, mul
from kiln.engines.native.lowerings.reductions.reduction import identity
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import CLIP, LEAVE_OUT, GatherScatterMode, Window

Out = Sequence[ShapedArray]
Combine = Callable[[Scalar, Scalar], Scalar]

SHARED_UPDATES = 1 << 15
"""From this many updates on, they are divided among threads, each with a copy of the operand."""
MOST_COPIES = 16
PER_ELEMENT = 4
"""With fewer updates for each element of a copy, making and combining copies takes too long."""


class _Windows:
    """The positions of windows in an operand: on axes that number them, or run through them."""

    def __init__(
        self,
        b: Builder,
        window: Window,
        indices: Layout,
        shape: Sequence[int],
        sizes: Sequence[int],
        axes: Sequence[Axis | Index],
        mode: GatherScatterMode,
    ) -> None:
        placed = iter([axes[place] for place in window.placed])
        inner = {axis: next(placed) for axis in window.kept(len(shape))}
        numbers = [axis for i, axis in enumerate(axes) if i not in window.placed]
        places = [_index(inner[d]) if d in inner else Index() for d in range(len(shape))]
        for ours, theirs in zip(window.batching, window.along, strict=True):
            places[ours] = places[ours] + _index(numbers[theirs])
        self.inside: Value | None = None
        for k, d in enumerate(window.coordinates):
            last = shape[d] - sizes[d]
            start = real(b.read(indices, [*numbers, Index(k)]))
            if mode is not LEAVE_OUT:
                start = b.checking.in_bounds(b, start, last, d, shape[d])
            place = clamped(start, last)
            fits = _fits(start, last)
            self.inside = fits if self.inside is None else self.inside & fits
            if place.op == "constant":
                places[d] = places[d] + place.attr
            elif last != 0 or "index" in b.checking.kinds:
                places[d] = places[d] + Index(0, ((place, 1),))
        self.places = places


def _index(axis: Axis | Index) -> Index:
    return axis_index(axis) if isinstance(axis, Axis) else axis


def _fits(start: Value, last: Dim) -> Value:
    """Tell whether an index is between 0 and `last`."""
    low = start.ge(0) if is_signed(start.dtype) else start.scope.constant(1, "i1")
    kind = "i64" if start.dtype not in ("i64", "u64") else start.dtype
    if at_least(_most(start), last):
        return low & start.le(last)
    return low & start.convert(kind).le(last)


def _most(x: Value) -> int:
    width = int(x.dtype[1:])
    return (1 << (width - is_signed(x.dtype))) - 1


def _gather(
    b: Builder,
    out: Out,
    operand: Layout,
    indices: Layout,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any,
    **_: Any,
) -> Layout:
    made = b.room(out[0])
    if made.size == 0:
        return made
    window: Window = dimension_numbers.window
    axes = b.axes(made.shape)
    windows = _Windows(b, window, indices, operand.shape, slice_sizes, axes, mode)
    value = b.read(operand, windows.places)
    if mode.fills and windows.inside is not None:
        fill = ops.default_fill(operand.dtype) if fill_value is None else fill_value
        value = _choose(windows.inside, value, fill)
    b.nest(axes, b.stores(made, axes, value))
    return made


def _choose(mask: Value, value: Scalar, other: Any) -> Scalar:
    if isinstance(value, Complex):
        return Complex(mask.select(value.re, other.real), mask.select(value.im, other.imag))
    return mask.select(value, other)


def _scatter(combine: Combine, op: str | None) -> Lowering:
    def lower(
        b: Builder,
        out: Out,
        operand: Layout,
        indices: Layout,
        updates: Layout,
        *,
        dimension_numbers: Any,
        mode: Any,
        unique_indices: bool,
        **_: Any,
    ) -> Layout:
        made = b.room(out[0])
        if updates.size == 0 or made.size == 0:
            whole_copy(b, made, operand)
            return made
        window: Window = dimension_numbers.window
        sizes: Any = window.sizes(operand.shape, updates.shape)

        def write(to: Layout, at: Sequence[Axis | Index], copy: Sequence[Axis]) -> Any:
            windows = _Windows(b, window, indices, operand.shape, sizes, at, mode)
            places: list[Axis | Index] = [*copy, *windows.places]
            mask = None if mode is CLIP else windows.inside
            value = combine(b.read(to, places), b.read(updates, at))
            return b.stores(to, places, value, mask)

        axes = b.axes(updates.shape)
        numbered = [i for i in range(len(axes)) if i not in window.placed]
        inner = [axes[i] for i in window.placed]
        name = _OF_BOOLS.get(op, op) if op and made.dtype == np.bool_ else op
        copies = 1 if name is None else _copies(made, updates, numbered)
        if name is not None and copies > 1:
            _shared(b, name, copies, made, operand, updates, numbered[0], inner, write)
            return made
        whole_copy(b, made, operand)
        # Clipped windows may coincide although their indices differ, and large ones overlap.
        apart = unique_indices and mode is not CLIP
        apart = apart and all(sizes[d] == 1 for d in window.coordinates)
        order = [*[axes[i] for i in numbered], *inner]
        b.nest(order, write(made, axes, ()), ordered=not apart)
        return made

    return lower


def _copies(made: Layout, updates: Layout, numbered: Sequence[int]) -> int:
    """Return in how many private copies threads should combine updates; 1 if in none."""
    if (
        len(numbered) != 1
        or is_named(made.size, updates.size)
        or updates.size < SHARED_UPDATES
        or made.dtype.kind == "c"
        or is_narrow(made.buffer.dtype)
    ):
        return 1
    # The number depends on sizes only, so that results do not depend on the number of threads.
    most = min(MOST_COPIES, int(updates.size) // (int(made.size) * PER_ELEMENT))
    return 1 << max(0, most.bit_length() - 1)


def _shared(
    b: Builder,
    op: str,
    many: int,
    made: Layout,
    operand: Layout,
    updates: Layout,
    along: int,
    inner: Sequence[Axis],
    write: Callable[[Layout, Sequence[Axis | Index], Sequence[Axis]], Any],
) -> None:
    """Combine parts of the updates in private copies, then the copies in order."""
    copies = b.space((many, *made.shape), made.dtype)
    b.fill(copies, identity(op, made.buffer.dtype))
    count = updates.shape[along]
    part = count // many
    number, within = b.fresh_axis("part", many), b.fresh_axis("n", part)
    at: list[Axis | Index] = [*b.axes(updates.shape)]
    at[along] = Index(0, ((number, part), (within, 1)))
    b.nest([number, within, *inner], write(copies, at, [number]), ordered=True)
    if count % many:
        rest = b.fresh_axis("n", count % many)
        at[along] = axis_index(rest) + part * many
        first = copies.with_axes(list(zip(made.shape, copies.strides[1:], strict=True)))
        b.nest([rest, *inner], write(first, at, ()), ordered=True)
    total = b.space(made.shape, made.dtype)
    points = b.axes(copies.shape)
    effect = Reduce(total.buffer, b.element(total, points[1:]), op, real(b.read(copies, points)))
    b.nest(points, [effect])
    axes = b.axes(made.shape)
    old, new = real(b.read(operand, axes)), real(b.read(total, axes))
    b.nest(axes, b.stores(made, axes, old.scope.op(op, old.dtype, old, new)))


def _replaced(old: Scalar, new: Scalar) -> Scalar:
    return new


def _added(x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Complex) and isinstance(y, Complex):
        return Complex(x.re + y.re, x.im + y.im)
    x = real(x)
    return x | y if x.dtype == "i1" else x + y


def _multiplied(x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Value) and x.dtype == "i1":
        return x & y
    return mul(x, y)


_OF_BOOLS = {"add": "or", "mul": "and", "min": "and", "max": "or"}
LOWERINGS: dict[Operation, Lowering] = {
    ops.gather_p: _gather,
    ops.scatter_p: _scatter(_replaced, None),
    ops.scatter_add_p: _scatter(_added, "add"),
    ops.scatter_mul_p: _scatter(_multiplied, "mul"),
    ops.scatter_min_p: _scatter(minimum, "min"),
    ops.scatter_max_p: _scatter(maximum, "max"),
}
