"""Types for annotations: what array functions accept and return; annotations checked."""

from kiln.api.annotations import checked
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike, ShapeLike

__all__ = ["Array", "ArrayLike", "Axes", "DTypeLike", "ShapeLike", "checked"]

_suggest_names(globals())
