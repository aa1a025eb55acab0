"""Sequences of numbers: arange, linspace and others, grids, index tricks `r_`, `c_`, `mgrid`.

`iota` generates the numbers inside the program; it stores no table of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.options.config import override
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim, Size, maximum
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import asarray, cast, concrete_number
from kiln.numpy.creation.filling import full
from kiln.numpy.elements.arithmetic import add, multiply, power, sign
from kiln.numpy.elements.complex_parts import real
from kiln.numpy.elements.elementary import log10
from kiln.numpy.elements.rounding import floor
from kiln.numpy.promotion import (
    broadcast_shapes,
    broadcast_to,
    converted,
    operands,
    promote_dtypes,
    promote_inexact,
)
from kiln.ops.counting import iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing import static_slicing
from kiln.ops.out_sharding import on_device_or_sharded
from kiln.ops.shape import broadcast_in_dim, canonical_axis, expand_dims, move_axis, reshape, scalar
from kiln.ops.sharding import put


@eager
def arange(
    start: ArrayLike | Dim,
    stop: ArrayLike | Dim | None = None,
    step: ArrayLike | Dim | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return start, start + step, ... up to, but not including, stop; `arange(n)` counts from 0.

    `device` says where the array is put.

    Raises: ConcretizationTypeError for a traced argument, since the size depends on it.
    Source: numpy.arange.
    Example:
        >>> jnp.arange(5)
        Array([0, 1, 2, 3, 4], dtype=int32)
        >>> jnp.arange(1.0, 2.0, 0.25)
        Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "arange")
    if any(type(x) is Size for x in (start, stop, step)):
        return on_device_or_sharded(
            _over_sizes(start, stop, step, wanted), device, out_sharding, "jnp.arange"
        )
    if stop is None and step is None:
        stop, start = start, 0
        operands("arange", stop)
        given = [concrete_number("arange", "stop", stop)]
    else:
        if stop is None:
            start, stop = 0, start
        pairs = [("start", start), ("stop", stop), ("step", 1 if step is None else step)]
        operands("arange", *(value for _, value in pairs))
        given = [concrete_number("arange", name, value) for name, value in pairs]
    if wanted is None:
        wanted = dtypes.lattice_result_type(*given)[0]
    if len(given) == 1:
        given = [0, given[0], 1]
    start, stop, step = given
    first, last, by = (x.item() if isinstance(x, np.generic) else x for x in given)
    if any(isinstance(x, complex) for x in (first, last, by)):
        raise ValueError(
            f"arange{(first, last, by)} at {current_source()}\n"
            "Passing complex start/stop/step to jnp.arange is no longer supported: complex numbers "
            "have no order\nuse real ones"
        )
    if by == 0:
        raise ValueError(
            f"arange{(first, last, by)} at {current_source()}\nthe step is zero\nuse another step"
        )
    # Floats are counted in their own dtype: as float64 their bounds may be slightly too far apart.
    narrow = any(isinstance(x, np.floating) for x in given)
    size = max(0, math.ceil((stop - start) / step if narrow else (last - first) / by))  # type: ignore[arg-type]
    return on_device_or_sharded(
        counted(first, by, size, wanted), device, out_sharding, "jnp.arange"
    )


def _over_sizes(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    by = 1 if step is None else step
    for x in (first, last, by):
        if type(x) is not Size and not isinstance(x, (int, np.integer)):
            raise TypeError(
                three_lines(
                    f"arange{(first, last, by)} at {current_source()}",
                    f"where the bounds depend on named axes, they must be ints; got {x!r}",
                    "count first, then convert: arange(n) * 0.5",
                )
            )
    if by == 0:
        raise ValueError(
            f"arange{(first, last, by)} at {current_source()}\nthe step is zero\nuse another step"
        )
    if by < 0:
        size = maximum((first - last - by - 1) // -by, 0)
    else:
        size = maximum((last - first + by - 1) // by, 0)
    return counted(first, by, size, dtype or dtypes.default_int_dtype())


def counted(first: Any, by: Any, size: Any, dtype: Any) -> Any:
    """Return `size` numbers starting at `first`, `by` apart."""
    if dtype == np.bool_ or dtypes.issubdtype(dtype, np.complexfloating):
        return asarray(np.arange(size) * by + first, dtype)
    count = iota(dtype, size)
    if dtypes.issubdtype(dtype, np.integer):
        first, by = (x if type(x) is Size else int(x) for x in (first, by))
    if type(by) is Size or by != 1:
        count = multiply(_number(by, dtype), count)
    if type(first) is Size or first != 0:
        count = add(_number(first, dtype), count)
    return count


def _number(x: Any, dtype: Any) -> Any:
    return scalar(x, ShapedArray((), dtype)) if type(x) is Size else converted(x, dtype, False)


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: Literal[False] = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Array: ...


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    device: Any = ...,
) -> tuple[Array, Array]: ...


@eager
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from start to stop.

    With `endpoint=False`, stop is excluded. If `retstep`, also return the distance between numbers.
    `device` says where the array is put.

    Source: numpy.linspace.
    Example:
        >>> jnp.linspace(0, 1, 5)
        Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
        >>> points, step = jnp.linspace(0, 1, 4, endpoint=False, retstep=True)
        >>> points, float(step)
        (Array([0.  , 0.25, 0.5 , 0.75], dtype=float32), 0.25)
    """
    num = num if type(num) is Size else int(concrete_number("linspace", "num", num))
    if num < 0:
        raise ValueError(
            three_lines(
                f"linspace(..., num={num}) at {current_source()}",
                f"Number of samples, {num}, must be non-negative.",
                "ask for 0 or more numbers",
            )
        )
    start, stop = operands("linspace", start, stop)
    computing = dtypes.to_inexact_dtype(dtypes.lattice_result_type(start, stop)[0])
    wanted = computing if dtype is None else dtypes.check_user_dtype(dtype, "linspace")
    computing = dtypes.to_inexact_dtype(dtypes.common_dtype(computing, wanted))
    start, stop = (cast(x, computing) for x in (start, stop))
    shape = broadcast_shapes("linspace", start.shape, stop.shape)
    start, stop = (broadcast_to(x, shape) for x in (start, stop))
    steps = num - 1 if endpoint else num
    distance = elementwise.sub(stop, start)
    if type(num) is Size or num > 1 or (num == 1 and not endpoint):
        step = elementwise.div(distance, constant(steps, distance))
    else:
        # As in NumPy, one number for all.
        step = full((), math.nan, computing)
    if type(num) is Size:
        out = _between(start, stop, num, maximum(steps, 1), shape, computing)
        if endpoint:
            # A single number is the first; of several the last is exactly the requested one.
            count = iota(np.dtype(np.int32), num)
            is_last = elementwise.eq(count, constant(maximum(steps, 1), count))
            rows = broadcast_in_dim(is_last, (num, *shape), (0,))
            out = elementwise.select(rows, broadcast_to(stop, (num, *shape)), out)
    elif num == 0:
        out = full((0, *shape), 0, computing)
    elif num == 1:
        out = expand_dims(start, (0,))
    else:
        out = _between(start, stop, steps, steps, shape, computing)
        if endpoint:
            out = static_slicing.concatenate([out, expand_dims(stop, (0,))], 0)
    if dtypes.issubdtype(wanted, np.integer) and not dtypes.issubdtype(computing, np.integer):
        out = floor(out)
    axis = canonical_axis("linspace", axis, len(shape) + 1)
    out = put(cast(move_axis(out, 0, axis), wanted), device)
    return (out, step) if retstep else out


