"""Indices of references, in two parts: a fixed part, and the arrays in the index.

The fixed part is hashable, and so a parameter of equations; the arrays are their operands.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray
from kiln.core.slices import Slice
from kiln.core.staging import stage_pure
from kiln.core.trace import Tracer, aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, lt, select
from kiln.ops.indexing.slicing import dynamic_slice_p
from kiln.ops.shape import reshape


class BadIndex(ValueError, IndexError):
    """An index that does not fit the shape; jax raises ValueError, NumPy IndexError."""


class Part(NamedTuple):
    """A slice, in hashable form."""

    start: int | None
    stop: int | None
    step: int | None


class Given(NamedTuple):
    """An array among the operands, which are used in order."""


class Span(NamedTuple):
    """A slice of known size and step, which starts at an array among the operands."""

    size: int
    step: int

    @property
    def reach(self) -> int:
        """The number of elements from the first to the last."""
        return (self.size - 1) * self.step + 1 if self.size else 0


GIVEN = Given()
Entry = int | Part | Given | Span | EllipsisType
Index = tuple[Entry, ...]
WHOLE: Index = ()


def parts_of(shape: Sequence[Any], index: Any) -> tuple[Index, list[Any]]:
    """Return the fixed part of an index into an array of this shape, and the arrays in it.

    Raises: BadIndex for too many indices, and a `Slice` that is out of bounds; TypeError for an
        entry other than an integer, array of integers, slice or `...`; ValueError for a step below
        1.
    """
    if index is None or index is Ellipsis:
        return WHOLE, []
    given = index if isinstance(index, tuple) else (index,)
    if sum(entry is not Ellipsis for entry in given) > len(shape):
        raise BadIndex(
            three_lines(
                f"index {index!r:.60} of a reference of shape {tuple(shape)} at {current_source()}",
                f"Too many indices: the array has {len(shape)} axes",
                "give at most one index for each axis",
            )
        )
    arrays: list[Any] = []
    sizes = _sizes(shape, given)
    fixed = tuple([_entry(entry, n, arrays) for entry, n in zip(given, sizes, strict=True)])
    if all(entry is Ellipsis or entry == Part(None, None, None) for entry in fixed):
        return WHOLE, []
    return fixed, arrays


def _sizes(shape: Sequence[Any], entries: Sequence[Any]) -> list[Any]:
    """Return the size of the axis of each entry, and 0 for `...`."""
    before = next((i for i, x in enumerate(entries) if x is Ellipsis), len(entries))
    after = len(shape) - len(entries)
    return [
        shape[i] if i < before else 0 if i == before else shape[after + i]
        for i in range(len(entries))
    ]


def _entry(entry: Any, size: Any, arrays: list[Any]) -> Entry:
    asked = f"index {entry!r:.60} of a reference at {current_source()}"
    if entry is Ellipsis:
        return Ellipsis
    if isinstance(entry, slice):
        return _part(asked, entry)
    if isinstance(entry, Slice):
        return _part_or_span(asked, entry, size, arrays)
    if isinstance(entry, (ConcreteArray, Tracer, np.ndarray)):
        if dtypes.issubdtype(aval_of(entry).dtype, np.integer):
            arrays.append(entry)
            return GIVEN
    elif not isinstance(entry, (bool, np.bool_)) and hasattr(entry, "__index__"):
        return operator.index(entry)
    raise TypeError(
        three_lines(
            asked,
            "references are indexed by integers, arrays of integers, slices and `...`",
            "read all of it and index the array, ref[...][index]; write ref[...] = "
            "ref[...].at[index].set(x)",
        )
    )


def _part(asked: str, entry: slice) -> Part:
    try:
        bounds = [None if x is None else operator.index(x) for x in (entry.start, entry.stop)]
        step = None if entry.step is None else operator.index(entry.step)
    except TypeError:
        raise TypeError(
            three_lines(
                asked,
                "the bounds of a slice must be known while tracing",
                "use integers, or index with an array: start + jnp.arange(size)",
            )
        ) from None
    if step is not None and step < 1:
        raise ValueError(
            three_lines(
                asked,
                f"slice must have a step >= 1 (found: {step})",
                "read all of it and reverse the array: ref[...][::-1]",
            )
        )
    return Part(bounds[0], bounds[1], None if step == 1 else step)


def _part_or_span(asked: str, entry: Slice, size: Any, arrays: list[Any]) -> Entry:
    span = Span(entry.size, entry.stride)
    start = entry.start
    if isinstance(start, (ConcreteArray, Tracer, np.ndarray)):
        aval = aval_of(start)
        if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
            raise TypeError(
                three_lines(
                    asked,
                    f"a slice starts at an integer, not at a value of type {aval}",
                    "index with an array: start + jnp.arange(size)",
                )
            )
        arrays.append(start)
        return span
    first = operator.index(start)
    _check_span(asked, first, span, size)
    return Part(first, first + span.reach, None if span.step == 1 else span.step)


def _check_span(asked: str, first: int, span: Span, size: Any) -> None:
    if type(size) is int and not 0 <= first <= size - span.reach:
        raise BadIndex(
            three_lines(
                asked,
                f"Out of bound slice: start={first}, size={span.size}, stride={span.step}, "
                f"dim={size}.",
                f"use a start from 0 to {size - span.reach}"
                if span.reach <= size
                else f"use a size of at most {(size - 1) // span.step + 1}",
            )
        )


def joined(index: Index, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return an index in the form that arrays take; it must not contain a `Span`."""
    given = iter(arrays)
    return tuple(
        [
            next(given)
            if type(entry) is Given
            else slice(*entry)
            if isinstance(entry, Part)
            else entry
            for entry in index
        ]
    )


