"""A named size as a number in the program: weakly typed, like the Python int it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes import Dim, set_number
from kiln.ir.types import ShapedArray


class SizeValue(Primitive):
    """Return `size` as a weakly typed integer."""

    name = "size_value"
    on_host = True

    def infer(self, *, size: Dim) -> ShapedArray:
        return aval_of(0)

    def numpy(self, *, size: Dim) -> Any:
        return np.asarray(int(size), aval_of(0).dtype)


size_value_p = SizeValue()


def size_value(size: Dim) -> Any:
    """Return a size as a number."""
    return size_value_p.bind(size=size)


set_number(size_value)
