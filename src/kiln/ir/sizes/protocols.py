"""The protocols of ints, besides arithmetic: rounding, parts, bits, texts, ufuncs.

A named size answers where the answer is the same expression for all sizes, and raises
`InconclusiveSizeError` elsewhere. Texts without a format show the name.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

from kiln.base.source import is_internal
from kiln.ir.sizes.errors import taken_by_numpy

_METHODS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
}
"""The method for each NumPy operator, with the size on the left and on the right."""


class IntegerProtocol:
    """The protocol of Python's ints for a subclass with arithmetic, and `__index__` that raises."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """An int for `isinstance` outside kiln: code for ints is right for sizes, or raises."""
        return type(self) if is_internal(sys._getframe(1).f_code.co_filename) else int

    @property
    def real(self) -> Any:
        """The size itself."""
        return self

    numerator = real

    @property
    def imag(self) -> int:
        """0."""
        return 0

    @property
    def denominator(self) -> int:
        """1."""
        return 1

    def conjugate(self) -> Any:
        """Return the size itself."""
        return self

    def is_integer(self) -> bool:
        """Tell that a size is an integer."""
        return True

    def as_integer_ratio(self) -> tuple[Any, int]:
        """Return the size, and 1."""
        return self, 1

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else round(operator.index(self), digits)  # type: ignore[arg-type]

    def __abs__(self) -> Any:
        return self if self >= 0 else -self  # type: ignore[operator]

    def __invert__(self) -> Any:
        return -self - 1  # type: ignore[operator]

    def __lshift__(self, count: Any) -> Any:
        return NotImplemented if _is_array(count) else self * (1 << operator.index(count))  # type: ignore[operator]

    def __rshift__(self, count: Any) -> Any:
        return NotImplemented if _is_array(count) else self // (1 << operator.index(count))  # type: ignore[operator]

    def _by_bits(self, other: Any) -> Any:
        return NotImplemented if _is_array(other) else operator.index(self)  # type: ignore[arg-type]

    __rlshift__ = __rrshift__ = _by_bits
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _by_bits

    def bit_length(self) -> int:
        """Raise InconclusiveSizeError: it differs between sizes."""
        return operator.index(self)  # type: ignore[arg-type]

    bit_count = bit_length

    def to_bytes(self, *args: Any, **options: Any) -> bytes:
        """Raise InconclusiveSizeError: they differ between sizes."""
        return operator.index(self).to_bytes(*args, **options)  # type: ignore[arg-type]

    def __format__(self, text: str) -> str:
        return format(operator.index(self), text) if text else str(self)  # type: ignore[arg-type]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        found = _METHODS.get(ufunc.__name__)
        if found is None or method != "__call__" or options:
            raise taken_by_numpy(str(self), ufunc.__name__)
        left, right = inputs
        if type(left) is type(self):
            answer = getattr(left, found[0])(right)
        else:
            answer = getattr(right, found[1])(left)
        if answer is NotImplemented:
            raise taken_by_numpy(str(self), ufunc.__name__)
        return answer


def _is_array(x: object) -> bool:
    return hasattr(x, "aval")


def is_asked_by_user() -> bool:
    """Tell whether code outside kiln called the method of a size that calls this."""
    frame = sys._getframe(2)
    if frame.f_code is IntegerProtocol.__array_ufunc__.__code__ and frame.f_back is not None:
        # NumPy acts for its caller.
        frame = frame.f_back
    return not is_internal(frame.f_code.co_filename)
