"""Lines of user code, by the names in `jax.extend.source_info_util`.

Names of scopes do not appear in kiln's programs: the functions about them do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from kiln.base.source import Source, current_source
from kiln.core.trace import state
from kiln.ir.source_info import NameStack, SourceInfo


def current() -> SourceInfo:
    """Return the line of user code that runs."""
    return SourceInfo(state.source or current_source())


def new_source_info() -> SourceInfo:
    """Return no line."""
    return SourceInfo(None)


def new_name_stack(name: str = "") -> NameStack:
    """Return a stack with a name, or with none."""
    return NameStack((name,) if name else ())


def current_name_stack() -> NameStack:
    """Return the names of the scopes around the line that runs: none."""
    return NameStack()


def summarize(source_info: SourceInfo | Source | None, num_frames: int = 1) -> str:
    """Return `FILE:LINE (FUNCTION)` of a line, or of an equation's `source_info`."""
    source = source_info.traceback if isinstance(source_info, SourceInfo) else source_info
    return f"{source} ({source.function})" if source is not None else "unknown"


@contextmanager
def user_context(
    traceback: Source | None, *, name_stack: NameStack | None = None
) -> Iterator[None]:
    """Attribute the operations in a context to a line of user code."""
    previous = state.source
    state.source = traceback if isinstance(traceback, Source) else previous
    try:
        yield
    finally:
        state.source = previous


def extend_name_stack(name: str) -> nullcontext[NameStack]:
    """Do nothing."""
    return nullcontext(NameStack((name,)))


def set_name_stack(name_stack: NameStack) -> nullcontext[None]:
    """Do nothing."""
    return nullcontext()


def reset_name_stack() -> nullcontext[None]:
    """Do nothing."""
    return nullcontext()


def transform_name_stack(name: str) -> nullcontext[None]:
    """Do nothing."""
    return nullcontext()


def register_exclusion(path: str) -> None:
    """Do nothing: tracebacks are filtered of kiln's own frames only."""


__all__ = [
    "NameStack",
    "SourceInfo",
    "current",
    "current_name_stack",
    "extend_name_stack",
    "new_name_stack",
    "new_source_info",
    "register_exclusion",
    "reset_name_stack",
    "set_name_stack",
    "summarize",
    "transform_name_stack",
    "user_context",
]
