"""Extending arrays at their edges: `pad` in all of NumPy's modes."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.arrays.array import ConcreteArray
from kiln.core.trace import is_typed
from kiln.ir.sizes.size import Size
from kiln.numpy.application import apply_along_axis
from kiln.numpy.creation.arrays import cast
from kiln.numpy.creation.ranges import linspace
from kiln.numpy.elements.rounding import floor
from kiln.numpy.manipulation.element_order import flip
from kiln.numpy.promotion import literal, one
from kiln.numpy.reductions.quantiles import median
from kiln.numpy.reductions.reductions import max, min
from kiln.numpy.reductions.statistics import mean
from kiln.ops.elements import elementwise, rounding
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing import static_slicing
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.shape import broadcast_in_dim, canonical_axis, move_axis, reshape

PadWidth = list[tuple[int, int]]


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Extend an array at its edges; `mode` is one of NumPy's, or a function.

    `pad_width` is (before, after) for each axis, one pair for all, or one number.

    Source: numpy.pad.
    Example:
        >>> jnp.pad(jnp.array([1, 2]), (1, 2), constant_values=9)
        Array([9, 1, 2, 9, 9], dtype=int32)
    """
    array = one("pad", array)
    widths = _pairs("pad_width", pad_width, len(array.shape), _width)
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError(
            f"pad(..., {pad_width}) at {current_source()}\n"
            "index can't contain negative values\nuse slices"
        )
    if callable(mode):
        return _padded_by_function(array, widths, mode, kwargs)
    _check_keywords(mode, kwargs)
    if mode == "empty":
        mode = "constant"
    if mode == "constant":
        return _padded_by_constant(array, widths, kwargs.get("constant_values", 0))
    if mode in _STATISTICS:
        return _padded_by_statistic(array, widths, mode, kwargs.get("stat_length"))
    if mode == "linear_ramp":
        return _padded_by_ramp(array, widths, kwargs.get("end_values", 0))
    for axis, (before, after) in enumerate(widths):
        if before == after == 0:
            continue
        if array.shape[axis] == 0:
            raise ValueError(
                f"pad of {array.aval} at {current_source()}\n"
                f"can't extend empty axis {axis} using modes other than "
                "'constant' or 'empty'\nuse mode='constant'"
            )
        array = _EXTENSIONS[mode](array, axis, before, after, kwargs.get("reflect_type", "even"))
    return array  # type: ignore[return-value]


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": max,
    "minimum": min,
    "mean": mean,
    "median": median,
}
_KEYWORDS = {
    "constant": ("constant_values",),
    "empty": (),
    "edge": (),
    "wrap": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "minimum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
}


def _check_keywords(mode: Any, kwargs: dict[str, Any]) -> None:
    if mode not in _KEYWORDS:
        raise NotImplementedError(
            three_lines(
                f"pad(..., mode={mode!r}) at {current_source()}",
                f"Unimplemented padding mode {mode!r} for np.pad.",
                f"use one of {', '.join(_KEYWORDS)}",
            )
        )
    unknown = sorted(set(kwargs) - set(_KEYWORDS[mode]))
    if unknown:
        raise ValueError(
            three_lines(
                f"pad(..., mode={mode!r}, {', '.join(unknown)}) at {current_source()}",
                f"unsupported keyword arguments for mode '{mode}': {', '.join(unknown)}",
                "leave them out",
            )
        )


def _width(number: Any) -> Any:
    return number if type(number) is Size else operator.index(number)


def _pairs(
    name: str, value: Any, rank: int, convert: Callable[[Any], Any]
) -> list[tuple[Any, Any]]:
    """Return (before, after) for each axis, from a number, a pair, or a pair per axis."""
    if isinstance(value, dict):
        found = [(0, 0)] * rank
        for axis, pair in value.items():
            both = pair if isinstance(pair, (tuple, list)) else (pair, pair)
            found[canonical_axis("pad", axis, rank)] = (convert(both[0]), convert(both[1]))
        return found
    if isinstance(value, (np.ndarray, ConcreteArray)):
        value = np.asarray(value).tolist()
    if not isinstance(value, (tuple, list)):
        return [(convert(value), convert(value))] * rank
    if all(not isinstance(v, (tuple, list)) for v in value):
        if len(value) == 1:
            return [(convert(value[0]), convert(value[0]))] * rank
        if len(value) == 2:
            return [(convert(value[0]), convert(value[1]))] * rank
    nested = [v if isinstance(v, (tuple, list)) else (v, v) for v in value]
    nested = [(*v, *v) if len(v) == 1 else v for v in nested]
    if len(nested) == 1:
        nested = nested * rank
    if len(nested) != rank or any(len(v) != 2 for v in nested):
        raise ValueError(
            three_lines(
                f"pad(..., {name}={value}) at {current_source()}",
                f"jnp.pad: {name} with unsupported shape; the array has {rank} axes",
                "give a number, a pair, or one pair per axis",
            )
        )
    return [(convert(v[0]), convert(v[1])) for v in nested]


