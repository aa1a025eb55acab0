"""The jitted callable. Its call is the hot path: flatten, key, run, unflatten.

Nothing else happens on a hit. Everything a miss needs is in `tracing.py`; `wrap` in `api/jit.py`
reads the user's options.
"""

from __future__ import annotations

import functools
import time
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.config import Options, options
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import tree_unflatten
from kiln.content.by_content import is_plain
from kiln.content.class_content import Unreadable
from kiln.content.fingerprint import DESCRIPTION, Content, Reading, content_of, readable
from kiln.control.call import jit_p
from kiln.core.array import ConcreteArray
from kiln.core.staging import eval_jaxpr, recording
from kiln.core.trace import Tracer, aval_of, state
from kiln.core.watching import watched
from kiln.execution.compilation import CachedProgram, WrongDevice
from kiln.execution.eager import EVAL
from kiln.execution.nonfinite import check_program
from kiln.execution.placement import Placer, Run, is_placed
from kiln.ir.assumptions import assume_positive, collecting
from kiln.ir.sizes import as_number
from kiln.ir.types import ShapedArray
from kiln.jit.argument_binding import Named, flatten_call, form_of, structure_of, unflatten_call
from kiln.jit.cache import (
    Entries,
    Entry,
    entries_of,
    find,
    forget,
    register,
    settled_key,
    share,
)
from kiln.jit.compiler_options import Settings, nested
from kiln.jit.explain import Naming
from kiln.jit.history import CacheInfo
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions, constrained, request_for
from kiln.jit.signature import Chosen, Statics, static_keys
from kiln.jit.stages import Lowered, Traced
from kiln.jit.static_values import comparison_of
from kiln.jit.struct import type_of_struct
from kiln.jit.target import committed_places
from kiln.jit.tracing import argument_names, check_leaves, trace

PROGRAMS = (CachedProgram, _runtime.PlacedProgram)
"""What the runtime can run without coming back here."""

_CHEAP = frozenset([bool, int, float, complex])
"""Leaves whose type needs no check on a hit; whether an int fits is seen when it is converted."""


