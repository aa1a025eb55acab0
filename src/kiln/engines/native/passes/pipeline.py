"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from kiln.engines.native.loop_ir import Function

Pass = Callable[[Function], None]

PASSES: dict[str, Pass] = {}
"""Each changes a function in place."""


def optimized(function: Function) -> Function:
    """Run all passes on a function, and return it."""
    for run in PASSES.values():
        run(function)
    return function
