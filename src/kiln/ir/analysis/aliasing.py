"""Aliasing: which results of a program can reuse the memory of which donated inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.sharding import Sharding


def _size(aval: Any, sharding: Sharding | None) -> int:
    shape = aval.shape if sharding is None else sharding.shard_shape(aval.shape)
    dtype = aval.physical().dtype
    return 0 if dtype == dtypes.float0 else math.prod(shape) * int(dtype.itemsize)


def reused(
    jaxpr: Jaxpr,
    donated: Sequence[int],
    in_shardings: Sequence[Sharding | None] = (),
    out_shardings: Sequence[Sharding | None] = (),
) -> dict[int, int]:
    """Return which output can reuse the memory of which donated input.

    An output of the same type is preferred to one of only the same size.
    """
    ins, outs = jaxpr.in_avals, jaxpr.out_avals
    in_cuts = in_shardings or [None] * len(ins)
    out_cuts = out_shardings or [None] * len(outs)
    sizes = [_size(a, s) for a, s in zip(outs, out_cuts, strict=True)]
    free = list(range(len(outs)))
    found: dict[int, int] = {}
    for exactly in (True, False):
        for i in donated:
            if i in found:
                continue
            size = _size(ins[i], in_cuts[i])
            for j in free:
                if sizes[j] == size and (not exactly or ins[i].same_type(outs[j])):
                    found[i] = j
                    free.remove(j)
                    break
    return dict(sorted(found.items()))
