"""Slicing: the whole family, and in this file the dynamic slices.

Dynamic starts are scalars. If they differ between members of a stack, a dynamic slice becomes a
gather, and a dynamic update a scatter. Slices known while tracing are in `static_slicing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of, is_typed
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, constant, lt, select
from kiln.ops.indexing.dimension_numbers import CLIP, Window
from kiln.ops.indexing.indexing import gather_p, scatter_p
from kiln.ops.indexing.splitting import split, split_p
from kiln.ops.indexing.static_slicing import (
    builtin_slice,
    check_same_dtype,
    concatenate,
    concatenate_p,
    dims,
    fail,
    index_in_dim,
    pad,
    pad_p,
    slice,
    slice_in_dim,
    slice_p,
)
from kiln.ops.out_sharding import equal, resized
from kiln.ops.out_sums import passed
from kiln.ops.shape import (
    canonical_axis,
    expand_dims,
    filled,
    mapped_at,
    reshape,
    squeeze,
    to_front,
    zeros_of,
)
from kiln.ops.size_value import as_index

__all__ = [
    "concatenate",
    "concatenate_p",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_slice_p",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_slice_p",
    "from_end",
    "index_in_dim",
    "pad",
    "pad_p",
    "slice",
    "slice_in_dim",
    "slice_p",
    "split",
    "split_p",
]


class DynamicSlice(Primitive):
    """Take a window of `slice_sizes` that starts at given scalars, clamped to lie inside."""

    name = "dynamic_slice"
    on_keys = "move"
    on_host = True

    def infer(self, x: Any, *starts: Any, slice_sizes: Any) -> ShapedArray:
        asked = (
            f"dynamic_slice: operand {x}, {len(starts)} start_indices, slice_sizes {slice_sizes} "
            f"at {current_source()}"
        )
        _check_starts("dynamic_slice", asked, x, starts)
        if len(slice_sizes) != x.ndim:
            fail(
                TypeError,
                asked,
                f"slice_sizes must have one entry for each of the {x.ndim} axes of the operand",
            )
        if not all(size >= 0 for size in slice_sizes):
            fail(
                TypeError,
                asked,
                f"slice slice_sizes must be greater than or equal to zero, got {slice_sizes}",
            )
        if not all(size <= limit for size, limit in zip(slice_sizes, x.shape, strict=True)):
            fail(
                TypeError,
                asked,
                "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
                f"{slice_sizes} for operand shape {x.shape}.",
            )
        return ShapedArray(slice_sizes, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return resized(self.name, xs[0], results[0])

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return passed(self.name, operands[:1])

    def numpy(self, x: Any, *starts: Any, slice_sizes: Any) -> Any:
        return x[_window(x.shape, starts, slice_sizes)]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: Any) -> Any:
        _, *starts = primals
        out = self.bind(*primals, slice_sizes=slice_sizes)
        if type(tangents[0]) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(tangents[0], *starts, slice_sizes=slice_sizes)

    def transpose(self, ct: Any, x: Any, *starts: Any, slice_sizes: Any) -> Any:
        out = dynamic_update_slice_p.bind(zeros_of(x.aval), ct, *starts)
        return [out, *[None] * len(starts)]

    def batch(self, size: Any, operands: Any, axes: Any, *, slice_sizes: Any) -> Any:
        (x, *starts), (at, *starts_at) = operands, axes
        if all(axis is None for axis in starts_at):
            out = self.bind(
                to_front(x, at), _zero(starts), *starts, slice_sizes=(size, *slice_sizes)
            )
            return out, 0
        rank = len(starts)
        axes_of_window = tuple(range(rank))
        numbers = Window(axes_of_window, (), axes_of_window, (), ()).gather()
        indices, at_index = _stacked_starts(size, starts, starts_at)
        return gather_p.batch(
            size,
            (x, indices),
            (at, at_index),
            dimension_numbers=numbers,
            slice_sizes=slice_sizes,
            indices_are_sorted=True,
            unique_indices=True,
            mode=CLIP,
            fill_value=None,
        )


class DynamicUpdateSlice(Primitive):
    """Replace the window that starts at given scalars, clamped to lie inside."""

    name = "dynamic_update_slice"
    on_keys = "move"
    on_host = True

    def infer(self, x: Any, update: Any, *starts: Any) -> ShapedArray:
        asked = (
            f"dynamic_update_slice: operand {x}, update {update}, {len(starts)} start_indices "
            f"at {current_source()}"
        )
        if update.ndim != x.ndim:
            fail(
                TypeError,
                asked,
                "dynamic_update_slice update must have the same rank as operand, got update shape "
                f"{update.shape} for operand shape {x.shape}.",
            )
        _check_starts("dynamic_update_slice", asked, x, starts)
        if not all(size <= limit for size, limit in zip(update.shape, x.shape, strict=True)):
            fail(
                TypeError,
                asked,
                "dynamic_update_slice update shape must be smaller than operand shape, got update "
                f"shape {update.shape} for operand shape {x.shape}.",
            )
        check_same_dtype("dynamic_update_slice", asked, (x, update))
        return ShapedArray(x.shape, x.dtype, x.weak_type and update.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return equal(self.name, xs[:2])

    def numpy(self, x: Any, update: Any, *starts: Any) -> Any:
        out = x.copy()
        out[_window(x.shape, starts, update.shape)] = update
        return out

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        _, _, *starts = primals
        t, u = map(filled, tangents[:2])
        return self.bind(*primals), self.bind(t, u, *starts)

    def transpose(self, ct: Any, x: Any, update: Any, *starts: Any) -> Any:
        aval = update.aval if is_linear(update) else aval_of(update)
        kept = self.bind(ct, zeros_of(aval), *starts) if is_linear(x) else None
        taken = None
        if is_linear(update):
            taken = dynamic_slice_p.bind(ct, *starts, slice_sizes=aval.shape)
        return [kept, taken, *[None] * len(starts)]

    def batch(self, size: Any, operands: Any, axes: Any) -> Any:
        (x, update, *starts), (at, update_at, *starts_at) = operands, axes
        if all(axis is None for axis in starts_at):
            x, update = mapped_at(x, size, at, 0), mapped_at(update, size, update_at, 0)
            return self.bind(x, update, _zero(starts), *starts), 0
        rank = len(starts)
        axes_of_window = tuple(range(rank))
        numbers = Window(axes_of_window, (), axes_of_window, (), ()).scatter()
        indices, at_index = _stacked_starts(size, starts, starts_at)
        return scatter_p.batch(
            size,
            (x, indices, update),
            (at, at_index, update_at),
            dimension_numbers=numbers,
            indices_are_sorted=True,
            unique_indices=True,
            mode=CLIP,
        )


def _window(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    window = []
    for start, size, limit in zip(starts, sizes, shape, strict=True):
        at = min(max(int(start), 0), limit - size)
        window.append(builtin_slice(at, at + size))
    return tuple(window)


def _zero(starts: Sequence[Any]) -> Any:
    return np.zeros((), aval_of(starts[0]).dtype)[()] if starts else np.int32(0)


def _stacked_starts(size: Any, starts: Sequence[Any], axes: Sequence[Any]) -> tuple[Any, int]:
    """Return the starts as the coordinates of one window, with the mapped axis in front."""
    dtype = dtypes.common_dtype(*[aval_of(start).dtype for start in starts])
    columns = []
    for start, axis in zip(starts, axes, strict=True):
        column = mapped_at(convert_element_type(start, dtype), size, axis, 0)
        columns.append(reshape(column, (size, 1)))
    return concatenate_p.bind(*columns, dimension=1), 0


def _check_starts(name: str, asked: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        fail(
            ValueError,
            asked,
            "Length of slice indices must match number of operand dimensions "
            f"({len(starts)} vs {x.ndim})",
        )
    if any(not dtypes.issubdtype(start.dtype, np.integer) for start in starts):
        got = ", ".join(dtypes.long_name(start.dtype) for start in starts)
        fail(TypeError, asked, f"index arguments to {name} must be integers, got: {got}")
    if any(start.shape for start in starts):
        got = ", ".join(map(str, starts))
        fail(TypeError, asked, f"start_indices arguments to {name} must be scalars, got {got}")


dynamic_slice_p = DynamicSlice()
dynamic_update_slice_p = DynamicUpdateSlice()


def _starts(
    name: str, operand: Any, start_indices: Any, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """Return scalar starts; negative ones count from the end where allowed."""
    aval = aval_of(operand)
    if is_typed(start_indices) or isinstance(start_indices, np.ndarray):
        given = aval_of(start_indices)
        if given.ndim != 1:
            raise TypeError(
                three_lines(
                    f"{name}: operand {aval}, start_indices {given} at {current_source()}",
                    "start_indices must be a sequence of scalars, or an array with one axis",
                    "pass one start for each axis: (i, j)",
                )
            )
        count = given.shape[0]
        starts = (
            [reshape(slice(start_indices, (i,), (i + 1,)), ()) for i in range(count)]
            if is_typed(start_indices)
            else list(start_indices)
        )
    else:
        starts = list(start_indices)
    if len(starts) != aval.ndim:
        raise ValueError(
            three_lines(
                f"{name}: operand {aval}, {len(starts)} start_indices at {current_source()}",
                "Length of slice indices must match number of operand dimensions "
                f"({len(starts)} vs {aval.shape})",
                f"pass {aval.ndim} start indices",
            )
        )
    _check_alike(name, aval, starts)
    allowed = [allow_negative] * aval.ndim if isinstance(allow_negative, bool) else allow_negative
    return [
        from_end(start, size) if ok else start
        for start, size, ok in zip(starts, aval.shape, allowed, strict=True)
    ]


def _check_alike(name: str, aval: ShapedArray, starts: Sequence[Any]) -> None:
    """Raise TypeError for integers of several dtypes; with x64, Python ints match any of them."""
    found = {
        dtypes.canonicalize_dtype(aval_of(start).dtype)
        for start in starts
        if type(start) is not int or not options().enable_x64
    }
    if len(found) > 1 and all(dtypes.issubdtype(dtype, np.integer) for dtype in found):
        got = ", ".join(dtypes.long_name(aval_of(start).dtype) for start in starts)
        raise TypeError(
            three_lines(
                f"{name}: operand {aval}, {len(starts)} start_indices at {current_source()}",
                f"index arguments to {name} must be integers of the same type, got: {got}",
                "convert them to one dtype: i.astype('int32')",
            )
        )


def from_end(index: Any, size: Dim) -> Any:
    """Return an index, or an array of them, with negative ones counted from the end."""
    if type(index) is int:
        place = index if index >= 0 else index + size
        return as_index(place) if type(place) is Size else place
    dtype = index.dtype if isinstance(index, (np.ndarray, np.generic)) else aval_of(index).dtype
    if not dtypes.issubdtype(dtype, np.signedinteger):
        return index
    if dtypes.bit_width(dtype) < 32 and (type(size) is not int or size > dtypes.iinfo(dtype).max):
        dtype = np.dtype(np.int32)
    if isinstance(index, (np.ndarray, np.generic)):
        known: Any = index.astype(dtype)
        if type(size) is Size and np.any(known < 0):
            return select(known < 0, add(known, constant(size, known)), known)
        if type(size) is Size:
            return known
        return np.where(known < 0, known + dtype.type(size), known)[()]
    if aval_of(index).dtype != dtype:
        index = convert_element_type(index, dtype)
    return select(lt(index, constant(0, index)), add(index, constant(size, index)), index)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: Sequence[Any],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Return a window of `slice_sizes` at start indices that may be traced.

    The start of a window that would extend past the operand is clamped.

    Raises: TypeError for windows larger than the operand.
    Example:
        >>> lax.dynamic_slice(jnp.arange(8), (5,), (2,))
        Array([5, 6], dtype=int32)
        >>> lax.dynamic_slice(jnp.arange(6).reshape(2, 3), (0, 100), (2, 2))
        Array([[1, 2],
               [4, 5]], dtype=int32)
    """
    starts = _starts("dynamic_slice", operand, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=dims(slice_sizes))


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: Any,
    slice_size: Any,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Take `slice_size` elements starting at `start_index` along one axis.

    The start, which may be traced, is clamped so that all elements are inside. Negative indices
    count from the end if `allow_negative_indices`.
    Raises: ValueError if the axis is out of bounds.
    Example:
        >>> lax.dynamic_slice_in_dim(jnp.arange(5), 4, 2)
        Array([3, 4], dtype=int32)
    """
    shape = aval_of(operand).shape
    axis = canonical_axis("dynamic_slice_in_dim", axis, len(shape))
    sizes = list(shape)
    sizes[axis] = slice_size
    starts = _starts_in_dim(start_index, axis, shape, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=dims(sizes))


def _starts_in_dim(start: Any, axis: int, shape: Sequence[Dim], allow_negative: bool) -> list[Any]:
    if allow_negative:
        start = from_end(start, shape[axis])
    zero = np.zeros((), aval_of(start).dtype)[()]
    return [start if i == axis else zero for i in range(len(shape))]


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Take one index, which may be traced, along an axis; out-of-bounds indices are clamped.

    With `keepdims` the axis stays, of size 1. Negative indices count from the end if
    `allow_negative_indices`.

    Example:
        >>> x = jnp.arange(6).reshape(2, 3)
        >>> lax.dynamic_index_in_dim(x, 1, axis=1, keepdims=False)
        Array([1, 4], dtype=int32)
    """
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    if keepdims:
        return out
    return squeeze(out, (canonical_axis("dynamic_index_in_dim", axis, len(aval_of(out).shape)),))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Return the operand with the window at start indices, which may be traced, replaced.

    The start of a window that would extend past the operand is clamped.

    Raises: TypeError if the update is larger than the operand, or has another dtype.
    Example:
        >>> lax.dynamic_update_slice(jnp.zeros(4, jnp.int32), jnp.array([7, 8]), (1,))
        Array([0, 7, 8, 0], dtype=int32)
    """
    starts = _starts("dynamic_update_slice", operand, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return the operand with elements replaced, starting at `start_index` along one axis.

    The start, which may be traced, is clamped so that all of `update` is inside. Negative indices
    count from the end if `allow_negative_indices`.
    Raises: ValueError if the axis is out of bounds.
    Example:
        >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, axis=0)
        Array([0., 1., 1., 0.], dtype=float32)
    """
    shape = aval_of(operand).shape
    axis = canonical_axis("dynamic_update_slice_in_dim", axis, len(shape))
    starts = _starts_in_dim(start_index, axis, shape, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Return the operand with one index along an axis replaced; the update may lack the axis.

    Indices that are out of bounds are clamped. Negative indices count from the end if
    `allow_negative_indices`.

    Example:
        >>> lax.dynamic_update_index_in_dim(jnp.zeros((2, 2)), jnp.ones(2), 1, axis=0)
        Array([[0., 0.],
               [1., 1.]], dtype=float32)
    """
    ndim = len(aval_of(operand).shape)
    axis = canonical_axis("dynamic_update_index_in_dim", axis, ndim)
    if len(aval_of(update).shape) != ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