def _padded_by_constant(array: Any, widths: PadWidth, values: Any) -> Any:
    pairs = _pairs("constant_values", values, len(array.shape), lambda v: v)
    aval = array.aval

    def as_scalar(value: Any) -> Any:
        if is_typed(value):
            return cast(reshape(value, ()), aval.dtype)
        return literal(value, aval.dtype, aval.weak_type)

    first = pairs[0] if pairs else (0, 0)
    if all(pair[0] is pair[1] is first[0] for pair in pairs) or not pairs:
        return static_slicing.pad(array, as_scalar(first[0]), [(*w, 0) for w in widths])
    for axis, (width, pair) in enumerate(zip(widths, pairs, strict=True)):
        for side in (0, 1):
            config = [(0, 0, 0)] * len(array.shape)
            config[axis] = (width[0], 0, 0) if side == 0 else (0, width[1], 0)
            if width[side]:
                array = static_slicing.pad(array, as_scalar(pair[side]), config)
    return array


def _edges(array: Any, axis: int, before: int, after: int, _: str) -> Any:
    size = array.shape[axis]
    first = slice_in_dim(array, 0, 1, 1, axis)
    last = slice_in_dim(array, size - 1, size, 1, axis)
    return _joined([_stretched(first, before, axis), array, _stretched(last, after, axis)], axis)


def _stretched(slab: Any, count: int, axis: int) -> Any:
    target = list(slab.shape)
    target[axis] = count
    return broadcast_in_dim(slab, target, range(len(target)))


def _joined(parts: Sequence[Any], axis: int) -> Any:
    return concatenate([p for p in parts if p.shape[axis] != 0], axis)


def _wrapped(array: Any, axis: int, before: int, after: int, _: str) -> Any:
    size = array.shape[axis]
    left, right = divmod(before, size), divmod(after, size)
    parts = [slice_in_dim(array, size - left[1], size, 1, axis), *[array] * left[0], array]
    parts += [*[array] * right[0], slice_in_dim(array, 0, right[1], 1, axis)]
    return _joined(parts, axis)


def _mirrored(offset: int) -> Callable[..., Any]:
    def extend(array: Any, axis: int, before: int, after: int, reflect_type: str) -> Any:
        if array.shape[axis] == 1 and offset == 1:
            return _edges(array, axis, before, after, reflect_type)
        for side, count in ((0, before), (1, after)):
            while count > 0:
                size = array.shape[axis]
                step = builtins.min(count, size - offset)
                if side == 0:
                    part = slice_in_dim(array, offset, offset + step, 1, axis)
                    edge = slice_in_dim(array, 0, 1, 1, axis)
                else:
                    part = slice_in_dim(array, size - offset - step, size - offset, 1, axis)
                    edge = slice_in_dim(array, size - 1, size, 1, axis)
                part = flip(part, axis)
                if reflect_type == "odd":
                    edge = _stretched(edge, step, axis)
                    part = elementwise.sub(elementwise.mul(constant(2, edge), edge), part)
                array = _joined([part, array] if side == 0 else [array, part], axis)
                count -= step
        return array

    return extend


_EXTENSIONS: dict[str, Callable[..., Any]] = {
    "edge": _edges,
    "wrap": _wrapped,
    "reflect": _mirrored(1),
    "symmetric": _mirrored(0),
}


def _padded_by_statistic(array: Any, widths: PadWidth, mode: str, stat_length: Any) -> Any:
    rank = len(array.shape)
    lengths = (
        [(None, None)] * rank
        if stat_length is None
        else _pairs("stat_length", stat_length, rank, operator.index)
    )
    dtype = array.dtype
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, lengths, strict=True)):
        size = array.shape[axis]
        head = slice_in_dim(array, 0, size if first is None else builtins.min(first, size), 1, axis)
        tail = slice_in_dim(
            array, 0 if last is None else size - builtins.min(last, size), size, 1, axis
        )
        parts = []
        for part, count in ((head, before), (tail, after)):
            found = _STATISTICS[mode](part, axis=axis, keepdims=True)
            if mode in ("mean", "median") and np.dtype(dtype).kind in "iu":
                found = rounding.round(found, rounding.RoundingMethod.TO_NEAREST_EVEN)
            parts.append(_stretched(cast(found, dtype), count, axis))
        array = _joined([parts[0], array, parts[1]], axis)
    return array


def _padded_by_ramp(array: Any, widths: PadWidth, end_values: Any) -> Any:
    pairs = _pairs("end_values", end_values, len(array.shape), lambda v: v)
    dtype = array.dtype
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, pairs, strict=True)):
        size = array.shape[axis]
        edges = (
            slice_in_dim(array, 0, 1, 1, axis),
            slice_in_dim(array, size - 1, size, 1, axis),
        )
        parts = []
        for edge, end, count in ((edges[0], first, before), (edges[1], last, after)):
            flat = reshape(edge, [d for i, d in enumerate(edge.shape) if i != axis])
            ramp = linspace(end, flat, count, endpoint=False)
            ramp = move_axis(ramp, 0, axis)
            if np.dtype(dtype).kind in "iu":
                ramp = floor(ramp)
            parts.append(cast(ramp, dtype))
        array = _joined([parts[0], array, flip(parts[1], axis)], axis)
    return array


def _padded_by_function(array: Any, widths: PadWidth, fun: Any, kwargs: dict[str, Any]) -> Any:
    array = _padded_by_constant(array, widths, 0)
    for axis, width in enumerate(widths):
        array = apply_along_axis(fun, axis, array, width, axis, kwargs)
    return array
