"""How the axes of gather and scatter correspond, and the types that follow.

A gather reads windows of an operand, a scatter writes them. The last axis of the index array holds
coordinates of where a window starts; its other axes number the windows. Dimension numbers say which
operand axes the coordinates belong to, which window axes are dropped, which axes of operand and
indices are batched together, and where window axes are in the result or in the updates.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.ir.sizes import Dim
from kiln.ir.types import ShapedArray


class GatherScatterMode(enum.Enum):
    """How windows that extend past the operand are handled."""

    CLIP = 0
    """They are moved inside."""
    FILL_OR_DROP = 1
    """Reading gives a fill value, writing does nothing."""
    PROMISE_IN_BOUNDS = 2
    """The caller promises that there are none; otherwise reading clips and writing drops."""
    LEAVE_OUT = 3
    """As FILL_OR_DROP, where they are out of bounds on purpose: no check reports them."""

    @property
    def fills(self) -> bool:
        """Whether reading them gives a fill value."""
        return self in (FILL_OR_DROP, LEAVE_OUT)

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """Return the mode of a name; None means to fill or drop.

        Raises: ValueError for an unknown name.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode)
        if found is None:
            raise ValueError(
                three_lines(
                    f"gather or scatter with mode={mode!r} at {current_source()}",
                    f'Unknown gather mode "{mode}"',
                    "use 'clip', 'fill', 'drop' or 'promise_in_bounds'",
                )
            )
        return found

    def __str__(self) -> str:
        return f"GatherScatterMode.{self.name}"

    __repr__ = __str__


CLIP = GatherScatterMode.CLIP
FILL_OR_DROP = GatherScatterMode.FILL_OR_DROP
PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS
LEAVE_OUT = GatherScatterMode.LEAVE_OUT
_MODES: dict[Any, GatherScatterMode] = {
    None: FILL_OR_DROP,
    "clip": CLIP,
    "fill": FILL_OR_DROP,
    "drop": FILL_OR_DROP,
    "promise_in_bounds": PROMISE_IN_BOUNDS,
}

Axes = tuple[int, ...]


class _Numbers(Record):
    def __post_init__(self) -> None:
        for name in self._parameters:
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(int(axis) for axis in given))


class GatherDimensionNumbers(_Numbers):
    """How the axes of a gather correspond."""

    offset_dims: Axes
    """Axes of the result that run through a window."""
    collapsed_slice_dims: Axes
    """Operand axes along which windows have size 1 and which the result drops."""
    start_index_map: Axes
    """The operand axis of each coordinate."""
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()

    @property
    def window(self) -> Window:
        """The correspondence in the form that gather and scatter share."""
        return Window(
            self.offset_dims,
            self.collapsed_slice_dims,
            self.start_index_map,
            self.operand_batching_dims,
            self.start_indices_batching_dims,
        )


class ScatterDimensionNumbers(_Numbers):
    """How the axes of a scatter correspond."""

    update_window_dims: Axes
    """Axes of the updates that run through a window."""
    inserted_window_dims: Axes
    """Operand axes along which windows have size 1 and which the updates lack."""
    scatter_dims_to_operand_dims: Axes
    """The operand axis of each coordinate."""
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()

    @property
    def window(self) -> Window:
        """The correspondence in the form that gather and scatter share."""
        return Window(
            self.update_window_dims,
            self.inserted_window_dims,
            self.scatter_dims_to_operand_dims,
            self.operand_batching_dims,
            self.scatter_indices_batching_dims,
        )