def check_within(shape: Sequence[Any], index: Index, arrays: Sequence[Any]) -> None:
    """Check the integers of an index whose values are known, and the slices that start at one.

    Raises: BadIndex for one that is out of bounds.
    """
    given = iter(arrays)
    whole = [next(given) if isinstance(x, (Given, Span)) else x for x in index]
    for entry, span, size in zip(whole, index, _sizes(shape, index), strict=True):
        if isinstance(entry, (Part, EllipsisType, Tracer)) or aval_of(entry).shape:
            continue
        value = int(entry)
        if isinstance(span, Span):
            asked = f"a slice of a reference of shape {tuple(shape)} at {current_source()}"
            _check_span(asked, value, span, size)
        elif isinstance(size, int) and not -size <= value < size:
            raise BadIndex(
                three_lines(
                    f"index {value} of a reference of shape {tuple(shape)} at {current_source()}",
                    f"Out of bound indexer: idx={value}, dim={size}.",
                    f"use an index from {-size} to {size - 1}",
                )
            )


def window(
    shape: Sequence[Any], index: Index, arrays: Sequence[Any]
) -> tuple[list[Any], list[int]] | None:
    """Return starts and sizes of the indexed part, if it is one window."""
    steps = any(
        (isinstance(entry, Part) and entry.step) or (isinstance(entry, Span) and entry.step > 1)
        for entry in index
    )
    if steps or any(aval_of(x).shape for x in arrays) or not all(type(n) is int for n in shape):
        return None
    entries = of_each_axis(index, len(shape))
    given = iter(arrays)
    starts: list[Any] = []
    sizes: list[int] = []
    for entry, size in zip(entries, shape, strict=True):
        if isinstance(entry, Part):
            first, last, _ = slice(*entry).indices(size)
            start, count = np.int32(first), max(last - first, 0)
        elif isinstance(entry, Span):
            start, count = from_start(next(given), size), entry.size
        elif type(entry) is Given:
            start, count = from_start(next(given), size), 1
        else:
            start, count = np.int32(_known(entry, size)), 1
        starts.append(start)
        sizes.append(count)
    return (starts, sizes) if all(sizes) else None


def of_each_axis(index: Index, ndim: int) -> list[Entry]:
    """Return an index with an entry for each axis, and without `...`."""
    entries = list(index)
    missing = ndim - len([entry for entry in entries if entry is not Ellipsis])
    place = next((i for i, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    entries[place : place + 1] = [Part(None, None, None)] * missing
    return entries


class Spans(NamedTuple):
    """A window that contains all spans of an index, and the index of the part within it."""

    starts: list[Any]
    sizes: list[Any]
    inner: Index
    arrays: list[Any]


def spans_of(shape: Sequence[Any], index: Index, arrays: Sequence[Any]) -> Spans | None:
    """Return the window of the spans of an index, if there are any."""
    if not any(isinstance(entry, Span) for entry in index):
        return None
    given = iter(arrays)
    found = Spans([], list(shape), (), [])
    rest: list[Entry] = []
    for axis, entry in enumerate(of_each_axis(index, len(shape))):
        start: Any = np.int32(0)
        if isinstance(entry, Span):
            start = from_start(next(given), shape[axis])
            found.sizes[axis] = entry.reach
            entry = Part(None, None, None if entry.step == 1 else entry.step)
        elif type(entry) is Given:
            found.arrays.append(next(given))
        found.starts.append(start)
        rest.append(entry)
    return found._replace(inner=tuple(rest))


def read_part(x: Any, index: Index, arrays: Sequence[Any]) -> Any:
    """Return the indexed part of an array."""
    spans = spans_of(x.shape, index, arrays)
    if spans is None:
        return x[joined(index, arrays)]
    found = window(x.shape, index, arrays)
    if found is None:
        inner = dynamic_slice_p.bind(x, *spans.starts, slice_sizes=tuple(spans.sizes))
        return inner[joined(spans.inner, spans.arrays)]
    starts, sizes = found
    kept = [
        size
        for size, entry in zip(sizes, of_each_axis(index, len(sizes)), strict=True)
        if isinstance(entry, (Part, Span))
    ]
    return reshape(dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes)), kept)


def _known(entry: Any, size: int) -> int:
    return int(entry) + size if entry < 0 else int(entry)


def from_start(i: Any, size: int) -> Any:
    """Return positions as int32, those below zero counted from the end of an axis."""
    i = convert_element_type(i, np.int32)
    return select(lt(i, np.int32(0)), add(i, np.int32(size)), i)


@functools.lru_cache(maxsize=512)
def part_type(inner: ShapedArray, index: Index, arrays: tuple[ShapedArray, ...]) -> ShapedArray:
    """Return the type of a part of an array."""
    if not index:
        return inner
    found = stage_pure(lambda x, *given: [read_part(x, index, given)], [inner, *arrays])
    return found.out_avals[0]


def text(index: Index, names: Sequence[str]) -> str:
    """Return the text of an index, with names for its arrays."""
    given = iter(names)
    return ",".join(
        [
            next(given)
            if type(entry) is Given
            else _part_text(entry)
            if isinstance(entry, Part)
            else _span_text(next(given), entry)
            if isinstance(entry, Span)
            else "..."
            if entry is Ellipsis
            else str(entry)
            for entry in index
        ]
        or ["..."]
    )


def _part_text(part: Part) -> str:
    start, stop, step = ["" if x is None else str(x) for x in part]
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _span_text(start: str, span: Span) -> str:
    step = "" if span.step == 1 else f":{span.step}"
    return f"{start}:{start}+{span.reach}{step}"
