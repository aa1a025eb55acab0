"""Sums as users ask for them: options are about these, and not about those inside functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ops import shape


def reduce_sum(x: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Sum over axes; the result's dtype is the operand's. 16-bit floats are summed in 32 bits.

    Raises: ValueError for 16-bit floats if the option `allow_f16_reductions` is False.
    Example:
        >>> lax.reduce_sum(jnp.array([[1, 2], [3, 4]]), axes=(0,))
        Array([4, 6], dtype=int32)
    """
    if not options().allow_f16_reductions:
        _check(x, axes)
    return shape.reduce_sum(x, axes, out_sharding=out_sharding)


def _check(x: Any, axes: Sequence[int]) -> None:
    aval = aval_of(x)
    is_short = str(aval.dtype) in ("float16", "bfloat16")
    if is_short and any(aval.shape[axis] != 1 for axis in axes):
        raise ValueError(
            three_lines(
                f"reduce_sum: operand {aval} at {current_source()}",
                f"reduce_sum on operand {aval} is not allowed when allow_f16_reductions=False",
                "convert it first, x.astype('float32'), or call jax.numpy.sum",
            )
        )
