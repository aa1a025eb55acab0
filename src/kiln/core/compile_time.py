"""Computing at once with known values, while a function is traced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any, Self

from kiln._runtime import Changed
from kiln.core.trace import Trace, Tracer, in_force, state
from kiln.ir.operation import Operation


class CompileTimeTrace(Trace):
    """Evaluates operations on known values; passes those on traced values to its parent."""

    __slots__ = ()

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation under the outermost trace, or under the parent."""
        traced = any(isinstance(x, Tracer) for x in args)
        with in_force(self.parent if traced and self.parent is not None else state.root):
            return primitive.bind(*args, **params)

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        return "under ensure_compile_time_eval"


class ensure_compile_time_eval(Changed, ContextDecorator):
    """Compute at once with known values, inside a traced function too, until the context ends.

    Operations on traced values are traced as usual.

    Example:
        >>> @kiln.jit
        ... def f(x):
        ...     with kiln.ensure_compile_time_eval():
        ...         size = int(jnp.sqrt(16.0))
        ...     return x * jnp.ones(size)
        >>> f(2.0)
        Array([2., 2., 2., 2.], dtype=float32)
    """

    def __new__(cls) -> Self:
        """Make the trace in force on entry the one that handles traced values."""
        return super().__new__(cls, state, "trace", lambda outer: (CompileTimeTrace(outer), None))
