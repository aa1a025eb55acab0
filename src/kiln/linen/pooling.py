"""Pooling: the sum, mean, largest or smallest element of sliding windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source


def pool(
    inputs: Any,
    init: Any,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: str | Sequence[tuple[int, int]],
) -> Any:
    """Reduce sliding windows by a function, starting from `init`.

    Shapes: (*batch, *space, features); the batch axes are optional.
    Raises: ValueError for incompatible window, strides and padding.
    Example:
        >>> linen.pool(jnp.arange(4.0).reshape(1, 4, 1), 0.0, lax.add, (2,), (2,), "VALID").ravel()
        Array([1., 5.], dtype=float32)
    """
    inputs = jnp.asarray(inputs)
    window = tuple(window_shape)
    steps = (1,) * len(window) if strides is None else tuple(strides)
    batch = inputs.ndim - len(window) - 1
    if batch < 0:
        raise _refused(
            window,
            f"an input of {inputs.shape} has too few axes: {len(window)} of space and one of "
            "features are needed",
            "give the window a size for each axis between batch and features",
        )
    if len(steps) != len(window):
        raise _refused(
            window,
            f"len({window}) must equal len({steps}): strides are one for each size of the window",
            f"give {len(window)} strides",
        )
    if not isinstance(padding, str):
        pairs = tuple(tuple(pair) for pair in padding)
        if len(pairs) != len(window) or any(len(pair) != 2 for pair in pairs):
            raise _refused(
                window,
                f"padding {pairs} must specify a (low, high) pair for each of {len(window)} axes",
                "give pairs, or 'SAME' or 'VALID'",
            )
        padding = ((0, 0),) * max(batch, 1) + pairs + ((0, 0),)
    alone = batch == 0
    if alone:
        inputs = inputs[None]
    outer = (1,) * max(batch, 1)
    start = _limited(init, inputs.dtype)
    out = lax.reduce_window(
        inputs, start, reduce_fn, (*outer, *window, 1), (*outer, *steps, 1), padding
    )
    return out[0] if alone else out


def _limited(start: Any, dtype: Any) -> Any:
    """Return an infinity, or the extreme integer if the dtype has no infinities."""
    if not dtypes.issubdtype(dtype, np.integer) or not isinstance(start, float):
        return start
    limits = dtypes.iinfo(dtype)
    return int(min(max(start, limits.min), limits.max))


def _refused(window: tuple[int, ...], wrong: str, remedy: str) -> ValueError:
    return ValueError(
        three_lines(f"pool with window_shape={window} at {current_source()}", wrong, remedy)
    )


def avg_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of sliding windows, including their padding if `count_include_pad`.

    Shapes: `inputs` (*batch, *space, features), the batch axes optional; `window_shape` and
        `strides` (by default ones) have an entry for each axis of space; `padding` is 'SAME',
        'VALID' or pairs.
    Raises: ValueError for arguments that do not fit.
    Example:
        >>> linen.avg_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,)).ravel()
        Array([0.5, 2.5], dtype=float32)
    """
    total = pool(inputs, 0.0, lax.add, window_shape, strides, padding)
    if count_include_pad:
        return total / math.prod(window_shape)
    space = jnp.shape(inputs)[-len(window_shape) - 1 : -1]
    ones = jnp.ones((*space, 1), total.dtype)
    return total / pool(ones, 0.0, lax.add, window_shape, strides, padding)


def max_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
) -> Any:
    """Return the largest element of sliding windows.

    Shapes: `inputs` (*batch, *space, features), the batch axes optional; `window_shape` and
        `strides` (by default ones) have an entry for each axis of space; `padding` is 'SAME',
        'VALID' or pairs.
    Raises: ValueError for arguments that do not fit.
    Example:
        >>> linen.max_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,)).ravel()
        Array([1., 3.], dtype=float32)
        >>> linen.max_pool(jnp.ones((1, 5, 5, 2)), (2, 2), strides=(2, 2), padding="SAME").shape
        (1, 3, 3, 2)
    """
    return pool(inputs, -np.inf, lax.max, window_shape, strides, padding)


def min_pool(
    inputs: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
) -> Any:
    """Return the smallest element of sliding windows.

    Shapes: `inputs` (*batch, *space, features), the batch axes optional; `window_shape` and
        `strides` (by default ones) have an entry for each axis of space; `padding` is 'SAME',
        'VALID' or pairs.
    Raises: ValueError for arguments that do not fit.
    Example:
        >>> linen.min_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,)).ravel()
        Array([0., 2.], dtype=float32)
    """
    return pool(inputs, np.inf, lax.min, window_shape, strides, padding)
