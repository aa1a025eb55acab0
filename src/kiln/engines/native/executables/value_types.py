"""The memory of a program's values: dtypes and sizes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray

ValueType = tuple[np.dtype[Any], int]


def known(types: Sequence[tuple[np.dtype[Any], Dim]]) -> list[ValueType]:
    """Return types whose sizes have no names."""
    return [(dtype, int(size)) for dtype, size in types]


def value_type(aval: ShapedArray) -> tuple[np.dtype[Any], Dim]:
    """Return the dtype of a value in memory, and its bytes."""
    physical = aval.physical()
    return physical.dtype, physical.size * int(physical.dtype.itemsize)
