"""Divisors and multiples of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.loops import while_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.elements.arithmetic import absolute, floor_divide, multiply
from kiln.numpy.elements.elementary import weak_as
from kiln.numpy.promotion import full_shapes, one, promote_dtypes
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant, select
from kiln.ops.reductions.reduction import reduce_or


def _integers(name: str, x1: Any, x2: Any) -> Any:
    x1, x2 = promote_dtypes(one(name, x1), one(name, x2))
    if not dtypes.issubdtype(aval_of(x1).dtype, np.integer):
        raise ValueError(
            three_lines(
                f"{name}: operands {aval_of(x1)}, {aval_of(x2)} at {current_source()}",
                f"Arguments to jax.numpy.{name} must be integers.",
                "convert first: x.astype(int)",
            )
        )
    return full_shapes(name, absolute(x1), absolute(x2))


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greatest common divisor, element by element.

    Example:
        >>> jnp.gcd(jnp.array([12, 7]), 18)
        Array([6, 1], dtype=int32)
    """
    given = x1, x2
    x1, x2 = _integers("gcd", x1, x2)

    def unfinished(pair: Any) -> Any:
        left = elementwise.ne(pair[1], constant(0, pair[1]))
        return reduce_or(left, range(len(left.shape)))

    def step(pair: Any) -> Any:
        a, b = pair
        zero = elementwise.eq(b, constant(0, b))
        divisor = select(zero, constant(1, b), b)
        return select(zero, a, b), select(zero, b, elementwise.rem(a, divisor))

    return weak_as(while_loop(unfinished, step, (x1, x2))[0], *given)


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the least common multiple, element by element.

    Example:
        >>> jnp.lcm(jnp.array([4, 7]), 6)
        Array([12, 42], dtype=int32)
    """
    given = x1, x2
    x1, x2 = _integers("lcm", x1, x2)
    divisor = gcd(x1, x2)
    nothing = elementwise.eq(divisor, constant(0, divisor))
    safe = select(nothing, constant(1, divisor), divisor)
    return weak_as(select(nothing, constant(0, x1), multiply(x1, floor_divide(x2, safe))), *given)
