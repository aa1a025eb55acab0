"""What libraries need to know of object files of any format: their symbols, under other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kiln.base.named_tuples import NamedTuple


class Symbol(NamedTuple):
    """A symbol that other files see, or that they define; its name is that in C."""

    name: str
    is_defined: bool


Rename = Callable[[str], str | None]
"""A symbol's other name; None: it keeps its own."""


class ObjectFile(Protocol):
    """A relocatable file."""

    image: bytes

    def symbols(self) -> list[Symbol]:
        """Return the symbols that are not local."""
        ...

    def renamed(self, rename: Rename) -> bytes:
        """Return the file with other names of symbols that are not local, for C.

        Those for which there is a name are hidden: no file outside a shared library sees them.
        """
        ...
