"""Closure conversion: closed-over values become arguments, or residuals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source, name_of
from kiln.base.tree import Partial, tree_flatten, tree_structure, tree_unflatten
from kiln.control.custom_rules.vjp import custom_vjp
from kiln.control.regions.arguments import FlatFunction, flatten_arrays
from kiln.control.regions.region import merge, select_by
from kiln.core.arrays.array import ConcreteArray
from kiln.core.staging import eval_jaxpr, stage_region
from kiln.core.trace import Tracer, aval_of


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return `converted(*args, *values)` and the inexact values that `fun` closes over.

    Raises: TypeError when `converted` is called with arguments of another structure.
    Example:
        >>> scale = jnp.array(3.0)
        >>> converted, values = kiln.closure_convert(lambda x: x * scale, 1.0)
        >>> converted(2.0, *values)
        Array(6., dtype=float32, weak_type=True)
    """
    leaves, in_tree = flatten_arrays("arguments", fun, example_args)
    flat = FlatFunction(fun, in_tree, ())
    jaxpr, consts = stage_region(
        flat, [aval_of(x) for x in leaves], name=name_of(fun), purpose="closure_convert"
    )
    hoisted = [
        isinstance(x, (Tracer, ConcreteArray))
        and bool(dtypes.issubdtype(aval_of(x).dtype, np.inexact))
        for x in consts
    ]
    kept = select_by(hoisted, consts, False)
    count = len(example_args)
    expected = tree_structure((*example_args, *select_by(hoisted, consts)))

    def converted(*args: Any) -> Any:
        found = tree_structure(args)
        if found != expected:
            raise TypeError(
                three_lines(
                    f"call of the function that closure_convert made of {name_of(fun)} at "
                    f"{current_source()}",
                    "The inputs to the closure produced by closure_convert must have the structure "
                    f"{expected} of the examples and the values closed over, but got {found}",
                    "pass the values one by one: converted(x, *values)",
                )
            )
        given = merge(hoisted, args[count:], kept)
        outs = eval_jaxpr(jaxpr, (), *given, *tree_flatten(args[:count])[0])
        return tree_unflatten(flat.structure, outs)

    return converted, select_by(hoisted, consts)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function `fun(*args)[0]` whose cotangents are `fun(*args)[1](ct)`.

    Example:
        >>> @kiln.custom_gradient
        ... def clipped(x):
        ...     return x, lambda ct: jnp.clip(ct, -1.0, 1.0)
        >>> kiln.grad(lambda x: 10 * clipped(x))(3.0)
        Array(1., dtype=float32, weak_type=True)
    """

    @functools.wraps(fun)
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        out, rule = fun(*args)
        converted, values = closure_convert(rule, out)
        return out, (values, Partial(converted))

    def bwd(residuals: Any, ct: Any) -> Any:
        values, converted = residuals
        cts = converted(ct, *values)
        return tuple(cts) if isinstance(cts, (tuple, list)) else (cts,)

    wrapped = custom_vjp(value)
    wrapped.defvjp(fwd, bwd)
    return wrapped
