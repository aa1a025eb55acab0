"""The compiler's cost estimate of a module call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.api.derivatives.linear import vjp
from kiln.api.jit import wrap
from kiln.base.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.linen.errors import LinenError
from kiln.linen.scopes.rng import streams
from kiln.linen.summary.recording import Call
from kiln.numpy.creation.filling import ones


def flops_of(call: Call, variables: Mapping[str, Any], rngs: Any, backward: bool) -> str:
    """Return the floating-point operations of a call, or of it and its derivative, as text.

    Empty if the module cannot run by itself, or the engine has no estimates.
    """
    leaves, tree = tree_flatten((call.args, call.kwargs))
    arrays = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
    names = streams(rngs, "tabulate")

    def run(held: Any, *values: Any) -> Any:
        filled = list(leaves)
        for i, value in zip(arrays, values, strict=True):
            filled[i] = value
        args, kwargs = tree_unflatten(tree, filled)
        result = call.module.apply(
            held, *args, rngs=names, method=call.method, mutable=True, **kwargs
        )[0]
        return [leaf for leaf in tree_leaves(result) if hasattr(leaf, "dtype")]

    def run_back(held: Any, *values: Any) -> Any:
        result, pull = vjp(run, held, *values)
        return result, pull(tree_map(lambda x: ones(x.shape, x.dtype), result))

    held = {name: _part(collection, call.path) for name, collection in variables.items()}
    types = [ShapeDtypeStruct(leaves[i].shape, leaves[i].dtype) for i in arrays]
    try:
        cost = wrap(run_back if backward else run).lower(held, *types).cost_analysis()
    except LinenError:
        # A module that shares another one has none of its variables.
        return ""
    return "" if cost is None else f"{int(cost.get('flops', 0))}"


def _part(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree.get(name, {})
    return tree
