"""Reductions over segments: rows grouped by segment number, not by position.

Users find these functions under `kiln.ops`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import ConcretizationTypeError, three_lines
from kiln.base.source import api_boundary, current_source
from kiln.core.trace import Tracer
from kiln.ir.sizes.size import Size, is_constant
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.creation.filling import full
from kiln.numpy.creation.ranges import arange
from kiln.numpy.promotion import operands
from kiln.numpy.reductions import reductions
from kiln.ops.out_sharding import sharded

Reducer = Callable[..., Any]


@api_boundary
def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the sums of the rows of `data` that have the same number in `segment_ids`.

    `num_segments` is by default the largest number plus 1. Rows with numbers out of range are
    dropped, unless `mode` says otherwise. `indices_are_sorted` and `unique_indices` are promises by
    the caller. With `bucket_size`, that many rows at a time are summed first, which is more
    accurate.

    Shapes: (num_segments, *data.shape[1:]).
    Raises: ConcretizationTypeError under jit without `num_segments`; ValueError if it is negative.
    """
    promises = (indices_are_sorted, unique_indices, mode)
    return sharded(
        _reduced("sum", "add", data, segment_ids, num_segments, bucket_size, promises),
        out_sharding,
        "segment_sum",
    )


@api_boundary
def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the products of the rows of `data` that have the same number in `segment_ids`.

    An empty segment has the product 1. Options, shapes and errors: as for `segment_sum`.
    """
    promises = (indices_are_sorted, unique_indices, mode)
    return sharded(
        _reduced("prod", "multiply", data, segment_ids, num_segments, bucket_size, promises),
        out_sharding,
        "segment_prod",
    )


@api_boundary
def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the largest of the rows of `data` that have the same number in `segment_ids`.

    An empty segment has the least value of the dtype. Options, shapes and errors: as for
    `segment_sum`.
    """
    promises = (indices_are_sorted, unique_indices, mode)
    return sharded(
        _reduced("max", "max", data, segment_ids, num_segments, bucket_size, promises),
        out_sharding,
        "segment_max",
    )


@api_boundary
def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the smallest of the rows of `data` that have the same number in `segment_ids`.

    An empty segment has the largest value of the dtype. Options, shapes and errors: as for
    `segment_sum`.
    """
    promises = (indices_are_sorted, unique_indices, mode)
    return sharded(
        _reduced("min", "min", data, segment_ids, num_segments, bucket_size, promises),
        out_sharding,
        "segment_min",
    )


def _reduced(
    what: str,
    update: str,
    data: Any,
    segment_ids: Any,
    num_segments: int | None,
    bucket_size: int | None,
    promises: tuple[bool, bool, Any],
) -> Any:
    name = f"segment_{what}"
    data, ids = map(asarray, operands(name, data, segment_ids))
    count = _count(name, ids, num_segments)
    start = _start(what, data.dtype)
    is_sorted, unique, mode = promises
    options = {
        "indices_are_sorted": is_sorted,
        "unique_indices": unique,
        "mode": mode,
        "wrap_negative_indices": False,
    }
    if bucket_size is None:
        out = full((count, *data.shape[1:]), start, data.dtype)
        return getattr(out.at[ids], update)(data, **options)
    rows = ids.shape[0]
    out = full((-(-rows // bucket_size), count, *data.shape[1:]), start, data.dtype)
    places = np.arange(rows) if is_constant((rows, bucket_size)) else arange(rows)
    out = getattr(out.at[places // bucket_size, ids], update)(data, **options)
    return getattr(reductions, what)(out, axis=0).astype(data.dtype)


def _count(name: str, ids: Any, num_segments: Any) -> Any:
    if type(num_segments) is Size:
        return num_segments
    known = ids if num_segments is None else num_segments
    value = known.concrete() if isinstance(known, Tracer) else known
    if value is None:
        raise ConcretizationTypeError(
            three_lines(
                f"{name}(segment_ids of type {ids.aval}, num_segments={num_segments}) at "
                f"{current_source()}",
                "the number of segments is the size of the result: it must be concrete, but it "
                "depends on a traced value",
                f"pass num_segments as a Python int; under jit, as a static argument: "
                f"{name}(data, segment_ids, num_segments=...)",
            )
        )
    if num_segments is None:
        return int(np.max(np.asarray(value))) + 1
    count = operator.index(value)
    if count < 0:
        raise ValueError(
            three_lines(
                f"{name}(..., num_segments={count}) at {current_source()}",
                "num_segments must be non-negative",
                "pass the number of segments, or leave it out",
            )
        )
    return count


def _start(what: str, dtype: Any) -> Any:
    """Return the result for an empty segment."""
    if what in ("sum", "prod"):
        return int(what == "prod")
    if dtype == np.bool_:
        return what == "min"
    if dtypes.issubdtype(dtype, np.integer):
        limits = dtypes.iinfo(dtype)
        return limits.max if what == "min" else limits.min
    return np.inf if what == "min" else -np.inf
