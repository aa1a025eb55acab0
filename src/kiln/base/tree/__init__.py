"""The interface to pytrees, nested containers of values, for the layers above.

The parts: `treedef.py` (structures), `nodes.py` (which classes are containers), `keys.py` (key
paths), `mismatches.py` (messages). Here: functions of whole trees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.lazy import tree_mismatches
from kiln.base.source import current_source
from kiln.base.tree.keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    SequenceKey,
    keystr,
)
from kiln.base.tree.nodes import (
    Partial,
    flatten_one_level,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static_field,
)
from kiln.base.tree.treedef import (
    IsLeaf,
    PyTreeDef,
    settled,
    tree_flatten,
    tree_flatten_with_path,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "equality_errors",
    "flatten_one_level",
    "keystr",
    "prefix_errors",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "settled",
    "static_field",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the pytree with the given structure and leaves.

    Example:
        >>> leaves, structure = kiln.tree_util.tree_flatten({"a": 1, "b": (2, 3)})
        >>> kiln.tree_util.tree_unflatten(structure, [x * 10 for x in leaves])
        {'a': 10, 'b': (20, 30)}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a pytree, from left to right; the keys of dicts are sorted.

    Example:
        >>> kiln.tree_util.tree_leaves({"b": [3, 4], "a": 1})
        [1, 3, 4]
        >>> (
        ...     kiln.tree_util.tree_leaves([None, 1]),
        ...     kiln.tree_util.tree_leaves([None, 1], lambda x: x is None),
        ... )
        ([1], [None, 1])
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """Return the structure of a pytree: its containers, with leaves replaced by `*`.

    Example:
        >>> kiln.tree_util.tree_structure({"a": 1, "b": (2, 3)})
        PyTreeDef({'a': *, 'b': (*, *)})
    """
    treedef: PyTreeDef = tree_flatten(tree, is_leaf)[1]
    return treedef


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply `f` to the leaves of `tree`, together with the corresponding parts of other trees.

    Raises: ValueError if `tree` is not a prefix of another tree.
    Example:
        >>> kiln.tree_util.tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
        >>> kiln.tree_util.tree_map(jnp.shape, {"w": jnp.ones((2, 3)), "b": jnp.ones(3)})
        {'b': (3,), 'w': (2, 3)}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten(list(map(f, leaves, *columns)))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Tell whether all leaves are true.

    `is_leaf(node)` says where a subtree counts as a leaf.

    Example:
        >>> kiln.tree.all({"a": True, "b": [True, False]})
        False
    """
    return all(tree_leaves(tree, is_leaf))


_REQUIRED = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _REQUIRED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves of a pytree from left to right.

    Example:
        >>> kiln.tree_util.tree_reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
        6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _REQUIRED:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _REQUIRED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves pairwise, in a balanced tree.

    `operation(a, b)` is associative; `identity` is the result for a tree without leaves.
    `is_leaf(node)` says where a subtree counts as a leaf.
    Raises: TypeError for a tree without leaves and no `identity`.
    Example:
        >>> kiln.tree.reduce_associative(lambda a, b: a + b, {"a": 1, "b": [2, 3]})
        6
    """
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _REQUIRED:
            raise TypeError(
                f"tree_reduce_associative: the tree has no leaves at {current_source()}\n"
                "there is nothing to combine\ngive identity=..."
            )
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = [*pairs, values[-1]] if len(values) % 2 else pairs
    return values[0]


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Transpose a tree of trees: `outer` of `inner` becomes `inner` of `outer`.

    Raises: TypeError if the tree is not `inner` in every leaf of `outer`.
    Example:
        >>> structure = kiln.tree.structure
        >>> kiln.tree.transpose(structure([0, 0]), structure({"a": 0}), [{"a": 1}, {"a": 2}])
        {'a': [1, 2]}
    """
    try:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if inner_treedef is None:
            inner_treedef = tree_structure(subtrees[0])
        columns = [inner_treedef.flatten_up_to(subtree) for subtree in subtrees]
    except ValueError as error:
        raise TypeError(
            three_lines(
                f"tree_transpose of {tree_structure(pytree_to_transpose)} at {current_source()}",
                f"Mismatch: that is not {inner_treedef} in each leaf of {outer_treedef}",
                "pass the two structures of which the tree is composed",
            )
        ) from error
    rows = [
        outer_treedef.unflatten([column[i] for column in columns])
        for i in range(inner_treedef.num_leaves)
    ]
    return inner_treedef.unflatten(rows)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return (key path, leaf) pairs.

    `is_leaf(node)` says where a subtree counts as a leaf; with `is_leaf_takes_path` it is called
    with the key path before.

    Example:
        >>> pairs = kiln.tree.leaves_with_path([1, 2])
        >>> [(kiln.tree_util.keystr(path), leaf) for path, leaf in pairs]
        [('[0]', 1), ('[1]', 2)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, but pass the key path as the first argument of `f`.

    `rest` are trees of which `tree` is a prefix. `is_leaf(node)` says where a subtree counts as a
    leaf; with `is_leaf_takes_path` it is called with the key path before.
    Raises: ValueError if one of `rest` has another structure.
    Example:
        >>> kiln.tree.map_with_path(lambda path, x: f"{kiln.tree_util.keystr(path)}={x}", {"a": 1})
        {'a': "['a']=1"}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(other) for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten([f(path, leaf, *others) for (path, leaf), *others in rows])


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Tell whether a structure is a single node: a leaf, None or an empty container.

    `treedef` may be that of any tree.
    """
    return treedef.key is None or not treedef.key[2]


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children.

    A leaf has none.
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees.

    `treedefs` are the structures of its elements.
    """
    children = list(treedefs)
    key = (tuple, None, tuple([child.key for child in children]))
    return PyTreeDef(key)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Tell whether no element is a container or None.

    `is_leaf(node)` says where a subtree counts as a leaf.
    """
    return all(tree_structure(x, is_leaf).is_leaf for x in iterable)


def broadcast_prefix(prefix: Any, full: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return, for every leaf of `full`, the leaf of `prefix` that covers it.

    Raises: ValueError if `prefix` is not a prefix of `full`.
    """
    leaves, treedef = tree_flatten(prefix, is_leaf)
    if treedef.key is None:
        return leaves * tree_structure(full).num_leaves
    out: list[Any] = []
    for leaf, subtree in zip(leaves, treedef.flatten_up_to(full), strict=True):
        out += [leaf] * tree_structure(subtree).num_leaves
    return out


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Return `prefix_tree` extended to the structure of `full_tree`.

    `is_leaf(node)` says where a subtree counts as a leaf.
    Raises: ValueError if it is not a prefix.
    Example:
        >>> kiln.tree.broadcast({"a": 0, "b": 1}, {"a": (5, 6), "b": 7})
        {'a': (0, 0), 'b': 1}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def prefix_errors(prefix: Any, full: Any, is_leaf: IsLeaf = None, name: str = "tree") -> list[str]:
    """Return why `prefix` is not a prefix of `full`, one message per position; empty if it is."""
    return list(
        tree_mismatches.differences_from_prefix(tree_structure(prefix, is_leaf).key, full, (), name)
    )


def equality_errors(a: Any, b: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, str, str, str]]:
    """Return where two structures differ: (key path, what a has, what b has, the difference).

    `a` and `b` are pytrees or `PyTreeDef`s.
    """
    keys = [x.key if isinstance(x, PyTreeDef) else tree_structure(x, is_leaf).key for x in (a, b)]
    return list(tree_mismatches.differences(keys[0], keys[1], ()))
