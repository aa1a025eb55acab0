"""What the largest or smallest element of each window selects, for derivatives of pooling.

Elements of a window are compared in order, as `ops/reductions/window.py` defines. Values are read
at the winners' positions; to add at these positions, the number of each window's winner is stored,
and every element of the operand sums the values of the windows that it wins. Windows of many
elements are kernels: unrolled, they would be long expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import kernel_results
from kiln.engines.native.building.element_types import (
    Complex,
    Scalar,
    Unsupported,
    is_narrow,
    parts_of,
    real,
)
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import Store
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.engines.native.lowerings.reductions.window_boxes import (
    Box,
    elements_in,
    few_boxes,
    windows_in,
)
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import window as ops
from kiln.ops.reductions.window_geometry import Windows

Out = Sequence[ShapedArray]

UNROLLED = 64
"""Windows of more elements are compared by a kernel."""
_NUMBER = np.dtype(np.uint8)
_NOBODY = 255


def _by_kernel(
    b: Builder, primitive: Operation, out: Out, xs: Sequence[Layout], params: dict[str, Any]
) -> Layout:
    found = kernel_results(b, primitive, out, xs, params)
    if found is None:
        raise Unsupported(f"no kernel computes {primitive.name} of these types")
    return found[0]


def _gather(b: Builder, out: Out, moved: Layout, x: Layout, **params: Any) -> Layout:
    if not x.shape:
        return moved
    given = dict(params)
    keeps = given.pop("select_prim").name
    windows = ops.geometry(**given)
    found = few_boxes(x.shape, windows, UNROLLED)
    if found is None:
        return _by_kernel(b, ops.select_and_gather_add_p, out, [moved, x], params)
    made, zero = b.room(out[0]), convert(_zero(b, moved), moved.dtype)
    nests = _Nests(b)
    for box in found:
        values = [b.read(y, b.axes(y.shape)) for _, y in elements_in(moved, box)]
        nests.add(made, box, _winner(b, x, box, keeps, values) or zero)
    nests.finish()
    return made


def _scatter(b: Builder, out: Out, source: Layout, x: Layout, **params: Any) -> Layout:
    if not x.shape:
        return source
    given = dict(params)
    keeps = given.pop("select_prim").name
    windows = ops.geometry(**given)
    found = few_boxes(x.shape, windows, UNROLLED)
    back = few_boxes(source.shape, _transposed(windows, x.shape), UNROLLED)
    if found is None or back is None or source.dtype == np.bool_:
        return _by_kernel(b, ops.select_and_scatter_add_p, out, [source, x], params)
    winners, nobody = b.space(source.shape, _NUMBER), b.scope.constant(_NOBODY, "u8")
    nests = _Nests(b)
    for box in found:
        offsets = [at for at, _ in elements_in(x, box)]
        numbers = [_number(b, at, windows) for at in offsets]
        nests.add(winners, box, _winner(b, x, box, keeps, numbers) or nobody)
    nests.finish()
    made = b.room(out[0])
    last = [n - 1 for n in windows.dimensions]
    for box in back:
        total = _zero(b, source)
        both = zip(elements_in(source, box), elements_in(winners, box), strict=True)
        for (at, values), (_, winner) in both:
            axes = b.axes(values.shape)
            number = _number(b, [n - k for n, k in zip(last, at, strict=True)], windows)
            mine = real(b.read(winner, axes)).eq(number)
            total = _plus(total, mine, b.read(values, axes))
        nests.add(made, box, convert(total, made.dtype))
    nests.finish()
    return made


def _number(b: Builder, at: Sequence[int], windows: Windows) -> Value:
    """Return the number of an element of a window."""
    number = 0
    for k, n in zip(at, windows.dimensions, strict=True):
        number = number * n + k
    return b.scope.constant(number, "u8")


class _Nests:
    """Stores of boxes: those over the same axes are one nest."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.stores: dict[Any, list[Store]] = {}

    def add(self, made: Layout, box: Box, value: Scalar) -> None:
        """Store a value for the windows of a box."""
        part = windows_in(made, box)
        axes = self.b.axes(part.shape)
        self.stores.setdefault(axes, []).extend(self.b.stores(part, axes, value))

    def finish(self) -> None:
        """Add the nests."""
        for axes, effects in self.stores.items():
            self.b.nest(axes, effects)
        self.stores.clear()


def _winner(b: Builder, x: Layout, box: Box, keeps: str, values: Sequence[Scalar]) -> Scalar | None:
    """Return the value of each window's winner, given those of all its elements."""
    best: Scalar | None = None
    found: Scalar | None = None
    for (_, y), value in zip(elements_in(x, box), values, strict=True):
        element = _comparable(b.read(y, b.axes(y.shape)))
        if best is None or found is None:
            best, found = element, value
            continue
        stays = _at_least(best, element, keeps)
        best, found = _choose(stays, best, element), _choose(stays, found, value)
    return found


def _comparable(x: Scalar) -> Scalar:
    if isinstance(x, Complex):
        return x
    if x.dtype == "i1":
        return x.convert("u8")
    return x.convert("f32") if is_narrow(x.dtype) else x


def _at_least(x: Scalar, y: Scalar, keeps: str) -> Value:
    """Tell whether x stays the winner before y: complex numbers are ordered by their parts."""
    if not (isinstance(x, Complex) and isinstance(y, Complex)):
        return x.compare(keeps, y)  # type: ignore[union-attr]
    numbers = x.im.eq(x.im) & y.im.eq(y.im)
    strictly = "gt" if keeps == "ge" else "lt"
    return (x.re.compare(strictly, y.re) & numbers) | (x.re.eq(y.re) & x.im.compare(keeps, y.im))


def _choose(mask: Value, x: Scalar, y: Scalar) -> Scalar:
    chosen = [mask.select(p, q) for p, q in zip(parts_of(x), parts_of(y), strict=True)]
    return Complex(*chosen) if len(chosen) == 2 else chosen[0]


def _zero(b: Builder, x: Layout) -> Scalar:
    """Return 0 of the type in which numbers are summed."""
    kind = x.buffer.dtype
    zero = b.scope.constant(0, "f32" if is_narrow(kind) else kind)
    return Complex(zero, zero) if x.dtype.kind == "c" else zero


def _plus(total: Scalar, mine: Value, value: Scalar) -> Scalar:
    """Return the sum of a number and, where the mask is true, another."""
    added = [
        x + mine.select(y.convert(x.dtype), x.scope.constant(0, x.dtype))
        for x, y in zip(parts_of(total), parts_of(value), strict=True)
    ]
    return Complex(*added) if len(added) == 2 else added[0]


def _transposed(windows: Windows, shape: Sequence[Any]) -> Windows:
    """Return the windows on an array of windows that contain an element: those that it is in."""
    paddings = []
    for n, m, window, stride, (low, _) in zip(
        shape,
        windows.counts(shape),
        windows.dimensions,
        windows.strides,
        windows.padding,
        strict=True,
    ):
        before = window - 1 - low
        paddings.append((before, n + window - 1 - before - ((m - 1) * stride + 1 if m else 0)))
    ones = (1,) * windows.rank
    return Windows(windows.dimensions, ones, tuple(paddings), windows.strides, ones)


LOWERINGS: dict[Operation, Lowering] = {
    ops.select_and_gather_add_p: _gather,
    ops.select_and_scatter_add_p: _scatter,
}
