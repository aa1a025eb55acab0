"""From a jaxpr to an executable: simplify it, look in the cache, compile once.

The cache is keyed on the program's structure and the options that affect code (level (c) of the
three levels of caching): an equal program from any function costs no compilation. Concurrent
requests for one program compile it once. A program that holds user functions is an exception: it is
held weakly, and dies with its users.

The cache is bounded by the bytes of its executables. A `CachedProgram` whose executable was evicted
is recompiled on its next call.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from kiln import _runtime
from kiln.base.caches.bounded import CLOCK, Bounded
from kiln.base.dtypes import canonicalize_dtype
from kiln.base.errors import three_lines
from kiln.base.lazy import checker
from kiln.base.options.config import options, options_of_key, override
from kiln.base.process.forks import in_child
from kiln.base.process.memory import MB, physical_bytes
from kiln.base.source import current_source
from kiln.base.weak import WeakSet, WeakValueDictionary, reference
from kiln.core.arrays.array import ConcreteArray, PlacedArray, buffer_for, from_host
from kiln.core.engines.engine import Buffer, Engine, Executable, Memory, Placement, Program
from kiln.core.ref import Ref
from kiln.core.trace import Tracer, aval_of, leaked
from kiln.execution import dumping
from kiln.execution.engine_choice import HOST_COMPILER, Choice, engine_for
from kiln.execution.programs import program_of
from kiln.execution.progress import progress
from kiln.execution.stored_programs import choice_for, executable_of
from kiln.ir.analysis.user_code import is_shareable
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import canonical_for_engines
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray

import numpy as np  # isort: skip

AUTOMATIC_MB = 192
"""The limit if `executable_cache_mb` is not set and nothing was recompiled."""


class ProgramKey:
    """The key of a program; its hash, which visits the whole program, is computed once."""

    __slots__ = ("_hash", "options", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.options = options().key()
        self.parts = (*parts, self.options)
        self._hash = hash(self.parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramKey) and self.parts == other.parts


class WrongDevice(Exception):
    """An argument is placed on other devices than those this executable runs on."""


class CachedProgram(_runtime.CompiledProgram):
    """An executable with the types of its results; `kept` numbers the inputs it takes.

    Calling it runs it on arrays and scalars. It raises WrongDevice if an array was placed:
    `execution/placement.py` finds the executable for other devices.
    There is one for each key. `choice` is its engine and the reason for it, `size` the bytes of the
    executable, `seconds` its compile time, `used` when it last ran (in `CLOCK`). The executable may
    be evicted and recompiled, unless `pinned`. `own` is the jaxpr whose id is in
    the key, if equal jaxprs may not share it.
    """

    __slots__ = (
        "__weakref__",
        "_executable",
        "choice",
        "key",
        "own",
        "pinned",
        "program",
        "retyped",
        "seconds",
        "size",
        "was_evicted",
    )

    def __init__(
        self,
        key: ProgramKey,
        program: Program,
        choice: Choice,
        kept: list[int] | None,
        own: Jaxpr | None,
        out_avals: Sequence[ShapedArray] | None = None,
    ) -> None:
        if out_avals is None:
            out_avals = program.jaxpr.out_avals
        memory = choice.engine.memory
        super().__init__(_evicted(key), out_avals, kept, memory, memory.buffers_are_ndarrays)
        self.choice = choice
        self.key = key
        self.program = program
        self.own = own
        self.pinned = False
        self.seconds = 0.0
        self.size = 0
        self.was_evicted = False
        self.retyped: WeakSet[Variant] = WeakSet()
        self._executable: Executable | None = None

    @property
    def engine(self) -> Engine:
        """The engine that compiled it."""
        return self.choice.engine

    @property
    def base(self) -> CachedProgram:
        """The program that holds the executable."""
        return self

    def giving(self, out_avals: list[ShapedArray]) -> CachedProgram:
        """Return the same executable with results of these types, weak or not."""
        return self if tuple(out_avals) == self.out_avals else Variant(self, out_avals)

    @property
    def executable(self) -> Executable:
        """The executable, recompiled if it was evicted."""
        found = self._executable
        return _recompiled(self.key) if found is None else found

    @property
    def nbytes(self) -> int:
        """The bytes of the executable, and of what is kept for constants."""
        return self.size + sum(each.kept_bytes for each in list(self.retyped))

    @property
    def is_shared(self) -> bool:
        """Whether equal programs share this one."""
        return self.own is None

    @property
    def is_loaded(self) -> bool:
        """Whether the executable is in memory."""
        return self._executable is not None

    def load(self) -> Executable:
        """Compile the program, unless its executable is in memory."""
        found = self._executable
        if found is None:
            found = _compile(self)
            self.size = found.size_in_bytes()
            self.was_evicted = False
            self._executable = found
            self._call = found
        return found

    def pin(self) -> None:
        """Keep the executable as long as this object lives."""
        self.pinned = True
        self.load()

    def unload(self) -> None:
        """Release the executable."""
        if not self.pinned:
            self._call = _evicted(self.key)
            for each in list(self.retyped):
                each.forget()
            self._executable = None
            self.was_evicted = True


class Variant(CachedProgram):
    """A program with other result types, or for some sizes, whose code `base` holds."""

    __slots__ = ("_base",)

    def __init__(self, base: CachedProgram, out_avals: Sequence[ShapedArray]) -> None:
        super().__init__(base.key, base.program, base.choice, base.kept, base.own, out_avals)
        self._base = base
        self.forget()
        base.retyped.add(self)

    def _found(self) -> Executable:
        base = self._base
        base.used = CLOCK.now
        found = base.executable
        if isinstance(found, _runtime.Native):
            # From now on it is called by address, until it is evicted.
            self._call = found
            if not base.is_loaded:
                # It was evicted in between.
                self.forget()
        return found

    @property
    def kept_bytes(self) -> int:
        """The bytes of what it keeps beside the executable."""
        return 0

    def forget(self) -> None:
        """Query the executable again on the next call."""
        self._call = _runtime.Unloaded(self._found)

    @property
    def base(self) -> CachedProgram:
        """The program that holds the executable."""
        return self._base

    @property
    def is_loaded(self) -> bool:
        """Whether the executable is in memory."""
        return self._base.is_loaded

    def load(self) -> Executable:
        """Compile the program, unless its executable is in memory."""
        return self._base.load()

    def pin(self) -> None:
        """Keep the executable as long as this object lives."""
        self._base.pin()


def _evicted(key: ProgramKey) -> _runtime.Unloaded:
    # It holds only the key: a reference to the program would be a cycle.
    return _runtime.Unloaded(lambda: _recompiled(key))


def new_buffer(x: Any, memory: Memory, sharding: Sharding | None = None) -> Buffer:
    """Copy a scalar or NumPy array into a new buffer.

    Raises: WrongDevice for an array that was placed.
    """
    if type(x) is np.ndarray:
        return memory.put(x.astype(canonicalize_dtype(x.dtype), copy=False), sharding)
    if isinstance(x, PlacedArray):
        raise WrongDevice
    if isinstance(x, Tracer):
        raise leaked(x)
    return memory.put(_host_copy(x, aval_of(x)), sharding)


def as_array(x: Any) -> ConcreteArray:
    """Return an array or scalar as a concrete array; mutable memory is copied."""
    if isinstance(x, ConcreteArray):
        return x
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = aval_of(x)
    return from_host(_host_copy(x, aval), aval)


def _host_copy(x: Any, aval: ShapedArray) -> np.ndarray:
    try:
        # NumPy treats every class as true.
        if not isinstance(x, type):
            return np.array(x, dtype=aval.dtype)
    except TypeError:
        if isinstance(x, (np.ndarray, Ref)):
            raise
    raise TypeError(
        three_lines(
            f"the value of {x!r:.80} at {current_source()}",
            "it has a type but no value: a program that uses it can be looked at (eval_shape, "
            "make_jaxpr), but not run",
            f"pass an array of type {aval}",
        )
    )


_runtime.set_buffer_functions(buffer_for, new_buffer)
_runtime.set_as_array(as_array)

Loaded = tuple[CachedProgram, Executable]


class _Flight:
    __slots__ = ("done", "result")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: Loaded | None = None


_recompiled_bytes = 0


def _limit() -> int:
    """Return how many bytes the executables may hold.

    By default the cache grows by the size of every program that is recompiled, up to an eighth of
    the machine's memory: otherwise programs that do not fit together would be recompiled at every
    call.
    """
    chosen = options().executable_cache_mb
    if chosen is not None:
        return chosen * MB
    least = AUTOMATIC_MB * MB
    return min(least + _recompiled_bytes, max(least, physical_bytes() // 8))


Kept = Callable[[], CachedProgram | None]
"""How the cache refers to a program: strongly or weakly."""


def _used(kept: Kept) -> int:
    compiled = kept()
    if compiled is None:
        return 0
    return max([compiled.used, *(each.used for each in list(compiled.retyped))])


def _unload(kept: Kept) -> None:
    if (compiled := kept()) is not None:
        compiled.unload()


_cache: Bounded[ProgramKey, Kept] = Bounded(_limit, used=_used, on_leaving=_unload)
_alive: WeakValueDictionary[ProgramKey, CachedProgram] = WeakValueDictionary()
_flights: dict[ProgramKey, _Flight] = {}
in_child(_flights.clear)
_listeners: list[Callable[[str, float], None]] = []
_recompile_listeners: list[Callable[[str, float], None]] = []


def on_compile(listener: Callable[[str, float], None]) -> Callable[[], None]:
    """Call `listener(name, seconds)` after each compilation; return a function that stops this."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def on_recompile(listener: Callable[[str, float], None]) -> Callable[[], None]:
    """Call `listener(name, seconds)` when an evicted executable was recompiled."""
    _recompile_listeners.append(listener)
    return lambda: _recompile_listeners.remove(listener)


