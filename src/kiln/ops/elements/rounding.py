"""Rounding to integers, and how ties are rounded."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements import edge_semantics as edge
from kiln.ops.elements.families import (
    FLOAT,
    Elementwise,
)


class RoundingMethod(enum.IntEnum):
    """How numbers halfway between two integers are rounded.

    Example:
        >>> lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
        Array([0., 2.], dtype=float32)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Round(Elementwise):
    """Round to the nearest integer."""

    def infer(self, x: Any, *, rounding_method: Any) -> ShapedArray:
        return super().infer(x)

    def numpy(self, x: Any, *, rounding_method: Any) -> Any:
        if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
            return np.rint(x)
        return edge.round_half_away(x)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        return out, Zero(aval_of(out))


round_p = Round("round", np.rint, FLOAT)


def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to the nearest integer; `rounding_method` says how ties are rounded.

    By default ties are rounded away from zero, unlike `jnp.round`.

    Example:
        >>> lax.round(jnp.array([0.5, 1.5, -0.5])), jnp.round(jnp.array([0.5, 1.5, -0.5]))
        (Array([ 1.,  2., -1.], dtype=float32), Array([ 0.,  2., -0.], dtype=float32))
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))
