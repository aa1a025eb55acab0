"""Pytrees of arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.base.tree import PyTreeDef, tree_flatten, tree_unflatten
from kiln.core.array_type import Array
from kiln.core.trace import aval_of
from kiln.lax.shapes import full
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing.splitting import split
from kiln.ops.indexing.static_slicing import concatenate
from kiln.ops.shape import reshape

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Join the leaves of a pytree into one vector; return it with the function that undoes this.

    The vector has the dtype that the leaves promote to. If their dtypes differ, the inverse gives
    each leaf its own again, and accepts only that dtype; otherwise it keeps the vector's.

    Raises: TypeError by the inverse for another dtype, ValueError for another length.
    Example:
        >>> vector, unravel = kiln.flatten_util.ravel_pytree({"a": 1.0, "b": jnp.ones(2)})
        >>> vector
        Array([1., 1., 1.], dtype=float32)
        >>> unravel(vector * 2)["b"]
        Array([2., 2.], dtype=float32)
    """
    leaves, treedef = tree_flatten(pytree)
    if not leaves:
        return full((0,), 0, "float32"), _Unravel(treedef, (), (), None)
    avals = [aval_of(leaf) for leaf in leaves]
    common = dtypes.result_type(*[aval.dtype for aval in avals])
    mixed = any(aval.dtype != common for aval in avals)
    parts = [
        reshape(convert_element_type(leaf, common) if mixed else leaf, (math.prod(aval.shape),))
        for leaf, aval in zip(leaves, avals, strict=True)
    ]
    shapes = tuple(aval.shape for aval in avals)
    wanted = tuple(aval.dtype for aval in avals) if mixed else ()
    return concatenate(parts, 0), _Unravel(treedef, shapes, wanted, common if mixed else None)


class _Unravel:
    """The inverse of `ravel_pytree`; equal for trees of equal structure, shapes and dtypes."""

    def __init__(
        self, treedef: PyTreeDef, shapes: Sequence[Any], wanted: Sequence[Any], common: Any
    ) -> None:
        self.key = (treedef, tuple(shapes), tuple(wanted), common)

    def __call__(self, flat: Any) -> Any:
        treedef, shapes, wanted, common = self.key
        aval = aval_of(flat)
        sizes = [math.prod(shape) for shape in shapes]
        if common is not None and aval.dtype != common:
            raise TypeError(
                three_lines(
                    f"unravel of {aval} at {current_source()}",
                    f"unravel function given array of dtype {aval.dtype}, but expected dtype "
                    f"{common}",
                    f"convert it with .astype({dtypes.long_name(common)!r})",
                )
            )
        if aval.shape != (sum(sizes),):
            raise ValueError(
                three_lines(
                    f"unravel of {aval} at {current_source()}",
                    f"it takes a vector of length {sum(sizes)}",
                    "pass a vector of the shape that ravel_pytree returned",
                )
            )
        parts = split(flat, sizes) if sizes else []
        leaves = [reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        if wanted:
            leaves = [convert_element_type(x, d) for x, d in zip(leaves, wanted, strict=True)]
        return tree_unflatten(treedef, leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


_suggest_names(globals())
