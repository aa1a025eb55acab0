"""Images at coordinates between their pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike

__all__ = ["map_coordinates"]


def _nearest(i: Any, size: int) -> Any:
    return jnp.clip(i, 0, size - 1)


def _wrap(i: Any, size: int) -> Any:
    return i % size


def _mirror(i: Any, size: int) -> Any:
    # Around the center of the last pixel: 0 1 2 1 0 1 ...
    period = 2 * max(size - 1, 1)
    place = i % period
    return jnp.minimum(place, period - place) if size > 1 else jnp.zeros_like(i)


def _reflect(i: Any, size: int) -> Any:
    # Around the edge of the last pixel: 0 1 2 2 1 0 0 ...
    place = i % (2 * size)
    return jnp.minimum(place, 2 * size - 1 - place)


_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": _nearest,
    "nearest": _nearest,
    "wrap": _wrap,
    "mirror": _mirror,
    "reflect": _reflect,
}


def _refused(asked: str, wrong: str, remedy: str, kind: type[Exception]) -> Exception:
    return kind(three_lines(f"map_coordinates {asked} at {current_source()}", wrong, remedy))


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Return an array at coordinates, one array of them per axis, of the nearest or linearly.

    `order` is 0 for the nearest element, 1 for linear interpolation. Beyond the edges the array
    goes on by `mode`: "constant" (with `cval`), "nearest", "wrap", "mirror" or "reflect". Results
    of integers are rounded.

    Shapes: (n1, ..., nd), d arrays of one shape -> that shape.
    Raises: NotImplementedError for other orders and modes, ValueError for another number of
        coordinates.
    Example:
        >>> image = jnp.array([[0.0, 1.0], [2.0, 3.0]])
        >>> kiln.scipy.ndimage.map_coordinates(image, [jnp.array([0.5]), jnp.array([0.5])], order=1)
        Array([1.5], dtype=float32)
    """
    image = jnp.asarray(input)
    places = [jnp.asarray(c) for c in coordinates]
    if len(places) != image.ndim:
        raise _refused(
            f"of {image.aval} at {len(places)} coordinates",
            f"coordinates must be a sequence of length input.ndim, but {len(places)} != "
            f"{image.ndim}",
            "pass an array of coordinates for each axis",
            ValueError,
        )
    if mode not in _MODES:
        raise _refused(
            f"with mode={mode!r}",
            f"map_coordinates does not yet support mode {mode}. Currently supported modes are "
            f"{', '.join(_MODES)}.",
            'use mode="nearest"',
            NotImplementedError,
        )
    if order not in (0, 1):
        raise _refused(
            f"with order={order}",
            "map_coordinates currently requires order<=1",
            "use order=1",
            NotImplementedError,
        )
    known = _MODES[mode]
    per_axis: list[Any] = []
    neighbors: list[Any]
    for place, size in zip(places, image.shape, strict=True):
        if not dtypes.issubdtype(place.dtype, np.inexact):
            neighbors = [(place, None)]
        elif order == 0:
            neighbors = [(_rounded(place).astype(np.int32), None)]
        else:
            below = jnp.floor(place)
            upper = place - below
            index = below.astype(np.int32)
            neighbors = [(index, 1 - upper), (index + 1, upper)]
        per_axis.append(
            [(known(i, size), (i >= 0) & (i < size), weight) for i, weight in neighbors]
        )
    outside = jnp.asarray(cval).astype(image.dtype)
    total: Any = None
    for corner in itertools.product(*per_axis):
        value = image[tuple(index for index, _, _ in corner)]
        if mode == "constant":
            inside: Any = True
            for _, within, _ in corner:
                inside = inside & within
            value = jnp.where(inside, value, outside)
        weights = [weight for _, _, weight in corner if weight is not None]
        if weights:
            value = value * math.prod(weights)
        total = value if total is None else total + value
    if total is None:
        total = image
    if dtypes.issubdtype(image.dtype, np.integer) and total.dtype != image.dtype:
        total = _rounded(total)
    return total.astype(image.dtype)


def _rounded(x: Any) -> Any:
    """Round halves away from zero."""
    return jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5)


_suggest_names(globals())
