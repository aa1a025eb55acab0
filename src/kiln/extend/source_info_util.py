"""Lines of user code and names of scopes, by the names in `jax.extend.source_info_util`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from kiln._runtime import Assigned
from kiln.base.source import Source, current_scopes, current_source, in_scope, in_scopes
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
    """Return `FILE:LINE (FUNCTION)` of a line, or of an equation's `source_info`.

    `num_frames` has no effect: a source is one line.
    """
    source = source_info.traceback if isinstance(source_info, SourceInfo) else source_info
    return f"{source} ({source.function})" if source is not None else "unknown"


@contextmanager
def user_context(
    traceback: Source | None, *, name_stack: NameStack | None = None
) -> Iterator[None]:
    """Attribute the operations in a context to a line of user code, and to scopes.

    `traceback` is the source of an equation, None for the one that is in force; `name_stack` is by
    default the current one.
    """
    scopes = current_scopes() if name_stack is None else name_stack.stack
    source = traceback if isinstance(traceback, Source) else state.source
    if source is not None and source.scopes != scopes:
        source = Source(source.code, source.offset, scopes)
    with Assigned(state, "source", source), in_scopes(scopes):
        yield


def extend_name_stack(name: str) -> AbstractContextManager[NameStack]:
    """Enter a scope, in a context; its value is the stack."""
    return in_scope(name, NameStack)


def set_name_stack(name_stack: NameStack) -> AbstractContextManager[None]:
    """Be in these scopes, in a context.

    `name_stack` is what `current_name_stack` returned.
    """
    return in_scopes(name_stack.stack)


def reset_name_stack() -> AbstractContextManager[None]:
    """Be in no scope, in a context."""
    return in_scopes(())


def transform_name_stack(name: str) -> AbstractContextManager[None]:
    """Enter the scope of a transformation, in a context."""
    return in_scope(name)


def register_exclusion(path: str) -> None:
    """Do nothing: the source of an operation is the innermost frame outside kiln and NumPy."""


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
