"""Functional updates: `x.at[index].set(y)` and related methods.

Where the index is known and contiguous, the part is replaced by a dynamic update slice; everything
else is a scatter. Positions out of bounds are ignored unless a mode says otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import loops
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.trace import aval_of, is_typed
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.elements import arithmetic
from kiln.numpy.indexing.index_expressions import (
    GROUP,
    NEW,
    Fixed,
    GatherPlan,
    Kept,
    check_static,
    parse,
)
from kiln.numpy.indexing.slice_bounds import Part, Steps
from kiln.numpy.indexing.subscripts import (
    column,
    coordinates,
    is_inside,
    positions,
    read,
    region,
    start_of,
    taken,
)
from kiln.numpy.promotion import broadcast_to, converted, shape_of
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing import indexing
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    PROMISE_IN_BOUNDS,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from kiln.ops.indexing.slicing import dynamic_update_slice_in_dim, dynamic_update_slice_p
from kiln.ops.indexing.static_slicing import slice as static_slice
from kiln.ops.out_sharding import sharded
from kiln.ops.reductions import reduction
from kiln.ops.shape import expand_dims, full, reshape
from kiln.ops.sharding import auto
from kiln.ops.size_value import as_index

Function = Callable[..., Any]

_SCATTERS: dict[str, tuple[Function, Function | None]] = {
    "set": (indexing.scatter, None),
    "add": (indexing.scatter_add, elementwise.add),
    "subtract": (indexing.scatter_sub, elementwise.sub),
    "multiply": (indexing.scatter_mul, elementwise.mul),
    "min": (indexing.scatter_min, elementwise.min),
    "max": (indexing.scatter_max, elementwise.max),
}
"""How updates are scattered, and how they are combined if each position is written once."""


class AtIndexer:
    """The object behind `x.at`: indexing it selects the part to update."""

    __slots__ = ("array",)

    # Every index is valid, so iterating by index would never end.
    __iter__ = None

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"AtIndexer({self.array!r})"


def at(x: Any) -> AtIndexer:
    """Return the object behind `x.at`."""
    return AtIndexer(x)


class IndexUpdate:
    """The object behind `x.at[index]`: each method returns a copy of x with that part changed.

    Options: `indices_are_sorted` and `unique_indices` are promises by the caller; `mode` says how
    positions out of bounds are handled: 'drop' (the default) or 'clip'; with
    `wrap_negative_indices=False` negative indices are out of bounds.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """Return the part, sharded as `out_sharding` says.

        With mode='fill', positions out of bounds give `fill_value`.
        """
        if out_sharding is not None:
            part = IndexUpdate(auto(self.array), _auto_index(self.index)).get(
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                fill_value=fill_value,
                wrap_negative_indices=wrap_negative_indices,
            )
            return sharded(part, out_sharding, "jnp.ndarray.at[...].get")
        aval = aval_of(self.array)
        plan = parse(aval, self.index, wrap=wrap_negative_indices)
        how = PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
        if how is PROMISE_IN_BOUNDS:
            check_static(aval, plan)
        return read(
            self.array,
            plan,
            mode=how,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap_negative_indices,
        )

    def set(self, values: Any, **options: Any) -> Any:
        """Replace the part; if a position occurs several times, one of its values is kept."""
        return update("set", self.array, self.index, values, **options)

    def add(self, values: Any, **options: Any) -> Any:
        """Add to the part."""
        return update("add", self.array, self.index, values, **options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """Subtract from the part."""
        return update("subtract", self.array, self.index, values, **options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """Multiply the part."""
        return update("multiply", self.array, self.index, values, **options)

    def min(self, values: Any, **options: Any) -> Any:
        """Keep the smaller of the part and the values."""
        return update("min", self.array, self.index, values, **options)

    def max(self, values: Any, **options: Any) -> Any:
        """Keep the larger of the part and the values."""
        return update("max", self.array, self.index, values, **options)

    mul, sub = multiply, subtract

    def divide(self, values: Any, **options: Any) -> Any:
        """Divide the part."""
        ones = self._ones()
        return arithmetic.divide(
            self.array, update("multiply", ones, self.index, values, **options)
        )

    div = divide

    def power(self, values: Any, **options: Any) -> Any:
        """Raise the part to powers."""
        ones = self._ones()
        return arithmetic.power(self.array, update("multiply", ones, self.index, values, **options))

    def _ones(self) -> Any:
        aval = aval_of(self.array)
        return full(aval.shape, 1, aval.dtype)

    def apply(self, func: Function, **options: Any) -> Any:
        """Apply an elementwise function to the part; repeatedly for repeated positions."""
        x = self.array
        aval = aval_of(x)
        plan = parse(aval, self.index, wrap=options.get("wrap_negative_indices", True))
        if plan.distinct or options.get("unique_indices"):
            wrap = options.get("wrap_negative_indices", True)
            return update("set", x, self.index, func(read(x, plan, wrap=wrap)), **options)
        zeros = full(aval.shape, 0, np.dtype(np.int32))
        count = update("add", zeros, self.index, 1, **options)
        return repeated(func, x, count)


def repeated(func: Function, x: Any, count: Any) -> Any:
    """Apply an elementwise function to each element of x as often as the int32 array says."""
    aval, none = aval_of(x), np.int32(0)
    if 0 in aval.shape:
        return x

    def unfinished(state: Any) -> Any:
        left, _ = state
        return elementwise.gt(reduction.reduce_max(left, range(aval.ndim)), none)

    def step(state: Any) -> Any:
        left, value = state
        due = elementwise.gt(left, none)
        changed = convert_element_type(asarray(func(value)), aval.dtype, aval.weak_type)
        return elementwise.sub(left, np.int32(1)), elementwise.select(due, changed, value)

    return loops.while_loop(unfinished, step, (count, x))[1]


def _auto_index(index: Any) -> Any:
    """Return an index whose arrays have types that say nothing of their shardings."""
    if isinstance(index, tuple):
        return tuple(map(_auto_index, index))
    return auto(index) if hasattr(index, "aval") else index


@eager
def update(
    how: str,
    x: Any,
    index: Any,
    values: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """Return `x` with the part at `index` combined with `values` as `how` says.

    The result is sharded as `out_sharding` says.

    Warns if the values' dtype cannot be cast safely to the array's.
    """
    if out_sharding is not None:
        told: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
        }
        told |= {"mode": mode, "wrap_negative_indices": wrap_negative_indices}
        values = values if dtypes.is_python_scalar(values) else auto(asarray(values))
        changed = update(how, auto(x), _auto_index(index), values, **told)
        return sharded(changed, out_sharding, f"jnp.ndarray.at[...].{how}")
    aval = aval_of(x)
    plan = parse(aval, index, wrap=wrap_negative_indices)
    found = GatherScatterMode.from_any(mode)
    y = values if dtypes.is_python_scalar(values) else asarray(values)
    _check_cast(aval.dtype, y)
    scatter, join = _SCATTERS[how]
    common, _ = dtypes.lattice_result_type(_Strong(aval.dtype), y)
    if join is not None and common == np.bool_ and how not in ("min", "max"):
        reduction.check_dtype(how, aval, (np.number,))
    x, y = converted(x, common, False), converted(y, common, False)
    y = _spread(y, plan.result_shape())
    if plan.added:
        x = expand_dims(x, plan.added)
    whole = x
    if plan.parts:
        x = taken(x, plan.parts, wrap=False)
    if _contiguous(plan):
        out = _replaced(x, y, plan, join)
    else:
        out = _scattered(
            scatter,
            x,
            y,
            plan,
            found,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap_negative_indices,
        )
    if plan.parts:
        out = _put_back(whole, out, plan.parts, found)
    if plan.added:
        out = reshape(out, aval.shape)
    return convert_element_type(out, aval.dtype, aval.weak_type)


def _put_back(x: Any, new: Any, parts: Sequence[Part], mode: GatherScatterMode) -> Any:
    """Return an array with parts of axes replaced; windows that do not fit are left, or moved."""
    (axis, part), *others = parts
    if others:
        new = _put_back(taken(x, parts[:1], wrap=False), new, others, mode)
    if isinstance(part, Steps) or part.stride != 1:
        index = (*[slice(None)] * axis, positions(part))
        return update("set", x, index, new, mode=mode, wrap_negative_indices=False)
    start = start_of(part)
    out = dynamic_update_slice_in_dim(x, new, start, axis, allow_negative_indices=False)
    if mode is CLIP or mode is PROMISE_IN_BOUNDS:
        return out
    return elementwise.select(is_inside(part, aval_of(x).shape[axis]), out, x)


def _check_cast(dtype: Any, values: Any) -> None:
    common, _ = dtypes.lattice_result_type(_Strong(dtype), values)
    if common != dtype:
        found, _ = dtypes.lattice_result_type(values)
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={dtypes.long_name(found)} to dtype={dtypes.long_name(dtype)} with "
            f"jax_numpy_dtype_promotion={options().numpy_dtype_promotion}. In future kiln "
            "releases this will result in an error.",
            FutureWarning,
            stacklevel=dtypes.user_stacklevel(),
        )


class _Strong:
    """A strongly typed operand of promotion, of which only the dtype is known."""

    __slots__ = ("dtype",)
    weak_type = False

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _spread(y: Any, shape: tuple[Dim, ...]) -> Any:
    """Broadcast values to the shape of the part they are for."""
    own = shape_of(y)
    if own == shape:
        return y
    if len(own) > len(shape):
        raise ValueError(
            three_lines(
                f"x.at[...]: values of shape {tuple(own)} for a part of shape {tuple(shape)} "
                f"at {current_source()}",
                f"Cannot broadcast to shape with fewer dimensions: arr_shape={tuple(own)} "
                f"shape={tuple(shape)}",
                "reshape the values to the shape of x[...]",
            )
        )
    if any(a not in (1, b) for a, b in zip(own[::-1], shape[::-1], strict=False)):
        raise ValueError(
            three_lines(
                f"x.at[...]: values of shape {tuple(own)} for a part of shape {tuple(shape)} "
                f"at {current_source()}",
                f"Incompatible types for broadcasting: shape {tuple(own)} and requested shape "
                f"{tuple(shape)}",
                "reshape the values to the shape of x[...]",
            )
        )
    return broadcast_to(y, shape)


def _contiguous(plan: GatherPlan) -> bool:
    return all(
        isinstance(axis, Fixed) or (isinstance(axis, Kept) and axis.step == 1) for axis in plan.axes
    )


def _replaced(x: Any, y: Any, plan: GatherPlan, join: Function | None) -> Any:
    """Update a part with known bounds."""
    starts, limits, _ = region(plan)
    sizes = [limit - start for start, limit in zip(starts, limits, strict=True)]
    if any(type(s) is int and s == 0 for s in sizes):
        return x
    y = reshape(y, sizes)
    whole = tuple(sizes) == plan.shape
    if join is not None:
        y = join(x if whole else static_slice(x, starts, limits), y)
    if whole:
        return y
    return dynamic_update_slice_p.bind(x, y, *map(as_index, starts))


def _scattered(
    scatter: Function,
    x: Any,
    y: Any,
    plan: GatherPlan,
    mode: GatherScatterMode,
    *,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
) -> Any:
    """Update a part by a scatter: index arrays, traced scalars and strides number its windows."""
    group = plan.group
    # Axes of the updates: an operand axis, or None for one of the index arrays'.
    standing: list[int | None] = []
    for item in plan.result_axes:
        if item == GROUP:
            standing.extend([None] * len(group))
        elif item != NEW:
            standing.append(item)  # type: ignore[arg-type]
    in_window = {i for i, axis in enumerate(plan.axes) if isinstance(axis, Kept) and axis.step == 1}
    numbering = [item for item in standing if item not in in_window]
    sizes = {i: axis.size for i, axis in enumerate(plan.axes) if isinstance(axis, Kept)}
    joint = iter(group)
    windows = tuple([next(joint) if item is None else sizes[item] for item in numbering])
    moving: list[int] = []
    columns: list[Any] = []
    for i, (axis, size) in enumerate(zip(plan.axes, plan.shape, strict=True)):
        if isinstance(axis, Kept):
            if axis.whole(size):
                continue
            if i in in_window:
                found: Any = as_index(axis.start)
            else:
                found = positions(Steps(*axis))
                found = _at(found, numbering.index(i), 1, len(numbering))
        elif isinstance(axis, Fixed):
            found = np.asarray(axis.index, np.int32)
        else:
            found = column(axis.index, size, wrap, clips=mode is CLIP)
            found = _at_group(found, group, numbering)
        moving.append(i)
        columns.append(found)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(i for i, item in enumerate(standing) if item in in_window),
        inserted_window_dims=tuple(i for i in range(len(plan.axes)) if i not in in_window),
        scatter_dims_to_operand_dims=tuple(moving),
    )
    kept = tuple(size for item, size in _named_sizes(plan) if item != NEW)
    return scatter(
        x,
        coordinates(columns, windows),
        y if shape_of(y) == kept else reshape(y, kept),
        numbers,
        indices_are_sorted=indices_are_sorted or not windows,
        unique_indices=unique_indices or plan.distinct,
        mode=mode,
    )


def _named_sizes(plan: GatherPlan) -> list[tuple[int | str, Dim]]:
    """Return the axes of the result with their sizes."""
    items: list[int | str] = []
    for item in plan.result_axes:
        items.extend([item] * (len(plan.group) if item == GROUP else 1))
    return list(zip(items, plan.result_shape(), strict=True))


def _at(x: Any, place: int, rank: int, of: int) -> Any:
    """Put the axes of an index array at `place` among `of` axes; the others have size 1."""
    shape = (*[1] * place, *x.shape, *[1] * (of - place - rank))
    return reshape(x, shape) if is_typed(x) else np.reshape(x, shape)


def _at_group(x: Any, group: tuple[Dim, ...], numbering: list[int | None]) -> Any:
    if not group:
        return x
    missing = len(group) - len(x.shape)
    if missing:
        x = _at(x, missing, len(x.shape), len(group))
    return _at(x, numbering.index(None), len(group), len(numbering))
