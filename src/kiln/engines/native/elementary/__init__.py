"""Elementary functions as scalar expressions, one family per file, merged here."""

from __future__ import annotations

from collections.abc import Callable

from kiln.engines.native.scalars import Value

EXPANSIONS: dict[str, Callable[..., Value]] = {}


def expand(x: Value) -> Value:
    """Return a function's node as basic operations."""
    return x
