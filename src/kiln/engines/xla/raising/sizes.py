"""Modules whose sizes are computed, as those of functions that were exported with named sizes are.

Sizes are read from arrays, and computed as integers (`Sizes`); operations take them as shapes. What
depends on sizes is decided while the module is raised, or the module is not raised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.indexing import gather
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, Sizes, array_of
from kiln.engines.xla.raising.shape import broadcast, reshaped
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ir.sizes.polynomial import bounds
from kiln.ir.sizes.size import Dim, Size, maximum, minimum
from kiln.ops.counting import iota_p
from kiln.ops.indexing import static_slicing
from kiln.ops.indexing.slicing import dynamic_slice_p

_MOST = 64
"""Constants of more integers are not shapes."""
_BOOL = np.dtype(np.bool_)


def _constant(r: Raiser, operation: Operation) -> Any:
    value = operation.attributes["value"]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iub" or value.size > _MOST:
        return NotImplemented
    # As Python's numbers: sums of sizes are not NumPy's.
    return Sizes(np.array(value.tolist(), object).reshape(value.shape), value.dtype)


def _dimension(r: Raiser, operation: Operation, x: Any) -> Any:
    size = aval_of(array_of(x)).shape[operation.attributes["dimension"]]
    return Sizes(size, operation.types[0].dtype)  # type: ignore[union-attr]


def _elementwise(compute: Callable[..., Any], dtype: Any = None) -> Raising:
    """Return the raising of a function of dimensions, which returns None where it is not known."""

    def raised(r: Raiser, operation: Operation, *xs: Any) -> Any:
        if not all(isinstance(x, Sizes) for x in xs):
            return NotImplemented
        rows = np.broadcast_arrays(*[x.dims for x in xs])
        found = np.empty(rows[0].shape, object)
        for place in np.ndindex(found.shape):
            found[place] = compute(*[row[place] for row in rows])
            if found[place] is None:
                return NotImplemented
        made = Sizes(found, xs[-1].dtype if dtype is None else dtype)
        numbers = made.numbers()
        # Integers that overflow are the operation's own.
        is_exact = numbers is None or bool((numbers.astype(object) == found).all())
        return made if is_exact else NotImplemented

    return raised


def _least(dim: Dim) -> int | None:
    return bounds(dim)[0] if isinstance(dim, Size) else dim


def _sign(dim: Dim) -> int | None:
    """Return the sign of a dimension, if it is the same for all sizes."""
    low, high = bounds(dim) if isinstance(dim, Size) else (dim, dim)
    if low is not None and low > 0:
        return 1
    if high is not None and high < 0:
        return -1
    return 0 if low == high == 0 else None


def _is_natural(x: Dim, y: Dim) -> bool:
    """Tell whether a division rounds down, as that of sizes does."""
    return all(low is not None and low >= n for low, n in ((_least(x), 0), (_least(y), 1)))


def _quotient(x: Dim, y: Dim) -> Dim | None:
    return x // y if _is_natural(x, y) else None


def _remainder(x: Dim, y: Dim) -> Dim | None:
    return x - x // y * y if _is_natural(x, y) else None


_COMPARED: dict[str, Callable[[int], bool]] = {
    "EQ": lambda sign: sign == 0,
    "NE": lambda sign: sign != 0,
    "LT": lambda sign: sign < 0,
    "LE": lambda sign: sign <= 0,
    "GT": lambda sign: sign > 0,
    "GE": lambda sign: sign >= 0,
}


def _compare(r: Raiser, operation: Operation, x: Any, y: Any) -> Any:
    holds = _COMPARED[operation.attributes["comparison_direction"]]

    def compute(x: Dim, y: Dim) -> bool | None:
        difference = int(x) - int(y) if isinstance(x, bool) else x - y
        sign = _sign(difference)
        if sign is not None:
            return holds(sign)
        low, high = bounds(difference) if isinstance(difference, Size) else (None, None)
        signs = {-1, 0, 1} - ({-1} if low is not None and low >= 0 else set())
        signs -= {1} if high is not None and high <= 0 else set()
        answers = {holds(sign) for sign in signs}
        return answers.pop() if len(answers) == 1 else None

    return _elementwise(compute, _BOOL)(r, operation, x, y)


def _select(r: Raiser, operation: Operation, which: Any, x: Any, y: Any) -> Any:
    return _elementwise(lambda which, x, y: x if which else y)(r, operation, which, x, y)


def _converted(r: Raiser, operation: Operation, x: Any) -> Any:
    dtype = operation.types[0].dtype  # type: ignore[union-attr]
    if not isinstance(x, Sizes) or dtype.kind not in "iu":
        return NotImplemented
    return _elementwise(lambda dim: int(dim) if isinstance(dim, bool) else dim, dtype)(
        r, operation, x
    )


def _arranged(arrange: Callable[..., Any]) -> Raising:
    """Return the raising of an operation that arranges integers: of arrays of dimensions."""

    def raised(r: Raiser, operation: Operation, *xs: Any) -> Any:
        if not all(isinstance(x, Sizes) for x in xs):
            return NotImplemented
        found = arrange(operation, *[x.dims for x in xs])
        return NotImplemented if found is NotImplemented else Sizes(found, xs[0].dtype)

    return raised


def _shape(operation: Operation) -> tuple[int, ...]:
    shape: Any = operation.types[0].shape  # type: ignore[union-attr]
    return tuple(shape)


def _repeated(operation: Operation, x: np.ndarray) -> Any:
    return np.broadcast_to(x, _shape(operation)) if x.ndim == 0 else NotImplemented


def _sliced(operation: Operation, x: np.ndarray) -> Any:
    names = ("start_indices", "limit_indices", "strides")
    rows = zip(*[operation.attributes[name] for name in names], strict=True)
    return x[tuple([slice(*row) for row in rows])]


def _dims(operation: Operation, x: Any) -> Any:
    """Return a shape that an operation is given.

    Raises: NotRaised if the sizes of the call do not determine it.
    """
    if not isinstance(x, Sizes):
        raise NotRaised(f"{operation.name} with a shape that is computed from elements")
    return tuple(x.dims.ravel())


def _dynamic_broadcast(r: Raiser, operation: Operation, x: Any, shape: Any) -> Any:
    places = operation.attributes["broadcast_dimensions"]
    return broadcast(array_of(x), _dims(operation, shape), places)


def _dynamic_reshape(r: Raiser, operation: Operation, x: Any, shape: Any) -> Any:
    return reshaped(array_of(x), _dims(operation, shape))


def _dynamic_iota(r: Raiser, operation: Operation, shape: Any) -> Any:
    dtype = operation.types[0].dtype  # type: ignore[union-attr]
    axis = operation.attributes["iota_dimension"]
    return iota_p.bind(dtype=dtype, shape=_dims(operation, shape), dimension=axis)


def _dynamic_slice(
    r: Raiser, operation: Operation, x: Any, start: Any, limit: Any, step: Any
) -> Any:
    strides, x = _dims(operation, step), array_of(x)
    if isinstance(start, Sizes):
        ends = _dims(operation, start), _dims(operation, limit)
        return static_slicing.slice(x, *ends, strides)
    # The start is computed from elements: then the size must be one that was added to it.
    sizes = _added(r, operation.operands[1], operation.operands[2])
    if sizes is None or any(stride != 1 for stride in strides):
        raise NotRaised(f"{operation.name} of a size that is computed from elements")
    starts = [
        reshaped(static_slicing.slice(start, (i,), (i + 1,), (1,)), ()) for i in range(len(strides))
    ]
    return dynamic_slice_p.bind(x, *starts, slice_sizes=_dims(operation, sizes))


def _added(r: Raiser, start: int, limit: int) -> Any:
    """Return what was added to one value for another; None if it is computed otherwise."""
    added = r.operation_of(limit)
    if added is None or added.name != "stablehlo.add" or start not in added.operands:
        return None
    (other,) = [number for number in added.operands if number != start] or [start]
    return r.value(other)


def _dynamic_gather(r: Raiser, operation: Operation, x: Any, indices: Any, sizes: Any) -> Any:
    return gather(operation, array_of(x), array_of(indices), _dims(operation, sizes))


def _dynamic_pad(r: Raiser, operation: Operation, x: Any, value: Any, *widths: Any) -> Any:
    config = tuple(zip(*[_dims(operation, width) for width in widths], strict=True))
    return static_slicing.pad_p.bind(array_of(x), array_of(value), padding_config=config)


def _call(r: Raiser, operation: Operation, *xs: Any) -> Any:
    return r.call(operation.attributes["callee"], xs)


def _case(r: Raiser, operation: Operation, index: Any) -> Any:
    numbers = index.numbers() if isinstance(index, Sizes) else None
    if numbers is None:
        return NotImplemented
    place, last = int(numbers), len(operation.regions) - 1
    return r.body(operation.regions[place if 0 <= place <= last else last])()


def _custom_call(r: Raiser, operation: Operation, *xs: Any) -> Any:
    match operation.attributes["call_target_name"]:
        case "shape_assertion":
            # Constraints of sizes are checked for the types of arguments before this.
            return []
        case "stablehlo.dynamic_reduce_window":
            return _dynamic_windows(r, operation, *xs)
    return NotImplemented


def _dynamic_windows(r: Raiser, operation: Operation, *xs: Any) -> Any:
    """Raise a reduction of windows: arrays, initial values, then what are attributes elsewhere."""
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    *operands, padding = xs
    operands, shapes = operands[: -len(names)], operands[-len(names) :]
    attributes: dict[str, Any] = {
        n: _dims(operation, x) for n, x in zip(names, shapes, strict=True)
    }
    ends = iter(_dims(operation, padding))
    attributes["padding"] = tuple(zip(ends, ends, strict=True))
    (name,) = operation.attributes["called_computations"]
    windows = operation._replace(
        name="stablehlo.reduce_window", attributes=attributes, regions=(r.functions[name].body,)
    )
    return r.raised(windows, operands)


def _logic(compute: Callable[[bool, bool], bool]) -> Raising:
    def both(x: Dim, y: Dim) -> bool | None:
        return compute(x, y) if isinstance(x, bool) and isinstance(y, bool) else None

    return _elementwise(both)


RAISINGS: dict[str, Raising] = {
    "stablehlo.constant": _constant,
    "stablehlo.get_dimension_size": _dimension,
    "stablehlo.convert": _converted,
    "stablehlo.add": _elementwise(operator.add),
    "stablehlo.subtract": _elementwise(operator.sub),
    "stablehlo.multiply": _elementwise(operator.mul),
    "stablehlo.negate": _elementwise(operator.neg),
    "stablehlo.divide": _elementwise(_quotient),
    "stablehlo.remainder": _elementwise(_remainder),
    "stablehlo.maximum": _elementwise(maximum),
    "stablehlo.minimum": _elementwise(minimum),
    "stablehlo.clamp": _elementwise(lambda low, x, high: minimum(maximum(low, x), high)),
    "stablehlo.sign": _elementwise(_sign),
    "stablehlo.compare": _compare,
    "stablehlo.and": _logic(operator.and_),
    "stablehlo.or": _logic(operator.or_),
    "stablehlo.xor": _logic(operator.xor),
    "stablehlo.not": _elementwise(lambda x: not x if isinstance(x, bool) else None),
    "stablehlo.select": _select,
    "stablehlo.reshape": _arranged(lambda operation, x: x.reshape(_shape(operation))),
    "stablehlo.broadcast_in_dim": _arranged(_repeated),
    "stablehlo.concatenate": _arranged(
        lambda operation, *xs: np.concatenate(xs, operation.attributes["dimension"])
    ),
    "stablehlo.slice": _arranged(_sliced),
    "stablehlo.dynamic_broadcast_in_dim": _dynamic_broadcast,
    "stablehlo.dynamic_reshape": _dynamic_reshape,
    "stablehlo.dynamic_iota": _dynamic_iota,
    "stablehlo.real_dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "func.call": _call,
    "stablehlo.case": _case,
    "stablehlo.custom_call": _custom_call,
}
