"""Turning an index expression, `x[1:, None, mask, ..., i]`, into a plan per axis.

A plan says for every axis of the operand whether a part of it is kept, one position is fixed, or
positions come from index arrays, and how the axes of the result are ordered. Nothing is computed
here; masks become index arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import InconclusiveSizeError, NonConcreteBooleanIndexError, three_lines
from kiln.base.options.config import options
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.slices import Slice
from kiln.core.trace import Tracer, is_typed, require_unmasked
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.indexing.slice_bounds import Kept, Part, kept_of


class Fixed(Record):
    """One position known while tracing to be in bounds."""

    index: Dim


class Positions(Record):
    """Positions given by an index array or a scalar: a NumPy array where the values are known.

    An int that is out of bounds is one too, so that programs say where it is and checks see it.
    """

    index: Any

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the index array."""
        return tuple(self.index.shape)


Axis = Kept | Fixed | Positions
NEW = "new"
GROUP = "group"
"""Among `result_axes`: the axes that all index arrays broadcast to."""


class GatherPlan:
    """What an index gathers. `result_axes` holds axes of the operand, NEW, or GROUP.

    `shape` is the operand's, with the axes of size 1 that 0-d masks add at `added`; of some axes
    only `parts`, whose place is not known, are taken first, and `shape` has their sizes.
    `distinct` says that no position can occur twice.
    """

    def __init__(
        self,
        shape: tuple[Dim, ...],
        added: tuple[int, ...],
        axes: list[Axis],
        result_axes: list[int | str],
        distinct: bool = False,
        parts: Sequence[Part] = (),
    ) -> None:
        self.shape = shape
        self.added = added
        self.axes = axes
        self.result_axes = result_axes
        self.distinct = distinct
        self.parts = parts

    @property
    def group(self) -> tuple[Dim, ...]:
        """The shape that all index arrays broadcast to."""
        return joint_shape([axis.shape for axis in self.axes if isinstance(axis, Positions)])

    def result_shape(self) -> tuple[Dim, ...]:
        """Return the shape of the result."""
        out: list[Dim] = []
        for item in self.result_axes:
            if item == GROUP:
                out.extend(self.group)
            elif item == NEW:
                out.append(1)
            else:
                axis = self.axes[item]  # type: ignore[index]
                assert isinstance(axis, Kept)
                out.append(axis.size)
        return tuple(out)


def along(shape: Sequence[Dim], axis: int, index: Any) -> GatherPlan:
    """Return the plan that takes positions along one axis."""
    axes: list[Axis] = [Kept(0, size, 1) for size in shape]
    axes[axis] = Positions(index)
    result_axes: list[int | str] = [*range(len(shape))]
    result_axes[axis] = GROUP
    return GatherPlan(tuple(shape), (), axes, result_axes)


