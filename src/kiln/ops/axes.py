"""Axes and sizes that users name, checked.

Shapes may have names instead of numbers as sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray


def _of_axis(name: str, axis: Any, ndim: int, wrong: str) -> str:
    return three_lines(
        f"{name}: axis {axis} of an array with {ndim} dimensions at {current_source()}",
        wrong,
        f"use an axis from {-ndim} to {ndim - 1}" if ndim else "a scalar has no axes",
    )


def canonical_axis(name: str, axis: Any, ndim: int) -> int:
    """Return a non-negative axis.

    Raises: ValueError if out of bounds, TypeError for what is not an integer.
    """
    try:
        found = operator.index(axis)
    except TypeError as error:
        raise TypeError(_of_axis(name, axis, ndim, f"{error}")) from None
    if not -ndim <= found < ndim:
        wrong = f"axis {found} is out of bounds for array of dimension {ndim}"
        raise ValueError(_of_axis(name, found, ndim, wrong))
    return found + ndim if found < 0 else found


def check_axes(name: str, x: ShapedArray, axes: Sequence[int]) -> None:
    """Raise ValueError unless `axes` are distinct axes of `x`, counted from the front."""
    if len(set(axes)) == len(axes) and all(0 <= a < x.ndim for a in axes):
        return
    for axis in axes:
        canonical_axis(name, axis, x.ndim)
    raise ValueError(
        three_lines(
            f"{name}: operand {x}, axes {tuple(axes)} at {current_source()}",
            f"dimensions are not unique: the axes must be distinct and from 0 to {x.ndim - 1}",
            "name each axis once",
        )
    )


def check_sizes(name: str, shape: Sequence[Dim]) -> None:
    """Raise TypeError if a size is negative."""
    if any(isinstance(size, int) and size < 0 for size in shape):
        raise TypeError(
            three_lines(
                f"{name}: shape {tuple(shape)} at {current_source()}",
                f"{name} shape must have every element be nonnegative, got {tuple(shape)}",
                "give sizes from 0",
            )
        )


def as_size(given: Any, sizes: Any) -> int:
    """Return a size of a shape as an int.

    Raises: TypeError if it is not an integer.
    """
    try:
        return operator.index(given)
    except TypeError as error:
        raise TypeError(
            three_lines(
                f"reshape to {sizes!r:.80} at {current_source()}",
                "Shapes must be 1D sequences of concrete values of integer type, got "
                f"{given!r:.60} of type {type(given)}",
                "give sizes that are ints",
            )
        ) from error
