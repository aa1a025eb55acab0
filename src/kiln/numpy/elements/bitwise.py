"""Bits of integers: logic, shifts, counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import also_named, eager
from kiln.numpy.promotion import binary, dtype_of, operands, promote_numeric
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type


def _combination(
    name: str, primitive: Any, *example: str
) -> Callable[[ArrayLike, ArrayLike], Array]:
    def combine(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = binary(name, x, y)
        return primitive.bind(x, y)

    combine.__name__ = combine.__qualname__ = name
    summary = f"Return the {name.replace('_', ' ')} of two arrays, element by element."
    combine.__doc__ = shown(summary, example)
    return eager(combine)


bitwise_and = _combination(
    "bitwise_and",
    elementwise.and_p,
    ">>> jnp.bitwise_and(0b1100, jnp.array([0b1010, 0b0111]))",
    "Array([8, 4], dtype=int32)",
)
bitwise_or = _combination(
    "bitwise_or",
    elementwise.or_p,
    ">>> jnp.bitwise_or(0b1100, jnp.array([0b1010, 0b0111]))",
    "Array([14, 15], dtype=int32)",
)
bitwise_xor = _combination(
    "bitwise_xor",
    elementwise.xor_p,
    ">>> jnp.bitwise_xor(0b1100, jnp.array([0b1010, 0b0111]))",
    "Array([ 6, 11], dtype=int32)",
)


@eager
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the left.

    A shift by the width of the type or more gives 0; in NumPy it is undefined.

    Example:
        >>> jnp.left_shift(1, jnp.array([0, 3, 40]))
        Array([1, 8, 0], dtype=int32)
    """
    return elementwise.shift_left_p.bind(*promote_numeric("left_shift", x, y))


bitwise_left_shift = also_named("bitwise_left_shift", left_shift)


@eager
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Shift bits to the right; signed integers keep their sign.

    Example:
        >>> jnp.right_shift(jnp.array([8, -8]), 2)
        Array([ 2, -2], dtype=int32)
    """
    x, y = promote_numeric("right_shift", x, y)
    if dtypes.issubdtype(dtype_of(x, y), np.unsignedinteger):
        return elementwise.shift_right_logical_p.bind(x, y)
    return elementwise.shift_right_arithmetic_p.bind(x, y)


bitwise_right_shift = also_named("bitwise_right_shift", right_shift)


@eager
def bitwise_not(x: ArrayLike, /) -> Array:
    """Invert all bits; for bools, the negation.

    Example:
        >>> jnp.bitwise_not(jnp.array([0, 5])), jnp.bitwise_not(jnp.array([True, False]))
        (Array([-1, -6], dtype=int32), Array([False,  True], dtype=bool))
    """
    (x,) = operands("bitwise_not", x)
    return elementwise.not_p.bind(x)


invert = also_named("invert", bitwise_not)
bitwise_invert = also_named("bitwise_invert", bitwise_not)


@eager
def bitwise_count(x: ArrayLike, /) -> Array:
    """Count the 1 bits in the absolute value.

    Example:
        >>> jnp.bitwise_count(jnp.array([7, 8, -1]))
        Array([3, 1, 1], dtype=uint8)
    """
    (x,) = operands("bitwise_count", x)
    if aval_of(x).dtype == np.bool_:
        return convert_element_type(x, np.uint8)
    if dtypes.issubdtype(aval_of(x).dtype, np.signedinteger):
        x = elementwise.abs(x)
    return convert_element_type(elementwise.population_count(x), np.uint8)
