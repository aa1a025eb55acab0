"""Metadata of operations, for XLA's compilers for other devices. On the CPU it is ignored.

The name is that of `jax.experimental.xla_metadata`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

__all__ = ["set_xla_metadata"]


class _Metadata(contextlib.nullcontext[None]):
    """The context, or decorator, that attaches metadata to operations: programs are unchanged."""

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return fun


def set_xla_metadata(x: Any = None, **metadata: Any) -> Any:
    """Attach metadata to the operations in a context or a function, or to those that compute `x`.

    It does not affect programs: none of kiln's engines reads it.

    Source: the tests of `jax.experimental.xla_metadata`, which is not documented.
    Example:
        >>> from kiln.experimental.xla_metadata import set_xla_metadata
        >>> with set_xla_metadata(priority="high"):
        ...     y = jnp.sin(0.0)
        >>> set_xla_metadata(y, name="y")
        Array(0., dtype=float32, weak_type=True)
    """
    return _Metadata() if x is None else x
