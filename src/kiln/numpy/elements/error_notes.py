"""The errors that functions of `kiln.numpy` note if asked: nans, zeros as divisors, positions.

What is noted is raised by `kiln.experimental.error_check.raise_if_error`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.config import options
from kiln.base.lazy import error_check
from kiln.core.trace import aval_of, is_typed
from kiln.ir.sizes import Dim
from kiln.numpy.indexing.index_expressions import GatherPlan, Positions
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import bitwise_or, constant, eq, ge, lt, ne, neg


def without_nan(x: Any) -> Any:
    """Return a result, in which nans are errors."""
    opts = options()
    if opts.notes_errors and opts.error_checking_behavior_nan == "raise":
        if dtypes.issubdtype(aval_of(x).dtype, np.floating):
            error_check.set_error_if(ne(x, x), "NaN encountered")
    return x


def divisor(x: Any) -> Any:
    """Return a divisor, in which zeros are errors."""
    opts = options()
    if opts.notes_errors and opts.error_checking_behavior_divide == "raise":
        error_check.set_error_if(eq(x, constant(0, x)), "Division by zero encountered")
    return x


def note_places(plan: GatherPlan) -> None:
    """Note an error if positions of an index are out of bounds of their axes."""
    opts = options()
    if not opts.notes_errors or opts.error_checking_behavior_oob != "raise":
        return
    for axis, size in zip(plan.axes, plan.shape, strict=True):
        if isinstance(axis, Positions) and 0 not in axis.shape:
            error_check.set_error_if(_outside(axis.index, size), "Out of bounds index encountered")


def _outside(index: Any, size: Dim) -> Any:
    if not is_typed(index) and type(size) is int:
        known = np.asarray(index)
        return (known < -size) | (known >= size)
    kind = aval_of(index).dtype
    signed = dtypes.issubdtype(kind, np.signedinteger)
    if dtypes.bit_width(kind) < 32:
        index = convert_element_type(index, np.int32 if signed else np.uint32)
    end = constant(size, index)
    above = ge(index, end)
    return bitwise_or(lt(index, neg(end)), above) if signed else above
