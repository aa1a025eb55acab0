"""The trace that runs operations immediately: the second way of docs/eager.md.

Each operation is a cached program of one equation.

Primitives marked `on_host` run by their NumPy meaning, on the reference engine, so that a new shape
compiles nothing; all others are compiled.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kiln.base.caches.bounded import Bounded
from kiln.base.options.config import Options, options
from kiln.base.process.memory import MB
from kiln.core.arrays.transfers import applied
from kiln.core.staging import types_of_results
from kiln.core.trace import Trace, Tracer, aval_of, leaked, set_root_trace
from kiln.execution.compilation import CachedProgram, WrongDevice, compile_jaxpr
from kiln.execution.engine_choice import engine_for
from kiln.execution.execution_guards import check_execution
from kiln.execution.inspection import evaluate, inspect_operation
from kiln.execution.placement import Placer, is_placed
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ir.rewrite import params_key
from kiln.ir.types import ShapedArray

ENTRY_BYTES = 4096
"""The bytes of a program and its key; its executable is counted in the other cache."""


def _is_elsewhere(args: Sequence[Any], opts: Options) -> bool:
    """Report operands to transfer guards; tell whether operations run on another device."""
    if opts.guards_transfers:
        applied(args)
    return opts.default_device is not None or opts.default_mesh is not None


def _limit() -> int:
    return options().eager_cache_mb * MB


class EvalTrace(Trace):
    """Runs operations when they are bound."""

    __slots__ = ("placers", "programs")

    def __init__(self) -> None:
        super().__init__(None)
        self.programs: Bounded[Hashable, CachedProgram] = Bounded(
            _limit, used=lambda program: program.used
        )
        self.placers: Bounded[Hashable, Placer] = Bounded(_limit)

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run one operation."""
        for x in args:
            if isinstance(x, Tracer):
                raise leaked(x)
        if primitive.evaluate is not None:
            opts = options()
            if opts.guards_transfers:
                applied(args)
            if opts.checks_values:
                return evaluate(primitive, args, params)
            return primitive.evaluate(*args, **params)
        return self.run(primitive, args, params)

    def run(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run one operation as a program."""
        opts = options()
        if opts.guards_execution:
            check_execution(primitive.name)
        avals = tuple([aval_of(x) for x in args])
        key = (primitive, avals, params_key(params) if params else (), opts.key())
        program = self.programs.peek(key)
        is_elsewhere = not opts.plain_places and _is_elsewhere(args, opts)
        if is_elsewhere or (program is None and is_placed(args)):
            outs = self._placed(key, params)(args)
        else:
            if program is None:
                program = self.programs.put(key, _compile(primitive, avals, params), ENTRY_BYTES)
            try:
                outs = program(args)
            except WrongDevice:
                outs = self._placed(key, params)(args)
        if opts.checks_values:
            inspect_operation(primitive, args, outs, params)
        return outs if primitive.multiple else outs[0]

    def _placed(self, key: Any, params: dict[str, Any]) -> Placer:
        found = self.placers.get(key)
        if found is None:
            primitive, avals = key[:2]
            found = Placer(_program(primitive, avals, params), primitive.name)
            found = self.placers.put(key, found, ENTRY_BYTES)
        return found

    def describe(self) -> str:
        """Say what is being traced, for messages."""
        return "in eager evaluation"


def _program(primitive: Operation, avals: Sequence[ShapedArray], params: dict[str, Any]) -> Jaxpr:
    inferred = types_of_results(primitive, avals, params)
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in (inferred if primitive.multiple else [inferred])]
    eqn = Eqn(primitive, invars, outvars, params, primitive.effects(params))
    return Jaxpr([], invars, [eqn], outvars)


def _compile(
    primitive: Operation, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> CachedProgram:
    jaxpr = _program(primitive, avals, params)
    choice = engine_for(jaxpr, None, options(), is_eager=True)
    return compile_jaxpr(jaxpr, primitive.name, choice=choice)


EVAL = EvalTrace()
set_root_trace(EVAL)


def clear() -> None:
    """Forget the programs of eager operations."""
    EVAL.programs.clear()
    EVAL.placers.clear()
