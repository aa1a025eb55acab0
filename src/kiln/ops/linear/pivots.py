"""Pivots of LU factors, and the permutations of rows that they represent."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.ir.sizes.size import minimum
from kiln.ir.types import ShapedArray
from kiln.ops.linear.matrices import (
    Batched,
    incompatible,
)

_INT = np.dtype(np.int32)


class LUPivotsToPermutation(Batched):
    """Return the permutation that results from exchanging each row i with row pivots[i] in turn."""

    name = "lu_pivots_to_permutation"
    ranks = (1,)

    def infer(self, pivots: Any, *, permutation_size: Any) -> ShapedArray:
        if pivots.dtype != _INT:
            raise TypeError(
                three_lines(
                    f"{self.name}: operand {pivots} at {current_source()}",
                    f"{self.name} does not accept dtype {pivots.dtype} at position 0. Accepted "
                    "dtypes at position 0 are subtypes of int32.",
                    "pass the pivots that lu returned",
                )
            )
        if pivots.ndim < 1:
            raise TypeError(
                three_lines(
                    f"{self.name}: operand {pivots} at {current_source()}",
                    f"Input 0 to {self.name} must have rank at least 1, but got shape=()",
                    "pass the pivots that lu returned",
                )
            )
        count = pivots.shape[-1]
        if count != permutation_size and minimum(count, permutation_size) != count:
            raise incompatible(
                self.name,
                (pivots,),
                f"Output permutation size {permutation_size} has to exceed the trailing dimension "
                f"of the pivots. Got pivots size {count}",
                "pass the number of rows of the matrix",
            )
        return ShapedArray((*pivots.shape[:-1], permutation_size), _INT, pivots.weak_type)

    def numpy(self, pivots: Any, *, permutation_size: Any) -> Any:
        return host_permutation(pivots, permutation_size)


def host_permutation(pivots: np.ndarray, size: int) -> np.ndarray:
    """Apply row exchanges to 0, 1, ..., size-1."""
    count = int(np.prod(pivots.shape[:-1]))
    out = np.tile(np.arange(size, dtype=_INT), (count, 1))
    flat = pivots.reshape((count, pivots.shape[-1]))
    every = np.arange(count)
    for i in range(flat.shape[1]):
        other = flat[:, i]
        mine, theirs = out[every, i].copy(), out[every, other]
        out[every, i] = theirs
        out[every, other] = mine
    return out.reshape((*pivots.shape[:-1], size))


lu_pivots_to_permutation_p = LUPivotsToPermutation()


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Return the permutation of rows that the pivots of `lu` represent.

    Shapes: (..., k) int32, each row swapped with that of its number in turn -> (...,
        permutation_size).
    Example:
        >>> lax.linalg.lu_pivots_to_permutation(jnp.array([1, 1]), 2)
        Array([1, 0], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=permutation_size)
