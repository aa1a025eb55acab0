"""Functions of private modules of jax that libraries call, in terms of kiln."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from kiln.api.arrays import devices
from kiln.base.config import is_settled
from kiln.base.processes import process_count, process_index
from kiln.base.source import api_boundary, is_internal
from kiln.base.tree_registry import node_classes
from kiln.control.callback import effects_barrier
from kiln.control.hi_rules import GradAccum, NullAccum
from kiln.core.trace import state

_excluded: list[str] = []


def register_exclusion(path: str) -> None:
    """Let `include_frame` be False for a file. Tracebacks keep its frames: kiln hides its own."""
    _excluded.append(path)


def include_frame(frame: types.FrameType) -> bool:
    """Tell whether a frame is a user's: neither kiln's nor of an excluded file."""
    file = frame.f_code.co_filename
    return not is_internal(file) and not file.startswith(tuple(_excluded))


def trace_state_clean() -> bool:
    """Tell whether no function is being traced."""
    return state.trace is state.root


def _backends() -> dict[str, Any]:
    return {"cpu": devices()[0]} if is_settled("num_cpu_devices") else {}


def _global_state() -> types.SimpleNamespace:
    """Return what libraries ask of the distributed state; jaxlib's client is not lent to them."""
    return types.SimpleNamespace(
        client=None, process_id=process_index(), num_processes=process_count()
    )


COMPUTED: dict[str, dict[str, Callable[[], Any]]] = {
    "jax._src.distributed": {"global_state": _global_state},
    "jax._src.xla_bridge": {"_backends": _backends},
}
"""By module and name: what returns the current value."""

FUNCTIONS: dict[str, dict[str, Any]] = {
    "jax._src.core": {"trace_state_clean": trace_state_clean},
    "jax._src.dispatch": {"wait_for_tokens": effects_barrier},
    "jax._src.interpreters.ad": {"GradAccum": GradAccum, "NullAccum": NullAccum},
    "jax._src.tree_util": {"_registry": node_classes},
    "jax._src.traceback_util": {
        "api_boundary": api_boundary,
        "include_frame": include_frame,
        "register_exclusion": register_exclusion,
    },
}
"""By module and name."""
