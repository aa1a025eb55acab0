"""Splitting: into equal parts, at indices, into the slices along an axis."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import Tracer
from kiln.execution.eager_plans import eager
from kiln.numpy.indexing.iteration import unpacked
from kiln.numpy.promotion import one
from kiln.numpy.shapes import moveaxis
from kiln.ops.indexing.static_slicing import slice_in_dim
from kiln.ops.shape import canonical_axis


@eager
def split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0
) -> list[Array]:
    """Split an array into equal parts, or at indices.

    `indices_or_sections` is the number of parts, or a sequence of indices at which to split; they
    are known while tracing.

    Raises: ValueError if the parts would not be equal.
    Example:
        >>> [part.tolist() for part in jnp.split(jnp.arange(6), 3)]
        [[0, 1], [2, 3], [4, 5]]
    """
    return _split("split", ary, indices_or_sections, axis)


@eager
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array into nearly equal parts, or at indices.

    `indices_or_sections` is the number of parts, or a sequence of indices at which to split; they
    are known while tracing.

    Example:
        >>> [part.shape for part in jnp.array_split(jnp.arange(5), 3)]
        [(2,), (2,), (1,)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def _split(name: str, ary: Any, where: Any, axis: Any) -> list[Any]:
    ary = one(name, ary)
    axis = canonical_axis(name, axis, len(ary.shape))
    size: Any = ary.shape[axis]
    bounds: list[Any]
    if isinstance(where, (tuple, list)) or len(getattr(where, "shape", ())) == 1:
        if isinstance(where, Tracer):
            where = where.tolist()
        ends = [_position(operator.index(i), size) for i in where]
        bounds = [0, *ends, size]
    else:
        count = operator.index(where)
        if count <= 0:
            raise ValueError(
                f"{name}(..., {count}) at {current_source()}\n"
                "number sections must be larger than 0\nask for 1 or more"
            )
        each, rest = divmod(size, count)
        if name != "array_split" and not (type(rest) is int and rest == 0):
            raise ValueError(
                three_lines(
                    f"{name} of an array {ary.aval} in {count} parts at {current_source()}",
                    f"array split does not result in an equal division: rest is {rest}",
                    "use array_split for parts of different sizes",
                )
            )
        bounds = [0]
        for i in range(count):
            bounds.append(bounds[-1] + each + (1 if i < rest else 0))
    return [
        slice_in_dim(ary, start, max(start, end) if type(end) is int else end, 1, axis)
        for start, end in itertools.pairwise(bounds)
    ]


def _position(index: int, size: Any) -> Any:
    if type(size) is not int:
        return index
    return max(0, index + size) if index < 0 else min(index, size)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the second axis; vectors along their only axis.

    Example:
        >>> jnp.hsplit(jnp.arange(4), 2)
        [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    ary = one("hsplit", ary)
    return _split("hsplit", ary, indices_or_sections, 0 if len(ary.shape) == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the first axis.

    Example:
        >>> [part.shape for part in jnp.vsplit(jnp.ones((4, 2)), 2)]
        [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Split along the third axis.

    Example:
        >>> [part.shape for part in jnp.dsplit(jnp.ones((1, 2, 4)), 2)]
        [(1, 2, 2), (1, 2, 2)]
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis, without it.

    Example:
        >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]), axis=1)
        (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    x = one("unstack", x)
    if not x.shape:
        raise ValueError(
            three_lines(
                f"unstack of a scalar at {current_source()}",
                "Unstack requires arrays with rank > 0, however a scalar array was passed.",
                "use an array with an axis",
            )
        )
    return tuple(unpacked(moveaxis(x, axis, 0)))
