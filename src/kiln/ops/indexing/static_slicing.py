"""Parts of arrays at positions known while tracing: slice and pad, concatenate and split.

Each is next to its transpose.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import is_linear
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of, is_typed
from kiln.ir.sizes.size import Dim, Size, maximum
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import constant, select
from kiln.ops.linear_op import LinearOp
from kiln.ops.out_sharding import equal, resized
from kiln.ops.out_sums import of_sum, passed
from kiln.ops.shape import (
    broadcast_in_dim,
    canonical_axis,
    filled,
    full,
    mapped_at,
    reduce_sum,
    scalar,
    squeeze,
    to_front,
)

Config = Sequence[tuple[int, int, int]]


class Slice(LinearOp):
    """Take elements start, start + stride, ... before limit along each axis."""

    name = "slice"
    on_keys = "move"

    def infer(self, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> ShapedArray:
        steps = strides or (1,) * x.ndim
        asked = (
            f"slice: operand {x}, start_indices {start_indices}, limit_indices {limit_indices}, "
            f"strides {strides} at {current_source()}"
        )
        if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
            fail(TypeError, asked, f"each axis needs a start, a limit and a stride: {x.ndim} each")
        for start, limit, step, size in zip(
            start_indices, limit_indices, steps, x.shape, strict=True
        ):
            if not step >= 1:
                fail(TypeError, asked, f"slice strides must be positive, got {strides}")
            if not start >= 0:
                fail(
                    TypeError,
                    asked,
                    f"slice start_indices must be greater than or equal to zero, "
                    f"got {start_indices}",
                )
            if not limit <= size:
                fail(
                    TypeError,
                    asked,
                    f"slice limit_indices must be less than or equal to operand shape, got "
                    f"limit_indices {limit_indices} for operand shape {x.shape}.",
                )
            if not start <= limit:
                fail(
                    TypeError,
                    asked,
                    f"slice limit_indices must be greater than or equal to start_indices, got "
                    f"start_indices {start_indices} and limit_indices {limit_indices}.",
                )
        shape = [
            limit - start if step == 1 else (limit - start + step - 1) // step
            for start, limit, step in zip(start_indices, limit_indices, steps, strict=True)
        ]
        return ShapedArray(shape, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return resized("slicing", xs[0], results[0])

    def numpy(self, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
        steps = strides or (1,) * x.ndim
        return x[tuple(map(builtin_slice, start_indices, limit_indices, steps))]

    def transpose(
        self, ct: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
    ) -> Any:
        steps = strides or (1,) * x.ndim
        config = []
        for start, step, taken, size in zip(
            start_indices, steps, aval_of(ct).shape, x.shape, strict=True
        ):
            empty = type(taken) is int and taken == 0
            end = start if empty else start + 1 + (taken - 1) * step
            config.append((start, size - end, step - 1))
        return [pad_p.bind(ct, constant(0, ct), padding_config=tuple(config))]

    def batch(
        self, size: Any, xs: Any, axes: Any, *, start_indices: Any, limit_indices: Any, strides: Any
    ) -> Any:
        out = self.bind(
            to_front(xs[0], axes[0]),
            start_indices=(0, *start_indices),
            limit_indices=(size, *limit_indices),
            strides=None if strides is None else (1, *strides),
        )
        return out, 0


class Pad(Primitive):
    """Put `padding` around and between elements: (low, high, interior) for each axis."""

    name = "pad"
    on_host = True

    def infer(self, x: Any, padding: Any, *, padding_config: Any) -> ShapedArray:
        asked = (
            f"pad: operand {x}, padding_value {padding}, padding_config {padding_config} "
            f"at {current_source()}"
        )
        if x.dtype != padding.dtype:
            fail(
                TypeError,
                asked,
                "pad operand and padding_value must be same dtype: got "
                f"{dtypes.long_name(x.dtype)} and {dtypes.long_name(padding.dtype)}.",
            )
        if padding.shape:
            fail(ValueError, asked, f"padding_value must be a scalar; got shape {padding.shape}")
        if len(padding_config) != x.ndim:
            fail(
                ValueError,
                asked,
                f"length of padding_config must equal the number of axes of operand, got "
                f"padding_config {padding_config} for operand shape {x.shape}",
            )
        if any(interior < 0 for _, _, interior in padding_config):
            fail(
                ValueError,
                asked,
                f"interior padding in padding_config must be nonnegative, got padding_config "
                f"{padding_config}",
            )
        shape = _padded_shape(x.shape, padding_config)
        if not all(size >= 0 for size in shape):
            fail(
                ValueError,
                asked,
                f"Dimension size after padding is not at least 0, got result shape {shape}, for "
                f"padding_config {padding_config} and operand shape {x.shape}",
            )
        return ShapedArray(shape, x.dtype, x.weak_type and padding.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return resized("padding", xs[0], results[0])

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        # The padding value is summed, too.
        return of_sum(self.name, operands)

    def numpy(self, x: Any, padding: Any, *, padding_config: Any) -> Any:
        spread = _padded_shape(
            x.shape, [(max(low, 0), max(high, 0), gap) for low, high, gap in padding_config]
        )
        out = np.full(spread, padding)
        out[
            tuple(
                builtin_slice(
                    max(low, 0), max(low, 0) + max(0, (size - 1) * (gap + 1) + 1), gap + 1
                )
                for size, (low, _, gap) in zip(x.shape, padding_config, strict=True)
            )
        ] = x
        return out[
            tuple(
                builtin_slice(max(-low, 0), max(0, size + min(high, 0)))
                for size, (low, high, _) in zip(spread, padding_config, strict=True)
            )
        ]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, padding_config: Any) -> Any:
        out = self.bind(*primals, padding_config=padding_config)
        t, p = map(filled, tangents)
        return out, self.bind(t, p, padding_config=padding_config)

    def transpose(self, ct: Any, x: Any, padding: Any, *, padding_config: Any) -> Any:
        to_x = to_padding = None
        if is_linear(x):
            cropped = tuple((-low, -high, 0) for low, high, _ in padding_config)
            inner = self.bind(ct, constant(0, ct), padding_config=cropped)
            shape = aval_of(inner).shape
            to_x = slice(inner, (0,) * len(shape), shape, [gap + 1 for _, _, gap in padding_config])
        if is_linear(padding):
            shape = x.aval.shape if is_linear(x) else aval_of(x).shape
            mask = _is_padding(shape, padding_config)
            kept = select(mask, ct, full(aval_of(ct).shape, 0, aval_of(ct).dtype))
            to_padding = reduce_sum(kept, range(len(shape)))
        return [to_x, to_padding]

    def batch(self, size: Any, xs: Any, axes: Any, *, padding_config: Any) -> Any:
        x, padding = xs
        config = ((0, 0, 0), *padding_config)
        if axes[1] is None:
            return self.bind(to_front(x, axes[0]), padding, padding_config=config), 0
        x = mapped_at(x, size, axes[0], 0)
        padded = self.bind(x, constant(0, x), padding_config=config)
        shape = aval_of(padded).shape
        mask = _is_padding(aval_of(x).shape, config)
        return select(mask, broadcast_in_dim(padding, shape, (0,)), padded), 0


builtin_slice = slice


def _padded_shape(shape: Sequence[Dim], config: Config) -> tuple[Dim, ...]:
    return tuple(
        size + low + high + (maximum(size - 1, 0) * gap if gap else 0)
        for size, (low, high, gap) in zip(shape, config, strict=True)
    )


def _is_padding(shape: Sequence[Dim], config: Config) -> Any:
    operand = full(shape, False, np.dtype(np.bool_))
    return pad_p.bind(operand, np.True_, padding_config=tuple(config))


class Concatenate(Primitive):
    """Join arrays along `dimension`."""

    name = "concatenate"
    on_keys = "move"
    on_host = True

    def infer(self, *xs: Any, dimension: int) -> ShapedArray:
        shapes = ", ".join(str(tuple(x.shape)) for x in xs)
        asked = (
            f"concatenate: operands {', '.join(map(str, xs))} along dimension {dimension} "
            f"at {current_source()}"
        )
        first = xs[0]
        if any(x.ndim != first.ndim for x in xs):
            fail(
                TypeError,
                asked,
                f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}.",
            )
        if not 0 <= dimension < first.ndim:
            fail(
                TypeError,
                asked,
                f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}.",
            )
        if any(
            a != b
            for x in xs
            for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True))
            if i != dimension
        ):
            fail(
                TypeError,
                asked,
                "Cannot concatenate arrays with shapes that differ in dimensions other than the "
                f"one being concatenated: concatenating along dimension {dimension} for shapes "
                f"{shapes}.",
            )
        check_same_dtype("concatenate", asked, xs)
        shape = list(first.shape)
        shape[dimension] = sum(x.shape[dimension] for x in xs)
        return ShapedArray(shape, first.dtype, all(x.weak_type for x in xs))

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return equal(self.name, xs)

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return passed(self.name, operands)

    def numpy(self, *xs: Any, dimension: int) -> Any:
        return np.concatenate(xs, dimension)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> Any:
        moved = self.bind(*map(filled, tangents), dimension=dimension)
        return self.bind(*primals, dimension=dimension), moved

    def transpose(self, ct: Any, *xs: Any, dimension: int) -> Any:
        shape = aval_of(ct).shape
        out = []
        at: Dim = 0
        for x in xs:
            aval = x.aval if is_linear(x) else aval_of(x)
            end = at + aval.shape[dimension]
            starts: list[Dim] = [0] * len(shape)
            limits = list(shape)
            starts[dimension], limits[dimension] = at, end
            out.append(slice(ct, starts, limits) if is_linear(x) else None)
            at = end
        return out

    def batch(self, size: Any, xs: Any, axes: Any, *, dimension: int) -> Any:
        moved = [mapped_at(x, size, axis, 0) for x, axis in zip(xs, axes, strict=True)]
        return self.bind(*moved, dimension=dimension + 1), 0


def check_same_dtype(name: str, asked: str, xs: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless the operands have one dtype."""
    if any(x.dtype != xs[0].dtype for x in xs):
        raise TypeError(
            three_lines(
                asked,
                f"lax.{name} requires arguments to have the same dtypes, got "
                f"{', '.join(dtypes.long_name(x.dtype) for x in xs)}",
                f"convert them to one dtype, or use kiln.numpy.{name}"
                if name == "concatenate"
                else "convert the update: update.astype(operand.dtype)",
            )
        )


