"""Late operands: numbers that a program is handed anew at every call.

A function that `LateJitFunction` records may ask for a number that belongs to the call and not to
the program: `ask(recipe)` returns a further input of the program, a `uint32[]`. Each call brings a
`Supply`, which makes the numbers from the recipes. So programs are shared between calls that differ
in such numbers, and the caller's Python decides what they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from kiln.base.config import options
from kiln.base.source import name_of
from kiln.core.staging import StagingTrace
from kiln.core.trace import Tracer, state
from kiln.execution.compilation import WrongDevice
from kiln.execution.eager import EVAL
from kiln.execution.nonfinite import check_program
from kiln.ir.types import ShapedArray
from kiln.jit.cache import Entry
from kiln.jit.call import JitFunction
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions
from kiln.jit.signature import Chosen
from kiln.jit.tracing import trace

AVAL = ShapedArray((), np.dtype(np.uint32))


class Supply(Protocol):
    """What a call brings: its own values for what the program asked for when it was recorded."""

    def values(self, recipes: Sequence[Hashable]) -> Sequence[Any]:
        """Return one uint32 scalar, or tracer of one, for each recipe."""


class Requests:
    """What one recording has asked for so far, and the supply of the call that it is made for."""

    __slots__ = ("_known", "_trace", "supply")

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self._trace: StagingTrace | None = None
        self._known: dict[Hashable, Tracer | None] = {}

    def begin(self, trace: StagingTrace) -> None:
        """Note the trace whose program gets the inputs."""
        self._trace = trace

    def end(self) -> None:
        """Let the trace and its tracers go; `recipes` stays."""
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
        self.supplies: list[Supply] = []
        self.requests: list[Requests] = []


_here = _Here()


def requests() -> Requests:
    """Return the requests of the program that this thread is recording, the innermost if nested."""
    return _here.requests[-1]


class LateJitFunction(JitFunction):
    """A jitted function that may ask for late operands.

    It returns a pair of arrays and Python values. The latter are kept with the program, and every
    call returns them.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen,
        *,
        placement: PlacementOptions = NO_PLACEMENT,
    ) -> None:
        super().__init__(fun, static, static_result=True, placement=placement)

    def call(self, supply: Supply, *args: Any) -> tuple[Any, Any]:
        """Run the program for these arguments, with what the supply makes of its recipes."""
        opts = options()
        leaves, tree, avals, statics = self._signature(args, {})
        key = (tree, avals, statics, opts.key(), state.axes)
        entry = self._entries.get(key)
        if entry is None:
            _here.supplies.append(supply)
            try:
                entry = self._miss(key, leaves, args, {})
            finally:
                _here.supplies.pop()
        if entry.late:
            leaves = [*leaves, *supply.values(entry.late)]
        if state.trace is not EVAL:
            return self._bind(entry, leaves)  # type: ignore[no-any-return]
        for x in leaves:
            if isinstance(x, Tracer):
                return self._bind(entry, leaves)  # type: ignore[no-any-return]
        compiled = entry.compiled
        if compiled is None or not opts.plain:
            return self._first(entry, leaves)  # type: ignore[no-any-return]
        values = [*entry.consts, *leaves] if entry.consts else leaves
        try:
            outs = compiled(values)
        except WrongDevice:
            outs = self._placer(entry)(values)
        if opts.checks_values:
            check_program(entry.name, entry.jaxpr, values, outs)
        return self._result(entry, outs)  # type: ignore[no-any-return]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Refuse a call without a supply."""
        raise TypeError(f"{name_of(self._fun)} has late operands: use call(supply, ...)")

    def _record(
        self,
        call: Callable[[Sequence[Any]], Any],
        avals: Sequence[ShapedArray],
        tree: Any,
        names: Sequence[str],
    ) -> Entry:
        asked = Requests(_here.supplies[-1])

        def asking(leaves: Sequence[Any]) -> Any:
            here = state.trace
            assert isinstance(here, StagingTrace)
            asked.begin(here)
            _here.requests.append(asked)
            try:
                return call(leaves)
            finally:
                _here.requests.pop()
                asked.end()

        entry = trace(self._fun, asking, avals, tree, names, static=True)
        entry.late = asked.recipes
        if entry.late and entry.jaxpr.arg_names:
            named = [*entry.jaxpr.arg_names, *[""] * len(entry.late)]
            entry.jaxpr = entry.jaxpr.with_(arg_names=named)
        return entry
