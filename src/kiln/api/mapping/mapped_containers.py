"""Pytree nodes that record a shape besides their arrays, which `vmap` has to adapt.

Inside the mapped function such a node describes one element, outside the whole stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from kiln.base.tree import tree_flatten, tree_leaves, tree_unflatten


class Container(Protocol):
    """The interface of a registered class."""

    def element_along(self, axis: int) -> Any:
        """Return the node with the shape of one element, and its arrays unchanged."""

    def stack_along(self, axis: int, size: Any) -> Any:
        """Return the node with the shape of a stack, and its arrays unchanged."""


_registered: list[type] = []


def register_container(cls: type) -> type:
    """Make `vmap` call these methods on nodes of a class; return the class."""
    _registered.append(cls)
    return cls


def as_elements(tree: Any, axes: Sequence[int | None]) -> Any:
    """Return a pytree whose containers describe elements; `axes` has one entry per leaf."""
    return _adapted(tree, axes, lambda node, axis: node.element_along(axis))


def as_stacks(tree: Any, axes: Sequence[int | None], size: Any) -> Any:
    """Return a pytree whose containers describe stacks; `axes` has one entry per leaf.

    `size` is the length of the mapped axis. An entry is the leaf's mapped axis, or None.
    """
    return _adapted(tree, axes, lambda node, axis: node.stack_along(axis, size))


def _adapted(tree: Any, axes: Sequence[int | None], change: Callable[[Container, int], Any]) -> Any:
    if not _registered:
        return tree
    classes = tuple(_registered)

    def is_container(x: Any) -> bool:
        return isinstance(x, classes)

    nodes, structure = tree_flatten(tree, is_container)
    if not any(map(is_container, nodes)):
        return tree
    return tree_unflatten(structure, _changed(nodes, axes, is_container, change))


def _changed(
    nodes: Sequence[Any],
    axes: Sequence[int | None],
    is_container: Callable[[Any], bool],
    change: Callable[[Container, int], Any],
) -> Iterator[Any]:
    at = 0
    for node in nodes:
        if not is_container(node):
            at += 1
            yield node
            continue
        size = len(tree_leaves(node))
        axis, *others = set(axes[at : at + size])
        at += size
        if others:
            raise ValueError(f"the arrays of {node!r} are mapped along different axes")
        yield node if axis is None else change(node, axis)
