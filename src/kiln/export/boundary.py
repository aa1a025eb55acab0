"""Arguments and results in the form of stored programs: keys as words, float0 as booleans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray
from kiln.ops.random.random_bits import random_unwrap
from kiln.ops.shape import broadcast_in_dim, full
from kiln.random.keys import wrap_key_data

_WORDS = np.dtype(np.uint32)
_BOOL = np.dtype(np.bool_)


def raw_type(aval: ShapedArray) -> ShapedArray:
    """Return the type that represents a type in a stored program.

    Keys become uint32 words along an extra last axis, float0 becomes bool.
    """
    if dtypes.is_extended(aval.dtype):
        return ShapedArray((*aval.shape, aval.dtype.words), _WORDS)
    return aval.with_(dtype=_BOOL) if aval.dtype == dtypes.float0 else aval


def to_raw(x: Any, aval: ShapedArray) -> Any:
    """Convert an argument to its form in the stored program.

    `aval` is the type in the user's program: keys become words, float0 becomes booleans.
    """
    if dtypes.is_extended(aval.dtype):
        return random_unwrap(x)
    return full(aval_of(x).shape, False, _BOOL) if aval.dtype == dtypes.float0 else x


def from_raw(x: Any, aval: ShapedArray) -> Any:
    """Convert a result from its form in the stored program.

    `aval` is the type in the user's program: keys are stored as words, float0 as booleans.
    """
    if dtypes.is_extended(aval.dtype):
        return wrap_key_data(x, impl=aval.dtype)
    if aval.dtype != dtypes.float0:
        return x
    # The type may have named sizes; the sizes of the call are known.
    shape = aval_of(x).shape
    return np.zeros(shape, dtypes.float0) if is_constant(shape) else nothing(aval_of(x))


def nothing(aval: ShapedArray) -> Any:
    """Return the cotangent of an array whose type has no tangents.

    `aval` is the type of the cotangent, of dtype float0.
    Shapes: that of `aval`.
    """
    return broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())


def with_words(jaxpr: Jaxpr) -> Jaxpr:
    """Return a program with words in place of keys among its arguments and results.

    A program without keys is returned unchanged.
    """
    kinds = [v.aval for v in jaxpr.invars]
    results = [v.aval for v in jaxpr.outvars]
    if not any(dtypes.is_extended(aval.dtype) for aval in (*kinds, *results)):
        return jaxpr

    def run(*given: Any) -> Sequence[Any]:
        inputs = [
            wrap_key_data(x, impl=aval.dtype) if dtypes.is_extended(aval.dtype) else x
            for x, aval in zip(given, kinds, strict=True)
        ]
        outs = eval_jaxpr(jaxpr, (), *inputs)
        return [
            random_unwrap(x) if dtypes.is_extended(aval.dtype) else x
            for x, aval in zip(outs, results, strict=True)
        ]

    avals = [raw_type(a) if dtypes.is_extended(a.dtype) else a for a in kinds]
    return stage_pure(run, avals, name=jaxpr.name, purpose="export")
