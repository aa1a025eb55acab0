"""Other shardings of arrays whose parts belong to several processes: a program moves them."""

from __future__ import annotations

import functools

from kiln.core.arrays.array import ConcreteArray
from kiln.core.arrays.errors import cannot_move
from kiln.execution.placement import PlacementRequest, Placer
from kiln.ir.jaxpr import Jaxpr, Var
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray

PROGRAMS = 256


@functools.lru_cache(PROGRAMS)
def _placer(aval: ShapedArray, sharding: Sharding) -> Placer:
    x = Var(aval)
    return Placer(
        Jaxpr([], [x], [], [x]), "reshard", request=PlacementRequest(out_shardings=(sharding,))
    )


def resharded(x: ConcreteArray, sharding: Sharding) -> ConcreteArray:
    """Return an array under another sharding over the same devices, in all processes together.

    Raises: ValueError for other devices, unless this process holds all of the array.
    """
    if sharding.device_set != x.sharding.device_set:
        raise cannot_move(x.aval, x.sharding, sharding)
    return _placer(x.aval, sharding)([x])[0]
