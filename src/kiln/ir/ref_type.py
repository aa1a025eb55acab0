"""The type of a reference, which holds an array that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.pickled import pickled_as, reduced
from kiln.ir.shardings.sums import NOWHERE, Varying
from kiln.ir.sizes.size import Dim
from kiln.ir.types import AbstractValue, Shape, ShapedArray


@pickled_as("AbstractRef")
class AbstractRef(AbstractValue):
    """The type of a reference to arrays of the type `inner_aval`.

    Immutable; equal types are interchangeable. References are discharged before a program is
    transformed or compiled, so only tracing sees this type.
    """

    __slots__ = ("__weakref__", "inner_aval")

    weak_type = False
    varying: Varying = NOWHERE

    def __init__(self, inner_aval: ShapedArray, memory_space: Any = None, kind: Any = None) -> None:
        self.inner_aval = inner_aval

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractRef and self.inner_aval == other.inner_aval

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self.inner_aval.dtype

    @property
    def sharding(self) -> Any:
        """The sharding of the array, from its type."""
        return self.inner_aval.sharding

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.inner_aval.ndim

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return self.inner_aval.size

    def with_(
        self, *, shape: Sequence[Dim] | None = None, dtype: Any = None, **_: Any
    ) -> AbstractRef:
        """Return a reference to arrays of another shape or dtype."""
        if shape is None and dtype is None:
            return self
        return AbstractRef(self.inner_aval.with_(shape=shape, dtype=dtype))

    def without_axis(self, axis: int) -> AbstractRef:
        """Return the type of a reference to the elements of a stack along an axis."""
        return AbstractRef(self.inner_aval.without_axis(axis))

    def with_axis(self, axis: int, size: Dim) -> AbstractRef:
        """Return the type of a reference to a stack along a new axis."""
        return AbstractRef(self.inner_aval.with_axis(axis, size))

    def tangent(self) -> ShapedArray:
        """Return the type of a tangent: a reference has none."""
        return ShapedArray(self.shape, dtypes.float0)

    def physical(self) -> ShapedArray:
        """Return the type of the data."""
        return self.inner_aval.physical()

    def same_type(self, other: Any) -> bool:
        """Tell whether two types are references to the same shape and dtype."""
        return type(other) is AbstractRef and self.inner_aval.same_type(other.inner_aval)

    def str_short(self, *, short_dtypes: bool = True) -> str:
        """Return `Ref{f32[3,4]}`, or `Ref{float32[3,4]}`."""
        return f"Ref{{{self.inner_aval.str_short(short_dtypes=short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short(short_dtypes=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("AbstractRef", self.inner_aval)


def is_ref_type(aval: Any) -> bool:
    """Tell whether a type is that of a reference."""
    return aval.__class__ is AbstractRef
