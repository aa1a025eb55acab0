"""Key paths: how to get from a pytree to one of its leaves, and how that is written.

`d['a'][0].x` is the path (DictKey('a'), SequenceKey(0), GetAttrKey('x')) behind the name `d`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from typing import Any


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A position in a tuple or list: `[0]`."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """A key of a mapping: `['a']`."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """An attribute: `.x`."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """A child of a registered class that does not name its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath = tuple[Any, ...]


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """Write a key path: `['a'][0].x`, or with `simple` only the names, joined by `separator`."""
    return separator.join(map(_simple if simple else str, keys))


def _simple(entry: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(entry, name):
            return str(getattr(entry, name))
    return str(entry)
