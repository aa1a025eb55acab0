"""NumPy index arrays for the windows of gather and scatter: their meaning on the host.

Only axes along which windows move are addressed by arrays; along the others whole rows are copied,
which makes `x[indices]` on rows as fast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.ops.indexing.dimension_numbers import CLIP, GatherScatterMode, Window

Starts = list[np.ndarray | None]
"""For each operand axis, where each window starts; None where all start at 0."""


def read(
    operand: np.ndarray,
    indices: np.ndarray,
    window: Window,
    sizes: Sequence[int],
    mode: GatherScatterMode,
    fill: Callable[[], Any],
) -> np.ndarray:
    """Gather windows of `sizes`; `fill()` gives the value for those out of bounds."""
    windows = indices.shape[:-1]
    out_shape: Any = window.arranged(windows, sizes)
    if 0 in out_shape:
        return np.empty(out_shape, operand.dtype)
    if not operand.ndim:
        return np.broadcast_to(operand, out_shape)
    starts = _starts(indices, window, operand.ndim)
    valid = _inside(starts, window, operand.shape, sizes) if mode.fills else None
    moved = _clipped(starts, window, operand.shape, sizes)
    addresses = Addresses(moved, window, operand.shape, sizes)
    picked = np.asarray(operand.transpose(addresses.permutation)[addresses.index])
    if valid is not None:
        mask = np.reshape(valid, windows + (1,) * (picked.ndim - len(windows)))
        picked = np.where(mask, picked, np.asarray(fill(), operand.dtype))
    return picked.transpose(np.argsort(addresses.standing(picked.ndim)))


def write(
    operand: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    window: Window,
    mode: GatherScatterMode,
    combine: np.ufunc | None,
) -> np.ndarray:
    """Scatter windows, one after another; `combine` merges old values with new ones."""
    out = operand.copy()
    if updates.size == 0 or out.size == 0:
        return out
    sizes: Any = window.sizes(operand.shape, updates.shape)
    windows = indices.shape[:-1]
    if not operand.ndim:
        for update in updates.reshape(-1):
            out = np.asarray(update if combine is None else combine(out, update))
        return out
    starts = _starts(indices, window, operand.ndim)
    if mode is CLIP:
        starts = _clipped(starts, window, operand.shape, sizes)
    addresses = Addresses(starts, window, operand.shape, sizes)
    updates = updates.transpose(addresses.standing(updates.ndim))
    index = addresses.index
    valid = _inside(starts, window, operand.shape, sizes)
    if valid is not None:
        index = tuple(np.broadcast_to(i, windows + i.shape[len(windows) :])[valid] for i in index)
        updates = updates[valid]
    target = out.transpose(addresses.permutation)
    if combine is None:
        target[index] = updates
    else:
        # Updates with strides of 0, which were broadcast, come out wrong in some NumPy versions.
        combine.at(target, index, np.array(updates, copy=None, order="C"))
    return out


class Addresses:
    """Index arrays for the moving axes, which come first in `permutation`.

    The result of indexing has the axes that number windows, then those of `partial`, then whole
    axes.
    """

    def __init__(
        self, starts: Starts, window: Window, shape: Sequence[int], sizes: Sequence[int]
    ) -> None:
        kept = window.kept(len(shape))
        moving = [
            axis
            for axis, start in enumerate(starts)
            if start is not None or sizes[axis] != shape[axis] or axis not in kept
        ]
        whole = [axis for axis in range(len(shape)) if axis not in moving]
        partial = [axis for axis in moving if axis in kept]
        rank = max(0 if start is None else start.ndim for start in starts)
        self.permutation = (*moving, *whole)
        self.index = tuple(
            _address(starts[axis], sizes[axis], rank, axis, partial) for axis in moving
        )
        place = dict(zip(kept, window.placed, strict=True))
        self._places = [place[axis] for axis in (*partial, *whole)]

    def standing(self, ndim: int) -> list[int]:
        """Return the position of each axis of the indexed array in the result or the updates."""
        return [*(axis for axis in range(ndim) if axis not in self._places), *self._places]


def _address(
    start: np.ndarray | None, size: int, rank: int, axis: int, partial: Sequence[int]
) -> np.ndarray:
    windows = (1,) * rank if start is None else start.shape
    base = np.reshape(0 if start is None else start, windows + (1,) * len(partial))
    if axis not in partial:
        return base
    along = [1] * len(partial)
    along[partial.index(axis)] = size
    return base + np.arange(size).reshape(along)


def _starts(indices: np.ndarray, window: Window, rank: int) -> Starts:
    windows = indices.shape[:-1]
    starts: Starts = [None] * rank
    for k, axis in enumerate(window.coordinates):
        coordinate = indices[..., k]
        if coordinate.dtype == np.uint64:
            coordinate = np.minimum(coordinate, np.uint64(2**62))
        starts[axis] = coordinate.astype(np.int64, copy=False)
    for ours, theirs in zip(window.batching, window.along, strict=True):
        view = [1] * len(windows)
        view[theirs] = windows[theirs]
        starts[ours] = np.broadcast_to(np.arange(windows[theirs]).reshape(view), windows)
    if all(start is None for start in starts):
        # Every window is the same one; its position along the first axis numbers the windows.
        starts[0] = np.zeros(windows, np.int64)
    return starts


def _inside(
    starts: Starts, window: Window, shape: Sequence[int], sizes: Sequence[int]
) -> np.ndarray | None:
    """Return which windows are in bounds; None if all are."""
    valid = None
    for axis in window.coordinates:
        start = starts[axis]
        assert start is not None
        fits = (start >= 0) & (start <= shape[axis] - sizes[axis])
        valid = fits if valid is None else valid & fits
    return None if valid is None or valid.all() else valid


def _clipped(starts: Starts, window: Window, shape: Sequence[int], sizes: Sequence[int]) -> Starts:
    out = list(starts)
    for axis in window.coordinates:
        start = starts[axis]
        assert start is not None
        out[axis] = np.clip(start, 0, shape[axis] - sizes[axis])
    return out
