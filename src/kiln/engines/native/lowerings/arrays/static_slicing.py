"""Padding, joining and splitting: nests that write parts of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim, maximum, minimum
from kiln.ir.types import ShapedArray
from kiln.ops.indexing import splitting
from kiln.ops.indexing import static_slicing as ops

Out = Sequence[ShapedArray]


def part(
    x: Layout, starts: Sequence[Dim], sizes: Sequence[Dim], steps: Sequence[int] | None = None
) -> Layout:
    """Return the layout of a box of elements, of every n-th along each axis."""
    steps = steps or [1] * len(sizes)
    axes = [(n, stride * step) for n, stride, step in zip(sizes, x.strides, steps, strict=True)]
    offset = sum(start * stride for start, stride in zip(starts, x.strides, strict=True))
    return x.with_axes(axes, offset)


def _concatenate(b: Builder, out: Out, *xs: Layout, dimension: int) -> Layout:
    made = b.room(out[0])
    start: Dim = 0
    for x in xs:
        starts: list[Dim] = [0] * len(made.shape)
        starts[dimension] = start
        sizes = list(made.shape)
        sizes[dimension] = x.shape[dimension]
        b.write(part(made, starts, sizes), x)
        start += x.shape[dimension]
    return made


def _split(b: Builder, out: Out, x: Layout, *, sizes: Any, axis: int) -> list[Layout]:
    made: list[Layout] = []
    start: Dim = 0
    for aval in out:
        starts: list[Dim] = [0] * len(x.shape)
        starts[axis] = start
        made.append(part(x, starts, b.sizes(aval)))
        start += aval.shape[axis]
    return made


LARGE = 1 << 14
"""From this many elements on, those that will be overwritten are not filled first."""


def _pad(b: Builder, out: Out, x: Layout, value: Layout, *, padding_config: Any) -> Layout:
    made = b.room(out[0])
    if made.size == 0:
        return made
    # Negative padding first removes elements.
    starts, sizes, first, steps = [], [], [], []
    for n, size, (low, _, interior) in zip(x.shape, made.shape, padding_config, strict=True):
        step = interior + 1
        begin = maximum(0, -(low // step))
        last = (size - 1 - low) // step
        end = minimum(n - 1, last)
        starts.append(begin)
        sizes.append(maximum(0, end - begin + 1))
        first.append(low + begin * step)
        steps.append(step)
    border = [d for d, n in enumerate(made.shape) if sizes[d] != n]
    is_small = estimate(made.size) < LARGE or any(n == 0 for n in sizes)
    if is_small or len(border) > 2 or any(step != 1 for step in steps):
        b.write(made, value)
    else:
        _surround(b, made, value, first, sizes, border)
    if all(n != 0 for n in sizes):
        b.write(part(made, first, sizes, steps), part(x, starts, sizes))
    return made


def _surround(
    b: Builder,
    made: Layout,
    value: Layout,
    first: Sequence[Dim],
    sizes: Sequence[Dim],
    border: Sequence[int],
) -> None:
    """Write a value before and after a box, along each axis of the border."""
    low: list[Dim] = [0] * len(made.shape)
    count = list(made.shape)
    for d in border:
        end = first[d] + sizes[d]
        for start, n in ((0, first[d]), (end, made.shape[d] - end)):
            if n != 0:
                low[d], count[d] = start, n
                b.write(part(made, low, count), value)
        low[d], count[d] = first[d], sizes[d]


LOWERINGS: dict[Operation, Lowering] = {
    ops.pad_p: _pad,
    ops.concatenate_p: _concatenate,
    splitting.split_p: _split,
}
