"""Pytrees <-> a list of leaves and a `PyTreeDef` with their structure.

Flattening and unflattening are on the path of every jitted call, so the runtime does them
(`_runtime/trees/tree.cc`); here are the other operations on structures. A structure is nested
tuples, `(class, metadata, children)` for a node and None for a leaf: they are compared and hashed
as such.
Node classes are in `nodes.py`, key paths in `keys.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from kiln import _runtime
from kiln._runtime import tree_flatten as tree_flatten
from kiln._runtime import tree_flatten_with_path as tree_flatten_with_path
from kiln.base.errors import three_lines
from kiln.base.lazy import tree_mismatches
from kiln.base.pickled import pickled_as, reduced
from kiln.base.source import current_source
from kiln.base.tree.nodes import KINDS

IsLeaf = Callable[[Any], bool] | None
Key = Any


@pickled_as("PyTreeDef")
class PyTreeDef(_runtime.TreeDef):
    """The structure of a pytree."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self.key)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("PyTreeDef", self.key)

    @property
    def num_nodes(self) -> int:
        """The number of nodes, including leaves."""
        return _count_nodes(self.key)

    @property
    def is_leaf(self) -> bool:
        """Whether the whole tree is one leaf."""
        return self.key is None

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's class and metadata, or None for a leaf."""
        if self.key is None:
            return None
        kind, data, _ = self.key
        return kind, list(data) if kind is dict else data

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the root's children."""
        return [] if self.key is None else [PyTreeDef(child) for child in self.key[2]]

    @staticmethod
    def from_node_data_and_children(
        node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Undo `node_data` and `children`."""
        if node_data is None:
            return PyTreeDef(None)
        kind, data = node_data
        keys = tuple(child.key for child in children)
        return PyTreeDef((kind, tuple(data) if kind is dict else data, keys))

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any],
        leaves: Iterable[Any],
    ) -> Any:
        """Fold a tree of this structure: each leaf, then each node with its children's results.

        `f_node` is called with the results, and the metadata of the node.
        """
        each = iter(leaves)
        return _folded(
            self.key,
            lambda: f_leaf(next(each)),
            lambda key, done: f_node(tuple(done), list(key[1]) if key[0] is dict else key[1]),
        )

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return this structure with every leaf replaced by `inner`."""
        return PyTreeDef(_compose(self.key, inner.key))


# Structures may be deeper than Python's stack: these are loops, like those of the runtime.


def _folded(key: Key, leaf: Callable[[], Any], node: Callable[[Key, list[Any]], Any]) -> Any:
    """Fold the structure with `node(key, results of the children)`, and `leaf()` for leaves."""
    if key is None:
        return leaf()
    levels: list[tuple[Key, list[Any]]] = [(key, [])]
    while True:
        at, done = levels[-1]
        if len(done) < len(at[2]):
            child = at[2][len(done)]
            if child is None:
                done.append(leaf())
            else:
                levels.append((child, []))
            continue
        levels.pop()
        result = node(at, done)
        if not levels:
            return result
        levels[-1][1].append(result)


def _count_nodes(key: Key) -> int:
    count: int = _folded(key, lambda: 1, lambda _, counts: 1 + sum(counts))
    return count


def _compose(key: Key, inner: Key) -> Key:
    return _folded(key, lambda: inner, lambda at, children: (at[0], at[1], tuple(children)))


def settled(treedef: PyTreeDef) -> PyTreeDef:
    """Return an equal structure that is isolated from changes to its metadata, for use as a key.

    Only unhashable metadata may change: its lists, dicts and sets are copied, and other values in
    them are kept.
    """
    return treedef if treedef.is_hashable else PyTreeDef(_folded(treedef.key, _no_key, _settled))


def _no_key() -> None:
    """Return the key of a leaf."""


def _settled(key: Key, children: list[Key]) -> Key:
    kind, data, _ = key
    return kind, data if _has_hash(data) else _copied(data), tuple(children)


def _has_hash(data: Any) -> bool:
    try:
        hash(data)
    except Exception:  # noqa: BLE001 - the user's class decides what it raises
        return False
    return True


def _copied(data: Any) -> Any:
    kind = type(data)
    if kind is dict:
        return {name: _copied(value) for name, value in data.items()}
    if kind in (list, tuple):
        return kind(map(_copied, data))
    return set(data) if kind is set else data


def _text(key: Key) -> str:
    text: str = _folded(key, lambda: "*", _node_text)
    return text


def _node_text(key: Key, texts: list[str]) -> str:
    kind, data, _ = key
    joined = ", ".join(texts)
    if kind is tuple:
        return f"({joined},)" if len(texts) == 1 else f"({joined})"
    if kind is list:
        return f"[{joined}]"
    if kind is type(None):
        return "None"
    if kind is dict:
        pairs = zip(data, texts, strict=True)
        return "{" + ", ".join(f"{name!r}: {text}" for name, text in pairs) + "}"
    if not KINDS[kind].registered:
        return f"CustomNode(namedtuple[{kind.__name__}], [{joined}])"
    return f"CustomNode({kind.__name__}[{data}], [{joined}])"


def _wrong_count(treedef: PyTreeDef, count: int) -> NoReturn:
    few = count < treedef.num_leaves
    raise ValueError(
        three_lines(
            f"unflatten: {treedef} at {current_source()}",
            f"Too {'few' if few else 'many'} leaves for PyTreeDef; "
            f"expected {treedef.num_leaves}, got {count}",
            "give one value per leaf (*) of the structure",
        )
    )


def _no_prefix(treedef: PyTreeDef, tree: Any) -> NoReturn:
    for error in tree_mismatches.differences_from_prefix(treedef.key, tree, (), "tree"):
        first, *rest = error.splitlines()
        raise ValueError("\n".join([f"{first} at {current_source()}", *rest]))
    raise ValueError(f"the tree {tree!r:.200} does not match {treedef} at {current_source()}")


_runtime.set_tree_class(PyTreeDef, _wrong_count, _no_prefix)
