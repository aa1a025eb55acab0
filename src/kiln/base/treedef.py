"""Pytrees <-> a list of leaves and a `PyTreeDef` that says how they nest.

Flattening is on the path of every jitted call, so it is one recursive function over exact types.
A structure is nested tuples, `(class, metadata, children)` for a node and None for a leaf: they
are compared and hashed in C. Node classes are in `tree_nodes.py`, key paths in `tree_keys.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.tree_differences import Key, differences_from_prefix
from kiln.base.tree_keys import KeyPath
from kiln.base.tree_nodes import KINDS, LEAF_TYPES, kind_of_new, sorted_keys

IsLeaf = Callable[[Any], bool] | None

_NONE: Key = (type(None), None, ())
_LEAVES = tuple((None,) * n for n in range(256))
_all_leaf_types = LEAF_TYPES.issuperset


class PyTreeDef:
    """The structure of a pytree."""

    __slots__ = ("__weakref__", "_hash", "key", "num_leaves")

    key: Key
    num_leaves: int
    _hash: int | None

    def __init__(self, key: Key, num_leaves: int) -> None:
        self.key = key
        self.num_leaves = num_leaves
        self._hash = None

    def __hash__(self) -> int:
        found = self._hash
        if found is None:
            found = self._hash = hash(self.key)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is PyTreeDef and bool(self.key == other.key)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self.key)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.key, self.num_leaves)

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return _count_nodes(self.key)

    @property
    def is_leaf(self) -> bool:
        """Whether the whole tree is one leaf."""
        return self.key is None

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's class and metadata; None for a leaf."""
        if self.key is None:
            return None
        kind, data, _ = self.key
        return kind, list(data) if kind is dict else data

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the root's children."""
        return [] if self.key is None else [_def(child) for child in self.key[2]]

    @staticmethod
    def from_node_data_and_children(
        node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Undo `node_data` and `children`."""
        if node_data is None:
            return _def(None)
        kind, data = node_data
        keys = tuple(child.key for child in children)
        return _def((kind, tuple(data) if kind is dict else data, keys))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the pytree of this structure with the given leaves.

        Raises: ValueError for too few or too many leaves.
        """
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            few = len(leaves) < self.num_leaves
            raise ValueError(
                three_lines(
                    f"unflatten: {self}",
                    f"Too {'few' if few else 'many'} leaves for PyTreeDef; "
                    f"expected {self.num_leaves}, got {len(leaves)}",
                    "give one value per leaf (*) of the structure",
                )
            )
        if self.key is None:
            return leaves[0]
        return _build(self.key, iter(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` that stand where this structure has leaves.

        Raises: ValueError when `tree` does not begin like this structure.
        """
        out: list[Any] = []
        if not _flatten_up_to(self.key, tree, out):
            errors = differences_from_prefix(self.key, tree, (), "tree")
            raise ValueError(next(errors, f"the tree {tree!r:.200} does not match {self}"))
        return out

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return this structure with every leaf replaced by `inner`."""
        return PyTreeDef(_compose(self.key, inner.key), self.num_leaves * inner.num_leaves)


def _def(key: Key) -> PyTreeDef:
    return PyTreeDef(key, _count_leaves(key))


def _count_leaves(key: Key) -> int:
    return 1 if key is None else sum(map(_count_leaves, key[2]))


def _count_nodes(key: Key) -> int:
    return 1 if key is None else 1 + sum(map(_count_nodes, key[2]))


def _compose(key: Key, inner: Key) -> Key:
    if key is None:
        return inner
    return key[0], key[1], tuple(_compose(child, inner) for child in key[2])


def _text(key: Key) -> str:
    if key is None:
        return "*"
    kind, data, children = key
    texts = [_text(child) for child in children]
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


def _flatten(x: Any, leaves: list[Any]) -> Key:
    kind = type(x)
    if kind in LEAF_TYPES:
        leaves.append(x)
        return None
    if kind is tuple or kind is list:
        children: Sequence[Any] = x
        data = None
    elif kind is dict:
        try:
            data = tuple(sorted(x))
        except TypeError:
            data = sorted_keys(x)
        children = [x[name] for name in data]
    elif x is None:
        return _NONE
    else:
        node = KINDS.get(kind) or kind_of_new(kind)
        if node is None:
            leaves.append(x)
            return None
        kids, data = node.flatten(x)
        children = kids if type(kids) is list or type(kids) is tuple else list(kids)
    if _all_leaf_types(map(type, children)):
        leaves += children
        count = len(children)
        return kind, data, _LEAVES[count] if count < 256 else (None,) * count
    keys: list[Key] = []
    for child in children:
        if type(child) in LEAF_TYPES:
            leaves.append(child)
            keys.append(None)
        else:
            keys.append(_flatten(child, leaves))
    return kind, data, tuple(keys)


def _flatten_until(x: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> Key:
    if is_leaf(x):
        leaves.append(x)
        return None
    kind = type(x)
    node = KINDS.get(kind) or kind_of_new(kind)
    if node is None:
        leaves.append(x)
        return None
    children, data = node.flatten(x)
    return kind, data, tuple([_flatten_until(child, leaves, is_leaf) for child in children])


def flatten_keyed(
    x: Any, path: KeyPath, out: list[tuple[KeyPath, Any]], is_leaf: Callable[..., bool] | None
) -> Key:
    """Append (key path, leaf) pairs below `path` to `out`; return the structure."""
    node = None
    if is_leaf is None or not is_leaf(path, x):
        node = KINDS.get(type(x)) or kind_of_new(type(x))
    if node is None:
        out.append((path, x))
        return None
    entries, children, data = node.with_entries(x)
    pairs = zip(entries, children, strict=True)
    keys = [flatten_keyed(child, (*path, entry), out, is_leaf) for entry, child in pairs]
    return type(x), data, tuple(keys)


def _build(key: Key, leaves: Iterator[Any]) -> Any:
    kind, data, keys = key
    count = len(keys)
    if keys.count(None) == count:
        children = list(islice(leaves, count))
    else:
        children = [next(leaves) if child is None else _build(child, leaves) for child in keys]
    if kind is tuple:
        return tuple(children)
    if kind is list:
        return children
    if kind is dict:
        return dict(zip(data, children, strict=True))
    return KINDS[kind].build(data, children)


def _flatten_up_to(key: Key, x: Any, out: list[Any]) -> bool:
    """Append the subtrees at the leaves of `key`; False when the structures differ."""
    if key is None:
        out.append(x)
        return True
    kind, data, keys = key
    if type(x) is not kind:
        return False
    if kind is dict:
        if len(x) != len(data):
            return False
        try:
            children = [x[name] for name in data]
        except KeyError:
            return False
    elif kind is tuple or kind is list:
        children = x
    else:
        kids, other = KINDS[kind].flatten(x)
        if data != other:
            return False
        children = list(kids)
    if len(children) != len(keys):
        return False
    for child_key, child in zip(keys, children, strict=True):
        if child_key is None:
            out.append(child)
        elif not _flatten_up_to(child_key, child, out):
            return False
    return True


_FLAT_TUPLES = tuple(PyTreeDef((tuple, None, keys), len(keys)) for keys in _LEAVES)


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a pytree and its structure.

    Raises: ValueError for a dict whose keys cannot be sorted.
    """
    if type(tree) is tuple and is_leaf is None and len(tree) < 256:
        if _all_leaf_types(map(type, tree)):
            return list(tree), _FLAT_TUPLES[len(tree)]
    leaves: list[Any] = []
    key = _flatten(tree, leaves) if is_leaf is None else _flatten_until(tree, leaves, is_leaf)
    return leaves, PyTreeDef(key, len(leaves))
