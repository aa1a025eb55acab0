"""Reading and replacing the active trace; values as traces see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.control.regions.bodies import as_operand
from kiln.core.arrays.array import ConcreteArray
from kiln.core.concretization import refuse
from kiln.core.primitive import Primitive
from kiln.core.staging import recording
from kiln.core.trace import Trace, Tracer, in_force, state
from kiln.transforms.batching import BatchTrace

array_types: set[type] = {ConcreteArray, np.ndarray, np.generic}
"""The classes of arrays that operations take, beside Python numbers and traced values."""


class CallPrimitive(Primitive):
    """A primitive that calls a function, of libraries that recognize such: kiln has none."""

    multiple = True
    call_primitive = True


class TraceTag:
    """An object that tells tracers of one transformation from those of others."""


class OpaqueTraceState:
    """Which trace is active; two are equal if it is the same."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """Return an object that is equal for calls under the same trace; `convention` is ignored."""
    return OpaqueTraceState(state.trace)


def find_top_trace(xs: Sequence[Any] = ()) -> Trace:
    """Return the active trace."""
    return state.trace  # type: ignore[no-any-return]


def trace_state_clean() -> bool:
    """Tell whether nothing is being traced."""
    return state.trace is state.root


def set_current_trace(trace: Trace, check_leaks: bool = False) -> AbstractContextManager[Trace]:
    """Activate a trace in a context.

    `check_leaks` has no effect: leaks are checked where traces end.
    """
    return in_force(trace)


@contextmanager
def take_current_trace() -> Iterator[Trace]:
    """Return the active trace in a context, to be kept as the parent of another one."""
    yield state.trace


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """Call a wrapped function (`linear_util.WrappedFun`).

    `params` are passed on as keyword arguments.
    """
    return f.call_wrapped(*args, **params)


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """Return a value, converted by `force`, that must not be a traced one.

    Raises: ConcretizationTypeError if its value is unknown.
    """
    if isinstance(val, Tracer):
        found = val.concrete()
        if found is None:
            refuse(val, getattr(force, "__name__", "concrete_or_error"), context or None)
        val = found
    return val if force is None else force(val)


def valid_jaxtype(x: Any) -> bool:
    """Tell whether operations take a value: an array, a traced value, or a number."""
    if isinstance(x, np.ndarray):
        return dtypes.is_supported(x.dtype)
    return as_operand(x) is not None


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Tell whether a program is being recorded."""
    return recording() is not None


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Tell whether something is being mapped."""
    trace: Trace | None = state.trace
    while trace is not None:
        if isinstance(trace, BatchTrace):
            return True
        trace = trace.parent
    return False


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """Return the names of the mapped axes."""
    return [name for name, *_ in state.axes]


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Tell whether a mapped axis has a name."""
    return bool(state.axes)
