"""Staging: the trace that records a jaxpr.

Values that the function closes over become operands: `stage` returns them with the jaxpr. Python
and NumPy scalars become literals. `eval_jaxpr` is the inverse: it applies a jaxpr's equations under
the active trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base.errors import ShardingTypeError, three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source, in_scopes
from kiln.core.arrays.array import from_host, host_value
from kiln.core.leaks import check_leaks
from kiln.core.ref import Ref, not_an_array
from kiln.core.trace import Trace, Tracer, aval_of, check_live, state
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from kiln.ir.operation import Operation
from kiln.ir.ref_type import is_ref_type
from kiln.ir.sharded_types import compiler_decides, has_sharding, has_sums, is_same_mesh, mesh_of
from kiln.ir.shardings.sums import NO_SUMS, NOWHERE
from kiln.ir.types import ShapedArray, ShardedArray, plain, with_split


class StagingTracer(Tracer):
    """A value of a program being recorded."""

    __slots__ = ("variable",)

    def __init__(self, owner: Trace, var: Var) -> None:
        self.owner = owner
        self.variable = var
        self.aval = var.aval


class StagingTrace(Trace):
    """Records every operation as an equation."""

    __slots__ = ("arg_names", "consts", "definition", "eqns", "has_sharding", "invars", "purpose")

    def __init__(
        self,
        parent: Trace | None,
        *,
        definition: str = "",
        purpose: str = "jit",
        arg_names: Sequence[str] = (),
    ) -> None:
        super().__init__(parent)
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        self.consts: dict[int, tuple[Var, Any]] = {}
        self.definition = definition
        self.purpose = purpose
        self.arg_names = arg_names
        # Whether types in the program say how arrays are sharded: only then are sharding rules
        # applied.
        self.has_sharding = False

    def argument(self, aval: Any) -> Any:
        """Add an input and return its tracer, or the reference that it is."""
        var = Var(aval)
        self.invars.append(var)
        if type(aval) is ShardedArray:
            self.has_sharding = True
        if is_ref_type(aval):
            return Ref(aval, self, variable=var)
        return StagingTracer(self, var)

    def atom(self, x: Any) -> Atom:
        """Return the atom for a value in the program: a variable, a literal, or a constant."""
        if type(x) is StagingTracer and x.owner is self:
            return x.variable
        if isinstance(x, Tracer):
            check_live(x)
        elif isinstance(x, (bool, int, float, complex, np.generic)):
            return _literal(x)
        elif isinstance(x, np.ndarray):
            x = from_host(np.array(x, dtype=aval_of(x).dtype))
        elif type(x) is Ref and x.owner is self and x.variable is not None:
            found: Var = x.variable
            return found
        known = self.consts.get(id(x))
        if known is None:
            known = self.consts[id(x)] = (Var(aval_of(x)), x)
            if type(known[0].aval) is ShardedArray:
                self.has_sharding = True
        return known[0]

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record an equation."""
        if primitive.stage is not None:
            return primitive.stage(self, args, params)
        atoms: list[Atom] = []
        for x in args:
            if type(x) is StagingTracer and x.owner is self:
                atoms.append(x.variable)
            elif type(x) is Ref and not primitive.takes_refs:
                raise not_an_array(primitive.name, x)
            else:
                atoms.append(self.atom(x))
        avals = [atom.aval for atom in atoms]
        if self.has_sharding:
            inferred = types_of_results(primitive, avals, params)
        else:
            inferred = primitive.infer(*avals, **params)
        if state.tracked and not primitive.region:
            inferred = _varying(primitive, atoms, inferred, params)
        return self.record(primitive, atoms, inferred, params)

    def record(
        self, primitive: Operation, atoms: Sequence[Atom], inferred: Any, params: dict[str, Any]
    ) -> Any:
        """Append an equation with results of the given types and return their tracers."""
        if primitive.multiple:
            outs = [StagingTracer(self, Var(aval)) for aval in inferred]
            if primitive.infers_shardings and has_sharding(inferred):
                self.has_sharding = True
            outvars = [out.variable for out in outs]
            result: Any = outs
        else:
            out = StagingTracer(self, Var(inferred))
            outvars = [out.variable]
            result = out
        source = state.source or current_source()
        self.eqns.append(Eqn(primitive, atoms, outvars, params, primitive.effects(params), source))
        return result

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        what = f"the function {self.definition}" if self.definition else "a function"
        return f"while tracing {what} for {self.purpose}"

    def origin(self, tracer: Tracer) -> str:
        """Describe the origin of a tracer: the equation, or that it is an argument."""
        assert isinstance(tracer, StagingTracer)
        var = tracer.variable
        for eqn in self.eqns:
            if any(v is var for v in eqn.outvars):
                source = f" at {eqn.source} in {eqn.source.function}" if eqn.source else ""
                return f", made by `{eqn.primitive.name}`{source}"
        at = next((i for i, v in enumerate(self.invars) if v is var), None)
        if at is None or at >= len(self.arg_names):
            return ", an argument of the function"
        return f", the argument {self.arg_names[at]}"

    def responsible(self, tracer: Tracer) -> list[tuple[str, ShapedArray]]:
        """Return names and types of the user arguments that a tracer depends on."""
        assert isinstance(tracer, StagingTracer)
        made_by = {id(v): eqn for eqn in self.eqns for v in eqn.outvars}
        seen: set[int] = set()
        todo: list[Any] = [tracer.variable]
        while todo:
            atom = todo.pop()
            if atom.is_literal or id(atom) in seen:
                continue
            seen.add(id(atom))
            if id(atom) in made_by:
                todo.extend(made_by[id(atom)].invars)
        return [
            (name, var.aval)
            for name, var in zip(self.arg_names, self.invars, strict=False)
            if id(var) in seen
        ]


