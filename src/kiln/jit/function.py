"""The jitted callable. Its call is the hot path: flatten, look up the signature, run, unflatten.

Nothing else happens on a hit. `lookup.py` handles a miss; `wrap` in `api/jit.py` reads the options.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kiln import _runtime
from kiln.base.lazy import high, sized, target, traced
from kiln.base.options.config import options
from kiln.base.source import api_boundary, definition_of, leave_out, name_of
from kiln.base.tree import tree_leaves
from kiln.content.class_content import Unreadable
from kiln.content.fingerprint import DESCRIPTION, Reading, readable
from kiln.control.regions.held_refs import is_derivative
from kiln.core.arrays.array import ConcreteArray
from kiln.core.arrays.transfers import calling
from kiln.core.hitypes import TYPES, NeedsArrays
from kiln.core.trace import Tracer, state
from kiln.execution.compilation import CachedProgram
from kiln.execution.eager import EVAL
from kiln.execution.sized_programs import ProgramForSizes
from kiln.jit.cache import forget, register
from kiln.jit.compiler_options import Settings
from kiln.jit.entry import Entry, Recording
from kiln.jit.history import CacheInfo
from kiln.jit.lookup import Lookup
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions
from kiln.jit.recorder import UNLIMITED, PlainRecorder
from kiln.jit.running import arranged, bind, run
from kiln.jit.signatures.argument_binding import form_of, structure_of
from kiln.jit.signatures.parameters import NONE_CHOSEN, Chosen, signed_by
from kiln.jit.signatures.signature import Arguments, Signature, Subject
from kiln.jit.signatures.static_values import comparison_of

if TYPE_CHECKING:
    from kiln.jit.high import HighCalls
    from kiln.jit.named_axes import NamedAxes
    from kiln.jit.stages.traced import Lowered, Traced

PROGRAMS = (CachedProgram, _runtime.PlacedProgram)
"""Programs that the extension can run without returning to Python."""


@_runtime.call_directly
class JitFunction(_runtime.Callable):
    """A function that is traced once per call signature and then run as a compiled program.

    The extension handles the calls that it remembers; `_call` defines what a call means and handles
    all others. With `axes` one trace serves all sizes of the named axes. With `static_result` the
    function returns a pair of arrays and Python values; the latter are kept with the program.
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
        axes: NamedAxes | None = None,
        placement: PlacementOptions = NO_PLACEMENT,
        settings: Settings = (),
    ) -> None:
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(fun, name):
                setattr(self, name, getattr(fun, name))
        self.__wrapped__ = fun
        # The wrapper has the function's attributes too, except those with a meaning of their own.
        attributes = getattr(fun, "__dict__", None)
        if attributes:
            own = {k: v for k, v in attributes.items() if not hasattr(self, k)}
            self.__dict__.update(own)
        self._fun = fun
        self._made: tuple[Chosen, dict[str, Any]] = (
            static,
            {
                "keep_unused": keep_unused,
                "inline": inline,
                "static_result": static_result,
                "max_traces": max_traces,
                "axes": axes,
                "placement": placement,
                "settings": settings,
            },
        )
        self._inline = inline
        self._high: HighCalls | None = None
        self._is_lowered = False
        self._binding = placement.binding(fun, static)
        self._max_traces = max_traces
        weakref.ref(fun)  # Raises TypeError for what cannot be weakly referenced.
        chosen = static.argnums, static.argnames
        named = None if axes is None else axes.key
        key = (chosen, keep_unused, inline, static_result, named, settings)
        plain = UNLIMITED if max_traces is None else PlainRecorder(max_traces)
        recorder = plain if axes is None else sized.SizedRecorder(plain, axes)
        self._subject = Subject(fun, None if static is NONE_CHOSEN else static, key, static_result)
        self._lookup = Lookup(self._subject, recorder, placement, keep_unused, settings)
        self._entries = self._lookup.entries
        register(self)

    def __getattr__(self, name: str) -> Any:
        # `inspect` would take a property for the signature of the class.
        if name == "__signature__":
            return inspect.signature(signed_by(self._fun))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # `api_boundary` would pack and unpack the arguments of each call.
        try:
            return self._run(args, kwargs)
        except Exception as error:
            __tracebackhide__ = True
            leave_out(error)
            raise

    @calling
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the compiled program for these arguments, tracing and compiling it if needed."""
        opts = options()
        if not opts.jit:
            return self._fun(*args, **kwargs)
        positional, keywords = len(args), kwargs
        if kwargs:
            args, kwargs = self._binding.by_position(args, kwargs)
        call: Arguments | None = None
        leaves: Sequence[Any] = args
        is_plain = not kwargs and self._subject.static is None
        if is_plain:
            for x in args:
                if type(x) is not ConcreteArray:
                    is_plain = False
                    break
        if is_plain:
            avals = tuple([x.aval for x in args])
            signature = Signature(structure_of(len(args)), avals, (), opts.key(), state.axes)
        else:
            call = self._subject.arguments(args, kwargs)
            if TYPES and high.has_high(call.leaves):
                return self._high_calls()(args, kwargs)
            signature = call.signature(opts.key(), state.axes)
            leaves = call.leaves
        entry = self._entries.get(signature) if self._entries else None
        is_known = entry is not None
        if entry is None:
            if self._high is not None and self._high.is_needed:
                return self._high(args, kwargs)
            try:
                entry = self._lookup.miss(signature, args, kwargs, call)
            except NeedsArrays as error:
                if self._is_lowered:
                    raise
                self._high_calls().note(error)
                return self._high_calls()(args, kwargs)
        if state.trace is not EVAL or entry.is_bound:
            return self._bind(entry, leaves, args, kwargs)
        if not is_plain:
            for x in leaves:
                if isinstance(x, Tracer):
                    return self._bind(entry, leaves, args, kwargs)
        values = [*entry.consts, *leaves] if entry.consts else leaves
        try:
            outs = run(entry, values, opts)
        except OverflowError:
            self._subject.arguments(args, kwargs).check()
            raise
        if (is_known or entry.recording.sizes) and entry.is_simple and opts.remembers_calls:
            call = call or self._subject.arguments(args, kwargs)
            self._remember(entry, values, call, positional, tuple(keywords), is_known)
        return self._result(entry, outs)

    def _high_calls(self) -> HighCalls:
        """Return the handler of calls with high values."""
        if self._high is None:
            static, made = self._made

            def jitted(fun: Any, static: Chosen, placement: PlacementOptions) -> JitFunction:
                lowered = JitFunction(fun, static, **{**made, "placement": placement})
                lowered._is_lowered = True
                return lowered

            self._high = high.HighCalls(self._fun, static, made["placement"], jitted)
        return self._high

    def _bind(
        self, entry: Entry, leaves: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        if entry.holds and is_derivative(state.trace):
            # Rules run after the program has ended: they would write to tracers of its inputs.
            return self._fun(*args, **kwargs)
        outs = bind(entry, leaves, inline=self._inline, settings=self._lookup.settings)
        return self._result(entry, outs)

    def _result(self, entry: Entry, outs: Sequence[Any]) -> Any:
        result = arranged(entry, outs)
        return (result, entry.recording.static) if self._subject.static_result else result

    def _remember(
        self,
        entry: Entry,
        values: Sequence[Any],
        call: Arguments,
        positional: int,
        keywords: tuple[str, ...],
        is_known: bool,
    ) -> None:
        """Register calls like this one with the extension, if it can recognize them.

        The arguments of `call` are bound by position where possible; the caller passed `positional`
        of them by position, and the others by the keywords given.
        """
        program, recording = entry.run_for(values), entry.recording
        named = None
        if isinstance(program, ProgramForSizes):
            # Calls with other sizes of named axes run the same code.
            named = (len(recording.sizes), recording.named_axes, _for_sizes(recording, program))
        elif not is_known:
            return
        entry.is_simple = False
        if self._subject.static_result or not isinstance(program, PROGRAMS):
            return
        place: dict[int | str, int] = {name: positional + i for i, name in enumerate(keywords)}
        moved = self._binding.moved(positional, keywords) if keywords else ()
        place.update(enumerate([*range(positional), *[place[name] for name in moved]]))
        entry.is_simple = self.remember(
            positional,
            keywords,
            [(place[at], comparison_of(x)) for at, x in call.statics],
            [(place[at], x) for at, x in call.by_place()],
            tuple(entry.recording.jaxpr.in_avals[len(entry.consts) :]),
            entry.consts,
            program,
            entry.recording.out_tree,
            named,
        )

    def entry_for(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Entry:
        """Return the entry for a call, tracing if needed; arguments may be ShapeDtypeStructs."""
        return self._traced(args, kwargs)[0]

    def _traced(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Entry, Signature, Arguments]:
        args, kwargs = self._binding.by_position(tuple(args), kwargs)
        call = self._subject.arguments(args, kwargs)
        signature = call.signature_of_types(options().key(), state.axes)
        return self._lookup.entry(signature, call), signature, call

    @api_boundary
    def trace(self, /, *args: Any, **kwargs: Any) -> Traced:
        """Trace for the types of the arguments, which may be ShapeDtypeStructs."""
        if TYPES and high.has_high(tree_leaves((args, kwargs))):
            return self._high_calls().trace(args, kwargs)  # type: ignore[return-value]
        try:
            entry, signature, call = self._traced(args, kwargs)
        except NeedsArrays as error:
            if self._is_lowered:
                raise
            self._high_calls().note(error)
            return self._high_calls().trace(args, kwargs)  # type: ignore[return-value]
        moved = self._binding.moved(len(args), tuple(kwargs))
        names = self._binding.dynamic_names()
        form = form_of(signature.tree, call.places, len(args), moved, names)
        places = target.committed_places([*entry.consts, *call.leaves])
        placer = entry.placer
        # It shares nothing with calls of this function.
        apart = entry.recording.new_placer(
            placer.request, placer.keep_unused, self._lookup.settings
        )
        found: Traced = traced.Traced(entry.recording, entry.consts, apart, places, form)
        return found

    @api_boundary
    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and translate for the engine, without compiling or running."""
        return self.trace(*args, **kwargs).lower()

    def explain_memory(self, /, *args: Any, **kwargs: Any) -> str:
        """Return a report of the memory that such a call needs: see `Compiled`.

        Raises: ValueError if the engine does not know.
        """
        return self.lower(*args, **kwargs).explain_memory()

    @api_boundary
    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the results without computing them."""
        return self.trace(*args, **kwargs).out_info

    def is_stale(self) -> bool:
        """Tell whether a call may run a different program than a new function of this content.

        A function keeps its trace when a global or a closure of it changes.
        """
        return self._lookup.is_stale()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jitted function {definition_of(self._fun)}>"

    def forget_entries(self) -> None:
        """Forget this wrapper's programs."""
        self._lookup.forget()
        self.forget_calls()

    def clear_cache(self) -> None:
        """Forget the programs of this function, and return their memory to the system."""
        self.forget_entries()
        forget(self._fun)

    def cache_info(self) -> CacheInfo:
        """Return what tracing and compiling this function has cost, and what is cached."""
        return self._lookup.table().info()

    def _cache_size(self) -> int:
        return self._lookup.size()

    def __copy__(self) -> JitFunction:
        return self

    def __deepcopy__(self, memo: Any) -> JitFunction:
        return self

    def __reduce__(self) -> Any:
        name: str = getattr(self._fun, "__qualname__", name_of(self._fun))
        # The name of a decorated function is its wrapper's.
        if _found(getattr(self._fun, "__module__", None), name) is self:
            return name
        return _made_again, (self._fun, *self._made)


