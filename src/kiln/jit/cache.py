"""Level (a) of the caches: the programs of one function object, dying with it.

Keyed by weak identity: neither an equal function nor a reused id ever finds another's programs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any

from kiln.control.bodies import clear as clear_bodies
from kiln.core.compilation import Compiled
from kiln.core.compilation import clear as clear_executables
from kiln.core.eager import clear as clear_eager
from kiln.ir.jaxpr import Jaxpr


class Entry:
    """What one call signature of a function was traced to.

    `jaxpr` takes the closed-over `consts` as leading inputs. `compiled` is made on the first run.
    `assumed` names the axes that were taken to have a size of at least 1. `general` is the program
    for all sizes that `jaxpr` was made of, where axes have names.
    """

    __slots__ = (
        "assumed",
        "compiled",
        "consts",
        "general",
        "in_tree",
        "jaxpr",
        "name",
        "out_is_leaf",
        "out_tree",
        "static",
    )

    def __init__(
        self, jaxpr: Jaxpr, consts: list[Any], in_tree: Any, out_tree: Any, name: str, static: Any
    ) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.out_is_leaf = out_tree.is_leaf
        self.name = name
        self.static = static
        self.compiled: Compiled | None = None
        self.assumed: frozenset[str] = frozenset()
        self.general: Jaxpr | None = None


Entries = dict[Hashable, Entry]

_by_identity: dict[int, tuple[weakref.ref[Any], dict[Hashable, Entries]]] = {}
_wrappers: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()


def entries_of(fun: Any, options: Hashable) -> Entries:
    """Return the programs of a function under the given jit options.

    Raises: TypeError if the function cannot be weakly referenced.
    """
    with _lock:
        known = _by_identity.get(id(fun))
        if known is None or known[0]() is not fun:
            key = id(fun)

            def forget(dead: weakref.ref[Any]) -> None:
                with _lock:
                    found = _by_identity.get(key)
                    if found is not None and found[0] is dead:
                        del _by_identity[key]

            known = _by_identity[key] = (weakref.ref(fun, forget), {})
        return known[1].setdefault(options, {})


def register(wrapper: Any) -> None:
    """Remember a wrapper, whose own entries `clear_caches` must clear."""
    _wrappers.add(wrapper)


def forget(fun: Any) -> None:
    """Forget the programs of one function."""
    with _lock:
        known = _by_identity.get(id(fun))
        if known is not None and known[0]() is fun:
            for entries in known[1].values():
                entries.clear()


def clear_caches() -> None:
    """Forget all traces and executables."""
    with _lock:
        for _, by_options in list(_by_identity.values()):
            for entries in by_options.values():
                entries.clear()
    for wrapper in list(_wrappers):
        wrapper.forget_entries()
    clear_bodies()
    clear_executables()
    clear_eager()
