"""Groups of operations that XLA's schedulers for other devices keep together.

The names are those of `jax.experimental.scheduling_groups`. Programs for the CPU have no schedule
to control: groups have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.wrapping import wraps

__all__ = ["scheduling_group", "xla_metadata_call"]


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that puts the operations of a function into a group."""
    decorated: Callable[[Callable[..., Any]], Callable[..., Any]] = xla_metadata_call(
        scheduling_group=name
    )
    return decorated


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: Any) -> Any:
    """Return a function whose operations have metadata; without a function, a decorator.

    `meta` has no effect: it is for XLA's schedulers.
    """
    if f is None:
        return lambda fun: xla_metadata_call(fun, **meta)

    @wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return called
