"""Checks of debugging options after each program or operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.lazy import key_reuse, nonfinite
from kiln.base.options.config import options
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation


def inspect_program(name: str, jaxpr: Jaxpr, args: Sequence[Any], outs: Sequence[Any]) -> None:
    """Check the results of a program, and the keys that it used.

    Raises: FloatingPointError if one is not finite; KeyReuseError if a key was used twice.
    """
    opts = options()
    if opts.debug_key_reuse:
        key_reuse.note_program(name, jaxpr, args, outs)
    if opts.debug_nans or opts.debug_infs:
        nonfinite.check_program(name, jaxpr, args, outs)


def inspect_operation(
    primitive: Operation, args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]
) -> None:
    """Check the results of an eager operation, and the keys that it used.

    Raises: FloatingPointError if one is not finite; KeyReuseError if a key was used twice.
    """
    opts = options()
    if opts.debug_key_reuse:
        key_reuse.note_operation(primitive, args, outs, params)
    if opts.debug_nans or opts.debug_infs:
        nonfinite.check_operation(primitive, args, outs, params)


def evaluate(primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run an operation by its own `evaluate`, and check it, if it has a list of results.

    Raises: FloatingPointError if one is not finite; KeyReuseError if a key was used twice.
    """
    opts = options()
    before = key_reuse.noted.count if opts.debug_key_reuse else 0
    outs = primitive.evaluate(*args, **params)  # type: ignore[misc]
    if opts.debug_key_reuse and key_reuse.noted.count == before:
        # Otherwise it was evaluated by operations, and these have recorded the keys.
        results = outs if primitive.multiple else [outs]
        key_reuse.note_operation(primitive, args, results, params)
    if primitive.multiple and (opts.debug_nans or opts.debug_infs):
        nonfinite.check_operation(primitive, args, outs, params)
    return outs