def recording() -> StagingTrace | None:
    """Return the trace that is currently recording operations as equations, if there is one."""
    trace: Trace | None = state.trace
    while trace is not None:
        # Partial evaluation records too, but only for itself.
        if type(trace) is StagingTrace:
            return trace
        trace = trace.parent
    return None


def stand_in(x: Any) -> Tracer | None:
    """Return a tracer of the program being recorded for an object with a type but no value.

    The program can be inspected, but cannot run.
    """
    trace = recording()
    if trace is None:
        return None
    known = trace.consts.get(id(x))
    if known is None:
        known = trace.consts[id(x)] = (Var(aval_of(x)), x)
    return StagingTracer(trace, known[0])


def _varying(
    primitive: Operation, atoms: Sequence[Atom], inferred: Any, params: dict[str, Any]
) -> Any:
    operands = NOWHERE.union(*[atom.aval.varying for atom in atoms])
    varying = primitive.varies(operands, params)
    if primitive.multiple:
        return [aval.with_(varying=varying) for aval in inferred]
    return inferred.with_(varying=varying)


def _literal(x: Any) -> Literal:
    aval = aval_of(x)
    # A flag among residuals, say, must come back as what it was.
    if aval.weak_type or type(x) is bool:
        return Literal(x, aval)
    return Literal(aval.dtype.type(x), aval)


def check_may_trace(definition: str, purpose: str) -> None:
    """Check that tracing is allowed here.

    Raises: RuntimeError if the option `no_tracing` forbids it.
    """
    if not options().no_tracing:
        return
    raise RuntimeError(
        three_lines(
            f"{purpose} of {definition} at {current_source()}",
            f"re-tracing function {definition} for `{purpose}`, but 'no_tracing' is set",
            "call it with such arguments before, or leave the guard: kiln.no_tracing(False)",
        )
    )


def stage(
    fun: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    *,
    name: str = "",
    definition: str = "",
    purpose: str = "jit",
    arg_names: Sequence[str] = (),
) -> tuple[Jaxpr, list[Any]]:
    """Record `fun(*tracers) -> outputs` as a jaxpr; also return the values that it closes over."""
    previous = state.trace
    source = state.source
    trace = StagingTrace(previous, definition=definition, purpose=purpose, arg_names=arg_names)
    tracers = [trace.argument(aval) for aval in avals]
    state.trace = trace
    state.source = None
    try:
        # A program has the names of scopes within it: others run it too.
        with in_scopes(()):
            outvars = [trace.atom(x) for x in fun(*tracers)]
        del tracers
    finally:
        state.trace = previous
        state.source = source
        trace.live = False
    check_leaks(trace)
    captured = list(trace.consts.values())
    jaxpr = Jaxpr(
        [var for var, _ in captured],
        trace.invars,
        trace.eqns,
        outvars,
        name=name,
        arg_names=arg_names,
    )
    return jaxpr, [value for _, value in captured]


def stage_region(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], **info: Any
) -> tuple[Jaxpr, list[Any]]:
    """Like `stage`, with the closed-over values as leading inputs of a jaxpr without constants."""
    jaxpr, consts = stage(fun, avals, **info)
    return hoist_constants(jaxpr), consts


