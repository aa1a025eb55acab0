"""Where an equation comes from, for libraries that read programs: a line, and names of scopes."""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import Source


class NameStack(NamedTuple):
    """The names of the scopes around an operation, within its program."""

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """Return the stack with one more name."""
        return NameStack((*self.stack, name))

    def transform(self, name: str) -> NameStack:
        """Return the stack with the name of a transformation."""
        return self.extend(name)

    def __str__(self) -> str:
        return "/".join(self.stack)


class SourceInfo(NamedTuple):
    """A line of user code, as `traceback`, and the names of scopes."""

    traceback: Source | None
    name_stack: NameStack = NameStack()

    def replace(self, **changes: Any) -> SourceInfo:
        """Return a copy with some parts replaced."""
        return self._replace(**changes)
