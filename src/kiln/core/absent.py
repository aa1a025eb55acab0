"""Placeholders for absent values: a tangent known to be zero, an operand to pull back to."""

from __future__ import annotations

from typing import Any, NoReturn

from kiln.base.errors import MissingRule, three_lines
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray


class Zero:
    """A tangent or cotangent known to be zero; `aval` is its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """Return the zero tangent of a value."""
        return Zero(aval_of(value).tangent())

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the zeros."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the zeros."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the zeros."""
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


def not_linear(aval: ShapedArray) -> MissingRule:
    """Build the error for transposing a function that is not linear in an operand of this type."""
    return MissingRule(
        three_lines(
            f"transpose of a function at {current_source()}",
            f"the function is not linear in an operand of type {aval}",
            "transpose functions that are linear in all arguments; for others use vjp",
        )
    )


class Linear:
    """An operand that a transpose rule must pull back to; its value is unknown."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[object, ...]:
        """The operand's shape."""
        return self.aval.shape

    @property
    def dtype(self) -> object:
        """The operand's dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The operand's number of axes."""
        return len(self.aval.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise not_linear(self.aval)

    def __repr__(self) -> str:
        return f"Linear({self.aval})"


def is_zero(x: object) -> bool:
    """Tell whether a tangent is known to be zero."""
    return type(x) is Zero


def is_linear(x: object) -> bool:
    """Tell whether a transpose rule must pull back to this operand."""
    return type(x) is Linear
