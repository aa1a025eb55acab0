"""Types for annotations: what array functions accept and return."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike, ShapeLike

__all__ = ["Array", "ArrayLike", "Axes", "DTypeLike", "ShapeLike"]

_suggest_names(globals())
