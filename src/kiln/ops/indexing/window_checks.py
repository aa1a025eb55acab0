"""The conditions on the dimension numbers of gather and scatter, in the order of their errors.

Messages use the names of the fields of the dimension numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.ir.types import ShapedArray

Axes = Sequence[int]


class Fields(NamedTuple):
    """The names that an operation uses for itself, its indices, and the parts of a window."""

    op: str
    indices: str
    placed: str
    dropped: str
    coordinates: str
    batching: str
    along: str


GATHER = Fields(
    "gather",
    "start_indices",
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
SCATTER = Fields(
    "scatter",
    "scatter_indices",
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


class Checks:
    """The checks of one gather or scatter, whose `window` is the `Window` of its numbers.

    Each raises TypeError with `asked` as its first line.
    """

    def __init__(
        self, asked: str, fields: Fields, operand: ShapedArray, indices: ShapedArray, window: Any
    ) -> None:
        self.asked = asked
        self.fields = fields
        self.operand = operand
        self.indices = indices
        self.window = window

    def fail(self, wrong: str, remedy: str = "mend the dimension numbers") -> NoReturn:
        """Raise the error."""
        raise TypeError(three_lines(self.asked, wrong, remedy))

    def _sorted(self, name: str, axes: Axes) -> None:
        if list(axes) != sorted(axes):
            self.fail(f"{name} in {self.fields.op} op must be sorted; got {tuple(axes)}")

    def _distinct(self, name: str, axes: Axes) -> None:
        if len(set(axes)) != len(axes):
            self.fail(f"{name} in {self.fields.op} op must not repeat; got: {tuple(axes)}.")

    def _inside(self, name: str, axes: Axes, limit: int) -> None:
        for axis in axes:
            if not 0 <= axis < limit:
                self.fail(
                    f"Invalid {name} set in {self.fields.op} op; valid range is [0, {limit}); "
                    f"got: {axis}."
                )

    def _disjoint(self, name: str, axes: Axes) -> None:
        batching = self.window.batching
        if set(axes) & set(batching):
            self.fail(
                f"{name} and {self.fields.batching} in {self.fields.op} op must be disjoint; "
                f"got: {tuple(axes)} and {batching}."
            )

    def indices_are_coordinates(self) -> None:
        """Check the dtype of the indices, and that they have an axis of coordinates."""
        if not dtypes.issubdtype(self.indices.dtype, np.integer):
            self.fail(
                f"{self.fields.indices} must have an integer dtype, got "
                f"{dtypes.long_name(self.indices.dtype)}",
                "convert the indices: indices.astype('int32')",
            )
        if not self.indices.ndim:
            self.fail(
                f"{self.fields.indices} must have at least one axis, which holds the coordinates"
            )

    def places(self, rank: int) -> None:
        """Check the positions of a window's axes among the `rank` axes of result or updates."""
        name, placed = self.fields.placed, self.window.placed
        self._sorted(name, placed)
        self._distinct(name, placed)
        if self.fields is SCATTER:
            self._inside(name, placed, rank)
        for i, axis in enumerate(placed):
            if not 0 <= axis < rank:
                self.fail(
                    f"Offset dimension {i} in gather op is out of bounds; got {axis}, must have "
                    f"0 <= dimension < {rank}"
                )

    def axes_of_the_operand(self) -> None:
        """Check which axes are dropped and which are batching, and those of the indices."""
        fields, window = self.fields, self.window
        for name, axes in ((fields.dropped, window.dropped), (fields.batching, window.batching)):
            self._sorted(name, axes)
            self._inside(name, axes, self.operand.ndim)
            self._distinct(name, axes)
        self._disjoint(fields.dropped, window.dropped)
        self._disjoint(fields.coordinates, window.coordinates)
        windows = self.indices.ndim - 1
        self._distinct(fields.along, window.along)
        self._inside(fields.along, window.along, windows + 1)
        if windows in window.along:
            self.fail(
                f"{fields.op.capitalize()} op cannot have the index vector dimension as a batching "
                f"dimension; got {window.along}."
            )
        if len(window.batching) != len(window.along):
            self.fail(
                f"{fields.op.capitalize()} op requires equal numbers of {fields.batching} and "
                f"{fields.along}, got {window.batching} and {window.along}."
            )
        ours = [self.operand.shape[axis] for axis in window.batching]
        theirs = [self.indices.shape[axis] for axis in window.along]
        if ours != theirs:
            self.fail(
                f"{fields.op.capitalize()} op requires operand batching dimensions and indices "
                f"batching dimensions to have the same shape, got {ours} and {theirs}."
            )

    def coordinates(self) -> None:
        """Check that there is an axis of the operand for each coordinate."""
        fields, axes = self.fields, self.window.coordinates
        size = self.indices.shape[-1]
        if size != len(axes):
            self.fail(
                f"{fields.op.capitalize()} op has {len(axes)} elements in {fields.coordinates} and "
                f"the bound of dimension index_vector_dim={self.indices.ndim - 1} of indices is "
                f"{size}. These two numbers must be equal."
            )
        for i, axis in enumerate(axes):
            if not 0 <= axis < self.operand.ndim:
                mapping = " mapping" if fields is SCATTER else ""
                self.fail(
                    f"Invalid {fields.coordinates}{mapping}; domain is [0, {self.operand.ndim}), "
                    f"got: {i}->{axis}."
                )
        self._distinct(fields.coordinates, axes)

    def slices(self, sizes: Sequence[Any]) -> None:
        """Check the sizes of the windows that a gather reads."""
        operand, window = self.operand, self.window
        if len(sizes) != operand.ndim:
            self.fail(
                "Gather op must have one slice size for every input dimension; got "
                f"len(slice_sizes)={len(sizes)}, input_shape={operand.shape}"
            )
        if len(window.placed) != len(window.kept(operand.ndim)):
            self.fail(
                "All components of the offset index in a gather op must either be a offset "
                f"dimension or explicitly collapsed/batching; got {len(sizes)} slice_sizes, "
                f"offset_dims={window.placed}, collapsed_slice_dims={window.dropped}, "
                f"operand_batching_dims={window.batching}"
            )
        for axis, (size, limit) in enumerate(zip(sizes, operand.shape, strict=True)):
            if not 0 <= size <= limit:
                self.fail(
                    f"Slice size at index {axis} in gather op is out of range, "
                    f"must be within [0, {limit} + 1), got {size}.",
                )
        for what, bound, axes in (
            ("collapse slice dims", "1", window.dropped),
            ("have operand batching dims", "0/1", window.batching),
        ):
            for i, axis in enumerate(axes):
                if not sizes[axis] <= 1:
                    self.fail(
                        f"Gather op can only {what} with bound {bound}, but bound is {sizes[axis]} "
                        f"for index {axis} at position {i}."
                    )

    def rank_of_updates(self, updates: ShapedArray) -> None:
        """Check the rank of the updates."""
        rank = len(self.window.placed) + self.indices.ndim - 1
        if updates.ndim != rank:
            self.fail(
                f"Updates tensor must be of rank {rank}; got {updates.ndim}.",
                "reshape the updates, or mend the dimension numbers",
            )

    def windows(self) -> None:
        """Check that the windows that a scatter writes have the operand's axes."""
        window, rank = self.window, self.operand.ndim
        size = len(window.placed) + len(window.dropped) + len(window.batching)
        if size != rank:
            self.fail(
                f"Scatter op has window of size {size}; doesn't match operand of rank {rank}."
            )

    def bounds_of_updates(self, updates: ShapedArray) -> None:
        """Check the updates' shape, which is that of windows and of the indices."""
        window = self.window
        for axis, place in zip(window.kept(self.operand.ndim), window.placed, strict=True):
            if not updates.shape[place] <= self.operand.shape[axis]:
                self.fail(
                    "Bounds of the window dimensions of updates must not exceed the bounds of the "
                    f"corresponding dimensions of operand. For dimension {place}, updates bound is "
                    f"{updates.shape[place]}, operand bound is {self.operand.shape[axis]}."
                )
        others = [i for i in range(updates.ndim) if i not in window.placed]
        for i, place in enumerate(others):
            if updates.shape[place] != self.indices.shape[i]:
                self.fail(
                    "Bounds of the scatter dimensions of updates must be the same as the bounds of "
                    f"the corresponding dimensions of scatter indices. For scatter dimension {i}, "
                    f"updates bound is {updates.shape[place]}, scatter_indices bound is "
                    f"{self.indices.shape[i]}."
                )
