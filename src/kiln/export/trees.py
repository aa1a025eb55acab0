"""Structures of pytrees as tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import (
    PyTreeDef,
    keystr,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from kiln.base.tree.registry import flatten_one_level
from kiln.export.node_classes import class_named, class_of
from kiln.ir.types import ShapedArray

_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)
_PLAIN: dict[type, int] = {NoneType: _NONE, tuple: _TUPLE, list: _LIST, dict: _DICT}
_BY_KIND = {kind: nodetype for nodetype, kind in _PLAIN.items()}
_A_LEAF = tree_structure(0)


def tree_table(tree: PyTreeDef) -> dict[str, Any]:
    """Return the table of a structure.

    Raises: ValueError for nodes of a class that is not registered for this; TypeError for keys that
        are not strings.
    """
    data = tree.node_data()
    if data is None:
        return {"kind": _LEAF}
    nodetype, metadata = data
    children = [tree_table(child) for child in tree.children()]
    kind = _PLAIN.get(nodetype, _CUSTOM)
    table: dict[str, Any] = {"kind": kind, "children": children}
    if kind == _DICT:
        table["keys"] = list(map(_key, metadata))
    elif kind == _CUSTOM:
        node = class_of(nodetype)
        stored = node.serialize_auxdata(metadata)
        if not isinstance(stored, (bytes, bytearray)):
            raise ValueError(
                three_lines(
                    f"export with a node of the class {nodetype.__qualname__}",
                    f"its serialize_auxdata must return bytes, got {type(stored).__name__}",
                    "return bytes that deserialize_auxdata reads",
                )
            )
        table |= {"class_name": node.serialized_name, "data": bytes(stored)}
    return table


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            three_lines(
                f"export with a dict that has the key {key!r} at {current_source()}",
                "Serialization is supported only for dictionaries with string keys",
                "use string keys, or a list of values",
            )
        )
    return key


def tree_of(table: dict[str, Any]) -> PyTreeDef:
    """Return the structure that a table describes.

    Raises: ValueError for nodes of a class that is not registered here.
    """
    kind = table["kind"]
    if kind == _LEAF:
        return _A_LEAF
    children = [tree_of(child) for child in table["children"]]
    if kind in _BY_KIND:
        nodetype = _BY_KIND[kind]
        metadata = table["keys"] if kind == _DICT else None
        return PyTreeDef.from_node_data_and_children((nodetype, metadata), children)
    if kind != _CUSTOM:
        raise ValueError(f"a tree with a node of the unknown kind {kind}")
    node = class_named(table["class_name"])
    metadata = node.deserialize_auxdata(table["data"] or b"")
    if node.from_children is not None:
        # Numbers stand for the children, whose order in the node may differ.
        made = node.from_children(metadata, list(range(len(children))))
        numbers, metadata = flatten_one_level(made)
        children = [children[number] for number in numbers]
    return PyTreeDef.from_node_data_and_children((node.nodetype, metadata), children)


def argument_names(tree: PyTreeDef, avals: Sequence[ShapedArray]) -> tuple[str, ...]:
    """Return names of the leaves of `(args, kwargs)`, such as `args[0]['w']`.

    `avals` are types for the leaves. If a node class rejects types as children, leaves are
    numbered.
    """
    try:
        pairs, _ = tree_flatten_with_path(tree_unflatten(tree, avals))
    except Exception:  # noqa: BLE001, classes of users may take arrays only
        return tuple([f"leaf {i} of the arguments" for i in range(tree.num_leaves)])
    return tuple([path_text(path) for path, _ in pairs])


def path_text(path: Sequence[Any]) -> str:
    """Return a path in `(args, kwargs)` as text; an empty path means all arguments."""
    if not path:
        return "(args, kwargs)"
    return ("args" if path[0].idx == 0 else "kwargs") + keystr(tuple(path[1:]))
