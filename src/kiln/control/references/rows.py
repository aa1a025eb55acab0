"""Scans over references, where each step gets a reference to its slice; scans run in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.tree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)
from kiln.control.references.primitives import content_of, replace_content
from kiln.control.references.refs import freeze, new_ref
from kiln.control.regions.bodies import as_result
from kiln.control.regions.held_refs import check_apart
from kiln.core.ref import Ref, returned_ref
from kiln.ops.indexing.static_slicing import concatenate, index_in_dim
from kiln.ops.shape import expand_dims


def scan_over_refs(
    scan: Callable[..., Any],
    f: Callable[[Any, Any], Any],
    init: Any,
    rows: Sequence[Any],
    tree: PyTreeDef,
    **options: Any,
) -> tuple[Any, Any]:
    """Run `scan` where some of the xs, the leaves `rows` of a tree, are references.

    Raises: ValueError for a reference in the carry.
    """
    check_apart("scan", f, (init, tree_unflatten(tree, rows)))
    for path, x in tree_flatten_with_path(init)[0]:
        if type(x) is Ref:
            raise returned_ref("scan: carry", keystr(path) or "the carry", x)
    is_ref = tuple([type(x) is Ref for x in rows])

    def step(carry: Any, xs: Any) -> Any:
        leaves = [
            new_ref(x) if made else x for x, made in zip(tree_flatten(xs)[0], is_ref, strict=True)
        ]
        out = f(carry, tree_unflatten(tree, leaves))
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            return out
        after = [freeze(x) for x, made in zip(leaves, is_ref, strict=True) if made]
        return out[0], (out[1], after)

    xs = tree_unflatten(tree, [content_of(x) if type(x) is Ref else x for x in rows])
    carry, (ys, after) = scan(step, init, xs, **options)
    for ref, new in zip([x for x in rows if type(x) is Ref], after, strict=True):
        replace_content(ref, new)
    return carry, ys


def scan_in_python(
    f: Callable[[Any, Any], Any],
    carry: Any,
    rows: Sequence[Any],
    tree: PyTreeDef,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """Run the iterations of a scan one after another, as separate operations."""
    ys: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        x = tree_unflatten(tree, [index_in_dim(row, i, 0, keepdims=False) for row in rows])
        carry, ys[i] = f(carry, x)
    carry = tree_map(as_result, carry)
    return carry, tree_map(lambda *y: concatenate([expand_dims(v, (0,)) for v in y], 0), *ys)
