"""Arrays of several processes, assembled from the data of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.arrays import make_array_from_callback
from kiln.base.errors import three_lines
from kiln.base.process.identity import process_count
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_unflatten
from kiln.core.array_type import Array
from kiln.core.arrays.transfers import explicit
from kiln.core.trace import require_unmasked
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.shardings.sharding import Index, Sharding, SingleDeviceSharding, require_fit
from kiln.ops.sharding import checked_device, resolved

_NAME = "make_array_from_process_local_data"


@api_boundary
@explicit
def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Return arrays sharded over processes, each of which provides the parts of its own devices.

    `sharding` and `global_shape` are pytree prefixes of `local_data`, the pytree of this process's
    data. Along each axis, the data either has the size of the whole array, or consists of the parts
    of the process's devices, in order. Without `global_shape` it is the latter along every axis.

    Raises: ValueError for data of another shape, or if the shape of the whole cannot be inferred.
    Example:
        >>> sharding = kiln.NamedSharding(kiln.make_mesh((1,), ("i",)), kiln.P("i"))
        >>> kiln.make_array_from_process_local_data(sharding, np.arange(3, dtype=np.int32))
        Array([0, 1, 2], dtype=int32)
    """
    leaves, tree = tree_flatten(local_data)
    shardings = broadcast_prefix(sharding, local_data, is_leaf=lambda s: s is None)
    shapes = broadcast_prefix(
        global_shape,
        local_data,
        is_leaf=lambda s: s is None or isinstance(s, (tuple, list)),
    )
    return tree_unflatten(
        tree,
        [
            _array(leaf, _place(place), shape)
            for leaf, place, shape in zip(leaves, shardings, shapes, strict=True)
        ],
    )


def _place(given: Any) -> Sharding:
    """Return a sharding; a device stands for the sharding of an array on that device only."""
    if isinstance(given, (Sharding, PartitionSpec)):
        return resolved(given, _NAME)
    return SingleDeviceSharding(checked_device(given, _NAME))


def _array(local_data: Any, sharding: Sharding, global_shape: Sequence[int] | None) -> Array:
    require_unmasked(local_data)
    data = np.asarray(local_data)
    asked = f"{_NAME} of data of shape {data.shape}"
    if global_shape is None:
        shape = global_shape_of(sharding, data.shape, asked)
    else:
        shape = tuple(global_shape)
        _require_whole(data.shape, shape, asked)
    require_fit(sharding, shape, asked)
    parts, at = sharding.blocks(data.ndim)
    mine = [sorted({at[i][axis] for i in sharding.addressable_order}) for axis in range(data.ndim)]
    sizes = sharding.shard_shape(shape)
    for axis, (have, whole) in enumerate(zip(data.shape, shape, strict=True)):
        if have not in (whole, len(mine[axis]) * sizes[axis]):
            raise ValueError(
                three_lines(
                    f"{asked}, with global_shape={shape}, sharded by {sharding} at "
                    f"{current_source()}",
                    f"axis {axis} has {have} elements here; the devices of this process hold "
                    f"{len(mine[axis]) * sizes[axis]} of {whole}",
                    "give either what these devices hold, or the whole axis",
                )
            )

    def part(index: Index) -> np.ndarray:
        found = []
        for axis, slc in enumerate(index):
            if data.shape[axis] != shape[axis] and parts[axis] > 1:
                start = mine[axis].index(slc.start // sizes[axis]) * sizes[axis]
                slc = slice(start, start + sizes[axis])
            found.append(slc)
        return data[tuple(found)]

    return make_array_from_callback(shape, sharding, part, data.dtype)


def _require_whole(have: tuple[int, ...], wanted: tuple[int, ...], asked: str) -> None:
    if len(have) != len(wanted):
        wrong = f"the data have {len(have)} axes, and global_shape {len(wanted)}"
    elif process_count() == 1 and have != wanted:
        wrong = f"there is one process, and its data have shape {have}"
    else:
        return
    raise ValueError(
        three_lines(
            f"{asked} with global_shape={wanted} at {current_source()}", wrong, "leave it out"
        )
    )


def global_shape_of(sharding: Sharding, local_shape: Sequence[int], asked: str) -> tuple[int, ...]:
    """Return the shape of an array from that of its part in this process.

    Raises: ValueError if processes hold overlapping ranges, or ranges of different sizes, of an
        axis.
    """
    parts, at = sharding.blocks(len(local_shape))
    here = frozenset(sharding.addressable_order)
    shape = []
    for axis, size in enumerate(local_shape):
        by_process: dict[int, set[int]] = {}
        for i, device in enumerate(sharding.devices):
            by_process.setdefault(device.process_index, set()).add(at[i][axis])
        ranges = {frozenset(found) for found in by_process.values()}
        mine = {at[i][axis] for i in here}
        held = sum(map(len, ranges))
        if not mine or held != parts[axis] or len({len(each) for each in ranges}) != 1:
            raise ValueError(
                three_lines(
                    f"{asked} sharded by {sharding} at {current_source()}",
                    f"along axis {axis} the processes hold no equal, separate ranges, so that the "
                    "shape of the whole array does not follow from the data",
                    "give global_shape",
                )
            )
        shape.append(size * parts[axis] // len(mine))
    return tuple(shape)
