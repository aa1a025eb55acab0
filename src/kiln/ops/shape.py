"""Shape operations, each next to its transpose: broadcast and sum, reshape, transpose, rev, iota.

Also the two steps of every batching rule: moving a mapped axis to the front, and giving one to an
unmapped operand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import RejectsSharding
from kiln.core.trace import aval_of, is_typed
from kiln.ir.sizes.size import Dim, Size, product
from kiln.ir.types import ShapedArray
from kiln.ops.axes import as_size, canonical_axis, check_axes, check_sizes
from kiln.ops.linear_op import LinearOp
from kiln.ops.out_sharding import kept, reshaped, sharded
from kiln.ops.out_sums import check_reduction, names_of
from kiln.ops.sharding import auto, retyped
from kiln.ops.size_value import size_like


def _why_not_placed(operand: Sequence[Dim], shape: Sequence[Dim], places: Sequence[int]) -> str:
    """Return why axes of an operand cannot go to these places of a shape."""
    if len(places) != len(operand):
        return "broadcast_dimensions must have length equal to operand ndim"
    if len(shape) < len(operand):
        return "target broadcast shape must have equal or higher rank to the operand shape"
    if not set(places) <= set(range(len(shape))):
        return (
            "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
            f"{tuple(places)} for {len(shape)} dimensions"
        )
    if len(set(places)) != len(places):
        return f"broadcast_in_dim broadcast_dimensions must not contain duplicates; got {places}"
    if list(places) != sorted(places):
        return f"broadcast_in_dim broadcast_dimensions must be sorted; got {tuple(places)}"
    return (
        "operand dimension sizes must either be 1, or be equal to their corresponding dimensions "
        "in the target broadcast shape"
    )


class BroadcastInDim(RejectsSharding, LinearOp):
    """Place the operand's axes at `broadcast_dimensions` of `shape`, expanding those of size 1."""

    name = "broadcast_in_dim"
    on_keys = "move"

    def infer(self, x: Any, *, shape: Any, broadcast_dimensions: Any) -> ShapedArray:
        check_sizes("broadcast_in_dim", shape)
        places = [-1, *broadcast_dimensions, len(shape)]
        fits = (
            len(broadcast_dimensions) == x.ndim
            and all(a < b for a, b in itertools.pairwise(places))
            and all(
                x.shape[i] == shape[d] or x.shape[i] == 1
                for i, d in enumerate(broadcast_dimensions)
            )
        )
        if not fits:
            raise TypeError(
                three_lines(
                    f"broadcast_in_dim: operand {x}, shape {shape}, "
                    f"broadcast_dimensions {broadcast_dimensions} at {current_source()}",
                    _why_not_placed(x.shape, shape, broadcast_dimensions),
                    "reshape the operand first, or name other broadcast_dimensions",
                )
            )
        return ShapedArray(shape, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        split: list[Any] = [None] * results[0].ndim
        for axis, entry in zip(params["broadcast_dimensions"], xs[0].split, strict=True):
            split[axis] = entry
        return split

    def numpy(self, x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        full = [1] * len(shape)
        for i, d in enumerate(broadcast_dimensions):
            full[d] = x.shape[i]
        return np.broadcast_to(x.reshape(full), shape)

    def transpose(self, ct: Any, x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        stretched = [
            d for i, d in enumerate(broadcast_dimensions) if x.shape[i] == 1 and shape[d] != 1
        ]
        new = [d for d in range(len(shape)) if d not in broadcast_dimensions]
        out = reduce_sum(ct, (*new, *stretched))
        if stretched:
            out = reshape(out, x.shape)
        return [out]

    def batch(self, size: Any, xs: Any, axes: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
        dims = (0, *(d + 1 for d in broadcast_dimensions))
        x = to_front(xs[0], axes[0])
        return broadcast_in_dim(x, (size, *shape), dims), 0


class ReduceSum(LinearOp):
    """Sum over `axes`."""

    name = "reduce_sum"

    def infer(self, x: Any, *, axes: Any) -> ShapedArray:
        if not dtypes.issubdtype(x.dtype, np.number):
            raise TypeError(
                three_lines(
                    f"reduce_sum: operand {x} at {current_source()}",
                    f"reduce_sum does not accept dtype {x.dtype}",
                    "convert to a number first: x.astype('int32')",
                )
            )
        check_axes("reduce_sum", x, axes)
        return ShapedArray(without(x.shape, axes), x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return kept(xs[0], params["axes"])

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Any:
        return names_of(splits[0], params["axes"])

    def numpy(self, x: Any, *, axes: Any) -> Any:
        if x.dtype.kind in "iub":
            return np.sum(x, axis=axes, dtype=x.dtype)
        # Sums of 16-bit floats accumulate in 32 bits, as the compiled ones do.
        wide = np.float32 if x.dtype.itemsize < 4 else x.dtype
        return np.sum(x.astype(wide, copy=False), axis=axes, dtype=wide).astype(x.dtype)

    def transpose(self, ct: Any, x: Any, *, axes: Any) -> Any:
        return [broadcast_in_dim(ct, x.shape, kept_axes(x.ndim, axes))]

    def batch(self, size: Any, xs: Any, at: Any, *, axes: Any) -> Any:
        x = to_front(xs[0], at[0])
        return reduce_sum(x, tuple(a + 1 for a in axes)), 0


class Reshape(LinearOp):
    """Keep the elements in row-major order, change the shape."""

    name = "reshape"
    on_keys = "move"

    def infer(self, x: Any, *, new_sizes: Any, dimensions: Any = None) -> ShapedArray:
        if product(x.shape) != product(new_sizes):
            raise TypeError(
                three_lines(
                    f"reshape: operand {x} to shape {tuple(new_sizes)} at {current_source()}",
                    f"reshape total size must be unchanged, got new_sizes {tuple(new_sizes)} "
                    f"for shape {tuple(x.shape)}",
                    f"use a shape with {product(x.shape)} elements",
                )
            )
        return ShapedArray(new_sizes, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return reshaped(xs[0], params["new_sizes"])

    def numpy(self, x: Any, *, new_sizes: Any, dimensions: Any = None) -> Any:
        return x.reshape(new_sizes)

    def transpose(self, ct: Any, x: Any, **_: Any) -> Any:
        return [reshape(ct, x.shape)]

    def batch(
        self, size: Any, xs: Any, axes: Any, *, new_sizes: Any, dimensions: Any = None
    ) -> Any:
        return reshape(to_front(xs[0], axes[0]), (size, *new_sizes)), 0


class Transpose(LinearOp):
    """Axis i of the result is axis permutation[i] of the operand."""

    name = "transpose"
    on_keys = "move"

    def infer(self, x: Any, *, permutation: Any) -> ShapedArray:
        if sorted(permutation) != list(range(x.ndim)):
            raise TypeError(
                three_lines(
                    f"transpose: operand {x}, permutation {permutation} at {current_source()}",
                    "transpose permutation isn't a permutation of the operand's axes",
                    f"name each of the axes 0 to {x.ndim - 1} once",
                )
            )
        return ShapedArray([x.shape[i] for i in permutation], x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [xs[0].split[i] for i in params["permutation"]]

    def numpy(self, x: Any, *, permutation: Any) -> Any:
        return np.transpose(x, permutation)

    def transpose(self, ct: Any, x: Any, *, permutation: Any) -> Any:
        return [transpose(ct, inverse_permutation(permutation))]

    def batch(self, size: Any, xs: Any, axes: Any, *, permutation: Any) -> Any:
        (x,), (at,) = xs, axes
        inner = [i for i in range(len(aval_of(x).shape)) if i != at]
        return transpose(x, (at, *(inner[p] for p in permutation))), 0


class Reverse(LinearOp):
    """Flip `dimensions`."""

    name = "rev"
    on_keys = "move"

    def infer(self, x: Any, *, dimensions: Any) -> ShapedArray:
        check_axes("rev", x, dimensions)
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return xs[0].split

    def numpy(self, x: Any, *, dimensions: Any) -> Any:
        return np.flip(x, dimensions)

    def transpose(self, ct: Any, x: Any, *, dimensions: Any) -> Any:
        return [rev(ct, dimensions)]

    def batch(self, size: Any, xs: Any, axes: Any, *, dimensions: Any) -> Any:
        return rev(to_front(xs[0], axes[0]), tuple(d + 1 for d in dimensions)), 0


class Squeeze(LinearOp):
    """Drop axes of size 1."""

    name = "squeeze"
    on_keys = "move"

    def infer(self, x: Any, *, dimensions: Any) -> ShapedArray:
        check_axes("squeeze", x, dimensions)
        if any(x.shape[d] != 1 for d in dimensions):
            raise ValueError(
                three_lines(
                    f"squeeze: operand {x}, dimensions {tuple(dimensions)} at {current_source()}",
                    "cannot select an axis to squeeze out which has size not equal to one",
                    "name axes of size 1 only",
                )
            )
        return ShapedArray(without(x.shape, dimensions), x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return kept(xs[0], params["dimensions"])

    def numpy(self, x: Any, *, dimensions: Any) -> Any:
        return np.squeeze(x, tuple(dimensions))

    def transpose(self, ct: Any, x: Any, *, dimensions: Any) -> Any:
        return [reshape(ct, x.shape)]

    def batch(self, size: Any, xs: Any, axes: Any, *, dimensions: Any) -> Any:
        return squeeze(to_front(xs[0], axes[0]), tuple(d + 1 for d in dimensions)), 0


broadcast_in_dim_p = BroadcastInDim()
reduce_sum_p = ReduceSum()
reshape_p = Reshape()
transpose_p = Transpose()
rev_p = Reverse()
squeeze_p = Squeeze()


def broadcast_in_dim(
    x: ArrayLike,
    shape: Sequence[Dim],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Array:
    """Place the axes of `x` at `broadcast_dimensions` of `shape`, expanding those of size 1.

    Example:
        >>> lax.broadcast_in_dim(jnp.array([1, 2]), (2, 3), (0,))
        Array([[1, 1, 1],
               [2, 2, 2]], dtype=int32)
    """
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if out_sharding is not None:
        x = auto(x)
    aval = aval_of(x)
    if aval.shape == shape and dims == tuple(range(len(shape))) and is_typed(x):
        return x if out_sharding is None else sharded(x, out_sharding, "broadcast_in_dim")  # type: ignore[return-value]
    if len(dims) == aval.ndim and any(a > b for a, b in itertools.pairwise(dims)):
        order = sorted(range(len(dims)), key=dims.__getitem__)
        x, dims = transpose(x, order), tuple(dims[i] for i in order)
    found = broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)
    return found if out_sharding is None else sharded(found, out_sharding, "broadcast_in_dim")


def broadcast(x: ArrayLike, sizes: Sequence[Dim], *, out_sharding: Any = None) -> Array:
    """Add leading axes of the given sizes; `out_sharding` is a NamedSharding or PartitionSpec.

    Example:
        >>> lax.broadcast(jnp.array([1, 2]), (3,)).shape
        (3, 2)
    """
    shape = aval_of(x).shape
    n = len(sizes)
    dims = range(n, n + len(shape))
    return broadcast_in_dim(x, (*sizes, *shape), dims, out_sharding=out_sharding)


def broadcast_scalar(x: Any, shape: Sequence[Dim]) -> Any:
    """Fill an array of `shape` with a scalar."""
    return broadcast_in_dim(x, shape, ())


def reduce_sum(x: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Sum over axes; the result's dtype is the operand's."""
    axes = tuple(sorted(axes))
    if out_sharding is not None:
        check_reduction(aval_of(x), axes, out_sharding)
        x = auto(x)
    found = reduce_sum_p.bind(x, axes=axes) if axes else x
    return found if out_sharding is None else sharded(found, out_sharding, "reduce_sum")  # type: ignore[return-value]


def reshape(
    x: ArrayLike,
    new_sizes: Sequence[Dim],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Reshape in row-major order, after transposing by `dimensions` if given.

    `out_sharding` is a NamedSharding or a PartitionSpec.
    Raises: TypeError or ValueError unless `new_sizes` have as many elements as the operand.
    Example:
        >>> lax.reshape(jnp.arange(4).reshape(2, 2), (4,), dimensions=(1, 0))
        Array([0, 2, 1, 3], dtype=int32)
    """
    if out_sharding is not None:
        x = auto(x)
    if dimensions is not None:
        x = transpose(x, dimensions)
    new_sizes = tuple([n if type(n) in (int, Size) else as_size(n, new_sizes) for n in new_sizes])
    if aval_of(x).shape == new_sizes and is_typed(x):
        return x if out_sharding is None else sharded(x, out_sharding, "reshape")  # type: ignore[return-value]
    found = reshape_p.bind(x, new_sizes=new_sizes, dimensions=None)
    return found if out_sharding is None else sharded(found, out_sharding, "reshape")


def transpose(x: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute axes: axis i of the result is axis permutation[i] of `x`.

    Example:
        >>> lax.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    perm = tuple(int(i) for i in permutation)
    if perm == tuple(range(aval_of(x).ndim)) and is_typed(x):
        return x  # type: ignore[return-value]
    return transpose_p.bind(x, permutation=perm)


def rev(x: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along `dimensions`.

    Example:
        >>> lax.rev(jnp.array([1, 2, 3]), (0,))
        Array([3, 2, 1], dtype=int32)
    """
    return rev_p.bind(x, dimensions=tuple(dimensions)) if len(dimensions) else x  # type: ignore[return-value]


def squeeze(x: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop axes of size 1.

    `dimensions` may be negative.
    Raises: ValueError if one is out of bounds, or not of size 1.
    Example:
        >>> lax.squeeze(jnp.ones((1, 3, 1)), (0, -1)).shape
        (3,)
    """
    ndim = len(aval_of(x).shape)
    dims = tuple(sorted(canonical_axis("squeeze", d, ndim) for d in dimensions))
    if not dims and is_typed(x):
        return x  # type: ignore[return-value]
    return squeeze_p.bind(x, dimensions=dims)


def expand_dims(x: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1 at `dimensions` of the result.

    Example:
        >>> lax.expand_dims(jnp.ones((2, 3)), (0, 3)).shape
        (1, 2, 3, 1)
    """
    shape = list(aval_of(x).shape)
    ndim = len(shape) + len(dimensions)
    dims = sorted(canonical_axis("expand_dims", d, ndim) for d in dimensions)
    for d in dims:
        shape.insert(d, 1)
    kept = [d for d in range(ndim) if d not in dims]
    return broadcast_in_dim(x, shape, kept)


def full(shape: Sequence[Dim], value: Any, dtype: Any) -> Any:
    """Return an array of `shape` filled with a Python or NumPy scalar."""
    return full_of(ShapedArray(tuple(shape), dtype), value)


def full_of(aval: ShapedArray, value: Any) -> Any:
    """Return an array of a type, weak if the type is, filled with a number."""
    filling = scalar(value, aval)
    if not aval.shape:
        return filling
    made = broadcast_scalar(filling, aval.shape)
    return made if aval.__class__ is ShapedArray else retyped(made, aval)


def zeros_of(aval: ShapedArray) -> Any:
    """Return zeros of a type."""
    return full_of(aval, 0)


def filled(t: Any) -> Any:
    """Materialize a tangent `t`: zeros for Zero."""
    return zeros_of(t.aval) if type(t) is Zero else t


def scalar(value: Any, like: ShapedArray) -> Any:
    """Return a Python number, or a size, as a constant of a type's dtype and weakness."""
    if type(value) is Size:
        return size_like(value, like)
    if like.weak_type:
        weak = dtypes.python_scalar(value, like.dtype)
        if dtypes.scalar_dtype(weak)[0] == like.dtype:
            return weak
    return np.asarray(value, like.dtype)[()]


def to_front(x: Any, axis: int) -> Any:
    """Move an axis to the front."""
    return move_axis(x, axis, 0)


def move_axis(x: Any, source: int, target: int) -> Any:
    """Move an axis from `source` to `target`, neither negative."""
    if source == target:
        return x
    perm = [i for i in range(len(aval_of(x).shape)) if i != source]
    perm.insert(target, source)
    return transpose(x, perm)


def mapped_at(x: Any, size: Dim, axis: int | None, target: int) -> Any:
    """Move an operand's mapped axis to `target`; broadcast it along a new axis if unmapped."""
    if axis is not None:
        return move_axis(x, axis, target)
    shape = list(aval_of(x).shape)
    kept = [d for d in range(len(shape) + 1) if d != target]
    shape.insert(target, size)
    return broadcast_in_dim(x, shape, kept)


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def without(shape: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    """Return the shape without some axes."""
    return tuple(s for i, s in enumerate(shape) if i not in axes)


def kept_axes(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes not among `axes`."""
    return tuple(i for i in range(ndim) if i not in axes)


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape of ints."""
    return math.prod(shape)
