"""Products in which rows belong to groups, each with its own matrix."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.creation.ranges import arange
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import broadcast_to
from kiln.numpy.reductions.cumulative import cumsum
from kiln.ops.linear.contraction import dot_general
from kiln.ops.linear.dot_algorithms import PrecisionLike
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import broadcast_in_dim


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The dimensions of `ragged_dot_general`: those of `dot_general`, the ragged, the groups'.

    Example:
        >>> numbers = lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> numbers.lhs_ragged_dimensions
        [0]
    """

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
    Example:
        >>> rows, matrices = jnp.ones((3, 2)), jnp.array([[[1.0], [1.0]], [[5.0], [5.0]]])
        >>> lax.ragged_dot(rows, matrices, jnp.array([2, 1]))
        Array([[ 2.],
               [ 2.],
               [10.]], dtype=float32)
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
    return sharded(found, out_sharding, "ragged_dot")


@api_boundary
def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Contract two arrays as `dot_general` does, one axis of `lhs` being divided into groups.

    The last axis of `group_sizes` says how many elements of the ragged axis each group has; axes
    before it, if any, are the batch axes of `lhs` and those of the ragged axis's kind before it.
    If the ragged axis is free, each group has its own part of `rhs`, along its group axis. If it is
    contracted, the result has a leading axis of groups. If it is a batch axis, groups change
    nothing.

    Raises: TypeError for axes and shapes that do not fit, NotImplementedError for `group_offset`.
    Example:
        >>> rows, matrices = jnp.ones((3, 2)), jnp.array([[[1.0], [1.0]], [[5.0], [5.0]]])
        >>> numbers = lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
        >>> lax.ragged_dot_general(rows, matrices, jnp.array([2, 1]), numbers)
        Array([[ 2.],
               [ 2.],
               [10.]], dtype=float32)
    """
    x, y, sizes = asarray(lhs), asarray(rhs), asarray(group_sizes)
    numbers = ragged_dot_dimension_numbers
    (contract, rhs_contract), (batch, rhs_batch) = (
        (tuple(a), tuple(b)) for a, b in numbers.dot_dimension_numbers
    )
    asked = f"ragged_dot_general: {aval_of(x)}, {aval_of(y)}, group_sizes {aval_of(sizes)} at"
    if group_offset is not None:
        raise NotImplementedError(
            three_lines(
                f"{asked} {current_source()}", "group_offset not implemented", "leave it out"
            )
        )

    def refuse(wrong: str) -> TypeError:
        return TypeError(
            three_lines(
                f"{asked} {current_source()}", wrong, "see the docstring of lax.ragged_dot_general"
            )
        )

    ragged = tuple(numbers.lhs_ragged_dimensions)
    groups = tuple(numbers.rhs_group_dimensions)
    if len(ragged) != 1 or not 0 <= ragged[0] < x.ndim:
        raise refuse(f"exactly one axis of lhs is ragged, not {ragged}")
    axis = ragged[0]
    free = tuple(a for a in range(x.ndim) if a not in (*contract, *batch))
    before = _prefix(axis, contract, batch, free)
    count = sizes.shape[-1] if sizes.ndim else 0
    whole = tuple(x.shape[a] for a in before)
    if not sizes.ndim or sizes.shape not in ((count,), (*whole, count)):
        raise refuse(f"group_sizes have the shape {(*whole, 'g')} or (g,)")
    if len(groups) != (axis in free) or any(g in (*rhs_contract, *rhs_batch) for g in groups):
        raise refuse(
            "rhs has one group axis if the ragged axis is neither contracted nor a batch axis, "
            f"and none otherwise: got {groups}"
        )
    if groups and y.shape[groups[0]] != count:
        raise refuse(f"the group axis of rhs has the size {count}")
    options: Any = {"precision": precision, "preferred_element_type": preferred_element_type}
    behind = tuple(a + 1 for a in contract), tuple(a + 1 for a in batch)
    sizes = broadcast_to(sizes, (*whole, count))
    if axis in batch:
        found = dot_general(x, y, ((contract, rhs_contract), (batch, rhs_batch)), **options)
    elif axis in free:
        pairs = ((*behind[0], 0), (*rhs_contract, groups[0])), (behind[1], rhs_batch)
        found = dot_general(_of_groups(x, sizes, (*before, axis)), y, pairs, **options)
    else:
        axes = dict(zip((*contract, *batch), (*rhs_contract, *rhs_batch), strict=True))
        spread = _of_groups(x, sizes, (*before, axis))
        theirs = _of_groups(y, sizes, tuple(axes[a] for a in (*before, axis)))
        pairs = (
            (behind[0], tuple(a + 1 for a in rhs_contract)),
            ((0, *behind[1]), (0, *(a + 1 for a in rhs_batch))),
        )
        found = dot_general(spread, theirs, pairs, **options)
    return sharded(found, out_sharding, "ragged_dot_general")


def _prefix(axis: int, contract: Sequence[int], batch: Sequence[int], free: Sequence[int]) -> Any:
    if axis in batch:
        return batch[: batch.index(axis)]
    kind = contract if axis in contract else free
    return (*batch, *kind[: kind.index(axis)])


def _of_groups(x: Any, sizes: Any, axes: Sequence[int]) -> Any:
    """Return one copy of x for each group, along a new first axis, without the other groups.

    `sizes` belong to all but the last of `axes`, which is divided.
    """
    ends = cumsum(sizes, axis=-1)
    place = arange(x.shape[axes[-1]])[(None,) * ends.ndim]
    member = (place >= (ends - sizes)[..., None]) & (place < ends[..., None])
    # Groups first, then the axes in the order of x.
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    at = len(axes) - 1
    member = member.transpose(at, *(i if i < at else at + 1 for i in order))
    shape = (sizes.shape[-1], *x.shape)
    member = broadcast_in_dim(member, shape, (0, *(axes[i] + 1 for i in order)))
    return where(member, x[None], 0)
