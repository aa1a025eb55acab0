"""The division of an array into blocks: a `BlockSpec`, checked against the array's type.

An array is padded to whole blocks before the grid runs, so that each block is a window of it. The
padding is undefined: nan, or the smallest integer, to make mistakes visible.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source, definition_of
from kiln.core.ref import Ref
from kiln.core.trace import aval_of
from kiln.experimental.pallas.programs import in_grid
from kiln.experimental.pallas.recording import Recorded, recorded
from kiln.experimental.pallas.specs import (
    BlockDim,
    Blocked,
    BlockSpec,
    Element,
    Squeezed,
    no_block_spec,
    squeezed,
)
from kiln.ir.ref_type import AbstractRef
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import mul
from kiln.ops.indexing.slicing import dynamic_slice_p, dynamic_update_slice_p
from kiln.ops.indexing.static_slicing import pad
from kiln.ops.indexing.static_slicing import slice as slice_of
from kiln.ops.shape import full, reshape

INT32 = ShapedArray((), np.dtype(np.int32))


def undefined(shape: Sequence[Dim], dtype: Any) -> Any:
    """Return an array of undefined elements: nan, the smallest integers, or False."""
    value: Any = False
    if dtypes.issubdtype(dtype, np.inexact):
        value = np.nan
    elif dtypes.issubdtype(dtype, np.integer):
        value = int(dtypes.iinfo(dtype).min)
    return full(tuple(shape), value, dtype)


class Blocks(NamedTuple):
    """The blocks of an array. `axes` say how each axis is divided, `starts` where blocks begin.

    Without `starts` there is one block, the whole array.
    """

    aval: ShapedArray
    axes: tuple[BlockDim, ...]
    starts: Recorded | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of a block along each axis of the array."""
        return tuple(1 if isinstance(axis, Squeezed) else axis.block_size for axis in self.axes)

    @property
    def seen(self) -> AbstractRef:
        """The type of the kernel's reference."""
        kept = [axis.block_size for axis in self.axes if not isinstance(axis, Squeezed)]
        return AbstractRef(self.aval.with_(shape=tuple(kept)))

    @property
    def _edges(self) -> list[tuple[int, int]]:
        return [axis.padding if isinstance(axis, Element) else (0, 0) for axis in self.axes]

    def padded(self, x: Any) -> Any:
        """Return the array, padded with undefined elements to whole blocks."""
        edges = []
        for n, size, (before, after) in zip(self.aval.shape, self.sizes, self._edges, strict=True):
            whole = -(-(n + before + after) // size) * size if size else n
            edges.append((before, whole - n - before, 0))
        if all(edge == (0, 0, 0) for edge in edges):
            return x
        return pad(x, undefined((), self.aval.dtype), edges)

    def without_padding(self, x: Any) -> Any:
        """Return a padded array without its padding."""
        if x.shape == self.aval.shape:
            return x
        first = [before for before, _ in self._edges]
        last = [start + n for start, n in zip(first, self.aval.shape, strict=True)]
        return slice_of(x, first, last)

    def place(self, ids: Sequence[Any], prefetched: Sequence[Ref]) -> list[Any] | None:
        """Return the start of the block of a program; None if the block is the whole array."""
        if self.starts is None:
            return None
        found = self.starts.run([*ids, *prefetched])
        return [
            mul(i, np.int32(axis.block_size)) if isinstance(axis, Blocked) else i
            for i, axis in zip(map(_as_int32, found), self.axes, strict=True)
        ]

    def read(self, x: Any, place: Sequence[Any] | None) -> Any:
        """Return a block of the padded array."""
        if place is not None:
            x = dynamic_slice_p.bind(x, *place, slice_sizes=self.sizes)
        return reshape(x, self.seen.shape)

    def write(self, x: Any, place: Sequence[Any] | None, block: Any) -> Any:
        """Return the padded array with one block replaced."""
        block = reshape(block, self.sizes)
        return block if place is None else dynamic_update_slice_p.bind(x, block, *place)


def _as_int32(i: Any) -> Any:
    return np.int32(i) if isinstance(i, int) else convert_element_type(i, np.int32)


class Programs(NamedTuple):
    """The arguments of index maps: the grid's sizes, and the types of prefetched scalars."""

    sizes: tuple[Any, ...]
    prefetched: tuple[AbstractRef, ...] = ()
    arguments: Callable[[Sequence[Any]], Sequence[Any]] = list
    """Unflattens references to the structure of the arguments."""


def blocks_of(spec: Any, aval: ShapedArray, origin: str, programs: Programs) -> Blocks:
    """Return how an array is divided; `origin` names it in messages.

    Raises: ValueError for a block of another rank, and an index map that does not return an integer
        for each axis.
    """
    if spec is no_block_spec:
        spec = BlockSpec()
    if spec.block_shape is None:
        axes: tuple[BlockDim, ...] = tuple([Blocked(n) for n in aval.shape])
    else:
        axes = tuple([_axis(entry, origin) for entry in spec.block_shape])
    if len(axes) != len(aval.shape):
        raise ValueError(
            three_lines(
                f"pallas_call at {current_source()}",
                f"Block shape for {origin} (= {_text(axes)}) must have the same number of "
                f"dimensions as the array shape {tuple(aval.shape)}.",
                "pass a size for each axis; None for an axis that is squeezed for the kernel",
            )
        )
    found = Blocks(aval, axes, None)
    is_one = found.sizes == tuple(aval.shape) and not any(map(any, found._edges))
    if spec.index_map is None:
        return found if is_one else found._replace(starts=_first(len(axes), programs))
    starts = _recorded_map(spec.index_map, axes, origin, programs)
    # A window as large as the array must begin at its first element.
    return found if is_one else found._replace(starts=starts)


def _axis(entry: Any, origin: str) -> BlockDim:
    if entry is None:
        return squeezed
    if isinstance(entry, (Blocked, Element, Squeezed)):
        return entry
    try:
        return Blocked(operator.index(entry))
    except TypeError:
        raise ValueError(
            three_lines(
                f"pallas_call with a block of {origin} at {current_source()}",
                f"Unsupported block dimension type: {type(entry)}. Allowed types: `pl.Squeezed`, "
                "`pl.Blocked`, `pl.Element`, `int`, `None`.",
                "pass the size of the block as an int",
            )
        ) from None


def _text(axes: Sequence[BlockDim]) -> str:
    return f"({', '.join(map(str, axes))}{',' if len(axes) == 1 else ''})"


def _first(rank: int, programs: Programs) -> Recorded:
    def zeros(*_: Any) -> list[Any]:
        return [np.int32(0)] * rank

    avals = [INT32] * len(programs.sizes) + list(programs.prefetched)
    return recorded(zeros, avals, zeros)


def _recorded_map(
    index_map: Callable[..., Any], axes: Sequence[BlockDim], origin: str, programs: Programs
) -> Recorded:
    count = len(programs.sizes)
    asked = f"pallas_call at {current_source()}"
    named = f"Index map function {definition_of(index_map)} for {origin}"

    def flat(*args: Any) -> list[Any]:
        with in_grid(args[:count], programs.sizes):
            found = index_map(*args[:count], *programs.arguments(args[count:]))
        found = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        if len(found) != len(axes):
            raise ValueError(
                three_lines(
                    asked,
                    f"{named} must return {len(axes)} values to match block_shape={_text(axes)}. "
                    f"Currently returning {len(found)} values:",
                    "return the number of the block along each axis",
                )
            )
        for i, x in enumerate(found):
            aval = aval_of(x)
            if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
                raise ValueError(
                    three_lines(
                        asked,
                        f"{named} must return integer scalars. Output[{i}] has type {aval}.",
                        "use integers: i // 2 rather than i / 2",
                    )
                )
        return list(found)

    avals = [INT32] * count + list(programs.prefetched)
    return recorded(flat, avals, index_map)
