"""Bodies kept by function object, for functions whose content cannot be determined.

The body of an eager loop that uses state of its own is recorded once, like a jitted function: again
only for other types, or if the code or the defaults were replaced. A kept body dies with the
function, and keeps nothing alive that could refer to the function.
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
"""How many bodies of one function are kept."""

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
        """Return the arrays that the program closes over, or None if one of them was destroyed."""
        found = [const() for const in self.consts]
        return None if any(x is None for x in found) else found


_kept = WeakTable()
"""For each function, its bodies by kind."""


def kind_of(
    construct: str, user: Any, in_tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> Hashable | None:
    """Return what distinguishes bodies of a function, or None if they are not kept."""
    # A bound method is a new object on each access.
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
    """Keep a body while its function lives, unless the body may refer to the function."""
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
    """Tell whether an object reaches no function, array or module, except through a class.

    Classes of pytree nodes stay registered forever in any case.
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
