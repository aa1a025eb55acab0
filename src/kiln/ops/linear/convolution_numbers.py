"""Which axes of a convolution's operands and result are batch, features and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source

Axes = tuple[int, ...]
SPECIAL = ("NC", "OI", "NC")


class ConvDimensionNumbers(NamedTuple):
    """Axes of the operands and the result: two special ones first, then the spatial ones.

    They are batch and features for `lhs` and `out`, features out and features in for `rhs`.

    Example:
        >>> names = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), names).lhs_spec
        (0, 3, 1, 2)
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None
"""What convolutions accept as `dimension_numbers`."""


def conv_dimension_numbers(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return dimension numbers from strings such as `("NHWC", "HWIO", "NHWC")`.

    None means batch and features first. The spatial axes are matched by their letters.
    Raises: TypeError for strings that do not name the axes of the operands.
    Example:
        >>> lax.conv_dimension_numbers((1, 3, 8), (4, 3, 3), None).out_spec
        (0, 1, 2)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    asked = (
        f"convolution: operands of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}, "
        f"dimension_numbers {dimension_numbers} at {current_source()}"
    )
    if len(rhs_shape) != rank:
        raise TypeError(
            three_lines(
                asked,
                f"convolution requires lhs and rhs ndim to be equal, got {rank} and "
                f"{len(rhs_shape)}",
                "give both operands one axis for each axis of space and two more",
            )
        )
    if dimension_numbers is None:
        plain = tuple(range(rank))
        return ConvDimensionNumbers(plain, plain, plain)
    specs = tuple(dimension_numbers)
    if len(specs) != 3:
        wrong = "convolution dimension_numbers must be None or three strings"
        raise TypeError(three_lines(asked, wrong, 'write for example ("NHWC", "HWIO", "NHWC")'))
    if not all(isinstance(spec, str) for spec in specs):
        return ConvDimensionNumbers(*(tuple(int(a) for a in spec) for spec in specs))
    wrong = _wrong_letters(specs, rank)
    if wrong:
        raise TypeError(three_lines(asked, wrong, 'write for example ("NHWC", "HWIO", "NHWC")'))
    space = [letter for letter in specs[1] if letter not in "OI"]
    return ConvDimensionNumbers(
        *(
            tuple(spec.index(letter) for letter in (*special, *space))
            for spec, special in zip(specs, SPECIAL, strict=True)
        )
    )


def _wrong_letters(specs: Sequence[str], rank: int) -> str:
    """Say what is wrong with three strings that name axes, if anything is."""
    for i, (spec, special) in enumerate(zip(specs, SPECIAL, strict=True)):
        if len(spec) != rank:
            return (
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {spec} for {rank} axes"
            )
        if any(spec.count(letter) != 1 for letter in special):
            return (
                f"convolution dimension_numbers[{i}] must contain the characters '{special[0]}' "
                f"and '{special[1]}' exactly once, got {spec}"
            )
    spaces = [set(spec) - set(special) for spec, special in zip(specs, SPECIAL, strict=True)]
    if any(space != spaces[0] or len(space) != rank - 2 for space in spaces):
        return f"convolution dimension_numbers {tuple(specs)} must name the same axes of space once"
    return ""
