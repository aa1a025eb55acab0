"""Tracing: run a user function on tracers, check its result, and return the recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.lazy import checker
from kiln.base.options.config import options
from kiln.base.source import definition_of, name_of
from kiln.base.tree import keystr, tree_flatten_with_path
from kiln.core.hitypes import TYPES, Returned
from kiln.core.ref import Ref, returned_ref
from kiln.core.staging import check_may_trace, hoist_constants, stage
from kiln.execution import dumping
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_types import leaf_type


def flat_result(fun: Callable[..., Any], result: Any, static: bool) -> tuple[list[Any], Any, Any]:
    """Flatten what a function returned and check that it holds arrays only.

    With `static` the function returned a pair of arrays and Python values.

    Raises: TypeError naming the function, the type and the path of another leaf; ValueError for a
        reference.
    """
    extra = None
    if static:
        result, extra = result
    pairs, tree = tree_flatten_with_path(result)
    leaves = []
    for path, x in pairs:
        if type(x) in TYPES:
            raise Returned(x, f"return value of {definition_of(fun)}")
        if hasattr(x, "__jax_array__"):
            x = x.__jax_array__()
        if type(x) is Ref:
            raise returned_ref(f"jit of {definition_of(fun)}", keystr(path) or "the result", x)
        if leaf_type(x) is None:
            raise TypeError(
                three_lines(
                    f"return value of {definition_of(fun)}",
                    f"function {definition_of(fun)} returned a value of type {type(x)} at output "
                    f"component {keystr(path) or 'the result'}, which is not a valid JAX type",
                    "return arrays and numbers, in tuples, lists, dicts or registered classes",
                )
            )
        leaves.append(x)
    return leaves, tree, extra


def trace(
    fun: Callable[..., Any],
    call: Callable[[Sequence[Any]], Any],
    avals: Sequence[ShapedArray],
    names: Sequence[str],
    *,
    purpose: str = "jit",
    static: bool = False,
) -> Recording:
    """Record the program of `call(leaves)`, which runs the user function `fun`."""
    box: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        outs, tree, extra = flat_result(fun, call(leaves), static)
        box[:] = [tree, extra]
        return outs

    check_may_trace(definition_of(fun), purpose)
    start = time.perf_counter()
    jaxpr, consts = stage(
        flat,
        avals,
        name=name_of(fun),
        definition=definition_of(fun),
        purpose=purpose,
        arg_names=names,
    )
    opts = options()
    if opts.log_compiles:
        seconds = time.perf_counter() - start
        dumping.log("Finished tracing %s in %.6f s", name_of(fun), seconds)
    if opts.check:
        checker.check(jaxpr, "tracing")
    return Recording(hoist_constants(jaxpr), consts, box[0], name_of(fun), box[1])
