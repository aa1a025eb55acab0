"""`lazy_init`: creating variables from the shapes of inputs, without their values.

The init is traced, the equations that variables do not need are dropped, and the rest is run. No
input is allocated and no forward pass is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.api.make_jaxpr import make_jaxpr
from kiln.base.tree import (
    keystr,
    tree_flatten,
    tree_leaves_with_path,
    tree_structure,
    tree_unflatten,
)
from kiln.core.staging import eval_jaxpr
from kiln.ir.rewrite import eliminate_dead_code
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.linen.errors import LazyInitError


def lazily(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `fun(*args, **kwargs)` where some arguments are ShapeDtypeStructs.

    Raises: LazyInitError if a result depends on the values of such an argument.
    """
    leaves, tree = tree_flatten((args, kwargs))
    unknown = [i for i, leaf in enumerate(leaves) if isinstance(leaf, ShapeDtypeStruct)]

    def of_unknown(*values: Any) -> Any:
        filled = list(leaves)
        for i, value in zip(unknown, values, strict=True):
            filled[i] = value
        all_args, all_kwargs = tree_unflatten(tree, filled)
        return fun(*all_args, **all_kwargs)

    closed, types = make_jaxpr(of_unknown, return_shape=True)(*[leaves[i] for i in unknown])
    jaxpr, needed = eliminate_dead_code(closed.jaxpr)
    if any(needed):
        count = len(jaxpr.outvars)
        for i, (path, _) in enumerate(tree_leaves_with_path(types)):
            used = [i == j for j in range(count)]
            if any(eliminate_dead_code(closed.jaxpr, used)[1]):
                raise LazyInitError(keystr(path))
    results = eval_jaxpr(jaxpr, closed.consts, *[None] * len(jaxpr.invars))
    return tree_unflatten(tree_structure(types), results)
