"""The errors that functions of elements note if asked: nans, zeros as divisors.

What is noted is raised by `kiln.experimental.error_check.raise_if_error`. Positions out of bounds
are noted by `indexing/subscripts.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.lazy import error_check
from kiln.base.options.config import options
from kiln.core.trace import aval_of
from kiln.ops.elements.elementwise import constant, eq, ne


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
