"""The approximate top-k functions of `kiln.lax`, which are exact here."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ops.elements.families import neg
from kiln.ops.reductions.sorting import top_k


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the k largest elements along an axis in descending order, and their int32 indices.

    The result is exact, whatever the `recall_target`.

    Raises: ValueError if the operand is not floating-point, UnavailableOptionError for
        aggregate_to_topk=False.
    Example:
        >>> lax.approx_max_k(jnp.array([3.0, 9.0, 5.0]), 2)
        [Array([9., 5.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    _check("approx_max_k", operand, aggregate_to_topk)
    return list(top_k(operand, k, axis=reduction_dimension))


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the k smallest elements along an axis in ascending order, and their int32 indices.

    The result is exact, whatever the `recall_target`.

    Raises: ValueError if the operand is not floating-point, UnavailableOptionError for
        aggregate_to_topk=False.
    Example:
        >>> lax.approx_min_k(jnp.array([3.0, 9.0, 5.0]), 2)
        [Array([3., 5.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    _check("approx_min_k", operand, aggregate_to_topk)
    values, indices = top_k(neg(operand), k, axis=reduction_dimension)
    return [neg(values), indices]


def _check(name: str, operand: Any, aggregate_to_topk: bool) -> None:
    aval = aval_of(operand)
    if not dtypes.issubdtype(aval.dtype, np.floating):
        raise ValueError(
            three_lines(
                f"{name}: operand {aval} at {current_source()}",
                "operand must be a floating type",
                "convert the operand first, or use top_k",
            )
        )
    if not aggregate_to_topk:
        raise UnavailableOptionError(
            three_lines(
                f"{name} with aggregate_to_topk=False at {current_source()}",
                "partial results are not available: there is one part, which is the result",
                "leave aggregate_to_topk out",
            )
        )
