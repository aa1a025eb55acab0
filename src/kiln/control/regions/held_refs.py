"""References among the arguments and residuals of custom rules: part of the structure, not leaves.

A rule that runs later writes to the reference itself. Other mutable values are held in the same
way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import keystr, tree_flatten_with_path, tree_leaves, tree_map
from kiln.base.tree.nodes import register_pytree_node
from kiln.core.hitypes import TYPES, owner_of
from kiln.core.ref import Ref, check_distinct
from kiln.core.staging import StagingTrace
from kiln.core.trace import aval_of, state
from kiln.transforms.batching import BatchTrace


class Held:
    """A reference as a tree without leaves, which unflattens to the reference itself.

    `owner` is the trace that a high value belongs to; None for a reference, which has its own.
    """

    __slots__ = ("owner", "ref")

    def __init__(self, ref: Any, owner: Any = None) -> None:
        self.ref = ref
        self.owner = owner


def _unflatten(pair: tuple[Any, Any], _: Any) -> Any:
    """Return what was held.

    Raises: NotImplementedError for a value that belongs to a program that has ended.
    """
    ref, owner = pair
    if owner is not None and not owner.live:
        raise NotImplementedError(
            three_lines(
                f"a rule of a custom derivative at {current_source()}",
                f"it uses a value of type {type(ref).__name__} that is an argument of a jitted "
                "function inside the derivative",
                "differentiate inside: jit(grad(f)) instead of grad(jit(f))",
            )
        )
    return ref


register_pytree_node(Held, lambda held: ((), (held.ref, held.owner)), _unflatten)


def held(tree: Any) -> Any:
    """Return a tree in which references and other mutable values are not leaves."""
    if not any(type(x) is Ref or type(x) in TYPES for x in tree_leaves(tree)):
        return tree

    def one(x: Any) -> Any:
        if type(x) is Ref:
            return Held(x)
        if type(x) in TYPES and aval_of(x).has_qdd:
            return Held(x, owner_of(x))
        return x

    return tree_map(one, tree)


def check_apart(
    construct: str, fun: Callable[..., Any], args: Sequence[Any], closed_over: Sequence[Any] = ()
) -> None:
    """Check that no reference is passed to a function twice.

    Raises: ValueError naming the parameters.
    """
    pairs = tree_flatten_with_path(tuple(args))[0]
    names = [_parameter(fun, path[0].idx) + keystr(path[1:]) for path, _ in pairs]
    values = [*closed_over, *[x for _, x in pairs]]
    check_distinct(construct, values, [*[""] * len(closed_over), *names])


def _parameter(fun: Callable[..., Any], position: int) -> str:
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        names = []
    return names[position] if position < len(names) else f"operand {position}"


def is_derivative(trace: Any) -> bool:
    """Tell whether what a trace computes is differentiated, and no program is being recorded."""
    return trace is not state.root and not isinstance(trace, (StagingTrace, BatchTrace))


def release(tree: Any, whose: str) -> Any:
    """Return a tree of a rule's arguments, whose references can still be used.

    Raises: NotImplementedError if a reference was an argument of a program that has ended.
    """
    for x in tree_leaves(tree):
        if type(x) is Ref and x.variable is not None and not x.owner.live:
            raise NotImplementedError(
                three_lines(
                    f"{whose} at {current_source()}",
                    f"the rule uses a reference {x.aval} that is an argument of a jitted function "
                    "inside the derivative",
                    "differentiate inside: jit(grad(f)) instead of grad(jit(f))",
                )
            )
    return tree
