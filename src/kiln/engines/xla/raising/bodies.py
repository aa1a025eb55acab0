"""The functions of scalars in reductions, scatters and sorts: which operations they apply."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from kiln.engines.xla.stablehlo.operations import Operation, Region

_COMMUTATIVE = ("add", "multiply", "minimum", "maximum", "and", "or", "xor")
Tree = tuple[Any, ...]
"""An expression: a name, then what it is applied to; `("argument", 0)` is an argument."""


def operation_of_body(region: Region, *, picks: int = -1) -> str | None:
    """Return which operation a region applies to its two arguments: `add`; None for other regions.

    A region that returns the argument numbered `picks` applies none: the name is "".
    """
    if len(region.arguments) != 2 or len(region.returned) != 1:
        return None
    if not region.operations:
        is_picked = picks >= 0 and region.returned[0] == region.arguments[picks]
        return "" if is_picked else None
    if len(region.operations) != 1:
        return None
    (operation,) = region.operations
    name = operation.name.removeprefix("stablehlo.")
    straight = operation.operands == region.arguments
    swapped = operation.operands == region.arguments[::-1] and name in _COMMUTATIVE
    if region.returned != operation.results or not (straight or swapped):
        return None
    return name


def expressions(
    region: Region, operation_of: Callable[[int], Operation | None]
) -> list[Tree] | None:
    """Return the results of a region as expressions of its arguments; None if they are not.

    Constants, also those from outside the region, which `operation_of` finds, are compared by their
    bits; comparisons have their direction as a name.
    """
    found: dict[int, Tree] = {x: ("argument", i) for i, x in enumerate(region.arguments)}

    def read(number: int) -> Tree | None:
        if number not in found:
            outside = operation_of(number)
            if outside is not None and outside.name == "stablehlo.constant":
                found[number] = _head(outside)  # type: ignore[assignment]
        return found.get(number)

    for operation in region.operations:
        if operation.regions or len(operation.results) != 1:
            return None
        head = _head(operation)
        operands = [read(x) for x in operation.operands]
        if head is None or None in operands:
            return None
        found[operation.results[0]] = (*head, *operands)
    results = [read(x) for x in region.returned]
    return None if None in results else results  # type: ignore[return-value]


def _head(operation: Operation) -> tuple[Hashable, ...] | None:
    name, attributes = operation.name.removeprefix("stablehlo."), operation.attributes
    if name == "constant":
        value = attributes["value"]
        return (name, str(value.dtype), value.tobytes())
    if name == "compare":
        return (attributes["comparison_direction"], attributes.get("compare_type") == "TOTALORDER")
    # The type of the result, which conversions depend on, is a part of the name.
    return (name, str(operation.types[0])) if "call" not in name else None
