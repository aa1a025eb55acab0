"""Reductions of sliding windows: sums, extremes, and operations for derivatives of pooling.

The tangent of a window's extreme is that of the winning element: each element in turn wins over
the winner before it unless that is at least as good, so that the first of equal ones wins, and
what follows a nan wins over it. `select_and_gather_add` reads another array at the winners'
positions; its transpose, `select_and_scatter_add`, adds to these positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    ge_p,
    le_p,
    select,
    zeros_like,
)
from kiln.ops.elements.families import ANY, NUMBER, add, constant
from kiln.ops.indexing.slicing import pad, slice
from kiln.ops.out_sharding import resized
from kiln.ops.reductions.reduction import Accepted, check_dtype, highest, lowest, widened
from kiln.ops.reductions.window_geometry import Windows, dilated, view_windows
from kiln.ops.shape import full, mapped_at, scalar, zeros_of

# Host windows of more elements than this are reduced as a strided view, not element by element.
_MOST_OFFSETS = 64


def geometry(
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> Windows:
    """Return the parameters of a primitive as one object."""
    ones = (1,) * len(window_dimensions)
    return Windows(
        window_dimensions, window_strides, padding, base_dilation or ones, window_dilation or ones
    )


class ReduceWindow(Primitive):
    """Reduce each window by an operation with an identity, which also fills padding and holes."""

    on_host = True

    def __init__(
        self, name: str, ufunc: np.ufunc, identity: Callable[[Any], Any], accepts: Accepted
    ) -> None:
        super().__init__(name)
        self.ufunc = ufunc
        self.identity = identity
        self.accepts = accepts

    def infer(self, x: Any, **params: Any) -> ShapedArray:
        check_dtype(self.name, x, self.accepts)
        return ShapedArray(geometry(**params).counts(x.shape), x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return resized(self.name, xs[0], results[0])

    def numpy(self, x: Any, **params: Any) -> Any:
        windows = geometry(**params)
        wide = widened(x)
        fill = np.asarray(self.identity(x.dtype)).astype(wide.dtype)
        views = view_windows(wide, fill, windows)
        n = x.ndim
        if math.prod(windows.dimensions) > _MOST_OFFSETS:
            out = self.ufunc.reduce(views, axis=tuple(range(n, 2 * n)), dtype=wide.dtype)
        else:
            first, *places = np.ndindex(windows.dimensions)
            out = views[(..., *first)].copy()
            for place in places:
                self.ufunc(out, views[(..., *place)], out=out)
        return np.asarray(out).astype(x.dtype)

    def batch(self, size: Any, xs: Any, axes: Any, **params: Any) -> Any:
        (at,) = axes
        return self.bind(xs[0], **geometry(**params).with_axis(at).params), at


class ReduceWindowSum(ReduceWindow):
    """The sum of each window, which is linear."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        windows = geometry(**params)
        shape = x.aval.shape
        counts = aval_of(ct).shape
        if 0 in (*shape, *counts):
            return [zeros_of(x.aval)]
        # Windows of the cotangent, placed at the starts of the windows it came from.
        config = []
        for n, m, span, stride, (low, _), dilation in zip(
            shape,
            counts,
            windows.spans,
            windows.strides,
            windows.padding,
            windows.base_dilation,
            strict=True,
        ):
            before = span - 1 - low
            after = dilated(n, dilation) + span - 1 - before - dilated(m, stride)
            config.append((before, after, stride - 1))
        spread = pad(ct, constant(0, ct), config)
        zeros = ((0, 0),) * windows.rank
        ones = (1,) * windows.rank
        back = Windows(windows.dimensions, windows.base_dilation, zeros, ones, windows.dilation)
        return [self.bind(spread, **back.params)]


class ReduceWindowExtreme(ReduceWindow):
    """The largest or smallest element of each window."""

    def __init__(
        self, name: str, ufunc: np.ufunc, identity: Callable[[Any], Any], select_prim: Primitive
    ) -> None:
        super().__init__(name, ufunc, identity, ANY)
        self.select_prim = select_prim

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        moved = select_and_gather_add_p.bind(
            *tangents, *primals, select_prim=self.select_prim, **params
        )
        return out, moved


