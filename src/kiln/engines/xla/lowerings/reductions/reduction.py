"""Reductions and cumulative reductions as StableHLO.

Narrow floats are accumulated in 32 bits. Cumulative reductions are window reductions of the axis'
size, which XLA rewrites as trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.control.loops.loops import scan
from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements import elementwise
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.engines.xla.stablehlo.text import int_array
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add_p, max_p, min_p, mul_p
from kiln.ops.reductions import cumulative, generic_reduction
from kiln.ops.reductions import reduction as ops
from kiln.ops.reductions.product import reduce_prod_p
from kiln.ops.shape import full, move_axis

Out = Sequence[ShapedArray]
_FLOAT32 = np.dtype(np.float32)
_JOINED = {
    "add": add_p.bind,
    "multiply": mul_p.bind,
    "maximum": max_p.bind,
    "minimum": min_p.bind,
}
_EXTREMES: dict[str, Lowering] = {
    "maximum": elementwise.LOWERINGS[max_p],
    "minimum": elementwise.LOWERINGS[min_p],
}


def is_narrow(x: Value) -> bool:
    """Tell whether a value holds floats of less than 32 bits."""
    return dtypes.issubdtype(x.dtype, np.floating) and dtypes.bit_width(x.dtype) < 32


def combine(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Apply a binary stablehlo operation; max and min also to complex numbers."""
    lowering = _EXTREMES.get(name)
    return lowering(b, [x.aval], x, y) if lowering is not None else b.apply(name, x, y)


def _reduce(name: str, primitive: ops.Reduce) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, *, axes: Any) -> Value:
        dtype = x.dtype
        identity = primitive.identity(dtype)
        if name == "multiply" and is_narrow(x):
            x = b.convert(x, _FLOAT32)
        start = b.constant(identity, ShapedArray((), x.dtype))
        (found,) = b.reduce([x], [start], axes, lambda b, p, q: [combine(b, name, p, q)])
        return b.convert(found, dtype)

    return lower


def _position(direction: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, *, axes: Any, index_dtype: Any) -> Value:
        (axis,) = axes
        places = b.iota(x.aval.with_(dtype=index_dtype), axis)
        identity = ops.lowest(x.dtype) if direction == "GT" else ops.highest(x.dtype)
        starts = [
            b.constant(identity, ShapedArray((), x.dtype)),
            b.constant(0, ShapedArray((), index_dtype)),
        ]

        def body(b: Builder, best: Value, at: Value, found: Value, place: Value) -> list[Value]:
            better = b.compare(direction, best, found)
            if dtypes.issubdtype(x.dtype, np.floating):
                better = b.apply("or", better, b.compare("NE", best, best))
            tie = b.apply("and", b.compare("EQ", best, found), b.compare("LT", at, place))
            keep = b.apply("or", better, tie)
            return [b.select(better, best, found), b.select(keep, at, place)]

        return b.reduce([x, places], starts, axes, body)[1]

    return lower


def _reduce_precision(
    b: Builder, out: Out, x: Value, *, exponent_bits: int, mantissa_bits: int
) -> Value:
    return b.emit(
        f"stablehlo.reduce_precision {x}, format = e{exponent_bits}m{mantissa_bits} : "
        f"{type_of(x.aval)}",
        out[0],
    )


def _generic(b: Builder, out: Out, *xs: Value, jaxpr: Jaxpr, dimensions: Any) -> list[Value]:
    n = len(xs) // 2
    return b.reduce(xs[:n], xs[n:], dimensions, lambda b, *scalars: b.inline(jaxpr, scalars))


def _cumulative(name: str, identity: Any) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, *, axis: int, reverse: bool) -> Value:
        dtype, size = x.dtype, x.shape[axis]
        if size == 0:
            return x
        start = identity(dtype)
        if name in ("add", "multiply") and is_narrow(x):
            x = b.convert(x, _FLOAT32)
        if not is_constant((size,)):
            found = b.lower_fun(_by_steps, x, name=name, start=start, axis=axis, reverse=reverse)
            return b.convert(found, dtype)
        window = [1] * x.ndim
        window[axis] = size
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, size - 1) if reverse else (size - 1, 0)
        low_high = ", ".join(f"[{low}, {high}]" for low, high in padding)
        scalar = ShapedArray((), x.dtype)
        region = b.region([scalar, scalar], lambda b, p, q: [combine(b, name, p, q)])
        found = b.op(
            "stablehlo.reduce_window",
            [x, b.constant(start, scalar)],
            x.aval,
            f"window_dimensions = {int_array(window)}, "
            f"padding = dense<[{low_high}]> : tensor<{x.ndim}x2xi64>",
            [region],
        )
        return b.convert(found, dtype)

    return lower


def _by_steps(x: Any, *, name: str, start: Any, axis: int, reverse: bool) -> Any:
    """Return a cumulative reduction along an axis of dynamic size: windows need a constant."""
    rows = move_axis(x, axis, 0)
    join = _JOINED[name]

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        total = join(total, row)
        return total, total

    first = full(rows.shape[1:], start, x.dtype)
    return move_axis(scan(step, first, rows, reverse=reverse)[1], 0, axis)


LOWERINGS: dict[Primitive, Lowering] = {
    ops.reduce_max_p: _reduce("maximum", ops.reduce_max_p),
    ops.reduce_min_p: _reduce("minimum", ops.reduce_min_p),
    reduce_prod_p: _reduce("multiply", reduce_prod_p),
    ops.reduce_and_p: _reduce("and", ops.reduce_and_p),
    ops.reduce_or_p: _reduce("or", ops.reduce_or_p),
    ops.reduce_xor_p: _reduce("xor", ops.reduce_xor_p),
    ops.argmax_p: _position("GT"),
    ops.argmin_p: _position("LT"),
    ops.reduce_precision_p: _reduce_precision,
    generic_reduction.reduce_p: _generic,
    cumulative.cumsum_p: _cumulative("add", lambda dtype: 0),
    cumulative.cumprod_p: _cumulative("multiply", lambda dtype: 1),
    cumulative.cummax_p: _cumulative("maximum", ops.lowest),
    cumulative.cummin_p: _cumulative("minimum", ops.highest),
}
