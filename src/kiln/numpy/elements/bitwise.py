"""Bits of integers: logic, shifts, counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named, eager
from kiln.numpy.promotion import binary, dtype_of, operands, promote_numeric
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type


def _combination(name: str, primitive: Any) -> Callable[[ArrayLike, ArrayLike], Array]:
    def combine(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = binary(name, x, y)
        return primitive.bind(x, y)

    combine.__name__ = combine.__qualname__ = name
    combine.__doc__ = f"Return the {name.replace('_', ' ')} of two arrays, element by element."
    return eager(combine)


bitwise_and = _combination("bitwise_and", elementwise.and_p)
bitwise_or = _combination("bitwise_or", elementwise.or_p)
bitwise_xor = _combination("bitwise_xor", elementwise.xor_p)


@eager
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the left."""
    return elementwise.shift_left_p.bind(*promote_numeric("left_shift", x, y))


bitwise_left_shift = also_named("bitwise_left_shift", left_shift)


@eager
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the right; signed integers keep their sign."""
    x, y = promote_numeric("right_shift", x, y)
    if dtypes.issubdtype(dtype_of(x, y), np.unsignedinteger):
        return elementwise.shift_right_logical_p.bind(x, y)
    return elementwise.shift_right_arithmetic_p.bind(x, y)


bitwise_right_shift = also_named("bitwise_right_shift", right_shift)


@eager
def bitwise_not(x: ArrayLike, /) -> Array:
    """Invert all bits; for bools, the negation."""
    (x,) = operands("bitwise_not", x)
    return elementwise.not_p.bind(x)


invert = also_named("invert", bitwise_not)
bitwise_invert = also_named("bitwise_invert", bitwise_not)


@eager
def bitwise_count(x: ArrayLike, /) -> Array:
    """Count the 1 bits in the absolute value."""
    (x,) = operands("bitwise_count", x)
    if aval_of(x).dtype == np.bool_:
        return convert_element_type(x, np.uint8)
    if dtypes.issubdtype(aval_of(x).dtype, np.signedinteger):
        x = elementwise.abs(x)
    return convert_element_type(elementwise.population_count(x), np.uint8)
