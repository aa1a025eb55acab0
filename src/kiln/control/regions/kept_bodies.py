"""Bodies that are found again by their function, where its content cannot be read.

An eager loop over a function that reads or changes anything of its own is recorded once, as a
jitted function is: again only for other types, or if the code or the defaults were replaced. What
is kept dies with the function, and keeps nothing alive that could hold the function.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kiln._runtime import WeakTable
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.tree import PyTreeDef
from kiln.content.identity import identity_of_function
from kiln.core.arrays.array import ConcreteArray, PlacedArray
from kiln.core.trace import state
from kiln.ir.analysis.user_code import holds_user_code
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.assumptions import names_in_scope
from kiln.ir.types import ShapedArray

MOST = 64
"""So many bodies are kept of one function."""

MOST_PARTS = 10_000
"""The most parts of the metadata of structures that are examined."""

BY_FUNCTION = frozenset(["scan", "while_loop", "fori_loop", "cond", "switch"])
"""The constructs whose body is decided by the user's function alone."""


class KeptBody(NamedTuple):
    """A program, weak references to the arrays that it closes over, and the rest of a body."""

    jaxpr: Jaxpr
    consts: tuple[weakref.ref[Any], ...]
    out_tree: PyTreeDef
    assumed: frozenset[Hashable]

    def arrays(self) -> list[Any] | None:
        """Return what the program closes over, or None if some of it is gone."""
        found = [const() for const in self.consts]
        return None if any(x is None for x in found) else found


_kept = WeakTable()
"""Of each function, its bodies by kind."""


def kind_of(
    construct: str, user: Any, in_tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> Hashable | None:
    """Return what bodies of a function differ in, or None if those of this one are not kept."""
    # A method is another object each time.
    if construct not in BY_FUNCTION or type(user) is types.MethodType or not in_tree.is_hashable:
        return None
    if type(user).__weakrefoffset__ == 0:
        return None
    identity = identity_of_function(user)
    here = (options().key(), names_in_scope(), state.axes)
    return (construct, identity, in_tree, tuple(avals), here)


def find(user: Any, kind: Hashable) -> KeptBody | None:
    """Return the body of a function that was kept, if there is one."""
    bodies: dict[Hashable, KeptBody] | None = _kept.get(user)
    return None if bodies is None else bodies.get(kind)


def keep(
    user: Any,
    kind: Hashable,
    in_tree: PyTreeDef,
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    out_tree: PyTreeDef,
    assumed: frozenset[Hashable],
) -> None:
    """Keep a body for as long as its function lives, unless it holds what may hold the function."""
    if not all(type(x) is ConcreteArray or type(x) is PlacedArray for x in consts):
        return
    if holds_user_code(jaxpr) or not (_is_data(in_tree.key) and _is_data(out_tree.key)):
        return
    bodies = _kept.get(user)
    if bodies is None:
        bodies = _kept.put(user, {})
    if len(bodies) >= MOST:
        bodies.clear()
    bodies[kind] = KeptBody(jaxpr, tuple(map(weakref.ref, consts)), out_tree, assumed)


def clear() -> None:
    """Drop all bodies."""
    for bodies in _kept.values():
        bodies.clear()


_LEAVES = (str, bytes, int, float, complex, bool, type, types.NoneType, np.dtype, np.generic)


def _is_data(root: Any) -> bool:
    """Tell whether something reaches no function, array or module, but through a class.

    Classes whose instances are nodes are known for ever in any case.
    """
    left, seen = [root], set()
    while left:
        x = left.pop()
        if isinstance(x, _LEAVES) or id(x) in seen:
            continue
        seen.add(id(x))
        if callable(x) or isinstance(x, types.ModuleType | np.ndarray | ConcreteArray):
            return False
        if len(seen) > MOST_PARTS:
            return False
        left += gc.get_referents(x)
    return True