def _found(module: str | None, name: str) -> Any:
    found = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _made_again(fun: Callable[..., Any], static: Chosen, options: dict[str, Any]) -> JitFunction:
    return JitFunction(fun, static, **options)


# The state of a jitted function; its options hold the other arguments of the constructor.
_OWN = DESCRIPTION.union(
    ("_inline", "_high", "_is_lowered", "_binding", "_made", "_subject", "_entries", "_lookup"),
)


def _read(reading: Reading, f: JitFunction) -> Any:
    if f._lookup.placement.has_place:
        raise Unreadable("a jitted function with devices or shardings")
    if reading.with_jitted and f.is_stale():
        raise Unreadable("a jitted function that keeps a trace of what was before")
    return reading.again(f) or ("jit", f._subject.options, reading.read_attributes(f, _OWN))


readable(JitFunction, _read)


def _for_sizes(
    recording: Recording, program: ProgramForSizes
) -> Callable[[tuple[int, ...]], ProgramForSizes | None]:
    """Return a function from sizes to the program for them, or None where it does not hold."""
    if not recording.conditions:
        return program.for_other_sizes

    def found(sizes: tuple[int, ...]) -> ProgramForSizes | None:
        if not recording.holds_for(dict(zip(recording.sizes, sizes, strict=True))):
            return None
        return program.for_other_sizes(sizes)

    return found