def fail(kind: type[Exception], asked: str, wrong: str) -> NoReturn:
    """Raise an error for incompatible operands."""
    raise kind(three_lines(asked, wrong, "mend the shapes, or the numbers given beside them"))


slice_p = Slice()
pad_p = Pad()
concatenate_p = Concatenate()


def dims(values: Sequence[Any]) -> tuple[Any, ...]:
    """Convert dimensions to Python ints; named sizes are kept."""
    return tuple(operator.index(v) if not hasattr(v, "terms") else v for v in values)


def slice(
    operand: ArrayLike,
    start_indices: Sequence[Any],
    limit_indices: Sequence[Any],
    strides: Sequence[int] | None = None,
) -> Array:
    """Take elements start, start + stride, ... before limit along each axis.

    Raises: TypeError for limits outside the operand.
    Example:
        >>> lax.slice(jnp.arange(8), (1,), (7,), (2,))
        Array([1, 3, 5], dtype=int32)
    """
    starts, limits = dims(start_indices), dims(limit_indices)
    steps = None if strides is None else dims(strides)
    if steps is not None and all(step == 1 for step in steps):
        steps = None
    shape = aval_of(operand).shape
    if steps is None and limits == shape and _from_the_first(starts) and is_typed(operand):
        return operand  # type: ignore[return-value]
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def _from_the_first(starts: Sequence[Dim]) -> bool:
    return all(type(start) is int and start == 0 for start in starts)


