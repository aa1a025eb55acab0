"""A function applied to elements of an array, to each as often as a count says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.control.loops import while_loop
from kiln.core.trace import aval_of
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import gt, select, sub
from kiln.ops.reduction import reduce_max


def repeated(func: Callable[[Any], Any], x: Any, count: Any) -> Any:
    """Apply an elementwise function to each element of x as often as the int32 array says."""
    aval, none = aval_of(x), np.int32(0)
    if 0 in aval.shape:
        return x

    def unfinished(state: Any) -> Any:
        left, _ = state
        return gt(reduce_max(left, range(aval.ndim)), none)

    def step(state: Any) -> Any:
        left, value = state
        changed = convert_element_type(func(value), aval.dtype, aval.weak_type)
        return sub(left, np.int32(1)), select(gt(left, none), changed, value)

    return while_loop(unfinished, step, (count, x))[1]
