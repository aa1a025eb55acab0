"""Reductions of sliding windows as nests.

Small windows are unrolled: the result is an expression of slices of the operand. Larger ones are
reduced axis by axis; along an axis, long windows that overlap are combined from windows of half
their length, and others are reductions over an axis of the nest.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import (
    Complex,
    Scalar,
    is_narrow,
    numpy_type,
    parts_of,
)
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import is_float
from kiln.engines.native.loop_ir.statements import Reduce, Store
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.engines.native.lowerings.elements.elementwise import added, maximum, minimum, mul
from kiln.engines.native.lowerings.reductions.reduction import identity
from kiln.engines.native.lowerings.reductions.window_boxes import (
    Box,
    boxes,
    elements_in,
    few_boxes,
    windows_in,
)
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import window as ops
from kiln.ops.reductions.window_geometry import Windows

Out = Sequence[ShapedArray]

UNROLLED = 16
"""Windows of at most this many elements are unrolled."""
OVERLAP = 8
"""Windows are combined from shorter ones if an element is in at least this many."""


_PLAIN = (1, 1, (0, 0), 1, 1)
"""The parameters of an axis along which windows are single elements."""
_COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "add": added,
    "mul": mul,
    "max": maximum,
    "min": minimum,
}


def _windows(op: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Layout, **params: Any) -> Layout:
        windows = ops.geometry(**params)
        if not x.shape:
            # The only window has the only element.
            return x
        return Reducing(b, op, x.buffer.dtype).reduced(x, windows, out[0].dtype)

    return lower


class Reducing:
    """Reduces windows by an operation: narrow floats in 32 bits."""

    def __init__(self, b: Builder, op: str, kind: str) -> None:
        self.b = b
        self.op = op
        self.wide = "f32" if is_narrow(kind) else kind

    def reduced(self, x: Layout, windows: Windows, dtype: np.dtype[Any]) -> Layout:
        """Return the reductions of all windows, as numbers of a dtype."""
        if any(n == 0 for n in windows.counts(x.shape) if not is_named(n)):
            return self._space(x, windows, dtype)
        wide = numpy_type(self.wide) if x.dtype.kind != "c" else x.dtype
        passes = _passes(windows)
        for i, each in enumerate(passes):
            x = self._pass(x, each, dtype if i == len(passes) - 1 else wide)
        return x

    def _pass(self, x: Layout, windows: Windows, dtype: np.dtype[Any]) -> Layout:
        found = few_boxes(x.shape, windows, UNROLLED)
        if found is not None:
            return self._unrolled(x, found, windows, dtype)
        inside, windows = _padded_first(windows)
        if inside is not None:
            x = self._unrolled(x, boxes(x.shape, inside), inside, x.dtype)
        if math.prod(windows.dimensions) <= UNROLLED:
            return self._unrolled(x, boxes(x.shape, windows), windows, dtype)
        (axis,) = [d for d, n in enumerate(windows.dimensions) if n > 1]
        if self._is_nest(x, windows, axis):
            return self._nest(x, windows, axis, dtype)
        return self._doubled(x, windows, axis, dtype)

    def _space(self, x: Layout, windows: Windows, dtype: np.dtype[Any]) -> Layout:
        return self.b.space(windows.counts(x.shape), dtype)

    def _number(self, dtype: np.dtype[Any], re: Any, im: Any) -> Scalar:
        first = self.b.scope.constant(re, self.wide)
        if dtype.kind != "c":
            return first
        return Complex(first, self.b.scope.constant(im, self.wide))

    def _start(self, dtype: np.dtype[Any]) -> list[Scalar]:
        """Return what a sum starts from: it is never -0, although an element may be."""
        is_sum = self.op == "add" and is_float(self.wide)
        return [self._number(dtype, 0, 0)] if is_sum else []

    def _identity(self, dtype: np.dtype[Any]) -> Scalar:
        start = identity(self._reduction, self.wide)
        return self._number(dtype, start, 0 if self.op == "mul" else start)

    @property
    def _reduction(self) -> str:
        """The operation of a reduction of a nest."""
        over = {"max": "or", "min": "and"} if self.wide == "i1" else {}
        return over.get(self.op, self.op)

    def _combined(self, values: Sequence[Scalar]) -> Scalar:
        """Return the reduction of some numbers in their order."""
        return functools.reduce(_COMBINE[self.op], values)

    def _read(self, x: Layout) -> Scalar:
        value = self.b.read(x, self.b.axes(x.shape))
        return value if isinstance(value, Complex) else value.convert(self.wide)

    def _unrolled(
        self, x: Layout, found: list[Box] | None, windows: Windows, dtype: np.dtype[Any]
    ) -> Layout:
        """Return windows as expressions of their elements."""
        assert found is not None
        made = self._space(x, windows, dtype)
        stores: dict[tuple[Any, ...], list[Store]] = {}
        for box in found:
            part = windows_in(made, box)
            values = [self._read(y) for _, y in elements_in(x, box)]
            value = self._combined([*self._start(x.dtype), *values] or [self._identity(x.dtype)])
            axes = self.b.axes(part.shape)
            written = self.b.stores(part, axes, convert(value, dtype))
            stores.setdefault(axes, []).extend(written)
        for axes, effects in stores.items():
            self.b.nest(axes, effects)
        return made

    def _is_nest(self, x: Layout, windows: Windows, axis: int) -> bool:
        """Tell whether windows along an axis are reduced by a nest over their elements."""
        is_ordered = x.dtype.kind == "c" and self.op != "add"
        if self.b.is_batch_invariant and is_float(self.wide) and self.op in ("add", "mul"):
            return False
        return not is_ordered and windows.dimensions[axis] < OVERLAP * windows.strides[axis]

    def _nest(self, x: Layout, windows: Windows, axis: int, dtype: np.dtype[Any]) -> Layout:
        """Return windows along an axis without padding, reduced over an axis of the nest."""
        b = self.b
        is_complex = x.dtype.kind == "c"
        made = self._space(x, windows, x.dtype if is_complex else numpy_type(self.wide))
        strides = list(x.strides)
        strides[axis] *= windows.strides[axis]
        within = (windows.dimensions[axis], x.strides[axis] * windows.dilation[axis])
        seen = x.with_axes([*zip(made.shape, strides, strict=True), within])
        axes = b.axes(made.shape)
        points = [*axes, b.fresh_axis("w", within[0])]
        index = b.element(made, axes)
        effects = [
            Reduce(made.buffer, index + i, self._reduction, part.convert(self.wide))
            for i, part in enumerate(parts_of(b.read(seen, points)))
        ]
        b.nest(points, effects)
        if made.dtype == dtype:
            return made
        return b.map(ShapedArray(made.shape, dtype), lambda v: convert(v, dtype), made)

    def _doubled(self, x: Layout, windows: Windows, axis: int, dtype: np.dtype[Any]) -> Layout:
        """Return windows along an axis without padding, from windows of powers of two."""
        b, size, dilation = self.b, windows.dimensions[axis], windows.dilation[axis]
        wide = x.dtype if x.dtype.kind == "c" else numpy_type(self.wide)
        levels, length = [x], 1
        while 2 * length <= size:
            length *= 2
            shape = _along(windows, axis, dimensions=length, strides=1).counts(x.shape)
            made = b.space(shape, wide)
            halves = [
                self._shifted(levels[-1], axis, at, shape) for at in (0, length // 2 * dilation)
            ]
            axes = b.axes(shape)
            b.nest(axes, b.stores(made, axes, self._combined([self._read(y) for y in halves])))
            levels.append(made)
        made = self._space(x, windows, dtype)
        if self.op in ("max", "min"):
            chosen = [(levels[-1], 0), (levels[-1], size - length)]
        else:
            chosen, start = [], 0
            for level, power in zip(levels, range(size.bit_length()), strict=True):
                if size >> power & 1:
                    chosen.append((level, start))
                    start += 1 << power
        values = [
            self._read(self._shifted(y, axis, at * dilation, made.shape, windows.strides[axis]))
            for y, at in chosen
        ]
        axes = b.axes(made.shape)
        value = convert(self._combined([*self._start(x.dtype), *values]), dtype)
        b.nest(axes, b.stores(made, axes, value))
        return made

    def _shifted(
        self, x: Layout, axis: int, at: int, shape: Sequence[Any], stride: int = 1
    ) -> Layout:
        """Return the elements from a position on along an axis."""
        strides = list(x.strides)
        strides[axis] *= stride
        return x.with_axes(list(zip(shape, strides, strict=True)), at * x.strides[axis])


def _along(windows: Windows, axis: int, **changed: Any) -> Windows:
    """Return windows along one axis, with some parameters changed there."""
    own = {name: values[axis] for name, values in windows._asdict().items()} | changed
    axes = [tuple(own.values()) if d == axis else _PLAIN for d in range(windows.rank)]
    return Windows(*zip(*axes, strict=True))


def _passes(windows: Windows) -> list[Windows]:
    """Return windows to be reduced one after the other: all axes at once, or each by itself."""
    if math.prod(windows.dimensions) <= UNROLLED:
        return [windows]
    axes = [d for d, own in enumerate(zip(*windows, strict=True)) if own != _PLAIN]
    # The axis that leaves the fewest elements comes first.
    return [_along(windows, d) for d in sorted(axes, key=lambda d: -windows.strides[d])]


def _padded_first(windows: Windows) -> tuple[Windows | None, Windows]:
    """Return windows of one element that add padding and holes, if there are any, and the rest."""
    ones, none = (1,) * windows.rank, ((0, 0),) * windows.rank
    rest = Windows(windows.dimensions, windows.strides, none, ones, windows.dilation)
    if rest == windows:
        return None, windows
    return Windows(ones, ones, windows.padding, windows.base_dilation, ones), rest


LOWERINGS: dict[Operation, Lowering] = {
    ops.reduce_window_sum_p: _windows("add"),
    ops.reduce_window_max_p: _windows("max"),
    ops.reduce_window_min_p: _windows("min"),
}
