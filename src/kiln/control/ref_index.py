"""Indices of references, in two parts: what is fixed, and the arrays among them.

The fixed part is hashable, and so a parameter of equations; the arrays are their operands.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array import ConcreteArray
from kiln.core.staging import stage_pure
from kiln.core.trace import Tracer, aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import add, lt, select


class BadIndex(ValueError, IndexError):
    """An index that the shape does not have; jax raises ValueError, NumPy IndexError."""


class Part(NamedTuple):
    """A slice, in a form that can be hashed."""

    start: int | None
    stop: int | None
    step: int | None


class Given(NamedTuple):
    """An array among the operands, which are used in order."""


GIVEN = Given()
Entry = int | Part | Given | EllipsisType
Index = tuple[Entry, ...]
WHOLE: Index = ()


def parts_of(shape: Sequence[Any], index: Any) -> tuple[Index, list[Any]]:
    """Return the fixed part of an index into an array of this shape, and the arrays in it.

    Raises: BadIndex for too many indices; TypeError for an entry that is no integer, array of
        integers, slice or `...`; ValueError for a step below 1.
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
    fixed = tuple([_entry(entry, arrays) for entry in given])
    if all(entry is Ellipsis or entry == Part(None, None, None) for entry in fixed):
        return WHOLE, []
    return fixed, arrays


def _entry(entry: Any, arrays: list[Any]) -> Entry:
    asked = f"index {entry!r:.60} of a reference at {current_source()}"
    if entry is Ellipsis:
        return Ellipsis
    if isinstance(entry, slice):
        return _part(asked, entry)
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


def joined(index: Index, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return an index as arrays take it."""
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
    """Check the integers of an index whose values are known.

    Raises: BadIndex for one that is out of bounds.
    """
    whole = joined(index, arrays)
    before = next((i for i, x in enumerate(whole) if x is Ellipsis), len(whole))
    for i, entry in enumerate(whole):
        axis = i if i < before else len(shape) - len(whole) + i
        if isinstance(entry, (slice, EllipsisType, Tracer)) or aval_of(entry).shape:
            continue
        value, size = int(entry), shape[axis]
        if isinstance(size, int) and not -size <= value < size:
            raise BadIndex(
                three_lines(
                    f"index {whole!r:.60} of a reference of shape {tuple(shape)} at "
                    f"{current_source()}",
                    f"Out of bound indexer: idx={value}, dim={size}.",
                    f"use an index from {-size} to {size - 1}",
                )
            )


def window(
    shape: Sequence[Any], index: Index, arrays: Sequence[Any]
) -> tuple[list[Any], list[int]] | None:
    """Return starts and sizes of the part that an index means, if it is one window."""
    steps = any(isinstance(entry, Part) and entry.step for entry in index)
    if steps or any(aval_of(x).shape for x in arrays) or not all(type(n) is int for n in shape):
        return None
    entries = list(index)
    missing = len(shape) - len([entry for entry in entries if entry is not Ellipsis])
    place = next((i for i, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    entries[place : place + 1] = [Part(None, None, None)] * missing
    given = iter(arrays)
    starts: list[Any] = []
    sizes: list[int] = []
    for entry, size in zip(entries, shape, strict=True):
        if isinstance(entry, Part):
            first, last, _ = slice(*entry).indices(size)
            start, count = np.int32(first), max(last - first, 0)
        elif type(entry) is Given:
            start, count = _from_start(next(given), size), 1
        else:
            start, count = np.int32(_known(entry, size)), 1
        starts.append(start)
        sizes.append(count)
    return (starts, sizes) if all(sizes) else None


def _known(entry: Any, size: int) -> int:
    return int(entry) + size if entry < 0 else int(entry)


def _from_start(i: Any, size: int) -> Any:
    i = convert_element_type(i, np.int32)
    return select(lt(i, np.int32(0)), add(i, np.int32(size)), i)


@functools.lru_cache(maxsize=512)
def part_type(inner: ShapedArray, index: Index, arrays: tuple[ShapedArray, ...]) -> ShapedArray:
    """Return the type of a part of an array."""
    if not index:
        return inner
    found = stage_pure(lambda x, *given: [x[joined(index, given)]], [inner, *arrays])
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
