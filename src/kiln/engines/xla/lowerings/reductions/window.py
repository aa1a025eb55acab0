"""Reductions of sliding windows as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.reductions.reduction import combine, is_narrow
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.engines.xla.stablehlo.text import int_array
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import ge_p
from kiln.ops.reductions import generic_window
from kiln.ops.reductions import window as ops
from kiln.ops.reductions.window_geometry import Pads, Windows

Out = Sequence[ShapedArray]
_FLOAT32 = np.dtype(np.float32)


def pairs(padding: Pads) -> str:
    """Return paddings as an attribute: `dense<[[0, 1]]> : tensor<1x2xi64>`."""
    listed = ", ".join(f"[{low}, {high}]" for low, high in padding)
    return f"dense<[{listed}]> : tensor<{len(padding)}x2xi64>"


def _scalar(x: Value) -> ShapedArray:
    return ShapedArray((), x.dtype)


def reduce_windows(
    b: Builder, xs: Sequence[Value], starts: Sequence[Value], windows: Windows, body: Any
) -> list[Value]:
    """Reduce windows of arrays together; `body(inner, *accumulated, *elements)` as in `reduce`."""
    if windows.rank == 0:
        return list(body(b, *starts, *xs))
    counts = windows.counts(xs[0].shape)
    scalars = [v.aval for v in starts]
    region = b.region([*scalars, *scalars], body)
    return b.op(
        "stablehlo.reduce_window",
        [*xs, *starts],
        [x.aval.with_(shape=counts) for x in xs],
        f"window_dimensions = {int_array(windows.dimensions)}, "
        f"window_strides = {int_array(windows.strides)}, "
        f"base_dilations = {int_array(windows.base_dilation)}, "
        f"window_dilations = {int_array(windows.dilation)}, "
        f"padding = {pairs(windows.padding)}",
        [region],
    )


def _reduce_window(name: str, primitive: ops.ReduceWindow) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, **params: Any) -> Value:
        dtype = x.dtype
        identity = primitive.identity(dtype)
        if name == "add" and is_narrow(x):
            x = b.convert(x, _FLOAT32)
        start = b.constant(identity, _scalar(x))
        (found,) = reduce_windows(
            b, [x], [start], ops.geometry(**params), lambda b, p, q: [combine(b, name, p, q)]
        )
        return b.convert(found, dtype)

    return lower


def _direction(select_prim: Primitive) -> str:
    return "GE" if select_prim is ge_p else "LE"


def _gather(
    b: Builder, out: Out, t: Value, x: Value, *, select_prim: Primitive, **params: Any
) -> Value:
    worst = ops.worst(select_prim, x.dtype)
    starts = [b.constant(worst, _scalar(x)), b.constant(0, _scalar(t))]
    is_number = x.aval.with_(dtype=np.dtype(np.bool_))
    starts.append(b.constant(False, is_number.with_(shape=())))

    def body(b: Builder, *values: Value) -> list[Value]:
        best, at, found, element, there, inside = values
        # The initial value and padding must never be selected, even over the worst element.
        keep = b.compare(_direction(select_prim), best, element)
        keep = b.apply("or", b.apply("and", keep, found), b.apply("not", inside))
        kept = [b.select(keep, best, element), b.select(keep, at, there)]
        return [*kept, b.apply("or", found, inside)]

    given = [x, t, b.constant(True, is_number)]
    return reduce_windows(b, given, starts, ops.geometry(**params), body)[1]


def _scatter(
    b: Builder, out: Out, source: Value, x: Value, *, select_prim: Primitive, **params: Any
) -> Value:
    windows = ops.geometry(**params)
    dtype = source.dtype
    if windows.rank == 0:
        return source
    if is_narrow(source):
        # XLA requires one precision: the comparison stays exact.
        source, x = b.convert(source, _FLOAT32), b.convert(x, _FLOAT32)
    crops = any(low < 0 or high < 0 for low, high in windows.padding)
    if crops or 0 in source.shape:
        return b.convert(
            b.lower_fun(_unrolled, source, x, select_prim=select_prim, windows=windows), dtype
        )
    select = b.region(
        [_scalar(x), _scalar(x)],
        lambda b, best, element: [b.compare(_direction(select_prim), best, element)],
    )
    total = b.region([_scalar(source), _scalar(source)], lambda b, p, q: [b.apply("add", p, q)])
    found = b.op(
        "stablehlo.select_and_scatter",
        [x, source, b.constant(0, _scalar(source))],
        x.aval.with_(dtype=source.dtype),
        f"window_dimensions = {int_array(windows.dimensions)}, "
        f"window_strides = {int_array(windows.strides)}, "
        f"padding = {pairs(windows.padding)}",
        [select, total],
    )
    return b.convert(found, dtype)


def _unrolled(source: Any, x: Any, *, select_prim: Primitive, windows: Windows) -> Any:
    return ops.scatter_to_winners(source, x, select_prim, windows)


def _generic(b: Builder, out: Out, *xs: Value, jaxpr: Jaxpr, **params: Any) -> list[Value]:
    n = len(xs) // 2
    return reduce_windows(
        b, xs[:n], xs[n:], ops.geometry(**params), lambda b, *scalars: b.inline(jaxpr, scalars)
    )


LOWERINGS: dict[Primitive, Lowering] = {
    ops.reduce_window_sum_p: _reduce_window("add", ops.reduce_window_sum_p),
    ops.reduce_window_max_p: _reduce_window("maximum", ops.reduce_window_max_p),
    ops.reduce_window_min_p: _reduce_window("minimum", ops.reduce_window_min_p),
    ops.select_and_gather_add_p: _gather,
    ops.select_and_scatter_add_p: _scatter,
    generic_window.reduce_window_p: _generic,
}
