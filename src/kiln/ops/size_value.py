"""Named sizes as numbers in a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes.decisions import assume_between
from kiln.ir.sizes.numbers import set_number
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray


class SizeValue(Primitive):
    """Return `size` as a scalar of a dtype."""

    name = "size_value"
    on_host = True

    def infer(self, *, size: Dim, dtype: Any, weak_type: bool) -> ShapedArray:
        return ShapedArray((), dtype, weak_type)

    def numpy(self, *, size: Dim, dtype: Any, weak_type: bool) -> Any:
        return np.asarray(int(size)).astype(dtype)


size_value_p = SizeValue()
_INT32 = np.dtype(np.int32)


def size_value(size: Dim) -> Any:
    """Return a size as a number, weakly typed like the Python int that it replaces.

    Sizes that are too large for that type get a separate program.
    """
    aval = aval_of(0)
    if type(size) is Size:
        limits = np.iinfo(aval.dtype)
        assume_between(size, int(limits.min), int(limits.max))
    return size_value_p.bind(size=size, dtype=aval.dtype, weak_type=True)


def size_like(size: Dim, like: ShapedArray) -> Any:
    """Return a size as a number of a type's dtype and weakness."""
    return size_value_p.bind(size=size, dtype=like.dtype, weak_type=like.weak_type)


def as_index(index: Dim) -> Any:
    """Return a position along an axis as an int32 operand."""
    if type(index) is Size:
        return size_value_p.bind(size=index, dtype=_INT32, weak_type=False)
    return np.int32(index)


set_number(size_value)
