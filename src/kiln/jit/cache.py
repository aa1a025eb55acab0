"""Levels (a) and (b) of the caches: programs by function object, and by content of functions.

Level (a) dies with its function. It is keyed by weak identity: neither an equal function nor a
reused id ever finds another's programs, and neither does the same function with exchanged code or
defaults. Level (b) serves fresh functions whose content is known (`content/fingerprint.py`), and
holds nothing of theirs.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

from kiln.base.bounded import Bounded
from kiln.base.config import options as current_options
from kiln.base.forks import new_rlock
from kiln.base.memory import MB, give_back
from kiln.base.tree import settled
from kiln.content.by_content import Slots, constants_from, is_plain, slots_of
from kiln.content.bytecode import clear as clear_bytecode
from kiln.content.fingerprint import Content
from kiln.content.identity import identity_of_function
from kiln.control.bodies import clear as clear_bodies
from kiln.core.array import ConcreteArray, copied
from kiln.core.watching import Watch
from kiln.execution.compilation import Compiled, release
from kiln.execution.compilation import clear as clear_executables
from kiln.execution.eager import clear as clear_eager
from kiln.execution.eager_plans import clear as clear_plans
from kiln.execution.placement import NO_REQUEST, PlacementRequest, Placer, Run
from kiln.ir.footprint import footprint
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.user_code import holds_user_code
from kiln.jit.compiler_options import Settings
from kiln.jit.explain import Record
from kiln.jit.history import CacheInfo, History


class Entry:
    """What one call signature of a function was traced to.

    `jaxpr` takes the closed-over `consts` as leading inputs. `compiled` is made on the first run,
    and runs it on the first device unless requested otherwise. `placers`, shared by all entries
    with this program, run it wherever it belongs, as requested.
    `record` waits for the seconds of the compilation, if somebody asked for it.
    `assumed` names the axes that were taken to have a size of at least 1. `general` is the program
    for all sizes that `jaxpr` was made of, where axes have names.
    `is_simple` unless the runtime cannot tell calls for this entry from others. `late` says what
    the last inputs of `jaxpr` are, if they are handed in anew at every call (`late.py`).
    `content` says from what content of the function, and by what use of its arrays, the program
    follows; it is None if the program depends on more. `function` is the part of it that is the
    function's, without static arguments. `original` is the entry kept for all functions with that
    content.
    """

    __slots__ = (
        "assumed",
        "compiled",
        "consts",
        "content",
        "function",
        "general",
        "in_tree",
        "is_simple",
        "jaxpr",
        "late",
        "name",
        "original",
        "out_is_leaf",
        "out_tree",
        "placers",
        "record",
        "request",
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
        self.request = NO_REQUEST
        self.compiled: Run | None = None
        self.placers: dict[PlacementRequest, Placer] = {}
        self.record: Record | None = None
        self.assumed: frozenset[str] = frozenset()
        self.general: Jaxpr | None = None
        self.content: tuple[Hashable, Slots] | None = None
        self.function: Hashable = None
        self.original: Entry | None = None
        self.is_simple = True
        self.late: tuple[Hashable, ...] = ()

    def with_consts(self, consts: list[Any]) -> Entry:
        """Return the same program over other closed-over values."""
        made = Entry(self.jaxpr, consts, self.in_tree, self.out_tree, self.name, self.static)
        made.compiled, made.content, made.original = self.compiled, self.content, self
        made.assumed, made.general, made.placers = self.assumed, self.general, self.placers
        made.late, made.function = self.late, self.function
        return made

    def for_operands(self, operands: list[ConcreteArray]) -> Entry:
        """Return what is kept for a content as the entry of one function."""
        assert self.content is not None
        if not self.consts:
            return self
        return self.with_consts(constants_from(self.content[1], operands))

    def follows_from(self, content: Content) -> bool:
        """Tell whether a function with this content, traced now, would give this very program."""
        if self.content is None or self.function != content.without_options():
            return False
        slots, count = self.content[1], len(content.operands)
        if any(number is not None and number >= count for number, _ in slots):
            return False
        again = constants_from(slots, content.operands)
        return all(a is b for a, b in zip(again, self.consts, strict=True))

    def with_request(self, request: PlacementRequest) -> Entry:
        """Return the same program, to be run as requested."""
        made = copy.copy(self)
        made.request, made.compiled = request, None
        if request.donated:
            made.consts = self._consts_apart(request.donated)
        return made

    def _consts_apart(self, donated: Sequence[int]) -> list[Any]:
        """Return the constants, copied if they may be given as donated arguments, too.

        An array with memory of another size cannot be one that is donated.
        """
        types = [self.jaxpr.in_avals[i].physical() for i in donated if i >= len(self.consts)]
        sizes = {a.size * a.dtype.itemsize for a in types}
        return [
            copied(x) if isinstance(x, ConcreteArray) and x.nbytes in sizes else x
            for x in self.consts
        ]

    def placer_for(self, keep_unused: bool, settings: Settings = ()) -> Placer:
        """Return what runs the program wherever it belongs."""
        found = self.placers.get(self.request)
        if found is None:
            found = self.placers.setdefault(self.request, self.new_placer(keep_unused, settings))
        return found

    def new_placer(self, keep_unused: bool, settings: Settings) -> Placer:
        """Return one that shares nothing with calls of the jitted function."""
        return Placer(
            self.jaxpr,
            self.name,
            hidden=len(self.consts),
            request=self.request,
            keep_unused=keep_unused,
            compiler_options=settings,
        )

    @property
    def programs(self) -> list[Compiled]:
        """The compiled forms there are."""
        return [p for placer in list(self.placers.values()) for p in placer.programs]


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


def settled_key(key: Any) -> Any:
    """Return the key of a signature, to be kept: nothing that can change is part of it."""
    tree = key[0]
    return key if tree.is_hashable else (settled(tree), *key[1:])


_by_identity: dict[int, tuple[weakref.ref[Any], Hashable, dict[Hashable, Entries]]] = {}
_wrappers: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = new_rlock()

_by_content: Bounded[Hashable, Entry] = Bounded(lambda: current_options().trace_cache_mb * MB)


def entries_of(fun: Any, options: Hashable) -> Entries:
    """Return the programs of a function, as it is now, under the given jit options.

    Raises: TypeError if the function cannot be weakly referenced.
    """
    identity = identity_of_function(fun)
    known = _by_identity.get(id(fun))
    if known is not None and known[0]() is fun and _same(known[1], identity):
        found = known[2].get(options)
        if found is not None:
            return found
    with _lock:
        known = _by_identity.get(id(fun))
        if known is None or known[0]() is not fun or not _same(known[1], identity):
            key = id(fun)

            def forget(dead: weakref.ref[Any]) -> None:
                with _lock:
                    gone = _by_identity.get(key)
                    if gone is not None and gone[0] is dead:
                        del _by_identity[key]
                # `gone` goes here, after the lock: the user's objects in it may run code.

            known = _by_identity[key] = (weakref.ref(fun, forget), identity, {})
        return known[2].setdefault(options, Entries())


def _same(a: Hashable, b: Hashable) -> bool:
    return a is b or a == b


def find(key: Hashable, content: Content | None) -> Entry | None:
    """Return the program of a function with known content, if one is kept for this call."""
    if content is None:
        return None
    found = _by_content.get((content.key, key))
    return None if found is None else found.for_operands(content.operands)


def share(key: Hashable, content: Content | None, watch: Watch, entry: Entry) -> Entry:
    """Keep a program just traced for other functions of the same content, if it may be shared.

    Returns the entry for the function that was traced.
    """
    if content is None or watch.seen or entry.static is not None:
        return entry
    slots = slots_of(entry.consts, content.operands)
    if slots is None or not is_plain(entry.out_tree) or holds_user_code(entry.jaxpr):
        return entry
    entry.content, entry.function = (content.key, slots), content.without_options()
    kept = entry.with_consts([x for _, x in slots]) if entry.consts else entry
    kept.original = None
    size = footprint(kept.jaxpr) + sum(getattr(x, "nbytes", 0) for x in kept.consts)
    kept = _by_content.put((content.key, key), kept, size)
    return kept.for_operands(content.operands)


def register(wrapper: Any) -> None:
    """Remember a wrapper, whose own entries `clear_caches` must clear."""
    _wrappers.add(wrapper)


def forget(fun: Any) -> None:
    """Forget the programs of one function and give their memory back to the system."""
    with _lock:
        known = _by_identity.get(id(fun))
        tables = list(known[2].values()) if known is not None and known[0]() is fun else []
    own = {id(entry.original or entry) for entries in tables for entry in list(entries.values())}
    for key, entry in _by_content.items():
        if id(entry) in own:
            _by_content.remove(key)
    keys = {program.key for entries in tables for program in entries.forget()}
    gc.collect()
    release(keys)
    give_back()


def clear_caches() -> None:
    """Forget all traces and executables and give their memory back to the system."""
    with _lock:
        tables = [t for _, _, by_options in _by_identity.values() for t in by_options.values()]
    for entries in tables:
        entries.forget()
    for wrapper in list(_wrappers):
        wrapper.forget_entries()
    _by_content.clear()
    clear_bytecode()
    clear_bodies()
    clear_executables()
    clear_eager()
    clear_plans()
    give_back()
