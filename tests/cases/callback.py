"""Cases of calls of Python functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.control.effects import callback as ops
from kiln.ir.types import ShapedArray
from tests.cases.case import Case, Operand

VECTOR, NUMBER = Operand((3,)), Operand(())
RESULT = ShapedArray((3,), np.dtype(np.float32))
NAMELESS = "the declared result types are numbers"


def scaled(x: Any, y: Any) -> Any:
    return np.sin(x) * np.asarray(y)


def _pure(method: str) -> Any:
    return lambda x, y: ops.pure_callback(scaled, RESULT, x, y, vmap_method=method)


CASES = [
    Case(ops.pure_callback_p, _pure("sequential"), (VECTOR, NUMBER), named=NAMELESS),
    Case(
        ops.pure_callback_p,
        lambda x: ops.pure_callback(np.sin, RESULT, x, vmap_method="broadcast_all"),
        (VECTOR,),
        "stacked ",
    ),
    Case(
        ops.io_callback_p,
        lambda x, y: ops.io_callback(scaled, RESULT, x, y),
        (VECTOR, NUMBER),
        named=NAMELESS,
    ),
]