def hoist_constants(jaxpr: Jaxpr) -> Jaxpr:
    """Turn a jaxpr's constants into leading inputs."""
    if not jaxpr.constvars:
        return jaxpr
    names = [""] * len(jaxpr.constvars)
    return jaxpr.with_(
        constvars=[],
        invars=[*jaxpr.constvars, *jaxpr.invars],
        arg_names=[*names, *jaxpr.arg_names] if jaxpr.arg_names else (),
    )


def stage_pure(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], **info: Any
) -> Jaxpr:
    """Like `stage`, for programs derived from others: concrete values become literals.

    Raises: TypeError if the function closes over a tracer.
    """
    jaxpr, captured = stage_capturing(fun, avals, **info)
    if captured:
        raise TypeError(
            three_lines(
                f"{info.get('purpose', 'staging')} of {info.get('name') or 'a function'}",
                f"a rule closes over a traced value of type {captured[0].aval}",
                "pass the value to the function as an argument",
            )
        )
    return jaxpr


def stage_capturing(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], **info: Any
) -> tuple[Jaxpr, list[Any]]:
    """Like `stage_pure`, with the tracers that the function closes over as leading inputs."""
    jaxpr, consts = stage(fun, avals, **info)
    if not consts:
        return jaxpr, []
    literals: dict[int, Literal] = {}
    variables, captured = [], []
    for var, value in zip(jaxpr.constvars, consts, strict=True):
        if isinstance(value, (Tracer, Ref)):
            variables.append(var)
            captured.append(value)
        else:
            literals[id(var)] = Literal(host_value(value), var.aval)

    def atom(v: Atom) -> Atom:
        return literals.get(id(v), v)

    found = jaxpr.with_(
        constvars=variables,
        eqns=[eqn.with_(invars=[atom(v) for v in eqn.invars]) for eqn in jaxpr.eqns],
        outvars=[atom(v) for v in jaxpr.outvars],
    )
    return hoist_constants(found), captured


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Apply a jaxpr's equations to values, under the active trace."""
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            values = [v.val if v.is_literal else env[v] for v in eqn.invars]  # type: ignore[union-attr, index]
            result = eqn.primitive.bind(*values, **eqn.params)
            if eqn.primitive.multiple:
                env.update(zip(eqn.outvars, result, strict=True))
            else:
                env[eqn.outvars[0]] = result
    finally:
        state.source = previous
    return [v.val if v.is_literal else env[v] for v in jaxpr.outvars]  # type: ignore[union-attr, index]


def types_of_results(primitive: Operation, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return what `infer` does, with the shardings that follow from those of the operands.

    Raises: ShardingTypeError if the primitive has no rule, or they do not determine the result's;
        ValueError if they are over another mesh than the one in force.
    """
    if primitive.infers_shardings:
        return primitive.infer(*avals, **params)
    found = primitive.infer(*map(plain, avals), **params)
    if not has_sharding(avals) or compiler_decides():
        return found
    mesh = mesh_of(avals)
    # Of an equation that was recorded before, the mesh that was in force then need not be now.
    in_force = options().mesh if state.source is None else None
    if in_force is not None and not is_same_mesh(mesh, in_force):
        raise ValueError(
            three_lines(
                asked(primitive.name, avals),
                f"For primitive {primitive.name}, context mesh {in_force} should match the aval "
                f"mesh {mesh}",
                "set the mesh of the operands: kiln.set_mesh(mesh), or bring them to the one set",
            )
        )
    results = found if primitive.multiple else [found]
    splits = primitive.splits(avals, results, params)
    sums = primitive.sums(avals, params) if has_sums(avals) else NO_SUMS
    try:
        typed = [
            with_split(aval, mesh, split, sums)
            for aval, split in zip(results, splits if primitive.multiple else [splits], strict=True)
        ]
    except ShardingTypeError as error:
        result, wrong, remedy = str(error).splitlines()
        given = ", ".join(aval.str_short() for aval in avals)
        raise ShardingTypeError(
            three_lines(
                asked(primitive.name, avals),
                f"{primitive.name} operation with inputs: {given} produces an illegally sharded "
                f"result: {result}: {wrong}",
                remedy,
            )
        ) from None
    return typed if primitive.multiple else typed[0]


def asked(name: str, avals: Sequence[Any]) -> str:
    """Describe, for messages, an operation and the types of its operands."""
    return f"{name}: operands {', '.join(map(str, avals))} at {current_source()}"


def refuse(name: str, avals: Sequence[Any], wrong: str, remedy: str = "") -> NoReturn:
    """Raise the ShardingTypeError of an operation."""
    remedy = remedy or "reshard an operand: kiln.reshard(x, P(...))"
    raise ShardingTypeError(three_lines(asked(name, avals), wrong, remedy))
