"""Primitive: an operation that can be applied, by handing it to the trace in force."""

from __future__ import annotations

from typing import Any

from kiln.core.trace import state
from kiln.ir.operation import Operation


class Primitive(Operation):
    """An operation on arrays."""

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the trace in force."""
        return state.trace.process(self, args, params)
