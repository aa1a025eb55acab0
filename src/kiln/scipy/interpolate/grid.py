"""Interpolation of values on a rectangular grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import register_pytree_node_class
from kiln.core.array_type import Array, ArrayLike

METHODS = ("linear", "nearest")


def _refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


@register_pytree_node_class
class RegularGridInterpolator:
    """Interpolate values given on the grid of ascending or descending `points` of each axis.

    Points outside give `fill_value`, or are extrapolated where it is None.

    Raises: ValueError for another method or shapes that do not fit; NotImplementedError for
        `bounds_error`, which would depend on values.
    Example:
        >>> grid = (jnp.array([0.0, 1.0]), jnp.array([0.0, 2.0]))
        >>> values = jnp.array([[0.0, 2.0], [1.0, 3.0]])
        >>> f = kiln.scipy.interpolate.RegularGridInterpolator(grid, values)
        >>> f(jnp.array([[0.5, 1.0], [9.0, 9.0]]))
        Array([1.5, nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ) -> None:
        asked = "RegularGridInterpolator"
        if method not in METHODS:
            raise _refused(asked, f"method {method!r} is not defined", 'use "linear"')
        if bounds_error:
            raise _refused(
                asked,
                "`bounds_error` takes no effect under JIT",
                "leave it out, and look for nan",
                NotImplementedError,
            )
        self.values = jnp.asarray(values)
        grid = [jnp.asarray(p) for p in points]
        if len(grid) > self.values.ndim:
            raise _refused(
                asked,
                f"there are {len(grid)} point arrays, but values has {self.values.ndim} dimensions",
                "pass points for at most as many axes as values has",
            )
        for i, p in enumerate(grid):
            if p.ndim != 1 or p.shape[0] != self.values.shape[i]:
                raise _refused(
                    asked,
                    f"there are {p.shape} points and {self.values.shape[i]} values on dimension "
                    f"{i}",
                    "pass a vector of points for each axis",
                )
        self.method, self.fill_value = method, fill_value
        if not dtypes.issubdtype(self.values.dtype, np.inexact):
            self.values = self.values.astype(dtypes.default_float_dtype())
        # The points may be traced: whether they descend is a value, not known here.
        for i, p in enumerate(grid):
            down = p[0] > p[-1]
            self.values = jnp.where(down, jnp.flip(self.values, i), self.values)
            grid[i] = jnp.where(down, jnp.flip(p), p)
        self.grid = tuple(grid)

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        """Return the arrays and the method, as pytrees do."""
        return (self.grid, self.values, self.fill_value), self.method

    @classmethod
    def tree_unflatten(cls, method: str, children: Any) -> RegularGridInterpolator:
        """Return the interpolator with these arrays."""
        made = object.__new__(cls)
        made.grid, made.values, made.fill_value = children
        made.method = method
        return made

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Return values at points (..., d): (...), with the axes of values beyond the grid's.

        Raises: ValueError for another method, or points of another number of dimensions.
        """
        method = self.method if method is None else method
        if method not in METHODS:
            raise _refused("interpolation", f"method {method!r} is not defined", 'use "linear"')
        count = len(self.grid)
        if isinstance(xi, tuple):
            xi = jnp.stack(jnp.broadcast_arrays(*xi), -1)
        points = jnp.asarray(xi)
        if points.ndim == 1 and count > 1:
            points = points.reshape((-1, count))
        elif points.ndim <= 1:
            points = points.reshape((-1, 1))
        if points.shape[-1] != count:
            raise _refused(
                f"interpolation at {points.aval}",
                f"the requested sample points xi have dimension {points.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {count}",
                f"pass points of shape (..., {count})",
            )
        flat = points.reshape((-1, count))
        found, outside = self._located(flat)
        if method == "linear":
            out = self._linear(found)
        else:
            out = self.values[tuple(jnp.where(d <= 0.5, i, i + 1) for i, d in found)]
        beyond = (slice(None),) + (None,) * (self.values.ndim - count)
        if self.fill_value is not None:
            out = jnp.where(outside[beyond], self.fill_value, out)
        unknown = jnp.any(jnp.isnan(flat), axis=-1)
        out = jnp.where(unknown[beyond], math.nan, out)
        return out.reshape(points.shape[:-1] + self.values.shape[count:])

    def _located(self, points: Any) -> Any:
        """Return the cell and the distance in it along each axis, and which points are outside."""
        found = []
        outside = jnp.zeros(points.shape[0], bool)
        for i, grid in enumerate(self.grid):
            x = points[:, i]
            last = grid.shape[0] - 2
            index = jnp.clip(jnp.searchsorted(grid, x, side="right") - 1, 0, max(last, 0))
            if last < 0:
                found.append((index, jnp.zeros_like(x)))
            else:
                found.append((index, (x - grid[index]) / (grid[index + 1] - grid[index])))
            outside = outside | (x < grid[0]) | (x > grid[-1])
        return found, outside

    def _linear(self, found: Any) -> Any:
        beyond = (slice(None),) + (None,) * (self.values.ndim - len(found))
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=len(found)):
            index = tuple(
                jnp.minimum(i + c, n - 1)
                for (i, _), c, n in zip(found, corner, self.values.shape, strict=False)
            )
            weight: Any = 1
            for (_, distance), c in zip(found, corner, strict=True):
                weight = weight * (distance if c else 1 - distance)
            total = total + self.values[index] * weight[beyond]
        return total
