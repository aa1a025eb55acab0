"""Which axes of a convolution's operands and result are batch, features and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kiln.base.errors import three_lines
from kiln.base.source import current_source

Axes = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """Axes of the operands and the result: two special ones first, then those of space.

    They are batch and features for `lhs` and `out`, features out and features in for `rhs`.
    """

    lhs_spec: Axes
    rhs_spec: Axes
    out_spec: Axes


def conv_dimension_numbers(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return dimension numbers from strings such as `("NHWC", "HWIO", "NHWC")`.

    None means batch and features first. The axes of space are matched by their letters.
    Raises: TypeError for strings that do not name the axes of the operands.
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
    for i, (spec, special) in enumerate(zip(specs, ("NC", "OI", "NC"), strict=True)):
        first, second = special[0], special[1]
        if len(spec) != rank:
            wrong = (
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {spec} for {rank} axes"
            )
        elif spec.count(first) != 1 or spec.count(second) != 1:
            wrong = (
                f"convolution dimension_numbers[{i}] must contain the characters '{first}' and "
                f"'{second}' exactly once, got {spec}"
            )
        elif len(set(spec)) != rank or set(spec) - set(special) != set(specs[1]) - set("OI"):
            wrong = (
                f"convolution dimension_numbers {specs} must name the same axes of space, "
                f"each exactly once"
            )
        else:
            continue
        raise TypeError(three_lines(asked, wrong, 'write for example ("NHWC", "HWIO", "NHWC")'))
    space = [letter for letter in specs[1] if letter not in "OI"]
    return ConvDimensionNumbers(
        *(
            tuple(spec.index(letter) for letter in (*special, *space))
            for spec, special in zip(specs, ("NC", "OI", "NC"), strict=True)
        )
    )