def clear() -> None:
    """Forget all executables."""
    global _recompiled_bytes
    programs = kept_in_memory()
    _cache.clear()
    _recompiled_bytes = 0
    for program in programs:
        program.was_evicted = False


def release(keys: Iterable[ProgramKey]) -> None:
    """Drop the programs of these keys that only the cache refers to."""
    for key in keys:
        kept = _cache.take(key)
        program = kept() if kept is not None else None
        if program is not None:
            watch = weakref.ref(program)
            del kept, program
            still_held = watch()
            if still_held is not None:
                _keep(still_held)


def kept_in_memory() -> list[CachedProgram]:
    """Return the programs in the cache."""
    return [program for _, kept in _cache.items() if (program := kept()) is not None]


def cached_program(key: ProgramKey) -> CachedProgram | None:
    """Return the program of a key, if it is in the cache."""
    kept = _cache.get(key)
    return None if kept is None else kept()


def _keep(program: CachedProgram) -> None:
    key = program.key
    weakly = reference(program, lambda _: _cache.take(key))
    _cache.put(key, (lambda: program) if program.is_shared else weakly, program.size)


def compile_jaxpr(
    jaxpr: Jaxpr,
    name: str,
    *,
    choice: Choice | None = None,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
    donated: tuple[int, ...] = (),
    placement: Placement | None = None,
    constants: int = 0,
    for_each_size: str | None = None,
) -> CachedProgram:
    """Return the executable of a jaxpr without constants, from the cache if possible.

    `donated` and the shardings of `placement` number the inputs before unused ones are dropped.
    The first `constants` inputs are arrays that a function closes over (`over_constants.py`).
    Without a `choice` the engine is chosen here. For a program with named axes, `for_each_size` is
    the reason why it is compiled for these sizes only.
    """
    if choice is None:
        choice = engine_for(jaxpr, placement, options())
    is_shared = is_shareable(jaxpr)
    # The program keeps its jaxpr alive, so the id is not reused while it is part of a key.
    identity = canonical_for_engines(jaxpr) if is_shared else id(jaxpr)
    wanted = (keep_unused, compiler_options, donated, placement, constants)
    key = ProgramKey(identity, choice.name, wanted)
    found = cached_program(key)
    if found is not None:
        return found.giving(jaxpr.out_avals)

    def new() -> CachedProgram:
        opts = options()
        if opts.check:
            checker.check(jaxpr, "tracing")
        program, kept = program_of(jaxpr, name, *wanted)
        if opts.check:
            checker.check(program.jaxpr, "dead-code elimination")
        made = choice_for(choice, program)
        if for_each_size is not None:
            made = Choice(made.name, f"{made.reason}; for each size: {for_each_size}")
        return CachedProgram(key, program, made, kept, None if is_shared else jaxpr)

    return compiled_once(key, new)[0].giving(jaxpr.out_avals)


