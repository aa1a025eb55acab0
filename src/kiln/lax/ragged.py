"""Products in which rows belong to groups, each with its own matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.numpy.creation import asarray
from kiln.numpy.cumulative import cumsum
from kiln.numpy.ranges import arange
from kiln.numpy.selection import where
from kiln.ops.contraction import PrecisionLike, dot_general
from kiln.ops.sharding import put


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The dimensions of `ragged_dot_general`: those of `dot_general`, the ragged, the groups'."""

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


@api_boundary
def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply rows by the matrices of their groups.

    `lhs` is (m, k), `rhs` (g, k, n), `group_sizes` (g,): its first numbers of rows belong to the
    first group, and so on. Rows of no group give zeros.

    Raises: TypeError for other shapes, NotImplementedError for `group_offset`.
    """
    x, y, sizes = asarray(lhs), asarray(rhs), asarray(group_sizes)
    asked = f"ragged_dot: {aval_of(x)}, {aval_of(y)}, group_sizes {aval_of(sizes)} at"
    if group_offset is not None:
        raise NotImplementedError(
            three_lines(
                f"{asked} {current_source()}", "group_offset not implemented", "leave it out"
            )
        )
    if (
        x.ndim != 2
        or y.ndim != 3
        or sizes.ndim != 1
        or x.shape[1] != y.shape[1]
        or (y.shape[0] != sizes.shape[0])
    ):
        raise TypeError(
            three_lines(
                f"{asked} {current_source()}",
                "ragged_dot takes arrays of shapes (m, k), (g, k, n) and (g,)",
                "use vmap for more dimensions",
            )
        )
    ends = cumsum(sizes)
    row = arange(x.shape[0])[None, :]
    member = (row >= (ends - sizes)[:, None]) & (row < ends[:, None])
    # One group at a time sees its rows, so that each row is multiplied by one matrix.
    spread = where(member[:, :, None], x[None, :, :], 0)
    found = dot_general(
        spread,
        y,
        (((0, 2), (0, 1)), ((), ())),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    return put(found, out_sharding)
