"""Types for annotations: what functions of arrays take and return."""

from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike, ShapeLike

__all__ = ["Array", "ArrayLike", "Axes", "DTypeLike", "ShapeLike"]
