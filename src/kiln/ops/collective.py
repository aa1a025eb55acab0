"""Collectives over a mapped axis: sums, means, extremes, and the index along the axis.

Each primitive has the effect of the axes it names. A `vmap` of that name turns it into ordinary
operations on the stack; any other one maps through it. Engines see collectives only inside
`shard_map`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.core.array_type import Array
from kiln.core.primitive import Primitive, set_alignment
from kiln.core.trace import Tracer, aval_of, axis_kind_of, axis_size_of, state
from kiln.ir.effects import Effects, named_axis
from kiln.ir.operation import Operation
from kiln.ir.shardings.sums import NOWHERE, Varying
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import ShapedArray
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add, div, mul
from kiln.ops.elements.families import constant
from kiln.ops.linear_op import LinearOp
from kiln.ops.out_sharding import resized
from kiln.ops.reductions.reduction import reduce_max, reduce_min
from kiln.ops.shape import mapped_at, reduce_sum

T = TypeVar("T")

AxisName = Hashable | tuple[Hashable, ...]


def names_of(axis_name: AxisName) -> tuple[Hashable, ...]:
    """Return one axis name, or several, as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


class Collective(Primitive):
    """An operation over mapped axes, which `names` reads from its parameters."""

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
        """Return (result, axis) if the mapped axis is the one to communicate over."""
        raise NotImplementedError

    def through(self, size: Any, x: Any, at: int, **params: Any) -> Any:
        """Return (result, axis) if the mapped axis is another one."""
        return self.bind(x, **params), at

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        if results[0].ndim != xs[0].ndim:
            return super().splits(xs, results, params)
        return resized(self.name, xs[0], results[0])

    def varies(self, operands: Varying, params: dict[str, Any]) -> Varying:
        return operands | state.tracked.intersection(self.names(params))


class Vary(Collective, LinearOp):
    """Mark a value that is equal along some mesh axes as varying along them.

    It is inserted where such a value is combined with one that varies: each member then has its own
    copy, and the cotangents of the copies are summed.
    """

    name = "pvary"

    def names(self, params: dict[str, Any]) -> tuple[Hashable, ...]:
        return tuple(params["axes"])

    def bind(self, *args: Any, axes: Any) -> Any:
        # A program recorded for a value that did not vary may be applied to one that varies.
        missing = tuple(name for name in axes if name not in aval_of(args[0]).varying)
        return super().bind(*args, axes=missing) if missing else args[0]

    def infer(self, x: Any, *, axes: Any) -> ShapedArray:
        return x.with_(varying=x.varying.union(axes))

    def transpose(self, ct: Any, x: Any, *, axes: Any) -> Any:
        return [psum_p.bind(ct, axes=axes, axis_index_groups=None)]

    def over(self, axis: Any, x: Any, at: int | None, *, axes: Any) -> Any:
        rest = tuple(name for name in axes if name != axis.name)
        return self.bind(x, axes=rest) if rest else x, at


class Reduction(Collective):
    """Combine the values of all members; each gets the result."""

    def __init__(self, name: str, reduce: Callable[..., Any], repeat: Callable[..., Any]) -> None:
        super().__init__(name)
        self.reduce = reduce
        self.repeat = repeat

    def names(self, params: dict[str, Any]) -> tuple[Hashable, ...]:
        return tuple(params["axes"])

    def infer(self, x: Any, *, axes: Any, axis_index_groups: Any) -> ShapedArray:
        return x.with_(varying=self.varies(x.varying, {"axes": axes}))

    def varies(self, operands: Varying, params: dict[str, Any]) -> Varying:
        return operands.difference(params["axes"])

    def over(self, axis: Any, x: Any, at: int | None, *, axes: Any, axis_index_groups: Any) -> Any:
        out = self.repeat(x, axis.size) if at is None else self.reduce(x, (at,))
        rest = tuple(name for name in axes if name != axis.name)
        return self.bind(out, axes=rest, axis_index_groups=None) if rest else out, None


