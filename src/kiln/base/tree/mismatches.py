"""Messages about the differences between the structures of two pytrees.

A structure is a key of `treedef.py`: None for a leaf, else `(class, metadata, children)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.tree.keys import KeyPath, keystr
from kiln.base.tree.nodes import KINDS, is_namedtuple
from kiln.base.tree.treedef import Key


def differences_from_prefix(key: Key, full: Any, path: KeyPath, name: str) -> Iterator[str]:
    """Yield messages on why a structure is not a prefix of the tree `full`, called `name`."""
    # Trees may be deeper than Python's stack, here and below.
    left = [(key, full, path)]
    while left:
        key, full, path = left.pop()
        if key is None:
            continue
        kind, data, keys = key
        at = f"at key path {name}{keystr(path)}"
        if type(full) is not kind:
            yield three_lines(
                f"pytree structure error: different types {at}",
                f"{_mismatch(kind, full)} the prefix has a {kind.__name__} with "
                f"{_children_text(kind, data, keys)}, but the full tree has a different type, "
                f"{type(full).__name__}",
                f"use a {type(full).__name__} in the prefix, or one leaf for the whole subtree",
            )
            continue
        # In one call: another thread may change the node.
        entries, children, other = KINDS[kind].with_entries(full)
        if kind in (tuple, list) and len(keys) != len(children):
            yield three_lines(
                f"pytree structure error: different lengths of {kind.__name__} {at}",
                f"{kind.__name__.title()} arity mismatch: {len(children)} != {len(keys)}; "
                f"{kind.__name__}: {_short(full)}. The prefix has length {len(keys)}, the full "
                f"tree has length {len(children)}",
                f"give {len(children)} elements, or one leaf for the whole {kind.__name__}",
            )
            continue
        if data != other or len(keys) != len(children):
            counted = len(keys) != len(children)
            what = "numbers of pytree children" if counted else "pytree metadata"
            wrong, remedy = _data_errors(kind, data, other)
            if kind is dict and counted:
                only = [str(key) for key in (*data, *other) if key not in data or key not in other]
                wrong += f", so the symmetric difference on key sets is {' '.join(only)}"
            yield three_lines(f"pytree structure error: different {what} {at}", wrong, remedy)
            continue
        below = zip(keys, children, [(*path, entry) for entry in entries], strict=True)
        left += reversed(list(below))


def _data_errors(kind: type, data: Any, other: Any) -> tuple[str, str]:
    if kind is dict:
        missing = [name for name in other if name not in data]
        extra = [name for name in data if name not in other]
        wrong = (
            f"Dict key mismatch; expected keys: {list(data)}; the prefix has {list(data)}, the "
            f"full tree {list(other)}"
        )
        found = [f"add {', '.join(map(repr, missing))}" if missing else ""]
        found += [f"remove {', '.join(map(repr, extra))}" if extra else ""]
        return wrong, " and ".join(filter(None, found)) + " in the prefix"
    wrong = f"different metadata of {kind.__name__}: the prefix has {data}, the full tree {other}"
    return wrong, "use equal metadata in both"


def _mismatch(kind: type, full: Any) -> str:
    if is_namedtuple(kind) and is_namedtuple(type(full)):
        return "Named tuple type mismatch:"
    if kind in (tuple, list, dict, type(None)):
        name = "None" if kind is type(None) else kind.__name__
        return f"Expected {name}, got {_short(full)}."
    if is_namedtuple(kind):
        return f"Expected named tuple, got {_short(full)}."
    return "Custom node type mismatch:"


_LONGEST = 200


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _children_text(kind: type, data: Any, keys: Sequence[Key]) -> str:
    if kind is dict:
        return f"keys {list(data)}"
    return "1 child" if len(keys) == 1 else f"{len(keys)} children"


def differences(a: Key, b: Key, path: KeyPath) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield (key path, what a has there, what b has, the difference)."""
    left = [(a, b, path)]
    while left:
        a, b, path = left.pop()
        if a is b:
            continue
        if a is None or b is None or a[0] is not b[0]:
            yield path, _describe(a), _describe(b), "their types differ"
            continue
        kind, data, keys = a
        _, other, other_keys = b
        if kind is dict and data != other:
            first, second = (
                sorted(set(x) - set(y), key=repr) for x, y in ((data, other), (other, data))
            )
            only = [f"only the first has {first}" if first else ""]
            only += [f"only the second has {second}" if second else ""]
            wrong = "their keys differ: " + ", ".join(filter(None, only))
            yield path, _describe(a), _describe(b), wrong
        elif len(keys) != len(other_keys):
            yield path, _describe(a), _describe(b), "their lengths differ"
        elif data != other:
            wrong = "their metadata differ"
            yield path, f"{kind.__name__}[{data}]", f"{kind.__name__}[{other}]", wrong
        else:
            entries = KINDS[kind].entries_of(data, len(keys))
            below = zip(keys, other_keys, [(*path, entry) for entry in entries], strict=True)
            left += reversed(list(below))


def _describe(key: Key) -> str:
    if key is None:
        return "a pytree leaf"
    kind, data, keys = key
    if kind is type(None):
        return "None"
    if kind is tuple or kind is list or is_namedtuple(kind):
        return f"a {kind.__name__} of length {len(keys)}"
    if kind is dict:
        return f"a dict with keys {list(data)}"
    return f"a {kind.__name__} with {len(keys)} children"
