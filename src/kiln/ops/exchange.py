"""Exchanging data over a mapped axis: gather, scatter sums, all to all, permute."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.core.trace import aval_of, axis_size_of, state
from kiln.ir.shardings.sums import Varying
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import ShapedArray
from kiln.ops.collective import (
    AxisName,
    Collective,
    axis_index,
    checked_size,
    names_of,
    times,
    vary_p,
)
from kiln.ops.elements.elementwise import constant, mul
from kiln.ops.indexing.slicing import dynamic_index_in_dim, dynamic_slice_in_dim
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.linear_op import LinearOp
from kiln.ops.shape import canonical_axis, full, mapped_at, move_axis, reduce_sum, reshape, to_front

T = TypeVar("T")


class AllGather(Collective, LinearOp):
    """Stack the values of all members along a new axis, or join them along an axis (`tiled`)."""

    name = "all_gather"

    def infer(
        self, x: Any, *, all_gather_dimension: int, axis_size: Any, tiled: bool, **_: Any
    ) -> ShapedArray:
        shape = list(x.shape)
        if tiled:
            shape[all_gather_dimension] *= axis_size
        else:
            shape.insert(all_gather_dimension, axis_size)
        return x.with_(shape=shape)

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        dimension = params.pop("all_gather_dimension")
        return [reduce_scatter_p.bind(ct, scatter_dimension=dimension, **params)]

    def over(
        self, axis: Any, x: Any, at: int | None, *, all_gather_dimension: int, tiled: bool, **_: Any
    ) -> Any:
        x = mapped_at(x, axis.size, at, all_gather_dimension)
        return merged(x, all_gather_dimension) if tiled else x, None

    def through(self, size: Any, x: Any, at: int, **params: Any) -> Any:
        params["all_gather_dimension"] += 1
        return self.bind(to_front(x, at), **params), 0


class AllGatherInvariant(AllGather):
    """The same, with the type of a result that does not vary along the axis.

    Its transposition gives each member its own part of the cotangent, which all members have.
    """

    name = "all_gather_invariant"

    def varies(self, operands: Varying, params: dict[str, Any]) -> Varying:
        return operands.difference(self.names(params))

    def transpose(
        self, ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, tiled: bool, **_: Any
    ) -> Any:
        index, copy = axis_index(axis_name), vary_p.bind(ct, axes=tuple(axis_name))
        if not tiled:
            return [dynamic_index_in_dim(copy, index, all_gather_dimension, keepdims=False)]
        size = x.aval.shape[all_gather_dimension]
        start = mul(index, constant(size, index))
        return [dynamic_slice_in_dim(copy, start, size, all_gather_dimension)]


class ReduceScatter(Collective, LinearOp):
    """Sum over all members; each gets its part of the result along an axis."""

    name = "reduce_scatter"

    def infer(
        self, x: Any, *, scatter_dimension: int, axis_size: Any, tiled: bool, **_: Any
    ) -> ShapedArray:
        shape = list(x.shape)
        size = shape.pop(scatter_dimension)
        if tiled:
            shape.insert(scatter_dimension, size // axis_size)
        return x.with_(shape=shape)

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        dimension = params.pop("scatter_dimension")
        return [all_gather_p.bind(ct, all_gather_dimension=dimension, **params)]

    def over(
        self, axis: Any, x: Any, at: int | None, *, scatter_dimension: int, tiled: bool, **_: Any
    ) -> Any:
        x = times(x, axis.size) if at is None else reduce_sum(x, (at,))
        return divided(x, axis.size, scatter_dimension) if tiled else x, scatter_dimension

    def through(self, size: Any, x: Any, at: int, **params: Any) -> Any:
        params["scatter_dimension"] += 1
        return self.bind(to_front(x, at), **params), 0


class AllToAll(Collective, LinearOp):
    """Split along `split_axis`, send part i to member i; join what arrives along `concat_axis`."""

    name = "all_to_all"

    def infer(
        self, x: Any, *, split_axis: int, concat_axis: int, axis_size: Any, tiled: bool, **_: Any
    ) -> ShapedArray:
        shape = list(x.shape)
        if tiled:
            shape[split_axis] //= axis_size
            shape[concat_axis] *= axis_size
        else:
            shape.insert(concat_axis, shape.pop(split_axis))
        return x.with_(shape=shape)

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        swapped = {
            "split_axis": params["concat_axis"],
            "concat_axis": params["split_axis"],
        }
        return [self.bind(ct, **{**params, **swapped})]

    def over(
        self,
        axis: Any,
        x: Any,
        at: int | None,
        *,
        split_axis: int,
        concat_axis: int,
        tiled: bool,
        **_: Any,
    ) -> Any:
        x = mapped_at(x, axis.size, at, 0)
        if not tiled:
            return move_axis(to_front(x, split_axis + 1), 1, concat_axis + 1), 0
        x = divided(x, axis.size, split_axis + 1)
        # The senders' axis comes right before the axis that their parts are joined along.
        x = move_axis(to_front(x, split_axis + 1), 1, concat_axis + 1)
        return merged(x, concat_axis + 1), 0

    def through(self, size: Any, x: Any, at: int, **params: Any) -> Any:
        params["split_axis"] += 1
        params["concat_axis"] += 1
        return self.bind(to_front(x, at), **params), 0


class Permute(Collective, LinearOp):
    """Send values by (source, target) pairs; members that receive nothing get zeros."""

    name = "ppermute"

    def infer(self, x: Any, *, axis_name: Any, perm: Any) -> ShapedArray:
        return x

    def transpose(self, ct: Any, x: Any, *, axis_name: Any, perm: Any) -> Any:
        back = tuple((target, source) for source, target in perm)
        return [self.bind(ct, axis_name=axis_name, perm=back)]

    def over(self, axis: Any, x: Any, at: int | None, *, axis_name: Any, perm: Any) -> Any:
        x = mapped_at(x, axis.size, at, 0)
        rest = [name for name in axis_name if name != axis.name]
        if not rest:
            return _permuted(x, perm), 0
        # Members along the other axes hold the rest: gather it, permute all, keep the own part.
        for name in reversed(rest):
            x = _gathered(x, name)
        place = axis_name.index(axis.name)
        x = move_axis(x, len(rest), place)
        sizes, shape = aval_of(x).shape[: len(axis_name)], aval_of(x).shape[len(axis_name) :]
        x = reshape(_permuted(reshape(x, (product(sizes), *shape)), perm), (*sizes, *shape))
        x = move_axis(x, place, len(rest))
        for name in rest:
            x = dynamic_index_in_dim(x, axis_index(name), 0, keepdims=False)
        return x, 0


def _gathered(x: Any, name: Any) -> Any:
    return all_gather_p.bind(
        x,
        all_gather_dimension=0,
        axis_index_groups=None,
        axis_name=(name,),
        axis_size=axis_size_of(name),
        tiled=False,
    )


def _permuted(x: Any, perm: Any) -> Any:
    """Return rows where pairs of (source, target) send them, zeros elsewhere."""
    source_of = {target: source for source, target in perm}
    size, *shape = aval_of(x).shape
    parts, target = [], 0
    while target < size:
        source, count = source_of.get(target), 1
        # Runs of neighbors move together.
        while target + count < size and source_of.get(target + count) == (
            None if source is None else source + count
        ):
            count += 1
        if source is None:
            parts.append(full((count, *shape), 0, aval_of(x).dtype))
        else:
            parts.append(slice_in_dim(x, source, source + count))
        target += count
    return concatenate(parts, 0) if len(parts) > 1 else parts[0]


def merged(x: Any, axis: int) -> Any:
    """Join an axis with the next one."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], product(shape[axis : axis + 2]), *shape[axis + 2 :]))