class Sum(Reduction, LinearOp):
    """The sum over all members.

    If types do not track what varies, it is its own transpose. If they do, the sum is one value
    shared by all members, and each member's copy gets its cotangent.
    """

    def transpose(self, ct: Any, x: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        typed = tuple(name for name in axes if name in x.aval.varying)
        rest = tuple(name for name in axes if name not in x.aval.varying)
        if rest:
            ct = self.bind(ct, axes=rest, axis_index_groups=None)
        return [vary_p.bind(ct, axes=typed) if typed else ct]


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


vary_p = Vary()
psum_p = Sum("psum", reduce_sum, times)
pmax_p = Reduction("pmax", reduce_max, lambda x, size: x)
pmin_p = Reduction("pmin", reduce_min, lambda x, size: x)
axis_index_p = AxisIndex()


def varied(x: Any, varying: Varying) -> Any:
    """Return a value that varies along all these mesh axes; a known value is returned unchanged."""
    if not isinstance(x, Tracer) or varying <= x.aval.varying:
        return x
    missing = varying - x.aval.varying
    order = dict.fromkeys(name for name, *_ in state.axes if name in missing)
    return vary_p.bind(x, axes=tuple(order))


def _aligned(primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Make all operands vary along the axes that any of them, or the operation, varies along."""
    if primitive.region or primitive is vary_p:
        return args
    found = NOWHERE.union(*[x.aval.varying for x in args if isinstance(x, Tracer)])
    if isinstance(primitive, Collective):
        found |= state.tracked.intersection(primitive.names(params))
    return [varied(x, found) for x in args] if found else args


set_alignment(_aligned)


def pcast(x: T, axis_name: AxisName, *, to: str) -> T:
    """Give each member of a mesh its own copy of a pytree's values, equal along mesh axes.

    Only types change. A gradient with respect to such a copy is the member's own; with respect to
    the shared value it is the sum over members. `to` must be 'varying'.

    Raises: ValueError outside shard_map, for a value that already varies along an axis, and for
        another `to`; NameError for an axis that is not mapped; TypeError for a set of names.
    Example:
        >>> mesh, i = kiln.make_mesh((1,), ("i",)), kiln.P("i")
        >>> def vary(x):
        ...     return lax.pcast(x, "i", to="varying")
        >>> kiln.shard_map(vary, mesh=mesh, in_specs=kiln.P(), out_specs=i)(jnp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    asked = f"pcast along {axis_name!r} at {current_source()}"
    remedy = "write lax.pcast(x, 'axis', to='varying') inside shard_map"
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(
            three_lines(asked, f"axis_name must be a tuple or a str, got {axis_name!r}", remedy)
        )
    kinds = {name: kind for name, _, kind in state.axes}
    mesh = options().mesh
    # Along an axis of one member there is nothing to vary.
    alone = () if mesh is None else [n for n, size in mesh.shape.items() if size == 1]
    names = [name for name in names_of(axis_name) if name in kinds or name not in alone]
    unbound = [name for name in names if name not in kinds]
    if unbound and not kinds:
        raise ValueError(three_lines(asked, "pvary should be called under jax.shard_map", remedy))
    if unbound:
        raise NameError(three_lines(asked, f"Found an unbound axis name: {unbound[0]}", remedy))

    def one(leaf: Any) -> Any:
        varying = aval_of(leaf).varying
        wrong = ""
        if to != "varying":
            wrong = f"`to` must be 'varying', got {to!r}"
        for name in names:
            if not isinstance(kinds.get(name), bool):
                wrong = wrong or f"{name!r} is not a mesh axis of an enclosing shard_map"
            elif name in varying:
                wrong = wrong or f"the value varies along {name!r} already"
        if wrong:
            raise ValueError(
                three_lines(
                    f"pcast of {aval_of(leaf)} along {axis_name!r} at {current_source()}",
                    wrong,
                    "write lax.pcast(x, 'axis', to='varying') inside shard_map",
                )
            )
        typed = tuple(name for name in names if kinds[name])
        return vary_p.bind(leaf, axes=typed) if typed else leaf

    return tree_map(one, x)


def axis_size(axis_name: AxisName) -> Any:
    """Return the size of a mapped axis, or the product of several.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(jnp.array([4, 6]))
        Array([2., 3.], dtype=float32)
    """
    return product([axis_size_of(name) for name in names_of(axis_name)])


def axis_index(axis_name: AxisName) -> Array:
    """Return the position along a mapped axis, int32; along several, in row-major order.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x * 10 + lax.axis_index("i"), axis_name="i")(jnp.array([5, 6]))
        Array([50, 61], dtype=int32)
    """
    total: Any = None
    for name in names_of(axis_name):
        size = axis_size_of(name)
        kind = axis_kind_of(name)
        is_mapped = kind is None or isinstance(kind, bool)
        index = axis_index_p.bind(axis_name=name) if is_mapped else kind.position()
        total = index if total is None else add(mul(total, constant(size, index)), index)
    return total


def psum(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """Sum a pytree over mapped axes; `psum(1, name)` is the axis size, a Python int.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
        Array([0.25, 0.75], dtype=float32)
    """
    size = checked_size("psum", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        if dtypes.issubdtype(aval_of(leaf).dtype, np.bool_):
            leaf = convert_element_type(leaf, np.int32)
        if isinstance(leaf, Tracer):
            return psum_p.bind(leaf, axes=names_of(axis_name), axis_index_groups=None)
        return leaf * size if isinstance(leaf, (int, float, complex)) else times(leaf, size)

    return tree_map(one, x)


def pmean(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """Average a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
        Array([-1.,  1.], dtype=float32)
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


def pmax(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """Return the largest values of a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x - lax.pmax(x, "i"), axis_name="i")(jnp.array([3, 9, 5]))
        Array([-6,  0, -4], dtype=int32)
    """
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """Return the smallest values of a pytree over mapped axes.

    Raises: NameError if there is no mapped axis of that name.
    Example:
        >>> kiln.vmap(lambda x: x - lax.pmin(x, "i"), axis_name="i")(jnp.array([3, 9, 5]))
        Array([0, 6, 2], dtype=int32)
    """
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(primitive: Reduction, x: Any, axis_name: AxisName, groups: Any) -> Any:
    checked_size(primitive.name, axis_name, groups)
    names = names_of(axis_name)
    return tree_map(lambda v: primitive.bind(v, axes=names, axis_index_groups=None), x)


def checked_size(what: str, axis_name: AxisName, groups: Any) -> Any:
    """Return the size of the mapped axes, after checking the arguments.

    Raises: NameError for an unbound name, UnavailableOptionError for groups.
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
    return size