class Window(Record):
    """The axes of windows (`placed`, among those of result or updates), and the remaining axes.

    `dropped` and `batching` are operand axes; `along` are the axes of indices paired with
    `batching`; `coordinates` are the operand axes that the last axis of the indices refers to.
    """

    placed: Axes
    dropped: Axes
    coordinates: Axes
    batching: Axes
    along: Axes

    def gather(self) -> GatherDimensionNumbers:
        """Return the dimension numbers of the gather that reads these windows."""
        return GatherDimensionNumbers(
            self.placed, self.dropped, self.coordinates, self.batching, self.along
        )

    def scatter(self) -> ScatterDimensionNumbers:
        """Return the dimension numbers of the scatter that writes these windows."""
        return ScatterDimensionNumbers(
            self.placed, self.dropped, self.coordinates, self.batching, self.along
        )

    def batched(self, indices: bool) -> Window:
        """Return the correspondence with a new leading axis in operand and result.

        With `indices`, the indices have the new axis as well, and it is a batching axis; else it
        belongs to the windows.
        """
        placed, dropped, coordinates, batching = (
            tuple(axis + 1 for axis in axes)
            for axes in (self.placed, self.dropped, self.coordinates, self.batching)
        )
        if not indices:
            return Window((0, *placed), dropped, coordinates, batching, self.along)
        along = (0, *(axis + 1 for axis in self.along))
        return Window(placed, dropped, coordinates, (0, *batching), along)

    def kept(self, rank: int) -> Axes:
        """Return the operand axes that windows have, in order."""
        return tuple(i for i in range(rank) if i not in self.dropped and i not in self.batching)

    def sizes(self, operand: Sequence[Dim], updates: Sequence[Dim]) -> tuple[Dim, ...]:
        """Return the size of a window along every operand axis, read from the updates' shape."""
        out: list[Dim] = [_one_of(size) for size in operand]
        for axis, place in zip(self.kept(len(operand)), self.placed, strict=True):
            out[axis] = updates[place]
        return tuple(out)

    def arranged(self, windows: Sequence[Dim], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """Return the shape of a result: a window's `sizes` inserted among those of `windows`."""
        inner = iter([sizes[axis] for axis in self.kept(len(sizes))])
        outer = iter(windows)
        rank = len(windows) + len(self.placed)
        return tuple(next(inner) if i in self.placed else next(outer) for i in range(rank))


def _one_of(size: Dim) -> Dim:
    # An empty axis has no window of size 1.
    return 0 if type(size) is int and size == 0 else 1


def gather_type(
    operand: ShapedArray, indices: ShapedArray, numbers: GatherDimensionNumbers, sizes: Any
) -> ShapedArray:
    """Return the type of a gather's result.

    Raises: TypeError for dimension numbers that do not match the operands.
    """
    window = numbers.window
    asked = (
        f"gather: operand {operand}, start_indices {indices}, slice_sizes {tuple(sizes)}, "
        f"{numbers} at {current_source()}"
    )
    _check_window(asked, "start_indices", operand, indices, window)
    if len(sizes) != operand.ndim:
        _fail(asked, f"slice_sizes must have one entry for each of the {operand.ndim} axes")
    for axis, (size, limit) in enumerate(zip(sizes, operand.shape, strict=True)):
        if not 0 <= size <= limit:
            _fail(
                asked,
                f"Slice size at index {axis} in gather op is out of range, "
                f"must be within [0, {limit} + 1), got {size}.",
            )
        if (axis in window.dropped or axis in window.batching) and not size <= 1:
            _fail(
                asked,
                f"axis {axis} is collapsed or batching, so its slice size must be at most 1, "
                f"got {size}",
            )
    _check_places(asked, window, operand.ndim, indices.ndim - 1)
    shape = window.arranged(indices.shape[:-1], sizes)
    return ShapedArray(shape, operand.dtype, operand.weak_type)


def scatter_type(
    name: str,
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    numbers: ScatterDimensionNumbers,
) -> ShapedArray:
    """Return the type of a scatter's result, which is the operand's.

    Raises: TypeError for dimension numbers that do not match the operands.
    """
    window = numbers.window
    asked = (
        f"{name}: operand {operand}, scatter_indices {indices}, updates {updates}, "
        f"{numbers} at {current_source()}"
    )
    if operand.dtype != updates.dtype:
        _fail(
            asked,
            f"lax.{name.replace('-', '_')} requires arguments to have the same dtypes, got "
            f"{dtypes.long_name(operand.dtype)}, {dtypes.long_name(updates.dtype)}",
            "convert the updates: updates.astype(operand.dtype)",
        )
    _check_window(asked, "scatter_indices", operand, indices, window)
    _check_places(asked, window, operand.ndim, indices.ndim - 1)
    if updates.ndim != len(window.placed) + indices.ndim - 1:
        _fail(
            asked,
            f"updates must have {len(window.placed)} window axes and {indices.ndim - 1} axes that "
            f"number windows, got {updates.ndim} axes",
        )
    sizes = window.sizes(operand.shape, updates.shape)
    for axis, (size, limit) in enumerate(zip(sizes, operand.shape, strict=True)):
        if not size <= limit:
            _fail(asked, f"windows of size {size} do not fit into axis {axis} of size {limit}")
    expected = window.arranged(indices.shape[:-1], sizes)
    if expected != updates.shape:
        _fail(asked, f"updates must have shape {expected}, got {updates.shape}")
    weak = operand.weak_type and updates.weak_type
    return ShapedArray(operand.shape, operand.dtype, weak)


def _check_window(
    asked: str, called: str, operand: ShapedArray, indices: ShapedArray, window: Window
) -> None:
    if not dtypes.issubdtype(indices.dtype, np.integer):
        _fail(
            asked,
            f"{called} must have an integer dtype, got {dtypes.long_name(indices.dtype)}",
            "convert the indices: indices.astype('int32')",
        )
    if not indices.ndim:
        _fail(asked, f"{called} must have at least one axis, which holds the coordinates")
    if indices.shape[-1] != len(window.coordinates):
        _fail(
            asked,
            f"the last axis of {called} must have one entry for each of the "
            f"{len(window.coordinates)} coordinates, got {indices.shape[-1]}",
        )
    for what, axes in (
        ("collapsed or inserted axes and batching axes", (*window.dropped, *window.batching)),
        ("axes of the coordinates and batching axes", (*window.coordinates, *window.batching)),
    ):
        if len(set(axes)) != len(axes) or not all(0 <= a < operand.ndim for a in axes):
            _fail(asked, f"the {what} must be distinct axes of the operand, got {axes}")
    if window.dropped != tuple(sorted(window.dropped)):
        _fail(asked, f"collapsed or inserted axes must be sorted, got {window.dropped}")
    if window.placed != tuple(sorted(set(window.placed))):
        _fail(asked, f"the axes of windows must be sorted and distinct, got {window.placed}")
    inside = all(0 <= a < indices.ndim - 1 for a in window.along)
    if len(window.batching) != len(window.along) or not inside:
        _fail(asked, f"batching axes must come in pairs, got {window.batching}, {window.along}")
    for ours, theirs in zip(window.batching, window.along, strict=True):
        if operand.shape[ours] != indices.shape[theirs]:
            _fail(
                asked,
                f"batching axes must have equal sizes, got {operand.shape[ours]} and "
                f"{indices.shape[theirs]}",
            )


def _check_places(asked: str, window: Window, rank: int, windows: int) -> None:
    count = len(window.kept(rank))
    if len(window.placed) != count or not all(0 <= p < count + windows for p in window.placed):
        _fail(
            asked,
            f"a window has {count} axes that are not collapsed, inserted or batching, "
            f"to be placed among {count + windows}; got places {window.placed}",
        )


def _fail(asked: str, wrong: str, remedy: str = "mend the dimension numbers") -> NoReturn:
    raise TypeError(three_lines(asked, wrong, remedy))
