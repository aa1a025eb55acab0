"""What kiln does often enough that JAX's tests count it: traces, compilations, calls from Python.

The tests count events of JAX by their names (`jax._src.test_util.count_*`). Those that are events
of kiln, too, are told here: the trace of a jitted function, its compilation, in which kiln lowers
it, and a call that the extension does not make by itself. What JAX counts besides (copies,
transfers) stays uncounted.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from kiln.execution import compilation
from kiln.jit import function, recorder

_PLACES: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (recorder, "trace", ("trace_to_jaxpr",)),
    (
        compilation,
        "_compile",
        (
            "lower_jaxpr_to_module",
            "pxla_cached_compilation",
            "compile_after_persistent_compilation_miss",
        ),
    ),
    (function.JitFunction, "_call", ("jit_cpp_cache_miss",)),
)


def _telling(fun: Callable[..., Any], events: tuple[str, ...]) -> Callable[..., Any]:
    @functools.wraps(fun)
    def told(*args: Any, **kwargs: Any) -> Any:
        listener = getattr(importlib.import_module("jax._src.util"), "test_event_listener", None)
        if listener is not None:
            for event in events:
                listener(event)
        return fun(*args, **kwargs)

    return told


def tell_events() -> None:
    """Tell JAX's support for tests what kiln does, from now on."""
    for owner, name, events in _PLACES:
        setattr(owner, name, _telling(getattr(owner, name), events))
