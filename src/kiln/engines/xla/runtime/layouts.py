"""Shardings and memory layouts in the types of jaxlib and XLA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib import _jax, xla_client

from kiln.base.errors import three_lines
from kiln.ir.shardings.sharding import Blocks


class DeviceSharding(_jax.Sharding):
    """The sharding of an array in the form that jaxlib requires.

    These are slots because jax, if it is imported beside kiln, adds descriptors of the same names
    to the base class, which would take precedence over attributes in an instance's dictionary.
    """

    __slots__ = ("_hlo", "_internal_device_list", "devices", "local", "order")
    memory_kind = None

    def __init__(
        self, devices: Sequence[Any], hlo: Any = None, here: Sequence[tuple[Any, int]] = ()
    ) -> None:
        super().__init__()
        self.devices = tuple(devices)
        # The devices of this process, and the numbers of their shards among those of this process.
        self.local = tuple([device for device, _ in here])
        self.order = tuple([number for _, number in here])
        self._internal_device_list = _jax.DeviceList(self.devices)
        self._hlo = hlo or xla_client.HloSharding.replicate()

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return self._hlo


def hlo_of(blocks: Blocks) -> Any:
    """Return XLA's representation of a sharding."""
    count, parts = len(blocks.at), math.prod(blocks.parts)
    if parts == 1:
        return xla_client.HloSharding.replicate()
    proto = xla_client.OpSharding()
    proto.type = xla_client.OpSharding.Type.OTHER
    copies = count // parts
    proto.tile_assignment_dimensions = [*blocks.parts, *([copies] if copies > 1 else [])]
    proto.tile_assignment_devices = sorted(range(count), key=lambda i: blocks.at[i])
    proto.replicate_on_last_tile_dim = copies > 1
    return xla_client.HloSharding.from_proto(proto)


_UNREDUCED = xla_client.OpSharding.Type.UNREDUCED


def blocks_of(proto: Any, count: int, ndim: int) -> Blocks:
    """Return the blocks of XLA's sharding of an array of rank `ndim` over `count` devices."""
    hlo = None if proto is None else xla_client.HloSharding.from_proto(proto)
    if hlo is not None and (hlo.is_unreduced() or _UNREDUCED in hlo.subgroup_types()):
        raise NotImplementedError(
            three_lines(
                "compiling a program over several devices",
                "XLA leaves a result unreduced, but the program does not specify that",
                "specify the sharding of the result: out_shardings=, or kiln.reshard(x, P(...))",
            )
        )
    if hlo is None or hlo.is_replicated() or not ndim:
        return Blocks((1,) * ndim, ((0,) * ndim,) * count)
    dims = list(hlo.tile_assignment_dimensions())
    places = list(np.ndindex(*dims))
    where = dict(zip(hlo.tile_assignment_devices(), places, strict=True))
    return Blocks(tuple(dims[:ndim]), tuple(where[i][:ndim] for i in range(count)))


def output_blocks(raw: Any, ndims: Sequence[int | None], count: int) -> list[Blocks | None]:
    """Return the blocks of results of an executable on `count` devices; None for rank None."""
    found = raw.get_output_shardings() or [None] * len(ndims)
    # For a program without results it returns the sharding of an empty tuple.
    pairs = zip(found, ndims, strict=True) if ndims else ()
    return [None if ndim is None else blocks_of(proto, count, ndim) for proto, ndim in pairs]
