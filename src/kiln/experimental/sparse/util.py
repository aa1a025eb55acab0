"""Shared by all layouts of sparse arrays: properties, errors, maps over batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln import lax
from kiln.api.mapping.vmap import vmap
from kiln.base.named_tuples import NamedTuple

Shape = tuple[int, ...]

__all__ = [
    "CuSparseEfficiencyWarning",
    "Shape",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "SparseInfo",
    "broadcasting_vmap",
    "nfold_vmap",
]


class SparseEfficiencyError(ValueError):
    """A change of layout would store many zeros."""


class SparseEfficiencyWarning(UserWarning):
    """A change of layout stores many zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """Another implementation would be faster on a GPU; never issued here."""


class SparseInfo(NamedTuple):
    """The properties of a sparse array besides its buffers."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False


def nfold_vmap(
    fun: Callable[..., Any], N: int, *, broadcasted: bool = True, in_axes: Any = 0
) -> Callable[..., Any]:
    """Map a function over N leading axes; with `broadcasted`, axes of size 1 are broadcast.

    `in_axes` is that of `vmap`, for each of the axes.
    """
    for _ in range(N):
        fun = broadcasting_vmap(fun, in_axes) if broadcasted else vmap(fun, in_axes)
    return fun


def broadcasting_vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """Map a function over axes of its arguments; those of size 1 are broadcast.

    `in_axes` is one axis for all arguments, or a tuple with an axis or None for each.
    Raises: ValueError for other mismatched sizes.
    """

    def mapped(*args: Any) -> Any:
        axes = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
        sizes = {x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None}
        if len(sizes - {1}) > 1:
            raise ValueError(f"broadcasting_vmap: mismatched input shapes: sizes {sorted(sizes)}")
        given = list(args)
        if sizes - {1}:
            for i, axis in enumerate(axes):
                if axis is not None and args[i].shape[axis] == 1:
                    given[i], axes[i] = lax.squeeze(args[i], (axis,)), None
        return vmap(fun, tuple(axes), out_axes)(*given)

    return mapped
