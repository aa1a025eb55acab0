"""Primitive: an operation that can be applied, by passing it to the active trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.core.trace import state
from kiln.ir.operation import Operation

Align = Callable[[Operation, Sequence[Any], dict[str, Any]], Sequence[Any]]


def _as_they_are(
    primitive: Operation, args: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    return args


_align: Align = _as_they_are


def set_alignment(align: Align) -> None:
    """Install the function that makes operands vary along the same mesh axes."""
    global _align
    _align = align


class Primitive(Operation):
    """An operation on arrays."""

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the active trace."""
        if state.tracked:
            return state.trace.process(self, _align(self, args, params), params)
        return state.trace.process(self, args, params)