def divided(x: Any, size: Dim, axis: int) -> Any:
    """Split an axis in two, the first one of the given size."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


all_gather_p = AllGather()
all_gather_invariant_p = AllGatherInvariant()
reduce_scatter_p = ReduceScatter()
all_to_all_p = AllToAll()
ppermute_p = Permute()


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Gather a pytree's values along a new `axis`, or with `tiled` join them along `axis`.

    With `to="invarying"` the types inside `shard_map` say that all members have the same result.

    Raises: NameError if there is no mapped axis of that name; ValueError for another `to`.
    Example:
        >>> kiln.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(jnp.array([3, 5]))
        Array([[3, 5],
               [3, 5]], dtype=int32)
    """
    checked_size("all_gather", axis_name, axis_index_groups)
    if to not in ("varying", "invarying"):
        raise ValueError(
            three_lines(
                f"all_gather over {axis_name!r} with to={to!r} at {current_source()}",
                "`to` must be 'varying' or 'invarying'; members have no reduced arrays",
                "write to='invarying' for a result that is the same on all members",
            )
        )

    def one(leaf: Any) -> Any:
        ndim = len(aval_of(leaf).shape) + (not tiled)
        place = canonical_axis("all_gather", axis, ndim)
        names = names_of(axis_name)
        for i, name in enumerate(reversed(names)):
            joined = tiled or i > 0
            is_typed = to == "invarying" and name in state.tracked
            primitive = all_gather_invariant_p if is_typed else all_gather_p
            leaf = primitive.bind(
                leaf,
                all_gather_dimension=place,
                axis_index_groups=None,
                axis_name=(name,),
                axis_size=axis_size_of(name),
                tiled=joined,
            )
        return leaf

    return tree_map(one, x)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Sum a pytree over a mapped axis; each member keeps its part along `scatter_dimension`.

    Raises: NameError if there is no mapped axis of that name; ValueError if the parts do not fit.
    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> kiln.vmap(lambda row: lax.psum_scatter(row, "i"), axis_name="i")(x)
        Array([2, 4], dtype=int32)
    """
    size = checked_size("psum_scatter", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        shape = aval_of(leaf).shape
        place = canonical_axis("psum_scatter", scatter_dimension, len(shape))
        _check_parts("psum_scatter", leaf, place, size, tiled)
        names = names_of(axis_name)
        if not tiled and len(names) > 1:
            leaf = reshape(leaf, (*shape[:place], *map(axis_size_of, names), *shape[place + 1 :]))
        for name in names:
            leaf = reduce_scatter_p.bind(
                leaf,
                scatter_dimension=place,
                axis_index_groups=None,
                axis_name=(name,),
                axis_size=axis_size_of(name),
                tiled=tiled,
            )
        return leaf

    return tree_map(one, x)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Exchange parts: split along `split_axis`, join what the others sent along `concat_axis`.

    Raises: NameError if there is no mapped axis of that name; ValueError if the parts do not fit.
    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> kiln.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
        Array([[0, 2],
               [1, 3]], dtype=int32)
    """
    size = checked_size("all_to_all", axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        ndim = len(aval_of(leaf).shape)
        split = canonical_axis("all_to_all", split_axis, ndim)
        concat = canonical_axis("all_to_all", concat_axis, ndim)
        _check_parts("all_to_all", leaf, split, size, tiled)
        names = names_of(axis_name)
        if len(names) == 1:
            return _all_to_all(leaf, names[0], split, concat, tiled)
        # One exchange per axis, in place; then the senders' axes move to their final positions.
        shape, sizes = aval_of(leaf).shape, tuple(map(axis_size_of, names))
        after = (shape[split] // size, *shape[split + 1 :]) if tiled else shape[split + 1 :]
        leaf = reshape(leaf, (*shape[:split], *sizes, *after))
        for i, name in enumerate(names):
            leaf = _all_to_all(leaf, name, split + i, split + i, False)
        leaf = move_axis(reshape(leaf, (*shape[:split], size, *after)), split, concat)
        return merged(leaf, concat) if tiled else leaf

    return tree_map(one, x)


def _all_to_all(x: Any, name: Any, split: int, concat: int, tiled: bool) -> Any:
    return all_to_all_p.bind(
        x,
        split_axis=split,
        concat_axis=concat,
        axis_index_groups=None,
        axis_name=(name,),
        axis_size=axis_size_of(name),
        tiled=tiled,
    )


def _member(asked: str, number: Any) -> int:
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(
            three_lines(
                f"{asked} with {number!r} in perm at {current_source()}",
                f"members of an axis have ints as numbers, not values of type {type(number)}",
                "use ints",
            )
        ) from None


def ppermute(x: T, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> T:
    """Send a pytree's values by (source, target) pairs; members that receive nothing get zeros.

    Along several axes members are numbered in the row-major order of the mesh, whatever the order
    of the names.

    Raises: NameError if there is no mapped axis of that name; ValueError for pairs that repeat a
        source or a target, or are out of range; TypeError for non-integers.
    Example:
        >>> x = jnp.array([3, 5, 7])
        >>> kiln.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x)
        Array([0, 3, 5], dtype=int32)
    """
    size = checked_size("ppermute", axis_name, None)
    pairs = tuple(
        (_member("ppermute", source), _member("ppermute", target)) for source, target in perm
    )
    for ends in zip(*pairs, strict=True):
        if len(set(ends)) < len(ends) or not all(0 <= i < size for i in ends):
            raise ValueError(
                three_lines(
                    f"ppermute with perm={pairs} over an axis of size {size} at {current_source()}",
                    "sources and targets must be unique members of the axis",
                    f"use each number from 0 to {size - 1} at most once on either side",
                )
            )
    wanted = names_of(axis_name)
    names = tuple(dict.fromkeys(name for name, *_ in state.axes if name in wanted))
    return tree_map(lambda leaf: ppermute_p.bind(leaf, axis_name=names, perm=pairs), x)


def pshuffle(x: T, axis_name: AxisName, perm: Sequence[int]) -> T:
    """Rearrange a pytree's values: member i gets that of member perm[i].

    Raises: NameError if there is no mapped axis `axis_name`; ValueError unless `perm` is a
        permutation.
    Example:
        >>> x = jnp.array([3, 5, 7])
        >>> kiln.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(x)
        Array([7, 3, 5], dtype=int32)
    """
    return ppermute(x, axis_name, [(source, target) for target, source in enumerate(perm)])


def pswapaxes(x: T, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> T:
    """Exchange a mapped axis with an axis of the operands, of the same size.

    Raises: NameError if there is no mapped axis `axis_name`; ValueError if the sizes differ.
        `axis_index_groups` as for `all_to_all`.
    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> kiln.vmap(lambda row: lax.pswapaxes(row, "i", 0), axis_name="i")(x)
        Array([[0, 2],
               [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _check_parts(what: str, x: Any, axis: int, size: Any, tiled: bool) -> None:
    found = aval_of(x).shape[axis]
    if found % size != 0 if tiled else found != size:
        raise ValueError(
            three_lines(
                f"{what} of {aval_of(x)} along axis {axis} at {current_source()}",
                f"{what} requires x.shape[{axis}] to be "
                + ("divisible by" if tiled else "equal to")
                + f" the size of the mapped axis, but they are {found} and {size} respectively",
                "reshape the operand, or use another axis",
            )
        )
