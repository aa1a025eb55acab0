"""The identities of the operations by which nests reduce."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value, is_float


def identity(scope: Scope, op: str, dtype: str) -> Value:
    """Return the identity of a reduction's operation."""
    kind = NUMPY_TYPES[dtype]
    match op:
        case "add" | "or" | "xor":
            return scope.constant(0, dtype)
        case "mul":
            return scope.constant(1, dtype)
        case "and":
            return ~scope.constant(0, dtype)
        case "max" | "argmax":
            return scope.constant(-math.inf if is_float(dtype) else _bound(kind, low=True), dtype)
        case _:
            return scope.constant(math.inf if is_float(dtype) else _bound(kind, low=False), dtype)


def _bound(kind: np.dtype[Any], *, low: bool) -> int:
    signed = kind.kind == "i"
    width = 8 * kind.itemsize
    if low:
        return -(1 << (width - 1)) if signed else 0
    return (1 << (width - signed)) - 1
