"""Moving arrays between devices, and assembling them from shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray, PlacedArray, buffer_at, host_value, part_like
from kiln.core.engines.engine import Buffer, Memory, default_engine
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding, misfit, require_fit
from kiln.ir.types import ShapedArray, plain, typed


def placed(
    x: ConcreteArray, memory: Memory, sharding: Sharding, *, committed: bool = True
) -> ConcreteArray:
    """Return an array with the same values under another sharding.

    Raises: ValueError if the array cannot be sharded this way.
    """
    if misfit(sharding, x.shape):
        # Formatting the request takes longer than the check.
        require_fit(sharding, x.shape, f"array {x.aval} placed by {sharding} at {current_source()}")
    made = from_placed([x.aval], [buffer_at(x, memory, sharding)], memory, [sharding], committed)[0]
    return part_like(x, made)


def spread(value: np.ndarray, memory: Memory, sharding: Sharding) -> ConcreteArray | None:
    """Return an array of host data over several devices, copied only there.

    None for data that kiln has no arrays of, or that cannot be sharded this way.
    """
    if type(value) is not np.ndarray or not dtypes.is_supported(value.dtype):
        return None
    if dtypes.canonicalize_dtype(value.dtype) != value.dtype or misfit(sharding, value.shape):
        return None
    aval = ShapedArray(value.shape, value.dtype)
    return from_placed([aval], [memory.put(value, sharding)], memory, [sharding], True)[0]


def from_placed(
    avals: Sequence[ShapedArray],
    buffers: Sequence[Buffer],
    memory: Memory,
    shardings: Sequence[Sharding],
    committed: bool,
) -> list[ConcreteArray]:
    """Make arrays from buffers with the given shardings, which their types record."""
    return [
        PlacedArray(typed(a, s), None, b, memory, s, committed)
        for a, b, s in zip(avals, buffers, shardings, strict=True)
    ]


def joined(
    aval: ShapedArray, memory: Memory, sharding: Sharding, parts: Sequence[ConcreteArray]
) -> ConcreteArray:
    """Make one array from its shards in this process, ordered by device, without copying them."""
    buffers = [
        buffer_at(part, memory, SingleDeviceSharding(sharding.devices[i]))
        for part, i in zip(parts, sharding.addressable_order, strict=True)
    ]
    is_alone = len(sharding.devices) == 1
    if not is_alone:
        for part in parts:
            part._note_part()
    whole = buffers[0] if is_alone else memory.join(aval, sharding, buffers)
    return from_placed([aval], [whole], memory, [sharding], True)[0]


def shards_on_host(x: ConcreteArray, numbers: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return read-only views of shards of an array on several devices; may wait.

    `numbers` are places in `addressable_shards`. A view keeps its memory: a program that the array
    is donated to does not reuse it.
    """
    if not numbers:
        return ()
    home = x._held()[2] or default_engine().memory
    sharding = x.sharding
    found = x._ask(home.views, home, buffer_at(x, home, sharding), sharding, numbers)
    if x.aval.dtype == dtypes.float0:
        return tuple([np.zeros(view.shape, dtypes.float0) for view in found])
    return tuple(found)


def adopted_shards(
    aval: ShapedArray, sharding: Sharding, parts: Sequence[np.ndarray]
) -> ConcreteArray:
    """Make an array from its shards in this process, on the host, ordered by device.

    They have the shape of a block and the dtype of the array, which is not `float0`, and are never
    modified. Memory that is aligned to 64 bytes is not copied.
    """
    memory = default_engine().memory
    whole = memory.adopt_shards(aval, sharding, parts)
    return from_placed([aval], [whole], memory, [sharding], True)[0]


def unplaced(x: ConcreteArray) -> ConcreteArray:
    """Return an array with the same values on the first device."""
    return ConcreteArray(plain(x.aval), host_value(x)) if type(x) is PlacedArray else x


def together(values: Sequence[Any]) -> Sequence[Any]:
    """Return values; if arrays are committed to different devices, move them to the first one."""
    places = {x.sharding.device_set for x in values if type(x) is PlacedArray and x.committed}
    if len(places) <= 1:
        return values
    return [unplaced(x) if isinstance(x, ConcreteArray) else x for x in values]
