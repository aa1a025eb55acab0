"""Views: parts of references that are read and written like references, `ref.at[index]`.

A view is its reference and one index. An index of a view becomes one of the reference, so that
programs access it in one equation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.references.index import (
    GIVEN,
    WHOLE,
    Entry,
    Given,
    Index,
    Part,
    Span,
    from_start,
    of_each_axis,
    part_type,
    parts_of,
)
from kiln.core.ref import Ref, RefView
from kiln.core.trace import aval_of
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, mul


class Place(NamedTuple):
    """A part of a reference."""

    ref: Ref
    part: Index
    arrays: list[Any]


def place_of(ref: Ref | RefView, idx: Any) -> Place:
    """Return the part of a reference that an index of it, or of a view of it, means.

    Raises: the errors of `parts_of`; NotImplementedError for an index within a view by arrays.
    """
    index, arrays = parts_of(ref.shape, idx)
    if isinstance(ref, Ref):
        return Place(ref, index, arrays)
    if not index:
        return Place(ref.ref, ref.index, list(ref.arrays))
    return Place(ref.ref, *_composed(ref, index, arrays))


def view_of(ref: Ref | RefView, idx: Any) -> RefView:
    """Return a view of the indexed part of a reference, or of a view.

    Raises: the errors of `place_of`.
    Example:
        >>> ref = kiln.new_ref(jnp.zeros((2, 3)))
        >>> ref.at[1].at[1:][0] = 5.0
        >>> ref
        Ref([[0., 0., 0.],
             [0., 5., 0.]], dtype=float32)
    """
    place = place_of(ref, idx)
    inner = place.ref.aval.inner_aval
    aval = part_type(inner, place.part, tuple([aval_of(x) for x in place.arrays]))
    return RefView(place.ref, place.part, tuple(place.arrays), aval)


def _composed(view: RefView, index: Index, arrays: Sequence[Any]) -> tuple[Index, list[Any]]:
    outer_index: Index = view.index
    shape = view.ref.shape
    by_arrays = any(aval_of(x).shape for x in view.arrays)
    outer = _Entries(of_each_axis(outer_index, len(shape)), view.arrays)
    inner = _Entries(of_each_axis(index, len(view.shape)), arrays)
    entries: list[Entry] = []
    given: list[Any] = []
    if not by_arrays:
        for size, (entry, start) in zip(shape, outer, strict=True):
            if isinstance(entry, (int, Given)):
                _append(entries, given, entry, start)
            else:
                _append(entries, given, *_within(_bounds(entry, start, size), *next(inner)))
    shaped = any(aval_of(x).shape for x in arrays)
    if by_arrays or (shaped and _apart(entries) != _apart(of_each_axis(index, len(view.shape)))):
        raise NotImplementedError(
            three_lines(
                f"an index of a view of a reference {view.ref.aval} at {current_source()}",
                "arrays of integers in the index of a view, or within one that was made by "
                "integers beside other axes, are not one index of the reference",
                "read the view and index the array, view[...][index]; or index the reference",
            )
        )
    return tuple(entries) if entries else WHOLE, given


class _Entries:
    """The entries of an index in order, each with its array, if it has one."""

    def __init__(self, entries: Sequence[Entry], arrays: Sequence[Any]) -> None:
        self.entries = iter(entries)
        self.arrays = iter(arrays)

    def __iter__(self) -> Iterator[tuple[Entry, Any]]:
        return self

    def __next__(self) -> tuple[Entry, Any]:
        entry = next(self.entries)
        return entry, next(self.arrays) if isinstance(entry, (Given, Span)) else None


class _Bounds(NamedTuple):
    """A slice of an axis: its first position, which may be an array, its size and its step."""

    start: Any
    size: Any
    step: int


def _bounds(entry: Entry, start: Any, size: Any) -> _Bounds:
    if isinstance(entry, Span):
        return _Bounds(from_start(start, size), entry.size, entry.step)
    assert isinstance(entry, Part)
    first, last, step = slice(*entry).indices(size)
    return _Bounds(first, len(range(first, last, step)), step)


def _within(outer: _Bounds, entry: Entry, start: Any) -> tuple[Entry, Any]:
    """Return the entry of a reference's index for the entry of a slice's, with its array."""
    if isinstance(entry, (Part, Span)):
        inner = _bounds(entry, start, outer.size)
        first = _moved(outer, inner.start)
        span = Span(inner.size, inner.step * outer.step)
        if not isinstance(first, int):
            return span, first
        return Part(first, first + span.reach, None if span.step == 1 else span.step), None
    if isinstance(entry, int):
        position = _moved(outer, entry + outer.size if entry < 0 else entry)
    else:
        position = _moved(outer, from_start(start, outer.size))
    return (position, None) if isinstance(position, int) else (GIVEN, position)


def _moved(outer: _Bounds, position: Any) -> Any:
    """Return a position within a slice as a position along the axis."""
    if isinstance(position, int):
        offset: Any = position * outer.step
    else:
        position = convert_element_type(position, np.int32)
        offset = position if outer.step == 1 else mul(position, np.int32(outer.step))
    parts = [x for x in (outer.start, offset) if not (isinstance(x, int) and x == 0)]
    if len(parts) < 2:
        return parts[0] if parts else 0
    if all(isinstance(x, int) for x in parts):
        return sum(parts)
    return add(*[np.int32(x) if isinstance(x, int) else x for x in parts])


def _append(entries: list[Entry], given: list[Any], entry: Entry, array: Any) -> None:
    entries.append(entry)
    if isinstance(entry, (Given, Span)):
        given.append(array)


def _apart(entries: Sequence[Entry]) -> bool:
    """Tell whether slices separate the integers and arrays of an index."""
    at = [i for i, entry in enumerate(entries) if isinstance(entry, (int, Given))]
    return bool(at) and at[-1] - at[0] + 1 != len(at)
