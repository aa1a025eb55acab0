"""Counting: factorials, binomial coefficients, Bernoulli numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import operands
from kiln.ops.elements.elementwise import stop_gradient
from kiln.scipy.special.gamma_functions import beta_of_real, gamma_of_real
from kiln.scipy.special.series import narrowed, real_operands


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Return n!, and gamma(n + 1) between integers; 0 for negative numbers.

    Raises: NotImplementedError if `exact`, ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.factorial(jnp.array([3, 5]))
        Array([  6., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError(
            three_lines(
                f"factorial with exact=True at {current_source()}",
                "factorial with exact=True",
                "use math.factorial, whose integers have any size",
            )
        )
    (y,), result = real_operands("factorial", n)
    return narrowed(jnp.where(y < 0, 0, gamma_of_real(y + 1)), result, weak=True)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Return the number of ways to choose `k` of `N` things; 0 outside 0 <= k <= N.

    With `repetition`, a thing may be chosen more than once.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.comb(5, jnp.array([0, 2, 6]))
        Array([ 1., 10.,  0.], dtype=float32)
    """
    counts = all(
        dtypes.issubdtype(dtypes.result_type(x), np.integer) for x in operands("comb", N, k)
    )
    (n, m), result = real_operands("comb", N, k)
    if repetition:
        inside = (n >= 0) & (m >= 0)
        nothing = m == 0
        n = n + m - 1
        inside = inside & ((n >= m) | nothing)
        n = jnp.where(nothing, 1, n)
    else:
        inside = (n >= m) & (n >= 0) & (m >= 0)
    top, bottom = jnp.where(inside, n, 1), jnp.where(inside, m, 0)
    # beta is symmetric, and more exact than its logarithm while it does not underflow.
    whole = 1 / ((top + 1) * beta_of_real(top - bottom + 1, bottom + 1))
    if counts:
        exact = whole < 1 / float(dtypes.finfo(n.dtype).eps)
        whole = whole + stop_gradient(jnp.where(exact, jnp.round(whole) - whole, 0))
    return narrowed(jnp.where(inside, whole, 0), result, weak=True)


def bernoulli(n: int) -> Array:
    """Return the Bernoulli numbers of order 0 to `n`; that of order 1 is -1/2.

    Computed as fractions by the recurrence of their generating function.

    Raises: TypeError for an order that is not an integer, ValueError for a negative one.
    Example:
        >>> kiln.scipy.special.bernoulli(4).round(4)
        Array([ 1.    , -0.5   ,  0.1667,  0.    , -0.0333], dtype=float32)
    """
    order: Any = n
    error: type[Exception]
    if not isinstance(order, (int, np.integer)):
        wrong, error = f"n must be a Python integer, got {type(n).__name__}", TypeError
    elif n < 0:
        wrong, error = "n must be a non-negative integer.", ValueError
    else:
        return jnp.asarray(np.array(_bernoulli(int(n)), dtypes.default_float_dtype()))
    raise error(
        three_lines(f"bernoulli({n!r:.40}) at {current_source()}", wrong, "pass an int such as 10")
    )


def _bernoulli(n: int) -> list[float]:
    # Even orders from the tangent numbers (Knuth and Buckholtz, 1967), which are integers.
    half = n // 2
    tangent = [0] * (half + 1)
    if half:
        tangent[1] = 1
    for k in range(2, half + 1):
        tangent[k] = (k - 1) * tangent[k - 1]
    for k in range(2, half + 1):
        for j in range(k, half + 1):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    out = [1.0, -0.5] + [0.0] * max(n - 1, 0)
    for k in range(1, half + 1):
        power = 4**k
        value = Fraction((-1) ** (k - 1) * 2 * k * tangent[k], power * (power - 1))
        try:
            out[2 * k] = float(value)
        except OverflowError:
            out[2 * k] = math.copysign(math.inf, value)
    return out[: n + 1]
