"""Pytree functions by their short names: `tree.map`, `tree.leaves`, `tree.structure`."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.tree import static_field as static
from kiln.base.tree import tree_all as all
from kiln.base.tree import tree_broadcast as broadcast
from kiln.base.tree import tree_flatten as flatten
from kiln.base.tree import tree_flatten_with_path as flatten_with_path
from kiln.base.tree import tree_leaves as leaves
from kiln.base.tree import tree_leaves_with_path as leaves_with_path
from kiln.base.tree import tree_map as map
from kiln.base.tree import tree_map_with_path as map_with_path
from kiln.base.tree import tree_reduce as reduce
from kiln.base.tree import tree_reduce_associative as reduce_associative
from kiln.base.tree import tree_structure as structure
from kiln.base.tree import tree_transpose as transpose
from kiln.base.tree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]

_suggest_names(globals())