def joint_shape(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """Return the shape that index arrays broadcast to.

    Raises: ValueError if there is none.
    """
    rank = max(map(len, shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for i, dim in enumerate(shape, rank - len(shape)):
            if dim == 1 or dim == out[i]:
                continue
            if out[i] != 1:
                raise ValueError(
                    three_lines(
                        f"an index with arrays of shapes {list(shapes)} at {current_source()}",
                        f"Incompatible shapes for broadcasting: shapes={list(shapes)}",
                        "index arrays must have equal shapes, or sizes of 1",
                    )
                )
            out[i] = dim
    return tuple(out)


def parse(x: ShapedArray, index: Any, *, wrap: bool = True) -> GatherPlan:
    """Return the plan of an index of an array of type `x`.

    With `wrap`, negative ints count from the end. Raises: IndexError for too many indices, traced
    slice bounds and traced masks; TypeError for lists, strings and numbers that are not integers.
    """
    given = index if isinstance(index, tuple) else (_single(index),)
    entries: list[Any] = []
    masks = 0
    for position, item in enumerate(given):
        entry = _entry(item, position, given)
        if isinstance(entry, np.ndarray) and entry.dtype == np.bool_:
            masks += 1
        entries.append(entry)
    entries = _with_ellipsis(x, entries)
    plan = _walk(x, entries, wrap)
    arrays = sum(isinstance(axis, Positions) and bool(axis.shape) for axis in plan.axes)
    ranks = sum(e.ndim for e in entries if isinstance(e, np.ndarray) and e.dtype == np.bool_)
    plan.distinct = not arrays or (masks == 1 and arrays == max(ranks, 1))
    return plan


def check_static(x: ShapedArray, plan: GatherPlan) -> None:
    """Check ints among the indices if the option `check_static_indices` asks for it.

    Raises: IndexError for one that is out of bounds.
    """
    if not options().check_static_indices:
        return
    positions = [axis for axis in range(len(plan.shape)) if axis not in plan.added]
    for number, axis in enumerate(positions):
        place = plan.axes[axis]
        if isinstance(place, Positions) and isinstance(place.index, np.ndarray):
            if not place.index.ndim:
                raise IndexError(
                    three_lines(
                        f"an index of {x} at {current_source()}",
                        f"index {place.index} out of bounds for axis {number} with size "
                        f"{x.shape[number]}",
                        "use an index in bounds, or leave the option check_static_indices",
                    )
                )


def _single(index: Any) -> Any:
    if isinstance(index, Sequence) and not isinstance(index, str):
        # Numbers are places along one axis, anything else is an index for each axis.
        along_axes = any(
            i is None or i is Ellipsis or isinstance(i, slice) or np.ndim(i) > 0 for i in index
        )
        use = "tuple(seq)" if along_axes else "array(seq)"
        raise TypeError(
            three_lines(
                f"an index of type {type(index).__name__} at {current_source()}",
                "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
                f"`arr[{use}]` instead of `arr[seq]`.",
                "write x[kiln.numpy.array(seq)] for places along one axis, or x[tuple(seq)]",
            )
        )
    return index


def _entry(item: Any, position: int, given: Sequence[Any]) -> Any:
    """Return an entry as None, Ellipsis, a slice, an int, or an array of integers or booleans."""
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        return item
    if kind is slice:
        return _slice(item, position)
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, str):
        raise TypeError(
            three_lines(
                f"an index with the string {item!r} at {current_source()}",
                f"kiln does not support string indexing; got idx={_shown(given)}",
                "arrays have no named fields: use ints, slices or index arrays",
            )
        )
    if isinstance(item, (list, tuple)):
        item = np.zeros((0,), np.int32) if len(item) == 0 else asarray(item)
    if hasattr(item, "__jax_array__") and not is_typed(item):
        item = item.__jax_array__()
    if is_typed(item):
        return _array(item)
    if isinstance(item, (np.ndarray, np.generic, float, complex)):
        require_unmasked(item)
        value = np.asarray(item)
        _check_dtype(value.dtype)
        return int(value) if value.ndim == 0 and value.dtype != np.bool_ else value
    if type(item) is Slice:
        return item
    if hasattr(item, "__index__"):
        return operator.index(item)
    raise IndexError(
        three_lines(
            f"an index of type {type(item).__name__} at {current_source()}",
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or "
            f"boolean arrays are valid indices. Got {item!r:.80}",
            "use one of these",
        )
    )


def _shown(given: Sequence[Any]) -> str:
    return repr(given[0] if len(given) == 1 else tuple(given))[:80]


def _array(item: Any) -> Any:
    """Return an index array, as a NumPy array if its values are known."""
    dtype = item.aval.dtype
    _check_dtype(dtype)
    value = item.concrete() if isinstance(item, Tracer) else item
    if isinstance(value, ConcreteArray):
        return host_value(value)
    if dtype == np.bool_:
        shape = item.aval.str_short(short_dtypes=False)
        raise NonConcreteBooleanIndexError(
            three_lines(
                f"an index with the traced mask {item!r} at {current_source()}",
                f"Array boolean indices must be concrete; got {shape}: how many elements the "
                "mask selects, and so the shape of the result, is unknown while tracing",
                "use kiln.numpy.where(mask, x, other) to choose element by element, or "
                "kiln.numpy.indexing.nonzero(mask, size=n) for a known number of indices",
            )
        )
    return item


def _check_dtype(dtype: Any) -> None:
    if dtype != np.bool_ and not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            three_lines(
                f"an index of dtype {dtypes.long_name(dtype)} at {current_source()}",
                "Indexer must have integer or boolean type, got indexer with type "
                f"{dtypes.long_name(dtype)}",
                "convert it first: int(i), or i.astype('int32')",
            )
        )


def _slice(item: slice, position: int) -> slice:
    if item.start is None and item.stop is None and item.step is None:
        return item
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, Tracer) and bound.concrete() is None:
            raise IndexError(
                three_lines(
                    f"a slice with a traced bound at {current_source()}",
                    f"Slice entries must be static integers. Got {item} at position {position}: "
                    "the shape of the result would depend on a traced value",
                    "use kiln.lax.dynamic_slice_in_dim(x, start, size, axis), whose start may be "
                    "traced and whose size is a number; or a mask with kiln.numpy.where",
                )
            )
    return slice(*(_bound(bound) for bound in (item.start, item.stop, item.step)))


def _bound(bound: Any) -> Any:
    return bound if bound is None or type(bound) is Size else operator.index(bound)


def _consumed(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, np.ndarray) and entry.dtype == np.bool_:
        return entry.ndim
    return 1


