"""ShapeDtypeStruct: the type of an array, given in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.ir.sizes import Dim
from kiln.ir.types import ShapedArray


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist."""

    __slots__ = ("_type",)

    def __init__(self, shape: Sequence[Dim], dtype: Any, *, weak_type: bool = False) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified, got None")
        self._type = ShapedArray(shape, dtypes.canonicalize_dtype(dtype), weak_type)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape."""
        return self._type.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._type.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype is weak."""
        return self._type.weak_type

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._type.ndim

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self._type.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._type == other._type

    def __hash__(self) -> int:
        return hash(self._type)

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={dtypes.long_name(self.dtype)}{weak})"


def type_of_struct(x: Any) -> ShapedArray | None:
    """Return the type a ShapeDtypeStruct stands for; None for anything else."""
    return x._type if isinstance(x, ShapeDtypeStruct) else None


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """Return a type as a ShapeDtypeStruct."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