@_runtime.call_directly
class JitFunction(_runtime.Callable):
    """A function that is traced once per call signature and then run as a compiled program.

    The runtime makes calls like those it was told to remember; `_call` is what a call means, and
    makes all others.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen,
        *,
        keep_unused: bool = False,
        inline: bool = False,
        static_result: bool = False,
        max_traces: int | None = None,
        sharing: Hashable = None,
        placement: PlacementOptions = NO_PLACEMENT,
        settings: Settings = (),
    ) -> None:
        functools.update_wrapper(self, fun, updated=())
        # Attributes of the function are the wrapper's too, unless it means something else by them.
        own = {k: v for k, v in getattr(fun, "__dict__", {}).items() if not hasattr(self, k)}
        self.__dict__.update(own)
        self.__wrapped__ = fun
        self._fun = fun
        self._static = static
        self._keep_unused = keep_unused
        self._inline = inline
        self._has_static = bool(static)
        self._binding = placement.binding(fun, static)
        self._static_result = static_result
        chosen = static.argnums, static.argnames
        self._options = (chosen, keep_unused, inline, static_result, sharing, settings)
        self._max_traces = max_traces
        self._traces = 0
        self._placement = placement
        self._settings = settings
        weakref.ref(fun)  # Refuses what cannot be forgotten.
        self._entries: dict[Any, Entry] = {}
        register(self)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the compiled program for these arguments, tracing and compiling it if needed."""
        opts = options()
        if not opts.plain:
            return self._call_otherwise(opts, args, kwargs)
        positional, keywords = len(args), kwargs
        if kwargs:
            args, kwargs = self._binding.by_position(args, kwargs)
        leaves: Sequence[Any] = args
        concrete = not kwargs and not self._has_static
        if concrete:
            for x in args:
                if type(x) is not ConcreteArray:
                    concrete = False
                    break
        if concrete:
            tree, avals, statics = structure_of(len(args)), tuple([x.aval for x in args]), ()
        else:
            leaves, tree, avals, statics = self._signature(args, kwargs)
        key = (tree, avals, statics, opts.key(), state.axes)
        known = self._entries.get(key)
        entry = known or self._miss(key, leaves, args, kwargs)
        if state.trace is not EVAL:
            return self._bind(entry, leaves)
        if not concrete:
            for x in leaves:
                if isinstance(x, Tracer):
                    return self._bind(entry, leaves)
        compiled = entry.compiled
        if compiled is None:
            return self._first(entry, leaves)
        run: Run = compiled
        values = [*entry.consts, *leaves] if entry.consts else leaves
        try:
            outs = run(values)
        except WrongDevice:
            run = self._placer(entry)
            outs = run(values)
        except OverflowError:
            self._types(leaves, args, kwargs)
            raise
        if opts.checks_values:
            check_program(entry.name, entry.jaxpr, values, outs)
        elif known is not None and entry.is_simple and not opts.python_call:
            program = run if isinstance(run, PROGRAMS) else self._placer(entry).prepared(values)
            self._remember(entry, program, positional, tuple(keywords), args, kwargs)
        return self._result(entry, outs)

    def _remember(
        self,
        entry: Entry,
        program: Any,
        positional: int,
        keywords: tuple[str, ...],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        """Let the runtime make calls like this one, if it can tell them from others.

        `args` and `kwargs` are spelled by position; the caller passed `positional` arguments so,
        and the others by the keywords given.
        """
        entry.is_simple = False
        if self._static_result or not isinstance(program, PROGRAMS):
            return
        place = {name: positional + i for i, name in enumerate(keywords)}
        moved = self._binding.moved(positional, keywords) if keywords else ()
        places = [*range(positional), *[place[name] for name in moved]]
        nums, names = self._static.argnums, self._static.argnames
        given = [(places[i], args[i]) for i in nums if i < len(args)]
        given += [(place[name], kwargs[name]) for name in names if name in kwargs]
        statics = [(at, comparison_of(x)) for at, x in given]
        dynamics = [(places[i], x) for i, x in enumerate(args) if i not in nums]
        named = sorted(name for name in kwargs if name not in names)
        dynamics += [(place[name], kwargs[name]) for name in named]
        types = tuple(entry.jaxpr.in_avals[len(entry.consts) :])
        entry.is_simple = self.remember(
            positional,
            keywords,
            statics,
            dynamics,
            types,
            entry.consts,
            program,
            entry.out_tree,
        )

    def _call_otherwise(self, opts: Options, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function without compiling it, or where the default device is another one."""
        if not opts.jit:
            return self._fun(*args, **kwargs)
        if kwargs:
            args, kwargs = self._binding.by_position(tuple(args), kwargs)
        leaves, tree, avals, statics = self._signature(args, kwargs)
        key = (tree, avals, statics, opts.key(), state.axes)
        entry = self._entries.get(key) or self._miss(key, leaves, args, kwargs)
        if state.trace is not EVAL or any(isinstance(x, Tracer) for x in leaves):
            return self._bind(entry, leaves)
        return self._first(entry, leaves)

    def _placer(self, entry: Entry) -> Placer:
        return entry.placer_for(self._keep_unused, self._settings)

    def _result(self, entry: Entry, outs: Sequence[Any]) -> Any:
        result = outs[0] if entry.out_is_leaf else tree_unflatten(entry.out_tree, outs)
        return (result, entry.static) if self._static_result else result

    def _signature(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, tuple[Any, ...], Any]:
        if self._has_static:
            dynamic, named, statics = self._split(args, kwargs)
        else:
            dynamic, named, statics = args, kwargs, ()
        leaves, tree = flatten_call(dynamic, named)
        try:
            avals = tuple([aval_of(x) if type(x) in _CHEAP else x.aval for x in leaves])
        except AttributeError:
            leaves = list(map(as_number, leaves))
            avals = self._types(leaves, args, kwargs)
        return leaves, tree, avals, statics

    def _types(
        self, leaves: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        return tuple(check_leaves(self._fun, leaves, lambda: self._names(args, kwargs), "jit"))

    def _names(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
        named = {k: v for k, v in kwargs.items() if k not in self._static.argnames}
        places = self._places(args)
        return argument_names(self._fun, [args[i] for i in places], named, places)

    def _places(self, args: Sequence[Any]) -> list[int]:
        """Return the numbers of the positional arguments that are not static."""
        return [i for i in range(len(args)) if i not in self._static.argnums]

    def _split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        nums, names = self._static.argnums, self._static.argnames
        given: list[tuple[int | str, Any]] = [(i, args[i]) for i in nums if i < len(args)]
        given += [(name, kwargs[name]) for name in names if name in kwargs]
        dynamic = tuple([x for i, x in enumerate(args) if i not in nums])
        named = {k: v for k, v in kwargs.items() if k not in names} if kwargs else kwargs
        return dynamic, named, Statics(len(args), static_keys(self._fun, given))

    @api_boundary
    def _miss(
        self, key: Any, leaves: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Entry:
        table = self._shared()
        table.history.misses += 1
        shared = table.get(key)
        if shared is not None:
            return self._own(key, shared, args, kwargs)
        self._types(leaves, args, kwargs)
        return self._make(key, args, kwargs, table)

    def _make(
        self, key: Any, args: Sequence[Any], kwargs: dict[str, Any], shared: Entries
    ) -> Entry:
        """Return the program of a signature met for the first time."""
        return self._keep(key, self._trace(key, args, kwargs), shared, args, kwargs)

    def _shared(self) -> Entries:
        """Return the programs of the function as it is now, whoever had them traced."""
        return entries_of(self._fun, self._options)

    def _keep(
        self,
        key: Any,
        entry: Entry,
        shared: Entries,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Entry:
        if self._is_temporary(entry):
            return entry
        # Another table if the function's code or defaults were exchanged in the meantime.
        if self._shared() is shared:
            entry = shared.setdefault(settled_key(key), entry)
        return self._own(key, entry, args, kwargs)

    def _own(self, key: Any, entry: Entry, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry:
        """Make a program this wrapper's, to be run as the wrapper's options wish."""
        if self._placement is not NO_PLACEMENT:
            places = self._places(args)
            named = {k: v for k, v in kwargs.items() if k not in self._static.argnames}
            dynamic = [args[i] for i in places]
            request = request_for(self._placement, self._fun, entry, dynamic, named, places)
            entry = entry.with_request(request)
        self._entries[settled_key(key)] = entry
        return entry

    def _is_temporary(self, entry: Entry) -> bool:
        """Tell whether a program closes over values of a trace, and dies with it."""
        return any(isinstance(x, Tracer) for x in entry.consts)

    def _traced(self) -> Iterable[Any]:
        """Return the signatures traced so far."""
        return self._shared()

    def _content(self, key: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Content | None:
        """Return the content of the function and of the static arguments of a call."""
        if self._static_result or not is_plain(key[0], Named):
            return None
        if not self._has_static:
            return content_of(self._fun)
        nums, names = self._static.argnums, self._static.argnames
        given: list[tuple[int | str, Any]] = [(i, args[i]) for i in nums if i < len(args)]
        given += [(name, kwargs[name]) for name in names if name in kwargs]
        return content_of((self._fun, len(args), *given))

    def is_stale(self) -> bool:
        """Tell whether a call may run another program than a fresh function of this content would.

        A function keeps its trace when a global or a closure of it changes.
        """
        entries = [*self._entries.values(), *self._shared().values()]
        if not entries:
            return False
        now = content_of(self._fun, with_jitted=False)
        return now is None or not all(entry.follows_from(now) for entry in entries)

    def _trace(self, key: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry:
        tree, avals = key[0], key[1]
        content = self._content(key, args, kwargs)
        place = (tree, avals, key[3], key[4], self._options)
        found = find(place, content)
        if found is not None:
            return found
        names = self._names(args, kwargs)
        constant_args = {i: args[i] for i in self._static.argnums if i < len(args)}
        constant_kwargs = {k: kwargs[k] for k in self._static.argnames if k in kwargs}
        fun, count = self._fun, len(args)

        def call(leaves: Sequence[Any]) -> Any:
            dynamic, named = unflatten_call(tree, leaves)
            given = iter(dynamic)
            full = [constant_args[i] if i in constant_args else next(given) for i in range(count)]
            return fun(*full, **named, **constant_kwargs)

        history = self._shared().history
        naming = Naming(fun, self._places(args), names)
        seen = list(self._traced())
        if self._max_traces is not None and self._traces >= self._max_traces:
            raise history.too_many(self._max_traces, seen, key, naming)
        record, start = history.begin(seen, key, naming)
        with (
            watched(content.operands if content is not None else ()) as watch,
            collecting() as assumed,
        ):
            entry = self._record(call, avals, tree, names)
        entry.assumed = frozenset(assumed)
        entry.record = record
        self._traces += 1
        history.end(key, naming, record, start)
        return share(place, content, watch, entry)

    def _record(
        self,
        call: Callable[[Sequence[Any]], Any],
        avals: Sequence[ShapedArray],
        tree: Any,
        names: Sequence[str],
    ) -> Entry:
        return trace(self._fun, call, avals, tree, names, static=self._static_result)

    @api_boundary
    def _first(self, entry: Entry, leaves: Sequence[Any]) -> Any:
        if self._is_temporary(entry):
            return self._bind(entry, leaves)
        placer, values = self._placer(entry), [*entry.consts, *leaves]
        start = time.perf_counter()
        run = placer.prepared(values)
        if run is None:
            run = placer.prepare(values)
            self._shared().note_compilation(entry, time.perf_counter() - start)
        if not placer.is_plain:
            entry.compiled = placer
        elif options().plain:
            entry.compiled = placer if is_placed(values) else run
        outs = run(values)
        if options().checks_values:
            check_program(entry.name, entry.jaxpr, values, outs)
        return self._result(entry, outs)

    @api_boundary
    def _bind(self, entry: Entry, leaves: Sequence[Any]) -> Any:
        if entry.assumed:
            assume_positive(entry.assumed)
        request = entry.request
        if request.in_shardings:
            leaves = constrained(leaves, request.in_shardings[len(entry.consts) :])
        if self._settings:
            raise nested(entry.name, self._settings, current_source())
        if self._inline and recording() is not None:
            outs = eval_jaxpr(entry.jaxpr, (), *entry.consts, *leaves)
        else:
            outs = jit_p.bind(*entry.consts, *leaves, jaxpr=entry.jaxpr, name=entry.name)
        if request.out_shardings:
            outs = constrained(outs, request.out_shardings)
        return self._result(entry, outs)

    def entry_for(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry:
        """Return the program of a call, tracing it if needed; arguments may be mere types."""
        args, kwargs = self._binding.by_position(tuple(args), kwargs)
        dynamic, named, statics = (
            self._split(args, kwargs) if self._has_static else (tuple(args), kwargs, ())
        )
        leaves, tree = flatten_call(dynamic, named)
        leaves = list(map(as_number, leaves))
        structs = [type_of_struct(x) for x in leaves]
        given = [np.int32(0) if a is not None else x for a, x in zip(structs, leaves, strict=True)]
        found = self._types(given, args, kwargs)
        avals = tuple(a if a is not None else b for a, b in zip(structs, found, strict=True))
        key = (tree, avals, statics, options().key(), state.axes)
        shared = self._shared()
        entry = self._entries.get(key) or shared.get(key)
        if entry is None:
            return self._make(key, args, kwargs, shared)
        return entry if key in self._entries else self._own(key, entry, args, kwargs)

    @api_boundary
    def trace(self, /, *args: Any, **kwargs: Any) -> Traced:
        """Trace for the types of the arguments, which may be ShapeDtypeStructs."""
        entry = self.entry_for(args, kwargs)
        positional, moved = len(args), self._binding.moved(len(args), tuple(kwargs))
        args, kwargs = self._binding.by_position(args, kwargs)
        numbers = self._places(args)
        dynamic = [args[i] for i in numbers]
        named = {k: v for k, v in kwargs.items() if k not in self._static.argnames}
        places = committed_places([*entry.consts, *flatten_call(dynamic, named)[0]])
        placer = entry.new_placer(self._keep_unused, self._settings)
        form = form_of(entry.in_tree, numbers, positional, moved, self._binding.dynamic_names())
        return Traced(entry, placer, places, form)

    @api_boundary
    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and translate for the engine, without compiling or running."""
        return self.trace(*args, **kwargs).lower()

    @api_boundary
    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the results without computing them."""
        return self.trace(*args, **kwargs).out_info

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted function {definition_of(self._fun)}>"

    def forget_entries(self) -> None:
        """Forget this wrapper's programs."""
        self._entries.clear()
        self.forget_calls()
        self._traces = 0

    def clear_cache(self) -> None:
        """Forget the programs of this function, and give their memory back to the system."""
        self.forget_entries()
        forget(self._fun)

    def cache_info(self) -> CacheInfo:
        """Return what tracing and compiling this function has cost, and what is kept of it."""
        return self._shared().info()

    def _cache_size(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> str:
        return getattr(self._fun, "__qualname__", name_of(self._fun))


# What a jitted function keeps of its own; `_options` says the rest of how it was made.
_OWN = DESCRIPTION.union(
    ("_static", "_keep_unused", "_inline", "_has_static", "_binding", "_static_result"),
    ("_traces", "_placement", "_settings", "_entries", "_options"),
)


def _read(reading: Reading, f: JitFunction) -> Any:
    if f._placement.has_place:
        raise Unreadable("a jitted function with devices or shardings")
    if reading.with_jitted and f.is_stale():
        raise Unreadable("a jitted function that keeps a trace of what was before")
    return reading.again(f) or ("jit", f._options, reading.read_attributes(f, _OWN))


readable(JitFunction, _read)
