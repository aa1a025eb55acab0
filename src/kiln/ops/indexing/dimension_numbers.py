"""How the axes of gather and scatter correspond, and the types that follow.

A gather reads windows of an operand, a scatter writes them. The last axis of the index array holds
coordinates of where a window starts; its other axes number the windows. Dimension numbers say which
operand axes the coordinates belong to, which window axes are dropped, which axes of operand and
indices are batched together, and where window axes are in the result or in the updates.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.indexing.window_checks import GATHER, SCATTER, Checks


class GatherScatterMode(enum.Enum):
    """How windows that extend past the operand are handled.

    Example:
        >>> jnp.arange(3).at[5].get(mode=lax.GatherScatterMode.FILL_OR_DROP)
        Array(-2147483648, dtype=int32)
    """

    CLIP = 0
    """They are clamped."""
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
    """How the axes of a gather correspond.

    Example:
        >>> numbers = lax.GatherDimensionNumbers(
        ...     offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
        ... )
        >>> x = jnp.arange(6).reshape(3, 2)
        >>> lax.gather(x, jnp.array([[2], [0]]), numbers, slice_sizes=(1, 2))
        Array([[4, 5],
               [0, 1]], dtype=int32)
    """

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
    """How the axes of a scatter correspond.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers(
        ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
        ... )
        >>> lax.scatter(jnp.zeros(4), jnp.array([[1], [3]]), jnp.array([5.0, 7.0]), numbers)
        Array([0., 5., 0., 7.], dtype=float32)
    """

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
    checks = Checks(asked, GATHER, operand, indices, window)
    checks.indices_are_coordinates()
    checks.places(len(window.placed) + indices.ndim - 1)
    checks.axes_of_the_operand()
    checks.coordinates()
    checks.slices(sizes)
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
    checks = Checks(asked, SCATTER, operand, indices, window)
    if operand.dtype != updates.dtype:
        checks.fail(
            f"lax.{name.replace('-', '_')} requires arguments to have the same dtypes, got "
            f"{dtypes.long_name(operand.dtype)}, {dtypes.long_name(updates.dtype)}",
            "convert the updates: updates.astype(operand.dtype)",
        )
    checks.indices_are_coordinates()
    checks.rank_of_updates(updates)
    checks.places(updates.ndim)
    checks.axes_of_the_operand()
    checks.windows()
    checks.coordinates()
    checks.bounds_of_updates(updates)
    weak = operand.weak_type and updates.weak_type
    return ShapedArray(operand.shape, operand.dtype, weak)
