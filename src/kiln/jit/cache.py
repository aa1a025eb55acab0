"""Level (a) of the caches: the programs of one function object, dying with it.

Keyed by weak identity: neither an equal function nor a reused id ever finds another's programs.
"""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Hashable
from typing import Any

from kiln.base.memory import give_back
from kiln.control.bodies import clear as clear_bodies
from kiln.core.compilation import Compiled, release
from kiln.core.compilation import clear as clear_executables
from kiln.core.eager import clear as clear_eager
from kiln.core.placement import NO_WISHES, Placer, Run, Wishes
from kiln.ir.jaxpr import Jaxpr
from kiln.jit.explain import Record
from kiln.jit.history import CacheInfo, History


class Entry:
    """What one call signature of a function was traced to.

    `jaxpr` takes the closed-over `consts` as leading inputs. `compiled` is made on the first run,
    and runs it on the first device unless wished otherwise; `placer` runs it wherever it belongs.
    `variants` are the same program, run as wished.
    `record` waits for the seconds of the compilation, if somebody asked for it.
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
        "placer",
        "record",
        "static",
        "variants",
        "wishes",
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
        self.wishes = NO_WISHES
        self.compiled: Run | None = None
        self.placer: Placer | None = None
        self.variants: dict[Wishes, Entry] = {}
        self.record: Record | None = None
        self.assumed: frozenset[str] = frozenset()
        self.general: Jaxpr | None = None

    def with_wishes(self, wishes: Wishes) -> Entry:
        """Return the same program, to be run as wished."""
        found = self.variants.get(wishes)
        if found is None:
            found = copy.copy(self)
            found.wishes, found.compiled, found.placer, found.variants = wishes, None, None, {}
            found = self.variants.setdefault(wishes, found)
        return found

    def placer_for(self, keep_unused: bool) -> Placer:
        """Return what runs the program wherever it belongs."""
        if self.placer is None:
            self.placer = Placer(self.jaxpr, self.name, wishes=self.wishes, keep_unused=keep_unused)
        return self.placer

    @property
    def programs(self) -> list[Compiled]:
        """The compiled forms there are."""
        own = [] if self.placer is None else self.placer.programs
        return [*own, *(p for entry in self.variants.values() for p in entry.programs)]


class Entries(dict[Hashable, Entry]):
    """The programs of one function under one set of options, and their history."""

    __slots__ = ("history",)

    def __init__(self) -> None:
        super().__init__()
        self.history = History()

    def note_compilation(self, entry: Entry, seconds: float) -> None:
        """Note what the first run of an entry took until it was compiled."""
        self.history.compile_seconds += seconds
        if entry.record is not None:
            entry.record.compile_seconds = seconds
            entry.record = None

    def info(self) -> CacheInfo:
        """Return what the function has cost so far, and what it holds."""
        history, entries = self.history, list(self.values())
        programs = {id(p): p for entry in entries for p in entry.programs if p.is_loaded}.values()
        return CacheInfo(
            history.misses,
            history.traces,
            len(entries),
            len(programs),
            sum(p.size for p in programs),
            history.trace_seconds,
            history.compile_seconds,
        )

    def forget(self) -> list[Compiled]:
        """Start anew; return the programs there were."""
        programs = [p for entry in list(self.values()) for p in entry.programs]
        self.clear()
        self.history = History()
        return programs


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
                # `found` goes here, after the lock: the user's objects in it may run code.

            known = _by_identity[key] = (weakref.ref(fun, forget), {})
        return known[1].setdefault(options, Entries())


def register(wrapper: Any) -> None:
    """Remember a wrapper, whose own entries `clear_caches` must clear."""
    _wrappers.add(wrapper)


def forget(fun: Any) -> None:
    """Forget the programs of one function and give their memory back to the system."""
    with _lock:
        known = _by_identity.get(id(fun))
        tables = list(known[1].values()) if known is not None and known[0]() is fun else []
    keys = {program.key for entries in tables for program in entries.forget()}
    gc.collect()
    release(keys)
    give_back()


def clear_caches() -> None:
    """Forget all traces and executables and give their memory back to the system."""
    with _lock:
        tables = [t for _, by_options in _by_identity.values() for t in by_options.values()]
    for entries in tables:
        entries.forget()
    for wrapper in list(_wrappers):
        wrapper.forget_entries()
    clear_bodies()
    clear_executables()
    clear_eager()
    give_back()
