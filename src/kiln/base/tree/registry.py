"""One level of a pytree, and the registry of node classes as an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kiln._runtime import NodeKind
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import nodes as tree_nodes
from kiln.base.tree.treedef import IsLeaf, PyTreeDef, tree_flatten

KeyEntry = Any
"""One step of a key path."""


def is_tree_node(typ: type) -> bool:
    """Tell whether a class is a container of pytrees: builtin, registered, or a namedtuple."""
    return (tree_nodes.KINDS.get(typ) or tree_nodes.kind_of_new(typ)) is not None


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """Return the children of a node and its metadata.

    Raises: ValueError for a leaf.
    Example:
        >>> kiln.tree_util.flatten_one_level({"a": [1, 2], "b": 3})
        ([[1, 2], 3], ('a', 'b'))
    """
    found = tree_nodes.flatten_one_level(tree)
    if found is None:
        raise _not_a_node(tree)
    return found


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the children of a node, each with its entry of a key path, and its metadata.

    Raises: ValueError for a leaf.
    """
    kind = tree_nodes.KINDS.get(type(tree)) or tree_nodes.kind_of_new(type(tree))
    if kind is None:
        raise _not_a_node(tree)
    # In one call: another thread may change the node.
    entries, children, data = kind.with_entries(tree)
    return list(zip(entries, children, strict=True)), data


def _not_a_node(tree: Any) -> ValueError:
    return ValueError(
        three_lines(
            f"flatten_one_level({tree!r:.60}) at {current_source()}",
            f"can't tree-flatten type: {type(tree)}",
            "register the class with tree_util.register_pytree_node",
        )
    )


class Registry:
    """The classes that are containers of pytrees."""

    def flatten(self, tree: Any, leaf_predicate: IsLeaf = None) -> Any:
        """Return the leaves and the structure of a pytree."""
        return tree_flatten(tree, leaf_predicate)

    def is_node(self, typ: type) -> bool:
        """Tell whether a class is a container."""
        return is_tree_node(typ)

    def flatten_one_level(self, tree: Any) -> Any:
        """Return the children of a node and its metadata; None for a leaf."""
        return tree_nodes.flatten_one_level(tree)

    def flatten_one_level_with_keys(self, tree: Any) -> Any:
        """Return the children of a node with their entries, and its metadata; None for a leaf."""
        return flatten_one_level_with_keys(tree) if is_tree_node(type(tree)) else None


class NodeFunctions(Record):
    """How nodes of one class are flattened and unflattened."""

    to_iter: Callable[[Any], tuple[Iterable[Any], Any]]
    """From a node to its children and its metadata."""
    from_iter: Callable[[Any, Iterable[Any]], Any]
    """From metadata and children to a node."""


class NodeClasses(Mapping[type, NodeFunctions]):
    """A live view of the classes that are containers of pytrees, except namedtuples."""

    def __getitem__(self, cls: type) -> NodeFunctions:
        kind = tree_nodes.KINDS[cls]
        if not _is_listed(kind):
            raise KeyError(cls)

        def from_iter(data: Any, children: Iterable[Any]) -> Any:
            leaves = tuple(children)
            structure = PyTreeDef.from_node_data_and_children(
                (cls, data), [PyTreeDef(None)] * len(leaves)
            )
            return structure.unflatten(leaves)

        return NodeFunctions(kind.take_apart, from_iter)

    def __contains__(self, cls: object) -> bool:
        kind = tree_nodes.KINDS.get(cls)  # type: ignore[call-overload]
        return kind is not None and _is_listed(kind)

    def __iter__(self) -> Iterator[type]:
        return iter([cls for cls, kind in list(tree_nodes.KINDS.items()) if _is_listed(kind)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_listed(kind: NodeKind) -> bool:
    # Namedtuples are entered when they are first seen.
    return kind.registered


node_classes = NodeClasses()
default_registry = Registry()
