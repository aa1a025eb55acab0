"""Types for annotations: what array functions accept and return."""

from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike, ShapeLike

__all__ = ["Array", "ArrayLike", "Axes", "DTypeLike", "ShapeLike"]
