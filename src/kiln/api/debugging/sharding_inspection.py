"""Shardings of arrays, passed to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_leaves
from kiln.core.trace import Tracer
from kiln.execution.compilation import as_array
from kiln.ir.shardings.sharding import Sharding


@api_boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function with the sharding of each array of a pytree.

    Raises: NotImplementedError under jit, where the compiler chooses shardings after tracing.
    """
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tracer):
            raise NotImplementedError(
                three_lines(
                    f"inspect_array_sharding of {leaf} at {current_source()}",
                    "shardings inside a program are not reported",
                    "return the array, and look at its .sharding",
                )
            )
        callback(as_array(leaf).sharding)
