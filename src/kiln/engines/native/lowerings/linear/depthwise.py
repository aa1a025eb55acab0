"""Depthwise convolutions as nests: the window is written out, and what follows is fused.

Every feature is convolved by itself, so there is no product of matrices. An element of the result
is a sum of few products, which are read from a copy of the operand with its padding; the derivative
by the kernel is a sum over all positions for each element of the window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from kiln.base.records import Record
from kiln.engines.native.building.builder import Builder
from kiln.engines.native.building.element_types import is_narrow, machine_type, numpy_type
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, is_float
from kiln.engines.native.loop_ir.statements import Axis, Index, Reduce, axis_index

MOST_TAPS = 64
"""Of a window that is written out."""
MOST_PHASES = 16


class Reading(Record):
    """How positions of a result read an operand along one axis.

    Positions `first`, `first + every`, ... of the result, `count` of them, are sums over the taps
    `tap`, `tap + skip`, ..., `taps` of them. The n-th of these positions reads at
    `n * stride + k * dilation - low` for the k-th of these taps.
    """

    first: int
    every: int
    count: int
    tap: int
    skip: int
    taps: int
    stride: int
    dilation: int
    low: int


def readings(
    count: int, taps: int, stride: int, low: int, holes: int, dilation: int
) -> list[Reading]:
    """Return how the positions of an axis read an operand whose elements are `holes` apart.

    Positions that read the same taps make one reading: the others would read holes.
    """
    every, skip = holes // math.gcd(holes, stride), holes // math.gcd(holes, dilation)
    found = []
    for first in range(min(every, count)):
        start = first * stride - low
        tap = next((k for k in range(skip) if (start + k * dilation) % holes == 0), taps)
        found.append(
            Reading(
                first,
                every,
                -(-(count - first) // every),
                tap,
                skip,
                max(0, -(-(taps - tap) // skip)),
                every * stride // holes,
                skip * dilation // holes,
                -((start + tap * dilation) // holes),
            )
        )
    return found


def depthwise(
    b: Builder, made: Layout, x: Layout, w: Layout, params: dict[str, Any]
) -> Layout | None:
    """Write a convolution of each feature by itself to `made`, and return it.

    None if it is no such convolution, or better computed by a kernel. The three have one dtype.
    """
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    lhs, rhs, out = params["dimension_numbers"]
    kind = machine_type(made.dtype)
    if is_named(*x.shape, *w.shape, *made.shape) or not is_float(kind) or made.dtype.kind == "c":
        return None
    if b.is_batch_invariant or 0 in (*x.shape, *w.shape, *made.shape):
        return None
    # Axes by meaning: batch, features, space.
    x, w, result = (_in_order(v, spec) for v, spec in ((x, lhs), (w, rhs), (made, out)))
    along = [
        readings(count, taps, stride, low, holes, dilation)
        for count, taps, stride, (low, _), holes, dilation in zip(
            result.shape[2:],
            w.shape[2:],
            params["window_strides"],
            params["padding"],
            params["lhs_dilation"],
            params["rhs_dilation"],
            strict=True,
        )
    ]
    if math.prod(map(len, along)) > MOST_PHASES:
        return None
    if groups > 1 and x.shape[1] == groups and math.prod(w.shape[2:]) <= MOST_TAPS:
        x, origin = _padded(b, x, along)
        for phase in itertools.product(*along):
            _write_sums(b, result, x, w, groups, phase, origin)
        return made
    if batches > 1 and x.shape[0] == batches and math.prod(result.shape[2:]) <= MOST_TAPS:
        if any(holes != 1 for holes in params["lhs_dilation"]):
            return None
        x, origin = _padded(b, x, along)
        _reduce_by_tap(b, result, x, w, batches, [phases[0] for phases in along], origin)
        return made
    return None


def _in_order(x: Layout, axes: Sequence[int]) -> Layout:
    return x.with_axes([(x.shape[d], x.strides[d]) for d in axes])


def _box(x: Layout, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Layout:
    """Return the spatial part of a layout."""
    space = list(zip(sizes, x.strides[2:], steps, strict=True))
    offset = sum(start * stride for start, stride in zip(starts, x.strides[2:], strict=True))
    kept = zip(x.shape[:2], x.strides[:2], strict=True)
    return x.with_axes([*kept, *[(n, stride * step) for n, stride, step in space]], offset)


def _padded(b: Builder, x: Layout, along: Sequence[Sequence[Reading]]) -> tuple[Layout, list[int]]:
    """Return the part of the operand that is read, with zeros around it, and where it begins."""
    starts, ends = [], []
    for size, phases in zip(x.shape[2:], along, strict=True):
        used = [phase for phase in phases if phase.taps > 0]
        starts.append(min((-phase.low for phase in used), default=0))
        ends.append(max((_last(phase) + 1 for phase in used), default=size))
    space = x.shape[2:]
    if all(start >= 0 for start in starts) and all(
        e <= n for e, n in zip(ends, space, strict=True)
    ):
        return x, [0] * len(space)
    made = _like(b, x, [e - s for s, e in zip(starts, ends, strict=True)])
    low, count, ones = [0] * len(space), list(made.shape[2:]), [1] * len(space)
    zero = b.constant(0, x.dtype)
    for d, size in enumerate(space):
        # The elements that are kept along this axis, and zeros before and after them.
        first, last = max(0, starts[d]), max(min(size, ends[d]), 0, starts[d])
        before = min(max(0, -starts[d]), count[d])
        after = count[d] - before - (last - first)
        for place, n in ((0, before), (count[d] - after, after)):
            if n > 0:
                low[d], kept = place, count[d]
                count[d] = n
                b.write(_box(made, low, count, ones), zero)
                count[d] = kept
        low[d], count[d] = before, last - first
    if 0 not in count:
        source = [max(0, start) for start in starts]
        b.write(_box(made, low, count, ones), _box(x, source, count, ones))
    return made, starts


def _last(phase: Reading) -> int:
    """Return the last place that is read."""
    return (phase.count - 1) * phase.stride + (phase.taps - 1) * phase.dilation - phase.low


def _like(b: Builder, x: Layout, space: Sequence[int]) -> Layout:
    """Return a new value with other spatial sizes, whose axes are in memory in the order of `x`."""
    sizes = [*x.shape[:2], *space]
    order = sorted(range(len(sizes)), key=lambda d: (-abs(x.strides[d]), d))
    made = b.space([sizes[d] for d in order], x.dtype)
    return _in_order(made, [order.index(d) for d in range(len(order))])


def _points(b: Builder, result: Layout, groups: int) -> tuple[list[Axis], list[Index], Index]:
    """Return the axes of a nest over a result, its indices by meaning, and that of the group.

    The axes are in the order of memory, as those of the nest that reads the result.
    """
    order = sorted(range(len(result.shape)), key=lambda d: (-result.strides[d], d))
    axes = list(b.axes([result.shape[d] for d in order]))
    place = [axis_index(axes[order.index(d)]) for d in range(len(order))]
    many = result.shape[1] // groups
    group = place[1]
    if many > 1:
        # A group has several features.
        group_axis, each = b.fresh_axis("g", groups), b.fresh_axis("f", many)
        at = order.index(1)
        axes[at : at + 1] = [group_axis, each]
        group = axis_index(group_axis)
        place[1] = group * many + axis_index(each)
    return axes, place, group


def _write_sums(
    b: Builder,
    result: Layout,
    x: Layout,
    w: Layout,
    groups: int,
    phase: Sequence[Reading],
    origin: Sequence[int],
) -> None:
    """Write the positions of a phase, as sums over the window."""
    part = _box(
        result, [p.first for p in phase], [p.count for p in phase], [p.every for p in phase]
    )
    axes, place, group = _points(b, part, groups)
    kind = x.buffer.dtype
    wide = "f32" if is_narrow(kind) else kind
    total: Value | None = None
    for tap in itertools.product(*[range(p.taps) for p in phase]):
        of_kernel = [Index(p.tap + k * p.skip) for p, k in zip(phase, tap, strict=True)]
        at = _read_at(phase, place[2:], [Index(k) for k in tap], origin)
        element = _real(b, x, [place[0], group, *at]).convert(wide)
        factor = _real(b, w, [place[1], Index(), *of_kernel]).convert(wide)
        total = element * factor if total is None else element.muladd(factor, total)
    if total is None:
        total = b.scope.constant(0, wide)
    b.nest(axes, b.stores(part, place, total.convert(kind)))


def _read_at(
    phase: Sequence[Reading], places: Sequence[Index], taps: Sequence[Index], origin: Sequence[int]
) -> list[Index]:
    return [
        place * p.stride + tap * p.dilation + (-p.low - start)
        for p, place, tap, start in zip(phase, places, taps, origin, strict=True)
    ]


def _real(b: Builder, x: Layout, at: Sequence[Axis | Index]) -> Value:
    value = b.read(x, at)
    assert isinstance(value, Value)
    return value


def _reduce_by_tap(
    b: Builder,
    result: Layout,
    x: Layout,
    w: Layout,
    groups: int,
    phase: Sequence[Reading],
    origin: Sequence[int],
) -> None:
    """Write the derivative by the kernel, whose elements are the positions of the result.

    `w` is the cotangent; the features of `x` are the batch of the convolution it is derived from.
    """
    order = sorted(range(1, len(w.shape)), key=lambda d: (-abs(w.strides[d]), d))
    many = w.shape[0] // groups
    kept = [b.fresh_axis("g", groups), b.fresh_axis("f", many)]
    axes = {d: b.fresh_axis("k", w.shape[d]) for d in order}
    group, feature = axis_index(kept[0]), axis_index(kept[0]) * many + axis_index(kept[1])
    item, *taps = [axis_index(axes[d]) for d in range(1, len(w.shape))]
    kind = x.buffer.dtype
    wide = "f32" if is_narrow(kind) else kind
    sums = result if wide == kind else _wide(b, result)
    factor = _real(b, w, [feature, item, *taps]).convert(wide)
    effects = []
    for position in itertools.product(*[range(p.count) for p in phase]):
        places = [Index(place) for place in position]
        element = _real(b, x, [group, item, *_read_at(phase, places, taps, origin)])
        index = b.element(sums, [Index(), feature, *places])
        effects.append(Reduce(sums.buffer, index, "add", element.convert(wide) * factor))
    b.nest([*kept, *[axes[d] for d in order]], effects)
    if sums is not result:
        points = b.axes(sums.shape)
        b.nest(points, b.stores(result, points, _real(b, sums, points).convert(kind)))


def _wide(b: Builder, x: Layout) -> Layout:
    return b.space(x.shape, numpy_type("f32"))
