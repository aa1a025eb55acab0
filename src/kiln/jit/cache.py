"""Levels (a) and (b) of the caches: recordings by function object, and by content of functions.

Level (a) dies with its function. It is keyed by weak identity: an equal function, a reused id, or
the same function with its code or defaults replaced never finds a stale entry. Level (b) serves new
function objects whose content is known (`content/fingerprint.py`), and holds no reference to them.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable
from typing import Any

from kiln._runtime import WeakTable
from kiln.base.caches.bounded import Bounded
from kiln.base.options.config import options as current_options
from kiln.base.process.forks import new_rlock
from kiln.base.process.memory import MB, give_back
from kiln.base.weak import WeakSet
from kiln.content.by_content import is_plain, slots_of
from kiln.content.bytecode import clear as clear_bytecode
from kiln.content.fingerprint import Content
from kiln.content.identity import identity_of_function
from kiln.control.regions.bodies import clear as clear_bodies
from kiln.core.arrays.read_tracking import ReadTracker
from kiln.execution.compilation import CachedProgram, release
from kiln.execution.compilation import clear as clear_executables
from kiln.execution.eager import clear as clear_eager
from kiln.execution.eager_plans import clear as clear_plans
from kiln.ir.analysis.footprint import footprint
from kiln.ir.analysis.user_code import holds_user_code
from kiln.jit.entry import Origin, Recording
from kiln.jit.history import CacheInfo, History
from kiln.jit.recollection import clear as clear_recollections
from kiln.jit.recollection import note
from kiln.jit.signatures.signature import Kind, Signature


class Recordings(dict[Signature, Recording]):
    """The recordings of one version of a function under one set of options; their history."""

    __slots__ = ("history", "identity")

    def __init__(self, identity: Hashable = None) -> None:
        self.identity = identity
        self.history = History()

    def keep(self, fun: Any, signature: Signature, recording: Recording) -> Recording:
        """Keep a recording for a signature, and return it, or the one of a faster thread.

        It is not kept if the function's code or defaults were replaced during tracing.
        """
        if not _same(self.identity, identity_of_function(fun)):
            return recording
        return self.setdefault(signature.settled(), recording)

    def info(self) -> CacheInfo:
        """Return what the function has cost so far, and what is cached."""
        history, recordings = self.history, list(self.values())
        programs = {id(p): p for found in recordings for p in found.programs if p.is_loaded}
        return CacheInfo(
            history.misses,
            history.traces,
            len(recordings),
            len(programs),
            sum(p.nbytes for p in programs.values()),
            history.trace_seconds,
            history.compile_seconds,
        )

    def forget(self) -> list[CachedProgram]:
        """Drop all recordings; return their programs."""
        programs = [p for found in list(self.values()) for p in found.programs]
        self.clear()
        self.history = History()
        return programs


_by_function = WeakTable()
"""For each function, its recordings by the options of the wrapper."""

_wrappers: WeakSet[Any] = WeakSet()
_lock = new_rlock()

_by_content: Bounded[Hashable, Recording] = Bounded(lambda: current_options().trace_cache_mb * MB)


def recordings_of(fun: Any, options: Hashable) -> Recordings:
    """Return the recordings of a function, as it is now, under the given jit options.

    Raises: TypeError if the function cannot be weakly referenced.
    """
    identity = identity_of_function(fun)
    tables: dict[Hashable, Recordings] = _by_function.get(fun) or _by_function.put(fun, {})
    found = tables.get(options)
    if found is not None and _same(found.identity, identity):
        return found
    with _lock:
        found = tables.get(options)
        if found is None or not _same(found.identity, identity):
            found = tables[options] = Recordings(identity)
        return found


def _same(a: Hashable, b: Hashable) -> bool:
    return a is b or a == b


def find(kind: Kind, content: Content | None) -> Recording | None:
    """Return the recording kept for functions of this content and calls of this kind, if any."""
    if content is None:
        return None
    found = _by_content.get((content.key, kind))
    if found is None:
        return None
    note(kind, content, found)
    return found.for_operands(content.operands)


def share(
    kind: Kind, content: Content | None, tracker: ReadTracker, recording: Recording
) -> Recording:
    """Keep a new recording for other functions of the same content, if it may be shared.

    Returns the recording of the function that was traced.
    """
    if content is None or tracker.was_read or recording.static is not None:
        return recording
    slots = slots_of(recording.consts, content.operands)
    if slots is None or not is_plain(recording.out_tree) or holds_user_code(recording.jaxpr):
        return recording
    recording.origin = Origin(content.key, slots, content.without_options())
    kept = recording.with_consts([x for _, x in slots]) if recording.consts else recording
    size = footprint(kept.jaxpr) + sum(getattr(x, "nbytes", 0) for x in kept.consts)
    kept = _by_content.put((content.key, kind), kept, size)
    note(kind, content, kept)
    found = kept.for_operands(content.operands)
    found.record = recording.record
    return found


def register(wrapper: Any) -> None:
    """Register a wrapper whose entries `clear_caches` must clear."""
    _wrappers.add(wrapper)


def forget(fun: Any) -> None:
    """Forget the programs of one function and return their memory to the system."""
    with _lock:
        tables = list((_by_function.get(fun) or {}).values())
    own = {id(found.placers) for table in tables for found in list(table.values())}
    for key, recording in _by_content.items():
        if id(recording.placers) in own:
            _by_content.remove(key)
    keys = {program.key for table in tables for program in table.forget()}
    gc.collect()
    release(keys)
    # They hold jaxprs.
    keys.clear()
    give_back()


def clear_caches() -> None:
    """Forget all traces and executables, and return their memory to the system.

    Example:
        >>> f = kiln.jit(lambda x: x + 1)
        >>> f(1), f._cache_size()
        (Array(2, dtype=int32, weak_type=True), 1)
        >>> kiln.clear_caches()
        >>> f._cache_size()
        0
    """
    with _lock:
        tables = [t for known in _by_function.values() for t in known.values()]
    for table in tables:
        table.forget()
    for wrapper in list(_wrappers):
        wrapper.forget_entries()
    _by_content.clear()
    clear_recollections()
    clear_bytecode()
    clear_bodies()
    clear_executables()
    clear_eager()
    clear_plans()
    give_back()
