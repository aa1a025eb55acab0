"""What slices keep of axes, whose sizes may be named."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import InconclusiveSizeError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.slices import Slice
from kiln.ir.sizes.size import Dim, Size, maximum, minimum


class Kept(NamedTuple):
    """Elements start, start + step, ... of an axis, `size` of them."""

    start: Dim
    size: Dim
    step: int

    def whole(self, size: Dim) -> bool:
        """Tell whether these are all elements in order."""
        return self.step == 1 and self.size == size


class Steps(NamedTuple):
    """Elements start, start + stride, ... of an axis, `size` of them, where named sizes are among
    these and do not tell that they are in bounds. There is none if `size` is 0."""

    start: Dim
    size: Dim
    stride: Dim


Part = tuple[int, Slice | Steps]
"""An axis, and what is taken of it."""


def kept_of(entry: slice, shape: list[Dim], axis: int, parts: list[Part]) -> Kept:
    """Return what a slice keeps of an axis; where sizes do not tell that it fits, it is a part.

    Raises: ValueError for a step of 0; InconclusiveSizeError if the sign of a bound or of the step
        depends on a named size.
    """
    size = shape[axis]
    if entry.start is None and entry.stop is None and entry.step is None:
        return Kept(0, size, 1)
    if type(entry.step) is int and entry.step == 0:
        raise ValueError(
            three_lines(
                f"x[{entry.start}:{entry.stop}:0] at {current_source()}",
                "slice step cannot be zero",
                "use a step of 1 or -1",
            )
        )
    if type(size) is int and not any(type(b) is Size for b in (entry.start, entry.stop)):
        bounds = entry.indices(size)
        return Kept(bounds[0], len(range(*bounds)), bounds[2])
    step = 1 if entry.step is None else entry.step
    kept = _forwards(entry, size, step) if step > 0 else _backwards(entry, size, step)
    if type(step) is int and _fits(kept, size):
        return kept
    parts.append((axis, Steps(*kept)))
    shape[axis] = kept.size
    return Kept(0, kept.size, 1)


def _forwards(entry: slice, size: Dim, step: Any) -> Kept:
    start = 0 if entry.start is None else _clamped(entry.start, 0, size)
    stop = size if entry.stop is None else _clamped(entry.stop, 0, size)
    # Clamped bounds counted from one end keep their order.
    ordered = _in_order(0 if entry.start is None else entry.start, entry.stop)
    count = stop - start if ordered else maximum(stop - start, 0)
    return Kept(start, count if step == 1 else (count + step - 1) // step, step)


def _backwards(entry: slice, size: Dim, step: Any) -> Kept:
    start = size - 1 if entry.start is None else _clamped(entry.start, -1, size - 1)
    stop = -1 if entry.stop is None else _clamped(entry.stop, -1, size - 1)
    count = start - stop if entry.start is entry.stop is None else maximum(start - stop, 0)
    return Kept(start, (count - step - 1) // -step, step)


def _fits(kept: Kept, size: Dim) -> bool:
    """Tell whether a slice is certain to be in bounds."""
    ends = kept.start, kept.start + (kept.size - 1) * kept.step
    first, last = ends if kept.step > 0 else ends[::-1]
    try:
        # What may be empty ends before its start, unless its steps are 1.
        return bool(first >= 0) and bool(last >= first - int(kept.step == 1)) and bool(last < size)
    except InconclusiveSizeError:
        return False


def _in_order(start: Dim, stop: Dim | None) -> bool:
    if stop is None:
        return True
    if type(start) is Size or type(stop) is Size:
        return False
    return start <= stop and (start < 0) == (stop < 0)


def _clamped(bound: Dim, least: Dim, most: Dim) -> Dim:
    """Return a bound between two others; a negative one counts from the end of the axis."""
    counted = bound + most - least if bound < 0 else bound
    return minimum(maximum(counted, least), most)
