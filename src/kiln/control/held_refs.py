"""References among the arguments and residuals of custom rules: part of the structure, no leaves.

A rule that runs later writes to the reference itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import keystr, tree_flatten_with_path, tree_leaves, tree_map
from kiln.base.tree_nodes import register_pytree_node
from kiln.core.ref import Ref, check_distinct


class Held:
    """A reference as a tree without leaves, which is put together as the reference itself."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref) -> None:
        self.ref = ref


register_pytree_node(Held, lambda held: ((), held.ref), lambda ref, _: ref)


def held(tree: Any) -> Any:
    """Return a tree whose references are no leaves."""
    if not any(type(x) is Ref for x in tree_leaves(tree)):
        return tree
    return tree_map(lambda x: Held(x) if type(x) is Ref else x, tree)


def check_apart(
    construct: str, fun: Callable[..., Any], args: Sequence[Any], closed_over: Sequence[Any] = ()
) -> None:
    """Check that no two of the references that a function is given are one.

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


def let_go(tree: Any, whose: str) -> Any:
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