def compiled_once(key: ProgramKey, new: Callable[[], CachedProgram]) -> Loaded:
    """Return the program of a key, loaded; one thread compiles and the others wait."""
    mine = _Flight()
    flight = _flights.setdefault(key, mine)
    if flight is not mine:
        flight.done.wait()
        # If the other thread failed, fail here with an exception of our own.
        return flight.result or _load(key, new)
    try:
        mine.result = _load(key, new)
        return mine.result
    finally:
        _flights.pop(key, None)
        mine.done.set()


def _load(key: ProgramKey, new: Callable[[], CachedProgram]) -> Loaded:
    found = cached_program(key) or _alive.get(key)
    if found is None:
        found = _alive[key] = new()
    executable = found.load()
    _keep(found)
    return found, executable


def _recompiled(key: ProgramKey) -> Executable:
    """Recompile an evicted program that is still in use, with the options of its key."""
    with override(**options_of_key(key.options)):
        return compiled_once(key, lambda: _alive[key])[1]


def _compile(compiled: CachedProgram) -> Executable:
    global _recompiled_bytes
    opts, program, choice = options(), compiled.program, compiled.choice
    name = program.name
    if opts.dump:
        dumping.dump(name, "jaxpr", lambda: str(program.jaxpr))
    start = time.perf_counter()
    with progress(name, program.jaxpr, is_quick=choice.name == HOST_COMPILER):
        executable = executable_of(choice, program)
    seconds = time.perf_counter() - start
    if opts.dump:
        for stage in dumping.stages():
            if stage != "jaxpr":
                dumping.dump(name, stage, lambda stage=stage: executable.as_text(stage))  # type: ignore[misc]
    if opts.log_compiles:
        dumping.log("Compiling %s for %s (%s) took %.3f s", name, *choice, seconds)
    listeners = list(_listeners)
    if compiled.was_evicted:
        _recompiled_bytes += compiled.size
        listeners += _recompile_listeners
    compiled.seconds += seconds
    for listener in listeners:
        listener(name, seconds)
    return executable