def _between(start: Any, stop: Any, count: Dim, steps: Dim, shape: Any, dtype: Any) -> Any:
    real_dtype = dtypes.to_floating_dtype(dtype)
    # Narrow floats cannot count far: 0, 1, 2, ... are counted in 32 bits.
    wide = real_dtype if real_dtype.itemsize >= 4 else np.dtype(np.float32)
    part = iota(wide, count)
    part = cast(elementwise.div(part, constant(steps, part)), dtype)
    rest = elementwise.sub(constant(1, part), part)
    target = (count, *shape)

    def spread(x: Any, axes: Sequence[int]) -> Any:
        return broadcast_in_dim(x, target, axes)

    inner = range(1, len(target))
    return elementwise.add(
        elementwise.mul(spread(start, inner), spread(rest, (0,))),
        elementwise.mul(spread(stop, inner), spread(part, (0,))),
    )


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return `num` numbers from base^start to base^stop, evenly spaced on a log scale.

    Example:
        >>> jnp.logspace(0, 2, 3)
        Array([  1.,  10., 100.], dtype=float32)
    """
    start, stop = operands("logspace", start, stop)
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "logspace")
    computing = dtypes.to_inexact_dtype(dtypes.lattice_result_type(start, stop)[0])
    exponents = linspace(start, stop, num, endpoint, dtype=computing, axis=axis)
    return cast(power(converted(base, computing, False), exponents), wanted or computing)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return `num` numbers from start to stop in geometric progression.

    Example:
        >>> jnp.geomspace(1, 1000, 4)
        Array([   1.,   10.,  100., 1000.], dtype=float32)
    """
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "geomspace")
    start, stop = promote_inexact("geomspace", start, stop)
    computing = aval_of(start).dtype
    start, stop = (cast(x, computing) for x in (start, stop))
    shape = broadcast_shapes("geomspace", start.shape, stop.shape)
    start, stop = (broadcast_to(x, shape) for x in (start, stop))
    # Both ends negative: the logarithms are taken of the absolute values.
    both = elementwise.mul(
        elementwise.sub(constant(1, sign(real(start))), sign(real(start))),
        elementwise.sub(constant(1, sign(real(stop))), sign(real(stop))),
    )
    flip = floor(elementwise.div(both, constant(2, both)))
    flip = cast(elementwise.sub(constant(1, flip), flip), computing)
    out = logspace(
        log10(multiply(flip, start)), log10(multiply(flip, stop)), num, endpoint, 10.0, computing
    )
    out = multiply(out, flip)
    if num > 0:
        parts = [expand_dims(start, (0,))]
        if num > 1:
            inner = static_slicing.slice_in_dim(out, 1, num - 1 if endpoint else num, 1, 0)
            parts.append(inner)
            if endpoint:
                parts.append(expand_dims(stop, (0,)))
        out = static_slicing.concatenate(parts, 0)
    out = move_axis(out, 0, canonical_axis("geomspace", axis, len(shape) + 1))
    return cast(out, wanted or computing)


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Return coordinate arrays of the grid spanned by vectors of coordinates.

    With `sparse` the arrays have size 1 along the other axes. `copy` has no effect.

    Shapes: vectors of m and n elements -> (n, m) twice with indexing='xy', (m, n) with 'ij'.
    Source: numpy.meshgrid.
    Example:
        >>> x, y = jnp.meshgrid(jnp.arange(3), jnp.arange(2))
        >>> x.tolist(), y.tolist()
        ([[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]])
        >>> a, b = jnp.meshgrid(jnp.arange(2), jnp.arange(3), indexing="ij", sparse=True)
        >>> a.shape, b.shape
        ((2, 1), (1, 3))
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(
            three_lines(
                f"meshgrid(..., indexing={indexing!r}) at {current_source()}",
                "Valid values for indexing are 'xy' and 'ij'",
                "use one of them",
            )
        )
    if not copy:
        raise ValueError(
            f"meshgrid(..., copy=False) at {current_source()}\n"
            "grids are always new arrays\nleave copy out"
        )
    given = [asarray(x) for x in operands("meshgrid", *xi)]
    for x in given:
        if len(x.shape) > 1:
            raise ValueError(
                three_lines(
                    f"meshgrid of an array {x.aval} at {current_source()}",
                    f"Arguments to jax.numpy.meshgrid must be 1D, got shape {x.shape}",
                    "pass the coordinates of one axis each",
                )
            )
    given = [reshape(x, (1,)) if not x.shape else x for x in given]
    rank = len(given)
    places = list(range(rank))
    if indexing == "xy" and rank >= 2:
        places[:2] = [1, 0]
    shape = [1] * rank
    for x, place in zip(given, places, strict=True):
        shape[place] = x.shape[0]
    out = []
    for x, place in zip(given, places, strict=True):
        if sparse:
            others = [d for d in range(rank) if d != place]
            out.append(expand_dims(x, others))
        else:
            out.append(broadcast_in_dim(x, shape, (place,)))
    return out


