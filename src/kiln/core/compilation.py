"""From a jaxpr to an executable: clean up, look in the cache, compile once, note what happened.

The cache is keyed on the program's structure and the options that change code (level (c) of the
three levels of caching): an equal program met again, whatever function it came from, costs no
compilation. Many threads asking for one program compile it once.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from kiln.base.config import options
from kiln.core import dumping
from kiln.core.array import ConcreteArray, buffer_for, from_buffers, from_host
from kiln.core.engine import Buffer, Engine, Executable, Program, engine
from kiln.core.trace import Tracer, aval_of, leaked
from kiln.ir.checker import check
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import canonical_for_engines, drop_inputs, eliminate_dead_code
from kiln.ir.types import ShapedArray

import numpy as np  # isort: skip


CAPACITY = 4096


class Compiled:
    """An executable with the types of its results; `kept` numbers the inputs it takes."""

    __slots__ = ("_call", "engine", "executable", "kept", "out_avals", "program")

    def __init__(
        self, program: Program, executable: Executable, home: Engine, kept: list[int] | None
    ) -> None:
        self.program = program
        self.executable = executable
        self.engine = home
        self.kept = kept
        self.out_avals = program.jaxpr.out_avals
        self._call = executable.__call__

    def giving(self, out_avals: list[ShapedArray]) -> Compiled:
        """Return the same executable with results of these types, weak or not."""
        if out_avals == self.out_avals:
            return self
        made = Compiled(self.program, self.executable, self.engine, self.kept)
        made.out_avals = out_avals
        return made

    def __call__(self, args: Sequence[Any]) -> list[ConcreteArray]:
        """Run on arrays and scalars."""
        if self.kept is not None:
            args = [args[i] for i in self.kept]
        home = self.engine
        buffers = [
            buffer_for(x, home) if type(x) is ConcreteArray else _new_buffer(x, home) for x in args
        ]
        return from_buffers(self.out_avals, self._call(buffers), home)


def _new_buffer(x: Any, home: Engine) -> Buffer:
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = aval_of(x)
    return home.put(np.asarray(x, dtype=aval.dtype))


def as_array(x: Any) -> ConcreteArray:
    """Return a concrete array of an array or scalar; copies what the caller may still change."""
    if type(x) is ConcreteArray:
        return x
    if isinstance(x, Tracer):
        raise leaked(x)
    aval = aval_of(x)
    return from_host(np.array(x, dtype=aval.dtype), aval)


class _Flight:
    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: Compiled | None = None
        self.error: BaseException | None = None


_cache: collections.OrderedDict[Hashable, Compiled] = collections.OrderedDict()
_flights: dict[Hashable, _Flight] = {}
_lock = threading.Lock()
_listeners: list[Callable[[str, float], None]] = []


def on_compile(listener: Callable[[str, float], None]) -> Callable[[], None]:
    """Call `listener(name, seconds)` after each compilation; return how to stop."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def clear() -> None:
    """Forget all executables."""
    with _lock:
        _cache.clear()


def compile_jaxpr(
    jaxpr: Jaxpr,
    name: str,
    *,
    on: str | None = None,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
) -> Compiled:
    """Return the executable of a jaxpr without constants, from the cache if it is there."""
    home = engine(on or options().engine or "xla")
    key = (canonical_for_engines(jaxpr), home.name, keep_unused, compiler_options, options().key())
    with _lock:
        found = _cache.get(key)
        if found is not None:
            _cache.move_to_end(key)
            return found.giving(jaxpr.out_avals)
        flight = _flights.get(key)
        mine = flight is None
        if flight is None:
            flight = _flights[key] = _Flight()
    if not mine:
        flight.done.wait()
        if flight.result is not None:
            return flight.result.giving(jaxpr.out_avals)
        # The other thread failed; fail here with an exception of our own.
        return _compile(jaxpr, name, home, keep_unused, compiler_options)
    try:
        result = flight.result = _compile(jaxpr, name, home, keep_unused, compiler_options)
        with _lock:
            _cache[key] = result
            while len(_cache) > CAPACITY:
                _cache.popitem(last=False)
        return result
    finally:
        with _lock:
            _flights.pop(key, None)
        flight.done.set()


def prepare(jaxpr: Jaxpr, keep_unused: bool = False) -> tuple[Jaxpr, list[int] | None]:
    """Drop dead code and, unless told otherwise, unused inputs; say which inputs stay."""
    clean, used = eliminate_dead_code(jaxpr)
    if keep_unused or all(used):
        return clean, None
    return drop_inputs(clean, used), [i for i, u in enumerate(used) if u]


def _compile(
    jaxpr: Jaxpr,
    name: str,
    home: Engine,
    keep_unused: bool,
    compiler_options: tuple[tuple[str, Any], ...],
) -> Compiled:
    opts = options()
    if opts.check:
        check(jaxpr, "tracing")
    clean, kept = prepare(jaxpr, keep_unused)
    if opts.check:
        check(clean, "dead-code elimination")
    program = Program(clean, name, compiler_options)
    if opts.dump:
        dumping.dump(name, "jaxpr", lambda: str(clean))
    start = time.perf_counter()
    executable = home.compile(program)
    seconds = time.perf_counter() - start
    if opts.dump:
        for stage in dumping.stages():
            if stage != "jaxpr":
                dumping.dump(name, stage, lambda stage=stage: executable.as_text(stage))  # type: ignore[misc]
    if opts.log_compiles:
        dumping.log("Compiling %s for %s took %.3f s", name, home.name, seconds)
    for listener in tuple(_listeners):
        listener(name, seconds)
    return Compiled(program, executable, home, kept)
