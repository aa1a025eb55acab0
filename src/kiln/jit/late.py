"""Late operands: numbers that every call supplies to the program it runs.

A function that a `LateFunction` records may ask for a number that belongs to the call and not to
the program: `ask(recipe)` returns a further input of the program, a `uint32[]`. Each call brings a
`Supply`, which makes the numbers from the recipes. So programs are shared between calls that differ
in such numbers, and the caller's Python decides what they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from kiln.base.options.config import options
from kiln.core.staging import StagingTrace
from kiln.core.trace import Tracer, state
from kiln.execution.eager import EVAL
from kiln.ir.types import ShapedArray
from kiln.jit.cache import Recordings, register
from kiln.jit.entry import Recording
from kiln.jit.lookup import Lookup
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions
from kiln.jit.recorder import PlainRecorder
from kiln.jit.running import arranged, bind, run
from kiln.jit.signatures.explain import Naming
from kiln.jit.signatures.signature import Arguments, Signature, Statics, Subject

AVAL = ShapedArray((), np.dtype(np.uint32))


class Supply(Protocol):
    """A call's own values for the numbers that its program asked for when it was recorded."""

    def values(self, recipes: Sequence[Hashable]) -> Sequence[Any]:
        """Return one uint32 scalar, or tracer of one, for each recipe."""


class LateOperands:
    """The late operands of one recording so far, and the supply of the call that it is made for."""

    __slots__ = ("_known", "_trace", "supply")

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self._trace: StagingTrace | None = None
        self._known: dict[Hashable, Tracer | None] = {}

    def begin(self, trace: StagingTrace) -> None:
        """Set the trace whose program gets the inputs."""
        self._trace = trace

    def end(self) -> None:
        """Release the trace and its tracers; `recipes` remains."""
        self._trace = None
        self._known = dict.fromkeys(self._known)

    def ask(self, recipe: Hashable) -> Tracer:
        """Return the input that a recipe stands for."""
        known = self._known.get(recipe)
        if known is None:
            # None before and after: a function that asks then is not part of the program.
            assert self._trace is not None
            known = self._known[recipe] = self._trace.argument(AVAL)
        return known

    @property
    def recipes(self) -> tuple[Hashable, ...]:
        """The recipes, in the order of the inputs."""
        return tuple(self._known)


class _Here(threading.local):
    def __init__(self) -> None:
        self.recording: list[LateOperands] = []


_here = _Here()


def late_operands() -> LateOperands:
    """Return the late operands of the innermost program that this thread is recording."""
    return _here.recording[-1]


NamingOf = Callable[[Sequence[Any]], Naming]
"""Returns the names of given arguments for messages."""


class _LateArguments(Arguments):
    """The arguments of one call, with the supply that the function draws from while recorded."""

    __slots__ = ("_naming", "operands", "supply")

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Hashable,
        args: Sequence[Any],
        supply: Supply,
        naming: NamingOf | None,
    ) -> None:
        super().__init__(fun, None, args, {})
        self.key = Statics(len(args), (("module", static),))
        self.supply = supply
        self._naming = naming

    def naming(self) -> Naming:
        return super().naming() if self._naming is None else self._naming(self.structure()[0])

    def apply(self, fun: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        here = state.trace
        assert isinstance(here, StagingTrace)
        self.operands = LateOperands(self.supply)
        self.operands.begin(here)
        _here.recording.append(self.operands)
        try:
            return super().apply(fun, leaves)
        finally:
            _here.recording.pop()
            self.operands.end()


class _LateRecorder(PlainRecorder):
    """Appends the inputs that a function asked for to its program."""

    def record(
        self,
        subject: Subject,
        signature: Signature,
        call: Arguments,
        table: Recordings,
        seen: Any = None,
    ) -> Recording:
        made = super().record(subject, signature, call, table, seen)
        assert isinstance(call, _LateArguments)
        made.late = call.operands.recipes
        if made.late and made.jaxpr.arg_names:
            names = [*made.jaxpr.arg_names, *[""] * len(made.late)]
            made.jaxpr = made.jaxpr.with_(arg_names=names)
        return made


_RECORDER = _LateRecorder()


class LateFunction:
    """A function that is traced once per call signature, and may ask for late operands.

    It takes positional arguments, and returns a pair of arrays and Python values. The latter are
    kept with the program, and every call returns them. `naming` says how messages name the
    arguments, if not by the parameters.
    """

    __slots__ = ("__weakref__", "_lookup", "_naming", "fun")

    def __init__(
        self,
        fun: Callable[..., Any],
        *,
        placement: PlacementOptions = NO_PLACEMENT,
        naming: NamingOf | None = None,
    ) -> None:
        self.fun = fun
        self._naming = naming
        subject = Subject(fun, None, "late operands", static_result=True)
        self._lookup = Lookup(subject, _RECORDER, placement)
        register(self)

    def call(self, supply: Supply, static: Hashable, *args: Any) -> tuple[Any, Any]:
        """Run the program for these arguments, with the supply's values for its recipes.

        `static` is the key of everything that the program depends on besides types.
        """
        opts = options()
        call = _LateArguments(self.fun, static, args, supply, self._naming)
        signature = call.signature(opts.key(), state.axes)
        entry = self._lookup.entries.get(signature) or self._lookup.miss(signature, args, {}, call)
        leaves, recording = call.leaves, entry.recording
        if recording.late:
            leaves = [*leaves, *supply.values(recording.late)]
        if state.trace is not EVAL or entry.is_bound or _has_tracer(leaves):
            outs = bind(entry, leaves)
        else:
            outs = run(entry, [*entry.consts, *leaves] if entry.consts else leaves, opts)
        return arranged(entry, outs), recording.static

    def forget_entries(self) -> None:
        """Forget the programs."""
        self._lookup.forget()


def _has_tracer(leaves: Sequence[Any]) -> bool:
    for x in leaves:  # noqa: SIM110 - any() costs a generator on every call
        if isinstance(x, Tracer):
            return True
    return False
