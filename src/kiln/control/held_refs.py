"""References among the arguments and residuals of custom rules: part of the structure, no leaves.

A rule that runs later writes to the reference itself.
"""

from __future__ import annotations

from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_leaves, tree_map
from kiln.base.tree_nodes import register_pytree_node
from kiln.core.ref import Ref


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