def _with_ellipsis(x: ShapedArray, entries: list[Any]) -> list[Any]:
    """Return the entries, completed by full slices for the axes they do not mention."""
    count = sum(map(_consumed, entries))
    if count > x.ndim:
        raise IndexError(
            three_lines(
                f"an index with {count} entries of an array {x} at {current_source()}",
                f"Too many indices: array is {x.ndim}-dimensional, but {count} were indexed",
                f"use at most {x.ndim} ints, slices or arrays",
            )
        )
    places = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(places) > 1:
        raise IndexError(
            three_lines(
                f"an index of an array {x} at {current_source()}",
                "an index can only have a single ellipsis ('...')",
                "write `:` for single axes",
            )
        )
    rest = [slice(None)] * (x.ndim - count)
    if not places:
        return [*entries, *rest]
    # Keep the ellipsis: even without axes it separates index arrays.
    return [*entries[: places[0]], Ellipsis, *rest, *entries[places[0] + 1 :]]


def _walk(x: ShapedArray, entries: Sequence[Any], wrap: bool) -> GatherPlan:
    shape = list(x.shape)
    arrays = any(
        (isinstance(e, np.ndarray) and (e.ndim or e.dtype == np.bool_)) or (is_typed(e) and e.ndim)
        for e in entries
    )
    axes: list[Axis] = []
    result_axes: list[int | str] = []
    added: list[int] = []
    parts: list[Part] = []
    # The position of the index arrays among `result_axes`; apart if something is between them.
    first: int | None = None
    apart = ended = False
    for entry in entries:
        axis = len(axes)
        if entry is None or entry is Ellipsis or type(entry) in (slice, Slice):
            ended = first is not None
            if entry is None:
                result_axes.append(NEW)
            elif type(entry) is Slice:
                result_axes.append(axis)
                axes.append(_part(entry, shape, axis, parts))
            elif entry is not Ellipsis:
                result_axes.append(axis)
                axes.append(kept_of(entry, shape, axis, parts))
            continue
        if first is None:
            first = len(result_axes)
        apart = apart or ended
        if isinstance(entry, np.ndarray) and entry.dtype == np.bool_:
            if not entry.ndim:
                # A 0-d mask selects one or no position along an axis of its own.
                added.append(axis)
                shape.insert(axis, 1)
                axes.append(Positions(np.zeros((int(entry),), np.int32)))
                continue
            wanted = shape[axis : axis + entry.ndim]
            # A mask axis of size 0 selects nothing, whatever the size of the array's axis.
            if len(wanted) != entry.ndim or any(
                m not in (0, n) for m, n in zip(entry.shape, wanted, strict=True)
            ):
                raise IndexError(
                    three_lines(
                        f"a mask bool{list(entry.shape)} as index of {x} at {current_source()}",
                        f"boolean index did not match shape of indexed array in index "
                        f"{axis - len(added)}: got {entry.shape}, expected {wanted}",
                        "a mask must have the sizes of the axes that it is about",
                    )
                )
            axes.extend(Positions(found) for found in np.nonzero(entry))
        elif type(entry) is int:
            axes.append(_fixed(entry, shape[axis], axis - len(added), wrap))
        else:
            axes.append(Positions(entry))
    if arrays:
        result_axes.insert(0 if apart or first is None else first, GROUP)
    return GatherPlan(tuple(shape), tuple(added), axes, result_axes, parts=parts)


def _part(entry: Slice, shape: list[Dim], axis: int, parts: list[Part]) -> Kept:
    """Return what is kept of an axis; one whose place is not known is a part, of its own size."""
    start = entry.start
    if isinstance(start, (int, np.integer)) and type(start) is not bool and start >= 0:
        last = int(start) + max(entry.size - 1, 0) * entry.stride
        if _is_inside(last, shape[axis], wrap=False):
            return Kept(int(start), entry.size, entry.stride)
    parts.append((axis, entry))
    shape[axis] = entry.size
    return Kept(0, entry.size, 1)


def _fixed(index: int, size: Dim, axis: int, wrap: bool) -> Fixed | Positions:
    if size == 0:
        raise IndexError(
            three_lines(
                f"index {index} at {current_source()}",
                f"index is out of bounds for axis {axis} with size 0",
                "an empty axis has no elements: use a slice",
            )
        )
    if not _is_inside(index, size, wrap):
        return Positions(np.asarray(index))
    return Fixed(index if index >= 0 else index + size)


def _is_inside(index: int, size: Dim, wrap: bool) -> bool:
    """Tell whether a position is in bounds, of a named size for every value."""
    if index < 0 and not wrap:
        return False
    try:
        return bool(size > (index if index >= 0 else -index - 1))
    except InconclusiveSizeError:
        return False
