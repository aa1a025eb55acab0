"""Python functions that programs call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.records import Record


class Callback(Record, eq=False):
    """A Python function that a program calls; the (dtype, shape) of its operands and results."""

    function: Callable[..., Sequence[Any]]
    operands: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    results: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
