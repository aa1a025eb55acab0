"""gather and scatter: reading and writing windows of an array at computed positions.

Each is next to its transpose. Scatters apply the updates one after another, so where windows
overlap, the last write wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.dtypes.kinds import MOST_KEY_WORDS
from kiln.base.errors import MissingRule, three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import product
from kiln.ir.types import ShapedArray
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, constant, div, eq, mul, neg, select
from kiln.ops.indexing.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Window,
    gather_type,
    scatter_type,
)
from kiln.ops.indexing.window_addresses import read, write
from kiln.ops.out_sharding import gathered, scattered
from kiln.ops.shape import (
    broadcast_in_dim,
    filled,
    full,
    kept_axes,
    mapped_at,
    reshape,
    to_front,
    zeros_of,
)

_ALL_ONES = np.array([2**64 - 1] * 2, np.uint64).view(np.complex128)[0]
"""The fill value for keys of four words, all bits set, in its memory representation."""


class Gather(Primitive):
    """Read windows of `slice_sizes` at the positions in `indices`."""

    name = "gather"
    on_keys = "move"
    on_host = True

    def infer(
        self, operand: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, **_: Any
    ) -> ShapedArray:
        return gather_type(operand, indices, dimension_numbers, slice_sizes)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        window = params["dimension_numbers"].window
        return gathered(xs[0], xs[1], window, params["slice_sizes"])

    def numpy(
        self,
        operand: Any,
        indices: Any,
        *,
        dimension_numbers: Any,
        slice_sizes: Any,
        mode: Any,
        fill_value: Any,
        **_: Any,
    ) -> Any:
        def fill() -> Any:
            return default_fill(operand.dtype) if fill_value is None else fill_value

        return read(operand, indices, dimension_numbers.window, slice_sizes, mode, fill)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (operand, indices), (t, _) = primals, tangents
        out = self.bind(operand, indices, **params)
        if type(t) is Zero:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(t, indices, **{**params, "fill_value": _zero_fill(params["mode"])})

    def transpose(
        self,
        ct: Any,
        operand: Any,
        indices: Any,
        *,
        dimension_numbers: Any,
        slice_sizes: Any,
        fill_value: Any,
        **params: Any,
    ) -> Any:
        numbers = dimension_numbers.window.scatter()
        zeros = zeros_of(operand.aval)
        return [scatter_add_p.bind(zeros, indices, ct, dimension_numbers=numbers, **params), None]

    def batch(
        self,
        size: Any,
        operands: Sequence[Any],
        axes: Sequence[Any],
        *,
        dimension_numbers: Any,
        slice_sizes: Any,
        **params: Any,
    ) -> Any:
        (operand, indices), (operand_at, indices_at) = operands, axes
        window: Window = dimension_numbers.window
        if operand_at is None:
            indices = to_front(indices, indices_at)
            window = Window(
                tuple(axis + 1 for axis in window.placed),
                window.dropped,
                window.coordinates,
                window.batching,
                tuple(axis + 1 for axis in window.along),
            )
        else:
            operand = to_front(operand, operand_at)
            both = indices_at is not None
            window = window.batched(both)
            if both:
                indices = to_front(indices, indices_at)
            first = (0 if type(size) is int and size == 0 else 1) if both else size
            slice_sizes = (first, *slice_sizes)
        out = self.bind(
            operand,
            indices,
            dimension_numbers=window.gather(),
            slice_sizes=slice_sizes,
            **params,
        )
        return out, 0


def _zero_fill(mode: GatherScatterMode) -> Any:
    return 0 if mode.fills else None


def default_fill(dtype: Any) -> Any:
    """Return the default fill value: nan, the smallest signed or the largest unsigned integer."""
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtype == np.bool_:
        return True
    info = dtypes.iinfo(dtype)
    return info.min if dtypes.issubdtype(dtype, np.signedinteger) else info.max


class Scatter(Primitive):
    """Write windows of `updates` into a copy of the operand."""

    on_host = True
    combine: np.ufunc | None = None

    def infer(
        self, operand: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **_: Any
    ) -> ShapedArray:
        return scatter_type(self.name, operand, indices, updates, dimension_numbers)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return scattered(self.name, xs[0], xs[1], xs[2], params["dimension_numbers"].window)

    def numpy(
        self,
        operand: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: Any,
        mode: Any,
        **_: Any,
    ) -> Any:
        return write(operand, indices, updates, dimension_numbers.window, mode, self.combine)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        operand, indices, updates = primals
        out = self.bind(operand, indices, updates, **params)
        t, u = filled(tangents[0]), filled(tangents[2])
        return out, self.bind(t, indices, u, **params)

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        shape = updates.aval.shape if is_linear(updates) else aval_of(updates).shape
        zeros = full(shape, 0, aval_of(ct).dtype)
        if params["unique_indices"]:
            kept = scatter_p.bind(ct, indices, zeros, **params) if is_linear(operand) else None
            written = gather_like(ct, indices, shape, params) if is_linear(updates) else None
            return [kept, None, written]
        # Only the last window written to a position has an effect: write its number, then read it.
        numbers, written_numbers = _numbered(aval_of(ct).shape, indices, shape, params)
        to_operand = to_updates = None
        if is_linear(operand):
            untouched = eq(written_numbers, constant(0, written_numbers))
            to_operand = select(untouched, ct, zeros_of(aval_of(ct)))
        if is_linear(updates):
            last = eq(numbers, gather_like(written_numbers, indices, shape, params))
            to_updates = select(last, gather_like(ct, indices, shape, params), zeros)
        return [to_operand, None, to_updates]

    def batch(
        self,
        size: Any,
        operands: Sequence[Any],
        axes: Sequence[Any],
        *,
        dimension_numbers: Any,
        **params: Any,
    ) -> Any:
        operand, indices, updates = operands
        both = axes[1] is not None
        operand = mapped_at(operand, size, axes[0], 0)
        updates = mapped_at(updates, size, axes[2], 0)
        if both:
            indices = to_front(indices, axes[1])
        numbers = dimension_numbers.window.batched(both).scatter()
        return self.bind(operand, indices, updates, dimension_numbers=numbers, **params), 0


def _numbered(shape: Any, indices: Any, update_shape: Any, params: Any) -> tuple[Any, Any]:
    """Return the numbers (from 1) of windows in the updates' shape, and scattered into `shape`."""
    placed = params["dimension_numbers"].window.placed
    windows = aval_of(indices).shape[:-1]
    count = add(iota(np.dtype(np.int32), product(windows)), np.int32(1))
    numbers = broadcast_in_dim(
        reshape(count, windows), update_shape, kept_axes(len(update_shape), placed)
    )
    return numbers, scatter_p.bind(full(shape, 0, np.dtype(np.int32)), indices, numbers, **params)


