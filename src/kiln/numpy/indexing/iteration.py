"""Iteration over arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray, from_host, host_value
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import is_constant
from kiln.numpy.promotion import shape_of
from kiln.ops.indexing.static_slicing import index_in_dim
from kiln.ops.sharding import auto


def unpacked(x: Any) -> Iterable[Any]:
    """Return the slices of an array along its first axis, for iteration."""
    shape = shape_of(x)
    if not shape:
        raise TypeError(
            f"iteration over {aval_of(x)} at {current_source()}\n"
            "iteration over a 0-d array\nuse x.item()"
        )
    size = shape[0]
    if not is_constant((size,)):
        raise TypeError(
            three_lines(
                f"iteration over {aval_of(x)} at {current_source()}",
                "the size of the first axis is not known while tracing",
                "use kiln.lax.scan or kiln.vmap over the axis",
            )
        )
    if type(x) is ConcreteArray and not options().debug_key_reuse:
        value, aval = host_value(x), x.aval.with_(shape=shape[1:])
        return [from_host(np.asarray(value[i]), aval, is_sent=False) for i in range(size)]
    # Rows of an array whose first axis is split are where the compiler puts them.
    x = auto(x) if aval_of(x).split[0] is not None else x
    return [index_in_dim(x, i, 0, keepdims=False) for i in range(size)]