def slice_in_dim(
    operand: ArrayLike,
    start_index: Any,
    limit_index: Any,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Slice along one axis; negative and missing bounds are as in Python.

    Raises: TypeError for limits outside the operand.
    Example:
        >>> lax.slice_in_dim(jnp.arange(6), 1, -1)
        Array([1, 2, 3, 4], dtype=int32)
    """
    shape = aval_of(operand).shape
    axis = canonical_axis("slice_in_dim", axis, len(shape))
    size = shape[axis]
    start = 0 if start_index is None else _counted(start_index, size)
    limit = size if limit_index is None else _counted(limit_index, size)
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, limit, stride
    return slice(operand, starts, limits, steps)


def _counted(index: Any, size: Dim) -> Any:
    return index + size if index < 0 else index


def index_in_dim(operand: ArrayLike, index: Dim, axis: int = 0, keepdims: bool = True) -> Array:
    """Take one index along an axis.

    Raises: IndexError if out of bounds.
    Example:
        >>> lax.index_in_dim(jnp.arange(6).reshape(2, 3), -1, axis=1, keepdims=False)
        Array([2, 5], dtype=int32)
    """
    index = index if type(index) is Size else operator.index(index)
    shape = aval_of(operand).shape
    axis = canonical_axis("index_in_dim", axis, len(shape))
    size = shape[axis]
    found = _counted(index, size)
    if not 0 <= found < size:
        raise IndexError(
            three_lines(
                f"index_in_dim: operand {aval_of(operand)}, index {index} at {current_source()}",
                f"index {index} is out of bounds for axis {axis} with size {size}",
                f"use an index from {-size} to {size - 1}",
            )
        )
    out = slice_in_dim(operand, found, found + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[Sequence[int]]
) -> Array:
    """Pad with a scalar: (low, high, interior) for each axis; negative low or high crop.

    Raises: TypeError for unequal dtypes; ValueError for an invalid configuration.
    Example:
        >>> lax.pad(jnp.array([1, 2]), 0, [(1, 2, 1)])
        Array([0, 1, 0, 2, 0, 0], dtype=int32)
    """
    if dtypes.is_python_scalar(padding_value):
        aval = aval_of(operand)
        found, _ = dtypes.lattice_result_type(padding_value, aval.dtype)
        if found == aval.dtype:
            padding_value = scalar(padding_value, ShapedArray((), aval.dtype, aval.weak_type))
    config = tuple(dims(entry) for entry in padding_config)
    return pad_p.bind(operand, padding_value, padding_config=config)


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays of one dtype along a dimension.

    Raises: TypeError for incompatible shapes; ValueError for no arrays.
    Example:
        >>> lax.concatenate([jnp.array([1, 2]), jnp.array([3])], 0)
        Array([1, 2, 3], dtype=int32)
    """
    xs = list(operands)
    if not xs:
        raise ValueError(
            three_lines(
                f"concatenate along dimension {dimension} at {current_source()}",
                "concatenate requires a non-empty sequences of arrays",
                "pass at least one array",
            )
        )
    if len(xs) == 1 and is_typed(xs[0]) and aval_of(xs[0]).shape:
        return xs[0]  # type: ignore[return-value]
    return concatenate_p.bind(*xs, dimension=operator.index(dimension))
