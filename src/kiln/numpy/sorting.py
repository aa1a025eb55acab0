"""Sorting: values, indices, several keys, partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.execution.eager_plans import eager
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.promotion import one, operands
from kiln.numpy.shapes import canonical_axes, ravel
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements import elementwise
from kiln.ops.reductions import sorting
from kiln.ops.shape import canonical_axis, rev


def _checked(name: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise ValueError(
            three_lines(
                f"{name}(..., order={order!r}) at {current_source()}",
                f"'order' argument to {name} is not supported.",
                "leave it out; arrays have no fields",
            )
        )
    if kind is not None:
        raise TypeError(
            three_lines(
                f"{name}(..., kind={kind!r}) at {current_source()}",
                f"'kind' argument to {name} is not supported. Use stable=True or stable=False.",
                "leave it out",
            )
        )


@eager
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Sort along an axis, or the flattened array if axis=None; nans come last.

    `stable` keeps the order of equal elements, also if `descending`. `kind` and `order` must be
    None: there is one algorithm, and there are no structured dtypes.

    Raises: TypeError for `kind`, ValueError for `order` or an axis out of bounds.
    Example:
        >>> jnp.sort(jnp.array([3, 1, 2]), descending=True)
        Array([3, 2, 1], dtype=int32)
        >>> jnp.sort(jnp.array([[3, 1], [2, 4]]), axis=0)
        Array([[2, 1],
               [3, 4]], dtype=int32)
    """
    _checked("sort", kind, order)
    a = one("sort", a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis("sort", axis, len(a.shape))
    out = sorting.sort(a, axis, stable)
    return rev(out, (axis,)) if descending else out


@eager
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return the indices that sort along an axis, or the flattened array if axis=None.

    `stable` keeps the order of equal elements, also if `descending`. `kind` and `order` must be
    None: there is one algorithm, and there are no structured dtypes.

    Raises: TypeError for `kind`, ValueError for `order` or an axis out of bounds.
    Example:
        >>> jnp.argsort(jnp.array([3, 1, 2]))
        Array([1, 2, 0], dtype=int32)
    """
    _checked("argsort", kind, order)
    a = one("argsort", a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis("argsort", axis, len(a.shape))
    wanted = (
        dtypes.default_int_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "argsort")
    )
    places = broadcasted_iota(wanted, a.shape, axis)
    if not descending:
        return sorting.sort((a, places), axis, stable)[1]
    # Equal elements keep their order: sort the reversed array, and count from its end.
    places = sorting.sort((rev(a, (axis,)), places), axis, stable)[1]
    return rev(elementwise.sub(a.shape[axis] - 1, places), (axis,))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the indices that sort by several keys, the last one first.

    Example:
        >>> jnp.lexsort((jnp.array([2, 1, 1]), jnp.array([0, 0, -1])))
        Array([2, 1, 0], dtype=int32)
    """
    found: Sequence[Any] = list(keys)
    if not found:
        raise TypeError(
            three_lines(
                f"lexsort([]) at {current_source()}",
                "need sequence of keys with len > 0 in lexsort",
                "pass some keys",
            )
        )
    arrays = [one("lexsort", x) for x in operands("lexsort", *found)]
    if len({tuple(x.shape) for x in arrays}) > 1:
        raise ValueError(
            three_lines(
                f"lexsort of {', '.join(str(x.aval) for x in arrays)} at {current_source()}",
                "all keys need to be the same shape",
                "broadcast them first",
            )
        )
    if not arrays[0].shape:
        return asarray(0, dtypes.default_int_dtype())
    axis = canonical_axis("lexsort", axis, len(arrays[0].shape))
    places = broadcasted_iota(dtypes.default_int_dtype(), arrays[0].shape, axis)
    return sorting.sort((*arrays[::-1], places), axis, num_keys=len(arrays))[-1]


def sort_complex(a: ArrayLike) -> Array:
    """Sort along the last axis, as complex numbers: by real, then by imaginary parts.

    Example:
        >>> jnp.sort_complex(jnp.array([2 + 1j, 1 + 5j, 1 + 2j]))
        Array([1.+2.j, 1.+5.j, 2.+1.j], dtype=complex64)
    """
    a = sort(one("sort_complex", a), -1)
    return cast(a, dtypes.to_complex_dtype(a.dtype))


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Put the `kth` smallest element at index `kth`, smaller ones before it, larger ones after.

    Example:
        >>> jnp.partition(jnp.array([5, 1, 4, 2]), 1)[1]
        Array(2, dtype=int32)
    """
    a = one("partition", a)
    (axis,) = canonical_axes("partition", axis, len(a.shape))
    canonical_axis("partition", kth, a.shape[axis])
    return sorting.sort(a, axis)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return the indices that partition an array (see `partition`).

    Example:
        >>> x = jnp.array([5, 1, 4, 2])
        >>> x[jnp.argpartition(x, 1)][:2]
        Array([1, 2], dtype=int32)
    """
    a = one("argpartition", a)
    (axis,) = canonical_axes("argpartition", axis, len(a.shape))
    canonical_axis("argpartition", kth, a.shape[axis])
    return argsort(a, axis)
