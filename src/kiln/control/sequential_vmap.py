"""`sequential_vmap`: a function that is mapped by a loop over the elements of its stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.tree import tree_flatten, tree_structure, tree_unflatten
from kiln.control.custom_rules.vmap import custom_vmap
from kiln.control.loops.loops import map as sequential_map
from kiln.control.regions.region import merge, select_by


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """Return a function that `vmap` applies to one element after the other, in a loop.

    Example:
        >>> kiln.vmap(kiln.custom_batching.sequential_vmap(jnp.sin))(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    mapped = custom_vmap(f)

    def rule(axis_size: Any, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_flatten(args)
        stacked = tree_flatten(tuple(in_batched))[0]

        def one(elements: Any) -> Any:
            merged = merge(stacked, elements, select_by(stacked, leaves, False))
            return mapped(*tree_unflatten(tree, merged))

        outs = sequential_map(one, select_by(stacked, leaves))
        return outs, tree_structure(outs).unflatten([True] * tree_structure(outs).num_leaves)

    mapped.def_vmap(rule)
    return mapped
