"""Collectives, inside the program of one device of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnsupportedPrimitive, three_lines
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops import collective as ops
from kiln.ops import exchange

Out = Sequence[ShapedArray]
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"


def _groups(b: Builder, what: str, names: Sequence[Any]) -> list[list[int]]:
    partition = b.module.partition
    manual = partition.manual
    missing = [name for name in names if manual is None or name not in manual.axes]
    if missing:
        raise UnsupportedPrimitive(
            three_lines(
                f"{what} over {tuple(names)} at {b.source}",
                f"{missing} are not mesh axes of a shard_map around it",
                "map the axis with vmap, or with shard_map over a mesh that has it",
            )
        )
    return partition.groups(names)


def _written(groups: Sequence[Sequence[int]], attribute: str = "replica_groups") -> str:
    array = np.array(groups, np.int64).reshape(len(groups), -1)
    return (
        f"{attribute} = dense<{text.dense(array)}> : tensor<{'x'.join(map(str, array.shape))}xi64>"
    )


def _reduction(name: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Value, *, axes: Any, axis_index_groups: Any) -> Value:
        groups = _written(_groups(b, f"p{name}", axes))
        return b.op(
            "stablehlo.all_reduce", [x], x.aval, f"{groups}, {CHANNEL}", [_combine(b, x, name)]
        )

    return lower


def _combine(b: Builder, x: Value, name: str) -> str:
    scalar = ShapedArray((), x.dtype)
    return b.region([scalar] * 2, lambda inner, u, v: [_combined(inner, x, name, u, v)])


def _combined(b: Builder, x: Value, name: str, u: Value, v: Value) -> Value:
    if name == "sum":
        return b.apply("or" if dtypes.issubdtype(x.dtype, np.bool_) else "add", u, v)
    return b.apply({"max": "maximum", "min": "minimum"}[name], u, v)


def _all_gather(
    b: Builder,
    out: Out,
    x: Value,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    tiled: bool,
    **_: Any,
) -> Value:
    if not tiled:
        shape = list(x.shape)
        shape.insert(all_gather_dimension, 1)
        x = b.reshape(x, shape)
    groups = _written(_groups(b, "all_gather", axis_name))
    attrs = f"all_gather_dim = {all_gather_dimension} : i64, {groups}, {CHANNEL}"
    return b.op("stablehlo.all_gather", [x], out[0], attrs)


def _reduce_scatter(
    b: Builder,
    out: Out,
    x: Value,
    *,
    scatter_dimension: int,
    axis_name: Any,
    tiled: bool,
    **_: Any,
) -> Value:
    shape = list(out[0].shape)
    if not tiled:
        shape.insert(scatter_dimension, 1)
    groups = _written(_groups(b, "reduce_scatter", axis_name))
    attrs = f"scatter_dimension = {scatter_dimension} : i64, {groups}, {CHANNEL}"
    part: Value = b.op(
        "stablehlo.reduce_scatter",
        [x],
        out[0].with_(shape=tuple(shape)),
        attrs,
        [_combine(b, x, "sum")],
    )
    return part if tiled else b.reshape(part, out[0].shape)


def _all_to_all(
    b: Builder,
    out: Out,
    x: Value,
    *,
    split_axis: int,
    concat_axis: int,
    axis_name: Any,
    axis_size: int,
    tiled: bool,
    **_: Any,
) -> Value:
    groups = _written(_groups(b, "all_to_all", axis_name))
    joined = concat_axis
    if not tiled:
        # The axis that is split has one row per device; received rows get a new axis.
        split = split_axis + (concat_axis < split_axis)
        joined = concat_axis + (concat_axis >= split_axis)
        shape = list(x.shape)
        shape.insert(concat_axis + (concat_axis >= split_axis), 1)
        x, split_axis = b.reshape(x, shape), split
    shape = list(x.shape)
    shape[split_axis] //= axis_size
    shape[joined] *= axis_size
    attrs = (
        f"concat_dimension = {joined} : i64, split_count = {axis_size} : i64, "
        f"split_dimension = {split_axis} : i64, {groups}, {CHANNEL.split(', use')[0]}"
    )
    found: Value = b.op("stablehlo.all_to_all", [x], x.aval.with_(shape=tuple(shape)), attrs)
    return found if tiled else b.reshape(found, out[0].shape)


def _permute(b: Builder, out: Out, x: Value, *, axis_name: Any, perm: Any) -> Value:
    pairs = [
        (group[source], group[target])
        for group in _groups(b, "ppermute", axis_name)
        for source, target in perm
    ]
    if not pairs:
        return b.constant(0, x.aval)
    written = _written(pairs, "source_target_pairs")
    attrs = f"{written}, {CHANNEL.split(', use')[0]}"
    return b.op("stablehlo.collective_permute", [x], x.aval, attrs)


def _axis_index(b: Builder, out: Out, *, axis_name: Any) -> Value:
    groups = _groups(b, "axis_index", (axis_name,))
    manual = b.module.partition.manual
    assert manual is not None
    if len(manual.axes) < len(manual.mesh.axis_names):
        return _axis_index_by_exchange(b, groups)
    place = {member: i for group in groups for i, member in enumerate(group)}
    table = np.array([place[i] for i in range(len(place))], np.int32)
    number: Value = b.emit("stablehlo.partition_id : tensor<ui32>", ShapedArray((), np.uint32))
    here = b.constant(table, ShapedArray(table.shape, table.dtype))
    found: Value = b.op(
        "stablehlo.dynamic_slice",
        [here, number],
        ShapedArray((1,), table.dtype),
        "slice_sizes = array<i64: 1>",
    )
    return b.reshape(found, ())


def _axis_index_by_exchange(b: Builder, groups: Sequence[Sequence[int]]) -> Value:
    # XLA has no partition id if other axes are left to its partitioner.
    one = ShapedArray((1,), np.dtype(np.int32))
    places = b.iota(one.with_(shape=(len(groups[0]),)))
    attrs = f"scatter_dimension = 0 : i64, {_written(groups)}, {CHANNEL}"
    combine = _combine(b, places, "max")
    return b.reshape(b.op("stablehlo.reduce_scatter", [places], one, attrs, [combine]), ())


def _same(b: Builder, out: Out, x: Value, *, axes: Any) -> Value:
    return x


LOWERINGS: dict[Primitive, Lowering] = {
    ops.vary_p: _same,
    ops.psum_p: _reduction("sum"),
    ops.pmax_p: _reduction("max"),
    ops.pmin_p: _reduction("min"),
    ops.axis_index_p: _axis_index,
    exchange.all_gather_p: _all_gather,
    exchange.all_gather_invariant_p: _all_gather,
    exchange.reduce_scatter_p: _reduce_scatter,
    exchange.all_to_all_p: _all_to_all,
    exchange.ppermute_p: _permute,
}
