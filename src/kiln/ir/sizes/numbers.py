"""Named sizes with numbers: sizes as numbers of the program, numbers as bounds of sizes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.ir.sizes.protocols import IntegerProtocol

_number: list[Callable[[Any], Any]] = []


def set_number(function: Callable[[Any], Any]) -> None:
    """Install the function that turns a size into a number in the program being recorded."""
    _number[:] = [function]


def as_number(x: Any) -> Any:
    """Return a size as a number in the program being recorded; anything else unchanged."""
    return _number[0](x) if issubclass(type(x), IntegerProtocol) else x


def by_number(operation: Callable[[Any, Any], Any], size: Any, other: Any) -> Any:
    """Apply an operation to a size as a number in the program being recorded."""
    if _number and isinstance(
        other, (int, float, complex, np.generic, np.ndarray, IntegerProtocol)
    ):
        return operation(as_number(size), as_number(other))
    return NotImplemented


def reflected(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operation with its operands swapped."""
    return lambda right, left: operation(left, right)


def whole(number: Any) -> int | None:
    """Return the int that is equal to a number, or None."""
    value = number.item() if isinstance(number, (np.generic, np.ndarray)) else number
    if isinstance(value, complex):
        value = math.nan if value.imag else value.real
    if not _has_order(value) or not math.isfinite(value):
        return None
    found = int(value)
    return found if found == value else None


def limit(number: Any, *, above: bool) -> int | float | None:
    """Return the int n for which size >= n (or, unless `above`, > n) is the same as for a number.

    A number that is not finite is returned as a float, and anything without an order as None.
    """
    value = number.item() if isinstance(number, (np.generic, np.ndarray)) else number
    if hasattr(type(value), "__index__"):
        return int(value)
    if not _has_order(value):
        return None
    if not math.isfinite(value):
        return float(value)
    return int(math.ceil(value) if above else math.floor(value))


def _has_order(x: Any) -> bool:
    return isinstance(x, numbers.Number) and not isinstance(x, complex)
