"""What an index states of each leaf, and how its elements are divided into blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np

from kiln.base import dtypes
from kiln.base.records import Record

T = TypeVar("T")
Box = tuple[tuple[int, int], ...]
"""A region of an array: along each axis where it starts, and where it stops."""


class Layout(Record):
    """How leaves with equal shardings are divided, and which process writes which block.

    `grid` is the number of blocks along each axis: all have the same shape. `owners` are the
    numbers of the processes, in row-major order of the blocks.
    """

    grid: tuple[int, ...]
    owners: tuple[int, ...]


class Entry(Record):
    """The index entry of a leaf. `dtype` and `shape` describe the bytes: for keys, their words.

    `number` is its place among the leaves. Values that are not arrays have no layout; neither do
    the leaves of checkpoints of version 1, which list their blocks.
    """

    number: int
    path: str
    kind: str
    value: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    weak: bool = False
    sharding: Any = None
    implementation: str | None = None
    layout: Layout | None = None

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the bytes."""
        return dtypes.float0 if self.dtype == "float0" else dtypes.SUPPORTED[self.dtype or ""]

    @property
    def nbytes(self) -> int:
        """The number of bytes, 0 for Python values."""
        return math.prod(self.shape) * self.stored_dtype.itemsize if self.dtype else 0


class Block(Record):
    """A block of an array: where it starts in the array, and where its bytes are."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    offset: int
    crc32: int

    @property
    def box(self) -> Box:
        """The region of the array that it holds."""
        return tuple([(start, start + n) for start, n in zip(self.start, self.shape, strict=True)])


def block_shape(entry: Entry, layout: Layout) -> tuple[int, ...]:
    """Return the shape of each block of a leaf."""
    return tuple([n // p for n, p in zip(entry.shape, layout.grid, strict=True)])


class Numbered(Generic[T]):
    """Different values in the order in which they were numbered; an index has each once.

    `key` returns what decides whether two values are equal; the same object is recognized first.
    """

    def __init__(self, key: Callable[[T], Hashable]) -> None:
        self.values: list[T] = []
        self._key = key
        self._known: dict[Hashable, int] = {}
        self._by_object: dict[int, tuple[T, int]] = {}

    def number(self, value: T) -> int:
        """Return the number of a value."""
        found = self._by_object.get(id(value))
        if found is None:
            number = self._known.setdefault(self._key(value), len(self.values))
            if number == len(self.values):
                self.values.append(value)
            # Held with the value, so that no other object gets its address.
            found = self._by_object[id(value)] = value, number
        return found[1]
