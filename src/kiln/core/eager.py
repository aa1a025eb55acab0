"""The trace that runs now: each operation is a cached program of one equation.

Primitives marked `on_host` run by their NumPy meaning, on the reference engine, so that a new shape
compiles nothing; all others are compiled.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kiln.base.bounded import Bounded
from kiln.base.config import options
from kiln.base.memory import MB
from kiln.core.array import ConcreteArray, host_value
from kiln.core.compilation import Compiled, compile_jaxpr
from kiln.core.trace import Trace, Tracer, aval_of, install_root, leaked
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ir.rewrite import params_key
from kiln.ir.types import ShapedArray

PLAN_BYTES = 4096
"""A plan with its key. What it runs is counted among the executables."""


class EvalTrace(Trace):
    """Runs operations at once."""

    __slots__ = ("plans",)

    def __init__(self) -> None:
        super().__init__(None)
        self.plans: Bounded[Hashable, Compiled] = Bounded(
            lambda: options().eager_cache_mb * MB, used=lambda plan: plan.used
        )

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Run one operation."""
        for x in args:
            if isinstance(x, Tracer):
                raise leaked(x)
        if primitive.evaluate is not None:
            return primitive.evaluate(*args, **params)
        avals = tuple([aval_of(x) for x in args])
        key = (primitive, avals, params_key(params) if params else (), options().key())
        plan = self.plans.peek(key)
        if plan is None:
            plan = self.plans.put(key, _compile(primitive, avals, params), PLAN_BYTES)
        outs = plan(args)
        if options().debug_nans:
            check_finite(primitive.name, outs)
        return outs if primitive.multiple else outs[0]

    def describe(self) -> str:
        """Say what is being traced, for messages."""
        return "in eager evaluation"


def _compile(
    primitive: Operation, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> Compiled:
    inferred = primitive.infer(*avals, **params)
    invars = [Var(aval) for aval in avals]
    outvars = [Var(aval) for aval in (inferred if primitive.multiple else [inferred])]
    eqn = Eqn(primitive, invars, outvars, params, primitive.effects(params))
    on_host = options().engine is None and primitive.runs_on_host(avals)
    on = "reference" if on_host else None
    return compile_jaxpr(Jaxpr([], invars, [eqn], outvars), primitive.name, on=on)


def check_finite(what: str, outs: Sequence[ConcreteArray]) -> None:
    """Raise FloatingPointError if a result holds a nan."""
    for out in outs:
        value = host_value(out)
        if value.dtype.kind in "fc" and np.isnan(value).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {what}")


EVAL = EvalTrace()
install_root(EVAL)


def clear() -> None:
    """Forget the programs of eager operations."""
    EVAL.plans.clear()
