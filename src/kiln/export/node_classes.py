"""The classes of pytree nodes that can be stored: their names, and the encoding of metadata."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.lazy import json
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.base.tree import nodes as tree_nodes

T = TypeVar("T")


class NodeClass(NamedTuple):
    """A class of nodes: its name in stored programs, and how to encode and decode its metadata."""

    nodetype: type
    serialized_name: str
    serialize_auxdata: Callable[[Any], bytes]
    deserialize_auxdata: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any] | None


_by_class: dict[type, NodeClass] = {}
_by_name: dict[str, NodeClass] = {}


def class_of(nodetype: type) -> NodeClass:
    """Return how nodes of a class are stored.

    Raises: ValueError for a class that was not registered.
    """
    found = _by_class.get(nodetype)
    if found is None:
        raise _unregistered(f"a tree with nodes of the class {nodetype.__qualname__}", nodetype)
    return found


def class_named(name: str) -> NodeClass:
    """Return the class that is stored under a name.

    Raises: ValueError for a name that was not registered.
    """
    found = _by_name.get(name)
    if found is None:
        raise _unregistered(f"a stored tree with nodes called {name!r}", name)
    return found


def _unregistered(what: str, of: object) -> ValueError:
    return ValueError(
        three_lines(
            f"{what} at {current_source()}",
            f"Cannot serialize or load a PyTreeDef with nodes of the unregistered type `{of}`",
            "register it with export.register_pytree_node_serialization, or "
            "export.register_namedtuple_serialization",
        )
    )


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Allow nodes of a class in the arguments and results of exported programs.

    `from_children(metadata, children)` makes a node from placeholders of its children; without it,
    loading a program makes no nodes, and the class must be registered as a pytree node before.

    Raises: ValueError for a class or name that is registered already, and for a class that is not a
        pytree node.
    """
    if nodetype in _by_class:
        known = _by_class[nodetype].serialized_name
        _refuse(nodetype, f"Duplicate serialization registration for type `{nodetype}`: as {known}")
    if serialized_name in _by_name:
        _refuse(
            nodetype, f"Duplicate serialization registration for serialized_name {serialized_name}"
        )
    kind = tree_nodes.KINDS.get(nodetype)
    if from_children is None and not (kind is not None and kind.registered):
        why = "If `from_children` is not present, you must call register_pytree_node before"
        _refuse(nodetype, why)
    made = NodeClass(
        nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children
    )
    _by_class[nodetype] = _by_name[serialized_name] = made
    return nodetype


def _refuse(nodetype: type, why: str) -> None:
    raise ValueError(
        three_lines(
            f"registering {nodetype!r} for export at {current_source()}",
            why,
            "register each pytree node once, under a unique name",
        )
    )


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Allow namedtuples of a class in the arguments and results of exported programs.

    Raises: ValueError for other classes, and if the class or the name is registered already.
    """
    if not tree_nodes.is_namedtuple(nodetype):
        _refuse(nodetype, "Use register_pytree_node_serialization for types other than namedtuples")
    fields: tuple[str, ...] = nodetype._fields  # type: ignore[attr-defined]

    def to_bytes(_: Any) -> bytes:
        found: bytes = json.dumps(fields).encode()
        return found

    def made(names: Any, children: Sequence[Any]) -> Any:
        return nodetype(**dict(zip(names, children, strict=True)))

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=to_bytes,
        deserialize_auxdata=_from_json,
        from_children=made,
    )


def _from_json(stored: bytes) -> Any:
    return json.loads(stored.decode())


def _keys_to_bytes(keys: Any) -> bytes:
    if not all(isinstance(key, str) for key in keys):
        raise NotImplementedError(
            three_lines(
                f"export with an OrderedDict at {current_source()}",
                f"only string keys can be stored, and it has {list(keys)!r:.100}",
                "use string keys, or a list of values",
            )
        )
    found: bytes = json.dumps(list(keys)).encode()
    return found


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=_keys_to_bytes,
    deserialize_auxdata=lambda stored: tuple(_from_json(stored)),
    from_children=lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
)
