"""What JAX's tests of `searchsorted` and `nonzero` by axis ask for: kiln's functions, mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import kiln
import kiln.numpy as jnp


def _searched(
    sorted_arr: Any,
    query: Any,
    /,
    *,
    side: str = "left",
    dimension: int = 0,
    batch_dims: int = 0,
    method: str = "scan",
    dtype: Any = "int32",
) -> Any:
    found: Callable[..., Any] = partial(jnp.searchsorted, side=side, method=method)
    stacks = jnp.moveaxis(jnp.asarray(sorted_arr), dimension, -1)
    for _ in range(stacks.ndim - batch_dims - 1):
        found = kiln.vmap(found, in_axes=(0, None))
    for _ in range(batch_dims):
        found = kiln.vmap(found)
    return found(stacks, jnp.asarray(query)).astype(dtype)


def _nonzero(
    a: Any, *, size: int, axes: Sequence[int] | None = None, dtype: Any = "int32"
) -> tuple[Any, ...]:
    a = jnp.asarray(a)
    wanted = sorted(axis % a.ndim for axis in (range(a.ndim) if axes is None else axes))
    found: Callable[[Any], Any] = partial(jnp.nonzero, size=int(size))
    others = [axis for axis in range(a.ndim) if axis not in wanted]
    for _ in others:
        found = kiln.vmap(found)
    return tuple(x.astype(dtype) for x in found(jnp.transpose(a, (*others, *wanted))))


def searching_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {"jax._src.numpy.hijax": {"searchsorted": _searched, "nonzero": _nonzero}}
