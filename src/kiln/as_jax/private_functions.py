"""Functions of private modules of jax that libraries call, in terms of kiln."""

from __future__ import annotations

from typing import Any

from kiln.base.source import api_boundary
from kiln.core.trace import state


def register_exclusion(path: str) -> None:
    """Accept a file whose frames tracebacks may leave out. They stay: kiln hides only its own."""


def trace_state_clean() -> bool:
    """Tell whether no function is being traced."""
    return state.trace is state.root


FUNCTIONS: dict[str, dict[str, Any]] = {
    "jax._src.core": {"trace_state_clean": trace_state_clean},
    "jax._src.traceback_util": {
        "api_boundary": api_boundary,
        "register_exclusion": register_exclusion,
    },
}
"""By module and name."""