def worst(select_prim: Primitive, dtype: Any) -> Any:
    """Return the value that wins no window, for padding."""
    return lowest(dtype) if select_prim is ge_p else highest(dtype)


def _winners(x: np.ndarray, select_prim: Primitive, windows: Windows) -> Any:
    """Return the position of the winner within each window, in row-major order."""
    wide = widened(x)
    fill = np.asarray(worst(select_prim, x.dtype)).astype(wide.dtype)
    views = view_windows(wide, fill, windows)
    inside = view_windows(np.ones(x.shape, np.bool_), False, windows)
    keeps = np.greater_equal if select_prim is ge_p else np.less_equal
    best = np.full(views.shape[: x.ndim], fill)
    winners = np.zeros(best.shape, np.int64)
    won = np.zeros(best.shape, np.bool_)
    for number, place in enumerate(np.ndindex(windows.dimensions)):
        element = views[(..., *place)]
        wins = inside[(..., *place)] & ~(won & keeps(best, element))
        winners[wins] = number
        best = np.where(wins, element, best)
        won |= wins
    return winners


class _Selecting(Primitive):
    """Two arrays with windows: the operation is linear in one, at the other's winners."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        # The winners' positions do not change under small perturbations.
        if type(tangents[0]) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(tangents[0], primals[1], **params)

    def batch(self, size: Any, xs: Any, axes: Any, *, select_prim: Primitive, **params: Any) -> Any:
        moved = [mapped_at(x, size, at, 0) for x, at in zip(xs, axes, strict=True)]
        inner = geometry(**params).with_axis(0).params
        kept = {name: inner[name] for name in params}
        return self.bind(*moved, select_prim=select_prim, **kept), 0


class SelectAndGatherAdd(_Selecting):
    """Read `t` at the position of the element of `x` that wins each window; 0 for padding."""

    name = "select_and_gather_add"

    def infer(self, t: Any, x: Any, *, select_prim: Primitive, **params: Any) -> ShapedArray:
        _check_selection(self.name, t, x, x.shape)
        return ShapedArray(geometry(**params).counts(x.shape), t.dtype)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return resized(self.name, xs[1], results[0])

    def numpy(self, t: Any, x: Any, *, select_prim: Primitive, **params: Any) -> Any:
        windows = geometry(**params)
        winners = _winners(x, select_prim, windows)
        views = view_windows(t, 0, windows)
        flat = views.reshape((*winners.shape, math.prod(windows.dimensions)))
        return np.take_along_axis(flat, winners[..., None], -1)[..., 0]

    def transpose(self, ct: Any, t: Any, x: Any, *, select_prim: Primitive, **params: Any) -> Any:
        windows = geometry(**params)
        if not windows.is_dense:
            return [scatter_to_winners(ct, x, select_prim, windows), None]
        dense = {name: params[name] for name in ("window_dimensions", "window_strides", "padding")}
        return [select_and_scatter_add_p.bind(ct, x, select_prim=select_prim, **dense), None]


class SelectAndScatterAdd(_Selecting):
    """Add each of `source` at the position of the element of `x` that wins its window."""

    name = "select_and_scatter_add"

    def infer(self, source: Any, x: Any, *, select_prim: Primitive, **params: Any) -> ShapedArray:
        _check_selection(self.name, source, x, geometry(**params).counts(x.shape))
        return ShapedArray(x.shape, source.dtype)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return xs[1].split

    def numpy(self, source: Any, x: Any, *, select_prim: Primitive, **params: Any) -> Any:
        windows = geometry(**params)
        winners = _winners(x, select_prim, windows)
        within = np.unravel_index(winners, windows.dimensions)
        starts = np.indices(winners.shape)
        out = widened(np.zeros(x.shape, source.dtype))
        places = [
            start * stride + k - low
            for start, stride, k, (low, _) in zip(
                starts, windows.strides, within, windows.padding, strict=True
            )
        ]
        inside = np.ones(winners.shape, np.bool_)
        for place, n in zip(places, x.shape, strict=True):
            inside &= (place >= 0) & (place < n)
        np.add.at(out, tuple(p[inside] for p in places), source[inside])
        return out.astype(source.dtype)

    def transpose(
        self, ct: Any, source: Any, x: Any, *, select_prim: Primitive, **params: Any
    ) -> Any:
        dense = geometry(**params).params
        return [select_and_gather_add_p.bind(ct, x, select_prim=select_prim, **dense), None]


def _check_selection(name: str, moving: ShapedArray, x: ShapedArray, shape: Any) -> None:
    if moving.shape != shape:
        raise TypeError(
            three_lines(
                f"{name}: operands {moving}, {x} at {current_source()}",
                f"the first must have the shape {tuple(shape)}",
                "give it the shape that the windows of the second have",
            )
        )


def scatter_to_winners(ct: Any, x: Any, select_prim: Primitive, windows: Windows) -> Any:
    """Add each of `ct` where the element of `x` is that wins its window, offset by offset.

    This is `select_and_scatter_add` for windows of any dilation.
    """
    dtype = aval_of(x).dtype
    fill = scalar(worst(select_prim, dtype), ShapedArray((), dtype))
    config = [
        (low, high, d - 1)
        for (low, high), d in zip(windows.padding, windows.base_dilation, strict=True)
    ]
    spread = pad(x, fill, config)
    room = aval_of(spread).shape
    counts = aval_of(ct).shape
    if 0 in counts:
        return zeros_of(ShapedArray(aval_of(x).shape, aval_of(ct).dtype))
    offsets = windows.offsets()

    def elements(array: Any, offset: Sequence[int]) -> Any:
        return slice(array, offset, _limits(offset, counts, windows), windows.strides)

    # Padding and holes win over no element, not even over the worst.
    inside = pad(full(aval_of(x).shape, True, np.bool_), full((), False, np.bool_), config)
    best, winner = elements(spread, offsets[0]), full(counts, 0, np.int32)
    won = elements(inside, offsets[0])
    for number, offset in enumerate(offsets[1:], 1):
        element, here = elements(spread, offset), elements(inside, offset)
        keeps = bitwise_and(won, select_prim.bind(best, element))
        keeps = bitwise_or(keeps, bitwise_not(here))
        best = select(keeps, best, element)
        winner = select(keeps, winner, full(counts, number, np.int32))
        won = bitwise_or(won, here)
    total = None
    for number, offset in enumerate(offsets):
        mine = eq(winner, constant(number, winner))
        part = select(mine, ct, zeros_like(ct))
        limits = _limits(offset, counts, windows)
        back = [
            (o, n - end, stride - 1)
            for o, n, end, stride in zip(offset, room, limits, windows.strides, strict=True)
        ]
        placed = pad(part, constant(0, part), back)
        total = placed if total is None else add(total, placed)
    undo = [(-low, -high, 0) for low, high in windows.padding]
    whole = pad(total, constant(0, total), undo)  # type: ignore[arg-type]
    shape = aval_of(whole).shape
    return slice(whole, [0] * len(shape), shape, windows.base_dilation)


def _limits(offset: Sequence[int], counts: Sequence[Any], windows: Windows) -> list[Any]:
    return [
        o + (n - 1) * stride + 1
        for o, n, stride in zip(offset, counts, windows.strides, strict=True)
    ]


reduce_window_sum_p = ReduceWindowSum("reduce_window_sum", np.add, lambda dtype: 0, NUMBER)
reduce_window_max_p = ReduceWindowExtreme("reduce_window_max", np.maximum, lowest, ge_p)
reduce_window_min_p = ReduceWindowExtreme("reduce_window_min", np.minimum, highest, le_p)
select_and_gather_add_p = SelectAndGatherAdd()
select_and_scatter_add_p = SelectAndScatterAdd()