class _Grid:
    """`grid[a:b:c, ...]`: the coordinates of a grid given by slices."""

    def __init__(self, name: str, sparse: bool) -> None:
        self._name = name
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _of_slice(self._name, key)
        if not key:
            return [] if self._sparse else full((0,), 0, int)
        with override(numpy_dtype_promotion="standard"):
            axes = promote_dtypes(*[_of_slice(self._name, item) for item in key])
        grids = meshgrid(*axes, sparse=self._sparse, indexing="ij")
        if self._sparse:
            return grids
        return static_slicing.concatenate([expand_dims(x, (0,)) for x in grids], 0)


def _of_slice(name: str, key: slice) -> Any:
    def known(what: str, end: Any) -> Any:
        return None if end is None else concrete_number(name, f"slice {what} of jnp.{name}", end)

    start, stop = known("start", key.start), known("stop", key.stop)
    start = 0 if start is None else start
    step = 1 if key.step is None else key.step
    if isinstance(step, complex):
        # A step of nj requests n numbers, including the last one.
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class _Joiner:
    """`r_[...]`, `c_[...]`: arrays made of slices, scalars and arrays, joined along an axis."""

    def __init__(self, name: str, axis: int, ndmin: int, place: int) -> None:
        self._name = name
        self._axis = axis
        self._ndmin = ndmin
        self._place = place

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, place, as_matrix = self._axis, self._ndmin, self._place, ""
        if items and isinstance(items[0], str):
            directive, items = items[0], items[1:]
            if directive in ("r", "c"):
                as_matrix = directive
            else:
                numbers = self._numbers(directive)
                axis, ndmin, place = (*numbers, *(ndmin, place)[len(numbers) - 1 :])
        parts = []
        for item in items:
            if isinstance(item, slice):
                part = _of_slice(self._name, item)
                new = True
            else:
                part = asarray(item)
                new = part.ndim < max(1, ndmin)
            if part.ndim == 0:
                part = reshape(part, (1,))
            if new and ndmin > part.ndim:
                part = self._placed(part, ndmin, place)
            parts.append(part)
        parts = list(promote_dtypes(*parts))
        axis = canonical_axis(self._name, axis, parts[0].ndim)
        out = static_slicing.concatenate(parts, axis)
        if as_matrix and out.ndim == 1:
            out = expand_dims(out, (0 if as_matrix == "r" else 1,))
        return out

    def _numbers(self, directive: str) -> list[int]:
        try:
            return [int(n) for n in directive.split(",")]
        except ValueError:
            raise ValueError(
                three_lines(
                    f"{self._name}[{directive!r}, ...] at {current_source()}",
                    f"could not understand directive {directive!r}",
                    "write 'r', 'c', or up to three numbers, as in '0,2,-1'",
                )
            ) from None

    @staticmethod
    def _placed(part: Any, ndmin: int, place: int) -> Any:
        own = part.ndim
        if place < 0:
            place += ndmin - own + 1
        new = [d for d in range(ndmin) if not place <= d < place + own]
        return expand_dims(part, new)

    def __len__(self) -> int:
        return 0


class _IndexExpression:
    """`s_[...]`: the index itself."""

    def __init__(self, always_tuple: bool) -> None:
        self._always_tuple = always_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._always_tuple and not isinstance(key, tuple) else key


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)
r_, c_ = _Joiner("r_", 0, 1, -1), _Joiner("c_", -1, 2, 0)
index_exp, s_ = _IndexExpression(True), _IndexExpression(False)
