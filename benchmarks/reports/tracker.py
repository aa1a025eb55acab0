"""Where reports are, and the rows made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.suite.row import Row, Work

JAX = "https://github.com/jax-ml/jax/issues"
KEPLER = "https://github.com/kemasuda/jnkepler/issues/18"
SGKIT = "https://github.com/sgkit-dev/sgkit/issues/1266"


def reported(
    name: str,
    report: str,
    kind: str,
    build: Callable[..., Work],
    size: tuple[Any, ...],
    tiny: tuple[Any, ...],
    **others: Any,
) -> Row:
    """Return a row that follows a report."""
    return Row(name, kind, build, size, tiny, report=report, **others)
