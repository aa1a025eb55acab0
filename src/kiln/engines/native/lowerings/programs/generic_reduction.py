"""Reductions by a scalar function: loops around the lowered function.

The accumulators are in memory; such functions are rare, and those that are a single operation have
their own lowerings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Complex, Scalar, is_narrow
from kiln.engines.native.loop_ir.addresses import position
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import Axis, Index, Loop, Statement, axis_index
from kiln.engines.native.lowerings.arrays.slicing import clamped, moved
from kiln.engines.native.lowerings.elements.elementwise import mul
from kiln.engines.native.lowerings.programs.control import assign
from kiln.engines.native.lowerings.reductions.window import Reducing
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import maximum
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import mul_p
from kiln.ops.reductions import generic_reduction, generic_window
from kiln.ops.reductions.generic_reduction import operation_of
from kiln.ops.reductions.window import geometry

Out = Sequence[ShapedArray]


def _at(x: Layout, places: Sequence[Index]) -> Layout:
    """Return the layout of one element."""
    offset = Index()
    for place, stride in zip(places, x.strides, strict=True):
        offset = offset + place * stride
    return moved(x, [], offset)


def _around(b: Builder, axes: Sequence[Axis], body: list[Statement]) -> None:
    """Add a loop nest over axes, the first one outermost."""
    for axis in reversed(axes):
        if axis.size != 1:
            body = [Loop(axis, body, source=b.source)]
    if all(axis.size != 0 for axis in axes):
        b.body.extend(body)


def _folded(
    b: Builder,
    made: Sequence[Layout],
    starts: Sequence[Layout],
    kept: Sequence[Axis],
    reduced: Sequence[Axis],
    step: Any,
) -> None:
    """Compute each element of results by steps that change accumulators."""
    state = [b.space((), x.dtype) for x in made]
    with b.block() as body:
        for x, start in zip(state, starts, strict=True):
            b.write(x, start)
        with b.block() as iteration:
            assign(b, state, step(state))
        _around(b, reduced, iteration)
        for x, value in zip(made, state, strict=True):
            b.write(_at(x, [axis_index(axis) for axis in kept]), value)
    _around(b, kept, body)


def _reduce(b: Builder, out: Out, *operands: Layout, jaxpr: Jaxpr, dimensions: Any) -> list[Layout]:
    n = len(operands) // 2
    xs, starts = operands[:n], operands[n:]
    axes = [b.fresh_axis("r", size) for size in xs[0].shape]
    kept = [axis for d, axis in enumerate(axes) if d not in dimensions]
    reduced = [axes[d] for d in dimensions]
    made = [b.room(aval) for aval in out]

    def step(state: Sequence[Layout]) -> Sequence[Layout]:
        places = [axis_index(axis) for axis in axes]
        return b.inline(jaxpr, [*state, *[_at(x, places) for x in xs]])

    _folded(b, made, starts, kept, reduced, step)
    return made


def _is_plain(x: Layout) -> bool:
    """Tell whether products of several elements are rounded as products of two are."""
    return x.buffer.dtype != "i1" and not is_narrow(x.buffer.dtype)


def _reduce_window(
    b: Builder, out: Out, *operands: Layout, jaxpr: Jaxpr, **params: Any
) -> list[Layout]:
    n = len(operands) // 2
    xs, starts = operands[:n], operands[n:]
    windows = geometry(**params)
    if operation_of(jaxpr) is mul_p and xs[0].shape and _is_plain(xs[0]):
        product = Reducing(b, "mul", xs[0].buffer.dtype).reduced(xs[0], windows, out[0].dtype)
        start = starts[0].spread(product.shape)
        return [b.map(out[0], lambda p, q: _not_nan(b, 0, mul(p, q)), start, product)]
    made = [b.room(aval) for aval in out]
    kept = [b.fresh_axis("o", size) for size in made[0].shape]
    within = [b.fresh_axis("w", size) for size in windows.dimensions]

    def step(state: Sequence[Layout]) -> Sequence[Layout]:
        inside = b.scope.constant(1, "i1")
        places = []
        for d, size in enumerate(xs[0].shape):
            at = axis_index(kept[d]) * windows.strides[d] + -windows.padding[d][0]
            at = at + axis_index(within[d]) * windows.dilation[d]
            number = position(b.scope, at)
            holes = windows.base_dilation[d]
            inside = inside & number.ge(0)
            if holes != 1:
                whole = number / holes
                inside = inside & (whole * holes).eq(number)
                number = whole
            inside = inside & number.lt(size)
            place = clamped(number, maximum(size - 1, 0))
            places.append(Index(place.attr) if place.op == "constant" else Index(0, ((place, 1),)))
        if xs[0].size == 0:
            return state
        # Elements outside the window are combined too, and then discarded.
        with b.checking.nothing():
            combined = b.inline(jaxpr, [*state, *[_at(x, places) for x in xs]])
        pairs = zip(combined, state, strict=True)
        return [_where(b, inside, new, old, i) for i, (new, old) in enumerate(pairs)]

    _folded(b, made, starts, kept, within, step)
    return made


def _where(b: Builder, mask: Value, x: Layout, y: Layout, number: int) -> Layout:
    """Select the next value of the accumulator of a result."""
    made = b.space((), x.dtype)
    first, second = b.read(x), b.read(y)

    value: Scalar
    if isinstance(first, Complex) and isinstance(second, Complex):
        value = Complex(*[mask.select(p, q) for p, q in zip(first, second, strict=True)])
    else:
        value = mask.select(cast("Any", first), cast("Any", second))
    b.nest((), b.stores(made, (), _not_nan(b, number, value)))
    return made


def _not_nan(b: Builder, number: int, value: Scalar) -> Scalar:
    """Return an element of a result, watched for nan if asked."""
    if isinstance(value, Complex):
        return Complex(*[b.checking.not_nan(b, number, part) for part in value])
    return b.checking.not_nan(b, number, value)


LOWERINGS: dict[Operation, Lowering] = {
    generic_reduction.reduce_p: _reduce,
    generic_window.reduce_window_p: _reduce_window,
}
