"""Key paths: the path from a pytree to one of its leaves, and its text.

`d['a'][0].x` is the path (DictKey('a'), SequenceKey(0), GetAttrKey('x')) behind the name `d`. The
runtime creates them while flattening (`_runtime/trees/keys.cc`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kiln._runtime import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyPath", "SequenceKey", "keystr"]

KeyPath = tuple[Any, ...]


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """Format a key path: `['a'][0].x`, or with `simple` only the names, joined by `separator`.

    `keys` are the entries of a key path, such as `tree_flatten_with_path` returns.
    """
    return separator.join(map(_simple if simple else str, keys))


def _simple(entry: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(entry, name):
            return str(getattr(entry, name))
    return str(entry)
