"""What a program is lowered for: the shardings of its committed arguments, or a platform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.arrays.array import PlacedArray
from kiln.core.ref import Ref
from kiln.ir.shardings.sharding import Sharding
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.ops.sharding import resolved, says_nothing

_PLATFORMS = ("cpu", "cuda", "gpu", "tpu")


def committed_places(leaves: Iterable[Any]) -> tuple[Sharding | None, ...]:
    """Return the shardings of committed arrays and of ShapeDtypeStructs that have one."""
    return tuple([_place(x) for x in leaves])


def _place(x: Any) -> Sharding | None:
    if isinstance(x, ShapeDtypeStruct):
        place = x.sharding
        if place is None or place.devices or says_nothing(place) or options().mesh is None:
            return place
        return resolved(place, "ShapeDtypeStruct with sharding")
    if type(x) is Ref:
        x = x.content
    return x.sharding if isinstance(x, PlacedArray) and x.committed else None


def platform_of(lowering_platforms: Sequence[str], name: str) -> str | None:
    """Return the platform to compile for; None for the cpu of this machine.

    Raises: ValueError for several platforms, or an unknown one.
    """
    platforms = tuple(lowering_platforms)
    if len(platforms) != 1 or platforms[0] not in _PLATFORMS:
        raise ValueError(
            three_lines(
                f"lowering of {name} with lowering_platforms={platforms} at {current_source()}",
                "a program is lowered for one platform that kiln knows",
                f"give one of {', '.join(_PLATFORMS)}, as in lowering_platforms=('cuda',)",
            )
        )
    return None if platforms == ("cpu",) else platforms[0]
