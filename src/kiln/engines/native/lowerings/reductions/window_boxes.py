"""Windows in boxes: those of a box have the same elements inside the operand, at linear positions.

Windows near the ends of an axis reach into padding, and holes between elements repeat. Along each
axis the windows are divided into segments, so that no access needs a mask.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.sizes.size import Dim, maximum, minimum
from kiln.ops.reductions.window_geometry import Windows


class Segment(Record):
    """Windows along an axis: `first`, and `count` in all, `step` windows apart.

    An (element, place) is inside: the first window has this element at this position of the
    operand, and each further one `stride` positions later.
    """

    first: Dim
    count: Dim
    step: int
    stride: int
    elements: tuple[tuple[int, Dim], ...]


MOST_ELEMENTS = 512
"""Boxes with more elements in all are not unrolled, because that takes long to compile."""

Box = tuple[Segment, ...]


def boxes(shape: Sequence[Dim], windows: Windows) -> list[Box] | None:
    """Return the boxes of windows on an array; None if they depend on a named size."""
    axes = zip(
        shape,
        windows.counts(shape),
        windows.dimensions,
        windows.strides,
        windows.padding,
        windows.base_dilation,
        windows.dilation,
        strict=True,
    )
    found = [segments(*axis) for axis in axes]
    if any(axis is None for axis in found):
        return None
    return list(itertools.product(*found))  # type: ignore[arg-type]


def few_boxes(shape: Sequence[Dim], windows: Windows, longest: int) -> list[Box] | None:
    """Return the boxes if windows of at most `longest` elements have few enough to be unrolled."""
    found = boxes(shape, windows) if math.prod(windows.dimensions) <= longest else None
    if found is None or sum(map(_elements, found)) > MOST_ELEMENTS:
        return None
    return found


def _elements(box: Box) -> int:
    return 1 + math.prod(len(segment.elements) for segment in box)


def segments(
    size: Dim,
    count: Dim,
    window: int,
    stride: int,
    padding: tuple[int, int],
    base_dilation: int,
    dilation: int,
) -> list[Segment] | None:
    """Return the segments along an axis; None if they depend on a named size."""
    low, high = padding
    if is_named(size, count):
        if low <= 0 and high <= 0 and base_dilation == 1:
            elements = tuple((k, k * dilation - low) for k in range(window))
            return [Segment(0, count, 1, stride, elements)]
        is_padding = window == 1 and stride == 1
        return _of_named(size, count, low, base_dilation) if is_padding else None
    found = []
    period = base_dilation // math.gcd(base_dilation, stride)
    step = period * stride // base_dilation
    for phase in range(min(period, count)):
        total = -(-(count - phase) // period)
        inside = []
        for k in range(window):
            place, hole = divmod(phase * stride + k * dilation - low, base_dilation)
            if hole == 0:
                begin = min(max(0, -(place // step)), total)
                end = min(max(begin, -((place - size) // step)), total)
                inside.append((k, place, begin, end))
        cuts = sorted({0, total}.union(*[(begin, end) for _, _, begin, end in inside]))
        for start, stop in itertools.pairwise(cuts):
            own = [
                (k, place + start * step) for k, place, begin, end in inside if begin <= start < end
            ]
            first = phase + period * start
            found.append(Segment(first, stop - start, period, step, tuple(own)))
    return found


def _of_named(size: Dim, count: Dim, low: int, base_dilation: int) -> list[Segment]:
    """Return the segments of windows of one element along a named axis: padding and holes."""
    found = []
    for phase in range(base_dilation):
        total = (count - phase + base_dilation - 1) // base_dilation
        place, hole = divmod(phase - low, base_dilation)
        begin = 0 if hole else max(0, -place)
        end = 0 if hole else maximum(begin, minimum(total, size - place))
        parts: list[tuple[Dim, Dim, tuple[tuple[int, Dim], ...]]] = [
            (0, begin, ()),
            (begin, end - begin, ((0, place + begin),)),
            (end, total - end, ()),
        ]
        for start, n, elements in parts:
            if is_named(n) or n > 0:
                first = phase + base_dilation * start
                found.append(Segment(first, n, base_dilation, 1, elements))
    return found


def windows_in(x: Layout, box: Box) -> Layout:
    """Return the elements of an array of windows that belong to a box."""
    axes = list(zip(box, x.strides, strict=True))
    offset = sum(segment.first * stride for segment, stride in axes)
    return x.with_axes([(seg.count, stride * seg.step) for seg, stride in axes], offset)


def elements_in(x: Layout, box: Box) -> Iterator[tuple[tuple[int, ...], Layout]]:
    """Iterate over the elements of the windows of a box, in order: element, operand at it."""
    steps = [stride * seg.stride for seg, stride in zip(box, x.strides, strict=True)]
    axes = list(zip([seg.count for seg in box], steps, strict=True))
    for chosen in itertools.product(*[seg.elements for seg in box]):
        offset = sum(place * s for (_, place), s in zip(chosen, x.strides, strict=True))
        yield tuple(k for k, _ in chosen), x.with_axes(axes, offset)
