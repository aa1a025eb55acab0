"""Sorting along an axis: sort, which can permute further operands in the same way, and top_k.

The order is total: -0 equals 0 (for top_k it is less), nan comes last, complex numbers are ordered
by real part, then imaginary part. On the host, keys are mapped to integers of the same order; keys
of at most 32 bits are sorted together with their positions in one 64-bit word, several times faster
than sorting positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.families import ANY
from kiln.ops.indexing.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from kiln.ops.indexing.indexing import gather
from kiln.ops.out_sharding import joined, whole_along
from kiln.ops.reductions.reduction import check_dtype, widened
from kiln.ops.shape import canonical_axis, expand_dims, mapped_at

_WHOLE = "The input should be unsharded over the axis along which to compute the top_k values"


class Sort(Primitive):
    """Sort by the first `num_keys` operands along `dimension`; all get the same permutation."""

    name = "sort"
    multiple = True
    on_host = True

    def infer(self, *xs: Any, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
        if any(x.shape != xs[0].shape for x in xs):
            raise TypeError(
                three_lines(
                    f"sort: operands {', '.join(map(str, xs))} at {current_source()}",
                    "Arguments to sort must have equal shapes, got: "
                    f"{', '.join(str(tuple(x.shape)) for x in xs)}",
                    "broadcast the operands to one shape",
                )
            )
        for x in xs[:num_keys]:
            check_dtype(self.name, x, ANY)
        return [ShapedArray(x.shape, x.dtype, x.weak_type) for x in xs]

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        for x in xs:
            wrong = "Arguments to sort must be unsharded over the sorting dimension"
            whole_along(self.name, x, [params["dimension"]], wrong)
        return [joined(self.name, xs)] * len(results)

    def numpy(self, *xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
        if len(xs) == 1 and xs[0].dtype.kind in "biuf":
            (x,) = xs
            signed_zeros = x.dtype.kind == "f" and bool(np.any(np.signbit(x) & (x == 0)))
            return [np.sort(x, dimension, kind="stable" if signed_zeros else None)]
        keys = [key for x in xs[:num_keys] for key in order_keys(x)]
        order = _positions(keys, dimension)
        return [np.take_along_axis(x, order, dimension) for x in xs]

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        dimension: int,
        is_stable: bool,
        num_keys: int,
    ) -> Any:
        count = broadcasted_iota(np.int32, aval_of(primals[0]).shape, dimension)
        *outs, order = self.bind(
            *primals, count, dimension=dimension, is_stable=is_stable, num_keys=num_keys
        )
        if 0 in aval_of(order).shape:
            # An empty array has no elements to read, and none moves.
            return outs, [*tangents]
        moved = [
            t if type(t) is Zero else take_along(t, order, dimension, unique_indices=True)
            for t in tangents
        ]
        return outs, moved

    def batch(
        self, size: Any, xs: Any, axes: Any, *, dimension: int, is_stable: bool, num_keys: int
    ) -> Any:
        at = next(a for a in axes if a is not None)
        moved = [mapped_at(x, size, a, at) for x, a in zip(xs, axes, strict=True)]
        inner = dimension + (dimension >= at)
        outs = self.bind(*moved, dimension=inner, is_stable=is_stable, num_keys=num_keys)
        return outs, [at] * len(outs)


class TopK(Primitive):
    """Return the k largest elements along `axis` in descending order, and their indices."""

    name = "top_k"
    multiple = True
    on_host = True

    def infer(self, x: Any, *, k: int, axis: int) -> list[ShapedArray]:
        check_dtype(self.name, x, ANY)
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise ValueError(
                three_lines(
                    f"top_k: operand {x} at {current_source()}",
                    "top_k is not compatible with complex inputs",
                    "order the numbers by a real one, such as their absolute value",
                )
            )
        if k < 0 or k > x.shape[axis]:
            raise ValueError(
                three_lines(
                    f"top_k: operand {x}, k={k}, axis={axis} at {current_source()}",
                    "k argument to top_k must be nonnegative and no larger than the axis, got "
                    f"k={k} with shape={tuple(x.shape)}",
                    f"use k from 0 to {x.shape[axis]}",
                )
            )
        if type(x.shape[axis]) is int and x.shape[axis] > np.iinfo(np.int32).max:
            raise ValueError(
                three_lines(
                    f"top_k: operand {x}, k={k}, axis={axis} at {current_source()}",
                    "top_k returns int32 indices, which will overflow for array dimensions larger "
                    f"than the maximum int32; got {x.shape[axis]}",
                    "split the axis, and take the largest of the largest",
                )
            )
        shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
        return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, np.dtype(np.int32))]

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [whole_along(self.name, xs[0], [params["axis"]], _WHOLE)] * 2

    def numpy(self, x: Any, *, k: int, axis: int) -> Any:
        (key,) = order_keys(x, signed_zeros=True)
        order = _positions([~key], axis)
        chosen = np.take(order, np.arange(k), axis)
        return [np.take_along_axis(x, chosen, axis), chosen.astype(np.int32)]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, k: int, axis: int) -> Any:
        values, chosen = self.bind(*primals, k=k, axis=axis)
        moved = take_along(tangents[0], chosen, axis, unique_indices=True)
        return [values, chosen], [moved, Zero(aval_of(chosen).tangent())]

    def batch(self, size: Any, xs: Any, axes: Any, *, k: int, axis: int) -> Any:
        (at,) = axes
        return self.bind(xs[0], k=k, axis=axis + (axis >= at)), [at, at]


def order_keys(x: np.ndarray, signed_zeros: bool = False) -> list[np.ndarray]:
    """Return unsigned integers in the order of the elements; two arrays for complex numbers."""
    if x.dtype.kind == "c":
        return [*order_keys(x.real), *order_keys(x.imag)]
    x = widened(x)
    if x.dtype.kind == "f":
        plain = x if signed_zeros else np.where(x == 0, x.dtype.type(0), x)
        if not signed_zeros:
            plain = np.where(np.isnan(x), x.dtype.type(np.nan), plain)
        bits = plain.view(f"i{x.dtype.itemsize}")
        # Negative floats decrease as their bits increase.
        x = bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)
    elif x.dtype.kind not in "iu":
        x = x.astype(np.int32)
    if x.dtype.kind == "u":
        return [x]
    bits = x.view(f"u{x.dtype.itemsize}")
    return [bits ^ bits.dtype.type(1 << (8 * bits.itemsize - 1))]


def _positions(keys: Sequence[np.ndarray], axis: int) -> Any:
    """Return the stable order of the first key, ties by the next."""
    size = keys[0].shape[axis]
    if len(keys) > 1 or keys[0].dtype.itemsize > 4 or size >= 1 << 32:
        return np.lexsort(keys[::-1], axis)
    view = [1] * keys[0].ndim
    view[axis] = size
    packed = keys[0].astype(np.uint64) << np.uint64(32)
    packed |= np.arange(size, dtype=np.uint64).reshape(view)
    packed.sort(axis)
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)


def take_along(x: Any, indices: Any, axis: int, *, unique_indices: bool = False) -> Any:
    """Read elements at `indices` along an axis, all of which must be in bounds."""
    ndim = aval_of(x).ndim
    others = tuple(a for a in range(ndim) if a != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(
        x,
        expand_dims(indices, (ndim,)),
        numbers,
        (1,) * ndim,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        unique_indices=unique_indices,
    )


sort_p = Sort()
top_k_p = TopK()


@overload
def sort(
    operand: Array, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...


@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> tuple[Array, ...]: ...


@overload
def sort(
    operand: ArrayLike, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along a dimension; a sequence of arrays is sorted by the first `num_keys`.

    Raises: TypeError for unequal shapes; ValueError for a dimension or number of keys out of range.
    Example:
        >>> lax.sort((jnp.array([3, 1, 2]), jnp.array([30, 10, 20])), num_keys=1)
        (Array([1, 2, 3], dtype=int32), Array([10, 20, 30], dtype=int32))
    """
    several = isinstance(operand, (tuple, list))
    xs = tuple(operand) if several else (operand,)
    if not xs:
        raise TypeError(
            three_lines(
                f"sort: no operands at {current_source()}",
                "Sort requires at least one operand",
                "give an array, or a sequence of arrays",
            )
        )
    if not 1 <= num_keys <= len(xs):
        raise ValueError(
            three_lines(
                f"sort: {len(xs)} operands, num_keys={num_keys} at {current_source()}",
                f"num_keys={num_keys} must be between 1 and the number of operands, {len(xs)}",
                "leave num_keys out to sort by the first operand",
            )
        )
    axis = canonical_axis("sort", dimension, aval_of(xs[0]).ndim)
    outs = sort_p.bind(*xs, dimension=axis, is_stable=bool(is_stable), num_keys=num_keys)
    return tuple(outs) if several else outs[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys along a dimension and put values in the same order.

    Equal keys keep their order if `is_stable`.

    Example:
        >>> lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([30, 10, 20]))[1]
        Array([10, 20, 30], dtype=int32)
    """
    return sort((keys, values), dimension, is_stable)  # type: ignore[return-value]


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """Return the k largest elements along an axis in descending order, and their int32 indices.

    Raises: ValueError if k is larger than the axis.
    Example:
        >>> values, indices = lax.top_k(jnp.array([3, 9, 4, 7]), 2)
        >>> values.tolist(), indices.tolist()
        ([9, 7], [1, 3])
    """
    axis = canonical_axis("top_k", axis, aval_of(operand).ndim)
    values, indices = top_k_p.bind(operand, k=int(k), axis=axis)
    return values, indices
