"""Evaluating Chebyshev series, and the precision that special functions compute in.

Source: Clenshaw, "A note on the summation of Chebyshev series" (1955). The coefficients of
`coefficients.py` are for 64 bits; in 32 bits those that do not count are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array
from kiln.core.trace import aval_of
from kiln.numpy.promotion import lifted, promote_inexact
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.reductions.reduction import reduce_precision
from kiln.scipy.special.coefficients import SERIES


class ResultType(NamedTuple):
    """The dtype that operands have together, and whether it is weak."""

    dtype: Any
    weak: bool


def real_operands(name: str, *xs: Any) -> tuple[list[Any], ResultType]:
    """Return operands as arrays of one shape and of 32 bits or more, and the type of the result.

    Raises: ValueError for complex operands.
    """
    found = [lifted(x) for x in promote_inexact(name, *xs)]
    dtype = found[0].dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise ValueError(
            three_lines(
                f"{name} of {dtype} at {current_source()}",
                f"{name} is not defined for complex arguments",
                f"pass the real part, {name}(x.real)",
            )
        )
    wide = dtype if dtypes.bit_width(dtype) >= 32 else np.dtype(np.float32)
    result = ResultType(dtype, all(aval_of(x).weak_type for x in found))
    return [convert_element_type(x, wide) for x in found], result


def narrowed(x: Any, result: ResultType, weak: bool = False) -> Array:
    """Convert a result to the dtype of the operands; if `weak`, as weak as they are."""
    return convert_element_type(x, result.dtype, weak and result.weak)


def by_series(name: str, variable: Any, *, clipped: bool = True) -> Any:
    """Evaluate the series `name` at an array; outside of all intervals, at the nearest end.

    Without `clipped` the `variable` has to lie in the intervals.
    """
    pieces = SERIES[name]
    if clipped:
        variable = jnp.clip(variable, pieces[0][0], pieces[-1][1])
    precision = float(dtypes.finfo(variable.dtype).eps)
    out: Any = None
    for low, high, coefficients in pieces:
        middle, half = (low + high) / 2, (high - low) / 2
        # Beyond its interval a series may overflow, and its derivative with it.
        inside = variable if len(pieces) == 1 else jnp.clip(variable, low, high)
        found = clenshaw(_needed(coefficients, precision), (inside - middle) * (1 / half))
        out = found if out is None else jnp.where(variable >= low, found, out)
    return out


@functools.cache
def _needed(coefficients: tuple[float, ...], precision: float) -> tuple[float, ...]:
    least = 0.25 * precision * max(map(abs, coefficients))
    return coefficients[: max(i for i, c in enumerate(coefficients) if abs(c) > least) + 1]


def clenshaw(coefficients: Sequence[float], t: Any) -> Any:
    """Return the sum of coefficients[n] times the Chebyshev polynomial n, for t in [-1, 1]."""
    twice = t + t
    last, before = jnp.zeros_like(t), jnp.zeros_like(t)
    for c in reversed(coefficients[1:]):
        last, before = (twice * last - before) + c, last
    return (t * last - before) + coefficients[0]


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """Return the polynomial with these coefficients, the constant one first."""
    out = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


def exp_of_square(x: Any, factor: float) -> Any:
    """Return exp(factor x^2), where the factor is a power of 2, without rounding x^2."""
    bits, exponents = (25, 11) if x.dtype == np.float64 else (11, 8)
    head = reduce_precision(x, exponents, bits)
    rest = (x - head) * (x + head)
    return jnp.exp(factor * (head * head)) * jnp.exp(factor * rest)
