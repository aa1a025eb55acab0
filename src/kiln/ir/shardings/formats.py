"""Formats of arrays: the layout of their elements in memory, and their devices.

kiln's arrays are row-major, so a layout adds no information; formats exist for programs that query
them or pass them on.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.ir.shardings.sharding import Sharding


class _Automatic:
    """The layout that the compiler chooses, which is row-major, like all arrays."""

    def __repr__(self) -> str:
        return "AUTO"


class Layout(Record):
    """The order of the axes in memory, the slowest first, and how the elements are tiled.

    `Layout.AUTO` leaves it to the compiler.
    """

    AUTO: ClassVar[Any] = _Automatic()

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __post_init__(self) -> None:
        order = tuple([operator.index(axis) for axis in self.major_to_minor])
        object.__setattr__(self, "major_to_minor", order)


class Format(Record):
    """A layout and a sharding, each of which may be left out."""

    layout: Layout | None = None
    sharding: Sharding | None = None


def format_of(shape: Sequence[Any], sharding: Sharding) -> Format:
    """Return the format of an array."""
    return Format(Layout(tuple(range(len(shape)))), sharding)


def require_rows(layout: Layout | None, asked: str) -> None:
    """Raise ValueError for a layout that arrays of kiln cannot have."""
    if layout is None or layout is Layout.AUTO:
        return
    is_in_order = layout.major_to_minor == tuple(range(len(layout.major_to_minor)))
    if not is_in_order or layout.tiling or layout.sub_byte_element_size_in_bits:
        raise ValueError(
            three_lines(
                f"{asked} with {layout} at {current_source()}",
                "arrays of kiln lie in the order of their axes, untiled",
                "transpose the array, or leave the layout out: Format(sharding=...)",
            )
        )
