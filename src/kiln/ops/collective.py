"""Talking over a mapped axis: sums, means, extremes, and where one stands.

Each primitive has the effect of the axes it names. A `vmap` of that name turns it into ordinary
operations on the stack; any other one maps through it. Engines see them inside `shard_map` only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.core.primitive import Primitive
from kiln.core.trace import Tracer, aval_of, axis_size_of
from kiln.ir.effects import Effects, named_axis
from kiln.ir.sizes import Dim, product
from kiln.ir.types import ShapedArray
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import add, div, mul
from kiln.ops.families import constant
from kiln.ops.reduction import reduce_max, reduce_min
from kiln.ops.shape import (
    LinearOp,
    iota,
    mapped_at,
    reduce_sum,
)

AxisName = Hashable | tuple[Hashable, ...]


def names_of(axis_name: AxisName) -> tuple[Hashable, ...]:
    """Return one axis name, or several, as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


class Collective(Primitive):
    """An operation over the mapped axes that `names` finds among its parameters."""

    def names(self, params: dict[str, Any]) -> tuple[Hashable, ...]:
        """Return the names of the axes."""
        return names_of(params["axis_name"])

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset(map(named_axis, self.names(params)))

    def numpy(self, *xs: Any, **params: Any) -> NoReturn:
        for name in self.names(params):
            axis_size_of(name)
        raise self._missing("numpy", "it only has a meaning under vmap")

    def evaluate(self, *xs: Any, **params: Any) -> NoReturn:
        self.numpy(*xs, **params)

    def batch_over(
        self, axis: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        if axis.name in self.names(params):
            return self.over(axis, xs[0], axes[0], **params)
        return self.through(axis.size, xs[0], axes[0], **params)

    def over(self, axis: Any, x: Any, at: int | None, **params: Any) -> Any:
        """Return (result, axis), given that the mapped axis is the one to talk over."""
        raise NotImplementedError

    def through(self, size: Any, x: Any, at: int, **params: Any) -> Any:
        """Return (result, axis), given that the mapped axis is another one."""
        return self.bind(x, **params), at


class Reduction(Collective):
    """Combine the values of all members; each gets the result."""

    def __init__(self, name: str, reduce: Callable[..., Any], repeat: Callable[..., Any]) -> None:
        super().__init__(name)
        self.reduce = reduce
        self.repeat = repeat

    def names(self, params: dict[str, Any]) -> tuple[Hashable, ...]:
        return tuple(params["axes"])

    def infer(self, x: Any, *, axes: Any, axis_index_groups: Any) -> ShapedArray:
        return x  # type: ignore[no-any-return]

    def over(self, axis: Any, x: Any, at: int | None, *, axes: Any, axis_index_groups: Any) -> Any:
        out = self.repeat(x, axis.size) if at is None else self.reduce(x, (at,))
        rest = tuple(name for name in axes if name != axis.name)
        return self.bind(out, axes=rest, axis_index_groups=None) if rest else out, None


class Sum(Reduction, LinearOp):
    """The sum over all members; its transpose is itself."""

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        return [self.bind(ct, **params)]


class AxisIndex(Collective):
    """The member's position along the axis."""

    name = "axis_index"

    def infer(self, *, axis_name: Any) -> ShapedArray:
        return ShapedArray((), np.dtype(np.int32))

    def batch_over(
        self, axis: Any, xs: Sequence[Any], axes: Sequence[Any], /, *, axis_name: Any
    ) -> Any:
        return iota(np.int32, axis.size), 0


def times(x: Any, size: Dim) -> Any:
    """Return the sum of `size` equal values."""
    if isinstance(size, int):
        return mul(x, constant(size, x))
    return reduce_sum(mapped_at(x, size, None, 0), (0,))


psum_p = Sum("psum", reduce_sum, times)
pmax_p = Reduction("pmax", reduce_max, lambda x, size: x)
pmin_p = Reduction("pmin", reduce_min, lambda x, size: x)
axis_index_p = AxisIndex()


def axis_size(axis_name: AxisName) -> Any:
    """Return the size of a mapped axis, or the product of several.

    Raises: NameError if there is no mapped axis of that name.
    """
    return product([axis_size_of(name) for name in names_of(axis_name)])


def axis_index(axis_name: AxisName) -> Any:
    """Return the position along a mapped axis, int32; along several, in row-major order.

    Raises: NameError if there is no mapped axis of that name.
    """
    total: Any = None
    for name in names_of(axis_name):
        size = axis_size_of(name)
        index = axis_index_p.bind(axis_name=name)
        total = index if total is None else add(mul(total, constant(size, index)), index)
    return total


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Sum a pytree over mapped axes; `psum(1, name)` is the axis' size, a Python int.

    Raises: NameError if there is no mapped axis of that name.
    """
    size = checked_size("psum", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        if dtypes.issubdtype(aval_of(leaf).dtype, np.bool_):
            leaf = convert_element_type(leaf, np.int32)
        if isinstance(leaf, Tracer):
            return psum_p.bind(leaf, axes=names_of(axis_name), axis_index_groups=None)
        return leaf * size if isinstance(leaf, (int, float, complex)) else times(leaf, size)

    return tree_map(one, x)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Average a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    """
    size = checked_size("pmean", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        total = psum(leaf, axis_name)
        if isinstance(total, (int, float, complex)):
            return total / size
        aval = aval_of(total)
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            total = convert_element_type(total, dtypes.to_inexact_dtype(aval.dtype))
        return div(total, constant(size, total))

    return tree_map(one, x)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Return the largest values of a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    """
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Return the smallest values of a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    """
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(primitive: Reduction, x: Any, axis_name: AxisName, groups: Any) -> Any:
    checked_size(primitive.name, axis_name, groups)
    names = names_of(axis_name)
    return tree_map(lambda v: primitive.bind(v, axes=names, axis_index_groups=None), x)


def checked_size(what: str, axis_name: AxisName, groups: Any, *, single: bool = False) -> Any:
    """Return the size of the mapped axes, after checking what is asked of them.

    Raises: NameError for an unbound name, UnavailableOptionError for groups or several axes.
    """
    size = axis_size(axis_name)
    if groups is not None:
        raise UnavailableOptionError(
            three_lines(
                f"{what} over {axis_name!r} at {current_source()}",
                "axis_index_groups not supported in vmap collectives",
                "give the groups an axis of their own: reshape, and vmap twice",
            )
        )
    if single and len(names_of(axis_name)) != 1:
        raise UnavailableOptionError(
            three_lines(
                f"{what} over {axis_name!r} at {current_source()}",
                f"{what} works over one named axis at a time",
                "call it once for each axis",
            )
        )
    return size
