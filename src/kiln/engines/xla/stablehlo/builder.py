"""Builder: the interface for lowerings.

Adds to `Writer` everything that needs more than one operation: loops and branches that thread a
token, programs inside programs, ordinary kiln functions lowered in place, calls to the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import CheckError, UnsupportedPrimitive, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.staging import stage
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.callbacks import HostCallback
from kiln.engines.xla.stablehlo.writer import (
    TOKEN,
    Body,
    Value,
    Writer,
    listed,
    result_types,
    type_of,
    types_of,
)
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray

__all__ = ["TOKEN", "Builder", "Lowering", "Value", "type_of"]

Lowering = Callable[..., Any]
"""`lower(b, out, *operands, **params) -> Value | Sequence[Value]`; `out` lists the result types."""


def is_ordered(jaxpr: Jaxpr) -> bool:
    """Tell whether a jaxpr has ordered effects."""
    return any(effect.ordered for effect in jaxpr.effects)


class Builder(Writer):
    """Appends operations, regions and whole programs to one body."""

    __slots__ = ()

    # Control flow.

    def while_loop(
        self,
        cond: Callable[..., Value],
        body: Body,
        init: Sequence[Value],
        *,
        ordered: bool = False,
        ordered_cond: bool = False,
    ) -> list[Value]:
        """Repeat `values = body(b, *values)` while `cond(b, *values)`; return the last values.

        Set `ordered` if the body has ordered effects, `ordered_cond` if the condition has.
        """
        if ordered_cond:
            return self._while_with_effects_in_cond(cond, body, init)
        avals = [v.aval for v in init]
        before = [self.token_now()] if ordered else []
        test = self.region(avals, lambda b, *xs: [cond(b, *xs)], takes_token=ordered)
        step = self.region(avals, body, takes_token=ordered, gives_token=ordered)
        outs = self.op(
            "stablehlo.while",
            [*before, *init],
            [v.aval for v in before] + avals,
            regions=[test, step],
        )
        return self._after(outs) if ordered else outs

    def _while_with_effects_in_cond(
        self, cond: Callable[..., Value], body: Body, init: Sequence[Value]
    ) -> list[Value]:
        # A condition region cannot yield a token, so the predicate is a carried value.
        first: Value = cond(self, *init)

        def step(b: Builder, _: Value, *xs: Value) -> list[Value]:
            values = list(body(b, *xs))
            return [cond(b, *values), *values]

        outs = self.while_loop(lambda b, p, *xs: p, step, [first, *init], ordered=True)
        return outs[1:]

    def case(
        self,
        index: Value,
        branches: Sequence[Callable[[Builder], Sequence[Value]]],
        out: Sequence[ShapedArray],
        *,
        ordered: bool = False,
    ) -> list[Value]:
        """Run `branches[index](b)`, which may use values from outside.

        `index` is an int32 scalar; if it is out of range, the last branch runs. Set `ordered` if
        some branch has ordered effects.
        """
        before = self.token_now() if ordered else None
        regions = [self.region([], run, gives_token=ordered, token=before) for run in branches]
        outs = self.op(
            "stablehlo.case", [index], [TOKEN, *out] if ordered else list(out), regions=regions
        )
        return self._after(outs) if ordered else outs

    def new_token(self) -> Value:
        """Return a token without predecessors."""
        token: Value = self.emit("stablehlo.create_token : !stablehlo.token", TOKEN)
        return token

    def token_now(self) -> Value:
        """Return the token for the next ordered effect."""
        if self.token is None:
            raise CheckError(
                f"lowering an ordered effect at {self.source}\n"
                "the enclosing function or region was not declared ordered\n"
                "pass ordered=is_ordered(jaxpr) to while_loop or case"
            )
        return self.token

    def _after(self, outs: list[Value]) -> list[Value]:
        self.token = outs[0]
        return outs[1:]

    # Programs inside programs.

    def inline(self, jaxpr: Jaxpr | ClosedJaxpr, values: Sequence[Value]) -> list[Value]:
        """Lower a jaxpr's equations here; `values` stand for its constants and inputs, in order."""
        if isinstance(jaxpr, ClosedJaxpr):
            values = [*[self.host_constant(c) for c in jaxpr.consts], *values]
            jaxpr = jaxpr.jaxpr
        env: dict[Var, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))
        outer = self.source
        for eqn in jaxpr.eqns:
            self.source = eqn.source
            outs = self.equation(eqn, [self._read(env, atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, outs, strict=True))
        self.source = outer
        return [self._read(env, atom) for atom in jaxpr.outvars]

    def _read(self, env: dict[Var, Value], atom: Atom) -> Value:
        if atom.is_literal:
            return self.constant(atom.val, atom.aval)  # type: ignore[union-attr]
        return env[atom]  # type: ignore[index]

    def call(self, jaxpr: Jaxpr, values: Sequence[Value], name: str) -> list[Value]:
        """Call a jaxpr as a private function, which is emitted once for all calls."""
        symbol = self.module.function(jaxpr, name)
        ordered = is_ordered(jaxpr)
        operands = [self.token_now(), *values] if ordered else list(values)
        out = [TOKEN, *jaxpr.out_avals] if ordered else jaxpr.out_avals
        operation = (
            f"func.call @{symbol}({listed(operands)}) : "
            f"({types_of(operands)}) -> {result_types(out)}"
        )
        outs: list[Value] = self.emit(operation, out)
        return self._after(outs) if ordered else outs

    def lower_fun(self, fun: Callable[..., Any], *values: Value, **params: Any) -> Any:
        """Lower `fun(*arrays, **params)`, an ordinary function of kiln's operations.

        Returns a list of Values if `fun` returns a list or tuple, otherwise one Value.
        """
        avals = [v.aval for v in values]
        staged = self.module.staged(fun, avals, params)
        consts = [self.host_constant(c) for c in staged.consts]
        outs = self.inline(staged.jaxpr, [*consts, *values])
        return outs[0] if staged.single else outs

    def host_constant(self, value: Any) -> Value:
        """Return a concrete array or scalar as a constant."""
        if isinstance(value, ConcreteArray):
            return self.constant(host_value(value), value.aval)
        array = np.asarray(value)
        return self.constant(array, ShapedArray(array.shape, array.dtype))

    def equation(self, eqn: Eqn, operands: Sequence[Value]) -> list[Value]:
        """Lower one equation by its lowering, or by the primitive's `expand`."""
        primitive = eqn.primitive
        avals = [v.aval for v in eqn.outvars]
        lowering = self.module.lowerings.get(primitive)
        if lowering is not None:
            result = lowering(self, avals, *operands, **eqn.params)
        elif primitive.has("expand"):
            result = self.lower_fun(primitive.expand, *operands, **eqn.params)
        else:
            raise UnsupportedPrimitive(
                three_lines(
                    f"{primitive.name}: operands "
                    f"{', '.join(str(v.aval) for v in operands)} at {eqn.source}",
                    f"the xla engine has no lowering for {primitive.name!r}, and the primitive "
                    "has no `expand`",
                    f"{primitive.remedy('expand')}, or add an entry to engines/xla/lowerings",
                )
            )
        outs = [result] if isinstance(result, Value) else list(result)
        if [type_of(v.aval) for v in outs] != [type_of(aval) for aval in avals]:
            raise CheckError(
                f"lowering {primitive.name} at {eqn.source}\n"
                f"it returned {', '.join(str(v.aval) for v in outs)} where the equation has "
                f"{', '.join(map(str, avals))}\nmend the lowering"
            )
        return [Value(v.name, aval) for v, aval in zip(outs, avals, strict=True)]

    # The host.

    def callback(
        self,
        fn: Callable[..., Any],
        operands: Sequence[Value],
        out: Sequence[ShapedArray],
        *,
        ordered: bool = False,
        pure: bool = False,
        partitioned: bool = False,
    ) -> list[Value]:
        """Call `fn(*numpy_arrays)` on the host, which returns one array for each type of `out`.

        A `pure` call may be dropped or shared; others run once each time they are reached,
        `ordered` ones in program order. A `partitioned` call runs on each device with its shards of
        the operands, and has no results.
        """
        index = self.module.add_callback(HostCallback(fn, out, token=ordered))
        operands = [self.token_now(), *operands] if ordered else list(operands)
        results = [TOKEN, *out] if ordered else list(out)
        kind = "_partitioned" if partitioned and not ordered else ""
        where = "" if kind else self.module.partition.host_call(len(results))
        attrs = (
            f'api_version = 4 : i32, call_target_name = "xla_ffi{kind}_python_cpu_callback", '
            f"has_side_effect = {'false' if pure else 'true'}, "
            f"backend_config = {{index = {index} : ui64}}, "
            f"operand_layouts = [{', '.join(_row_major(v.aval) for v in operands)}], "
            f"result_layouts = [{', '.join(_row_major(aval) for aval in results)}]"
            f"{where}"
        )
        outs = self.op("stablehlo.custom_call", operands, results, attrs)
        return [self._given_to_all(x) for x in (self._after(outs) if ordered else outs)]

    def _given_to_all(self, x: Value) -> Value:
        """Broadcast a value that one device received from the host to all devices."""
        whole = self.module.partition.whole(x.ndim)
        if not whole:
            return x
        return self.emit(f"sdy.sharding_constraint {x} {whole} : {type_of(x.aval)}", x.aval)


def _row_major(aval: ShapedArray) -> str:
    rank = 0 if aval is TOKEN else len(text.host_dtype(aval)[0])
    order = text.int_list(range(rank - 1, -1, -1)) if rank else ""
    return f"dense<{order}> : tensor<{rank}xindex>"


class Staged(NamedTuple):
    """A recorded function of kiln's operations."""

    jaxpr: Jaxpr
    consts: Sequence[Any]
    single: bool


def record(fun: Callable[..., Any], avals: Sequence[ShapedArray], params: Any) -> Staged:
    """Record a function that returns one array, or a sequence of them."""
    single = False

    def flat(*tracers: Any) -> Sequence[Any]:
        nonlocal single
        out = fun(*tracers, **params)
        single = not isinstance(out, (list, tuple))
        return [out] if single else out

    jaxpr, consts = stage(flat, avals, purpose="lowering")
    return Staged(jaxpr, consts, single)


def numbers() -> Iterator[int]:
    """Return a new sequence of names for one function."""
    return itertools.count()
