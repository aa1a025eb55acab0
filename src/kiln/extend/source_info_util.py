"""Lines of user code and names of scopes, by the names in `jax.extend.source_info_util`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kiln.base.source import Source, current_scopes, current_source, in_scopes
from kiln.core.trace import state
from kiln.ir.source_info import NameStack, SourceInfo


def current() -> SourceInfo:
    """Return the line of user code that runs, with the names of scopes around it."""
    source = state.source or current_source()
    return SourceInfo(source, NameStack(source.scopes if source else ()))


def new_source_info() -> SourceInfo:
    """Return no line."""
    return SourceInfo(None)


def new_name_stack(name: str = "") -> NameStack:
    """Return a stack with a name, or with none."""
    return NameStack((name,) if name else ())


def current_name_stack() -> NameStack:
    """Return the names of the scopes around the line that runs."""
    return NameStack(current_scopes())


def summarize(source_info: SourceInfo | Source | None, num_frames: int = 1) -> str:
    """Return `FILE:LINE (FUNCTION)` of a line, or of an equation's `source_info`."""
    source = source_info.traceback if isinstance(source_info, SourceInfo) else source_info
    return f"{source} ({source.function})" if source is not None else "unknown"


@contextmanager
def user_context(
    traceback: Source | None, *, name_stack: NameStack | None = None
) -> Iterator[None]:
    """Attribute the operations in a context to a line of user code, and to scopes."""
    previous = state.source
    scopes = current_scopes() if name_stack is None else name_stack.stack
    source = traceback if isinstance(traceback, Source) else previous
    if source is None or source.scopes == scopes:
        state.source = source
    else:
        state.source = Source(source.code, source.offset, scopes)
    try:
        with in_scopes(scopes):
            yield
    finally:
        state.source = previous


@contextmanager
def extend_name_stack(name: str) -> Iterator[NameStack]:
    """Enter a scope, in a context; its value is the stack."""
    with in_scopes((*current_scopes(), name)):
        yield NameStack(current_scopes())


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Be in these scopes, in a context."""
    with in_scopes(name_stack.stack):
        yield


@contextmanager
def reset_name_stack() -> Iterator[None]:
    """Be in no scope, in a context."""
    with in_scopes(()):
        yield


@contextmanager
def transform_name_stack(name: str) -> Iterator[None]:
    """Enter the scope of a transformation, in a context."""
    with in_scopes((*current_scopes(), name)):
        yield


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