def gather_like(operand: Any, indices: Any, update_shape: Any, params: dict[str, Any]) -> Any:
    """Read the windows that a scatter with these parameters writes; 0 for those it drops."""
    window = params["dimension_numbers"].window
    return gather_p.bind(
        operand,
        indices,
        dimension_numbers=window.gather(),
        slice_sizes=window.sizes(aval_of(operand).shape, update_shape),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=params["mode"],
        fill_value=_zero_fill(params["mode"]),
    )


class ScatterAdd(Scatter):
    """Add windows to the operand."""

    combine = np.add

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        written = None
        if is_linear(updates):
            written = gather_like(ct, indices, updates.aval.shape, params)
        return [ct if is_linear(operand) else None, None, written]


class ScatterMul(Scatter):
    """Multiply the operand by windows."""

    combine = np.multiply

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        operand, indices, updates = primals
        t, _, u = tangents
        out = self.bind(operand, indices, updates, **params)
        total = None
        if type(t) is not Zero:
            total = self.bind(t, indices, updates, **params)
        if type(u) is not Zero:
            self._check_unique("jvp", params)
            here = gather_like(operand, indices, aval_of(updates).shape, params)
            moved = scatter_add_p.bind(zeros_of(aval_of(operand)), indices, mul(u, here), **params)
            total = moved if total is None else add(total, moved)
        return out, Zero(aval_of(out).tangent()) if total is None else total

    def transpose(self, ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
        if is_linear(operand):
            return [self.bind(ct, indices, updates, **params), None, None]
        self._check_unique("transpose", params)
        written = gather_like(mul(ct, operand), indices, updates.aval.shape, params)
        return [None, None, written]

    def _check_unique(self, rule: str, params: dict[str, Any]) -> None:
        if not params["unique_indices"]:
            raise MissingRule(
                three_lines(
                    f"{rule} of {self.name!r} by its updates at {current_source()}",
                    "scatter_mul gradients are only implemented if `unique_indices=True`",
                    "pass unique_indices=True if no window is written twice",
                )
            )


class ScatterExtremum(Scatter):
    """Keep the larger, or the smaller, of the operand and windows."""

    def __init__(self, name: str, combine: np.ufunc) -> None:
        super().__init__(name)
        self.combine = combine

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        operand, indices, updates = primals
        out = self.bind(operand, indices, updates, **params)
        shape = aval_of(updates).shape
        # All elements equal to the result have an equal share in it.
        dtype = aval_of(out).dtype
        mine = convert_element_type(eq(operand, out), dtype)
        theirs = convert_element_type(eq(updates, gather_like(out, indices, shape, params)), dtype)
        count = scatter_add_p.bind(mine, indices, theirs, **params)
        t = mul(filled(tangents[0]), mine)
        u = mul(filled(tangents[2]), theirs)
        return out, div(scatter_add_p.bind(t, indices, u, **params), count)

    def transpose(self, ct: Any, *operands: Any, **params: Any) -> Any:
        raise self._missing("transpose", "it is not linear")


gather_p = Gather()
scatter_p = Scatter("scatter")
scatter_add_p = ScatterAdd("scatter-add")
scatter_mul_p = ScatterMul("scatter-mul")
scatter_min_p = ScatterExtremum("scatter-min", np.minimum)
scatter_max_p = ScatterExtremum("scatter-max", np.maximum)


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[Any],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Read windows of `slice_sizes` at `start_indices`.

    `x[index]` and `jnp.take` are the usual ways to write it.

    Windows that extend past the operand are clamped, unless `mode` says otherwise.

    Raises: TypeError for invalid dimension numbers; ValueError for an unknown mode.
    Example:
        >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        >>> lax.gather(jnp.array([10, 11, 12]), jnp.array([[2], [9]]), numbers, slice_sizes=(1,))
        Array([12, 12], dtype=int32)
    """
    how = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    fill = None
    if how.fills and fill_value is not None:
        fill = fill_value.item() if hasattr(fill_value, "item") else fill_value
        if fill != fill:
            # One object for all nans, so that equal programs are found equal.
            fill = None if dtypes.issubdtype(aval_of(operand).dtype, np.inexact) else math.nan
        elif type(fill) is float and fill == 0 and math.copysign(1, fill) < 0:
            # Parameters are compared by ==, which does not tell -0.0 from 0.0.
            return neg(
                gather(
                    neg(operand),
                    start_indices,
                    dimension_numbers,
                    slice_sizes,
                    unique_indices=unique_indices,
                    indices_are_sorted=indices_are_sorted,
                    mode=how,
                    fill_value=0.0,
                )
            )
    elif how.fills and getattr(aval_of(operand).dtype, "words", 0) == MOST_KEY_WORDS:
        fill = _ALL_ONES
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=tuple(slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=how,
        fill_value=fill,
    )


def _scatter_function(
    primitive: Scatter, name: str, does: str, *example: str
) -> Callable[..., Array]:
    def fun(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        return primitive.bind(
            operand,
            scatter_indices,
            updates,
            dimension_numbers=dimension_numbers,
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
        )

    fun.__name__ = fun.__qualname__ = name
    raises = "Raises: TypeError for invalid dimension numbers; ValueError for an unknown mode."
    fun.__doc__ = shown(f"{does}.\n\n{raises}", example)
    return fun


scatter = _scatter_function(
    scatter_p,
    "scatter",
    "Return the operand with windows replaced",
    ">>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))",
    ">>> lax.scatter(jnp.zeros(4), jnp.array([[1], [9]]), jnp.array([5.0, 7.0]), numbers)",
    "Array([0., 5., 0., 0.], dtype=float32)",
)
scatter_add = _scatter_function(
    scatter_add_p,
    "scatter_add",
    "Return the operand with windows added",
    ">>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))",
    ">>> lax.scatter_add(jnp.zeros(4), jnp.array([[1], [1]]), jnp.array([5.0, 7.0]), numbers)",
    "Array([ 0., 12.,  0.,  0.], dtype=float32)",
)
scatter_mul = _scatter_function(
    scatter_mul_p,
    "scatter_mul",
    "Return the operand multiplied by windows",
    ">>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))",
    ">>> lax.scatter_mul(jnp.ones(4), jnp.array([[1], [1]]), jnp.array([5.0, 7.0]), numbers)",
    "Array([ 1., 35.,  1.,  1.], dtype=float32)",
)
scatter_min = _scatter_function(
    scatter_min_p,
    "scatter_min",
    "Return the elementwise minimum of the operand and windows",
    ">>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))",
    ">>> lax.scatter_min(jnp.zeros(4), jnp.array([[1], [1]]), jnp.array([-5.0, 7.0]), numbers)",
    "Array([ 0., -5.,  0.,  0.], dtype=float32)",
)
scatter_max = _scatter_function(
    scatter_max_p,
    "scatter_max",
    "Return the elementwise maximum of the operand and windows",
    ">>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))",
    ">>> lax.scatter_max(jnp.zeros(4), jnp.array([[1], [1]]), jnp.array([5.0, 7.0]), numbers)",
    "Array([0., 7., 0., 0.], dtype=float32)",
)


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    **options: Any,
) -> Array:
    """Return the operand with windows subtracted; options as for `scatter_add`.

    Shapes: `scatter_indices` and `updates` as `dimension_numbers` say, as for `scatter_add`.
    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_sub(jnp.zeros(4), jnp.array([[1], [1]]), jnp.array([5.0, 7.0]), numbers)
        Array([  0., -12.,   0.,   0.], dtype=float32)
    """
    return scatter_add(operand, scatter_indices, neg(updates), dimension_numbers, **options)
