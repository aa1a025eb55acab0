"""The high half of a product of integers, which multiplication discards.

The operands are split into halves, so that no product of two of them is wider than the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.trace import aval_of
from kiln.ops.elements.elementwise import (
    bitwise_and,
    mul,
    shift_right_arithmetic,
    shift_right_logical,
)
from kiln.ops.elements.families import INTEGER, Elementwise, add, binary, constant


def _high_half(x: Any, y: Any) -> np.ndarray:
    dtype = np.result_type(x, y)
    if dtype.itemsize < 8:
        wide = np.dtype(f"{dtype.kind}8")
        product = np.multiply(x, y, dtype=wide)
        return np.asarray(product >> wide.type(8 * dtype.itemsize)).astype(dtype)
    half, mask = dtype.type(32), dtype.type(0xFFFFFFFF)
    with np.errstate(over="ignore"):
        a, b, c, d = x >> half, x & mask, y >> half, y & mask
        low = (b.astype(np.uint64) * d.astype(np.uint64) >> np.uint64(32)).astype(dtype)
        middle = a * d + low
        rest = (middle & mask) + b * c
        return np.asarray(a * c + (middle >> half) + (rest >> half), dtype)


class MulHi(Elementwise):
    """The product of two integers, without its low half."""

    def expand(self, x: Any, y: Any) -> Any:
        dtype = aval_of(x).dtype
        half = dtypes.bit_width(dtype) // 2
        signed = dtypes.issubdtype(dtype, np.signedinteger)
        shift = shift_right_arithmetic if signed else shift_right_logical

        def high(v: Any) -> Any:
            return shift(v, constant(half, v))

        def low(v: Any) -> Any:
            return bitwise_and(v, constant(2**half - 1, v))

        a, b, c, d = high(x), low(x), high(y), low(y)
        smallest = mul(b, d)
        middle = add(mul(a, d), shift_right_logical(smallest, constant(half, smallest)))
        rest = add(low(middle), mul(b, c))
        return add(mul(a, c), add(high(middle), high(rest)))


mulhi_p = MulHi("mulhi", _high_half, INTEGER)
mulhi = binary(mulhi_p)
