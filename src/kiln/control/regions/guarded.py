"""Programs whose effects depend on a flag.

Under vmap, examples also run code that is not theirs: a branch that they do not take, iterations
after the end of their loop. Their results are not selected. A flag per example says so, too: its
checks do not fail, and it rewrites what is already in an array. Where operations themselves are
checked, such an example runs them on the operands of another one whose flag holds: those are
checked anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import place_of
from kiln.control.regions.region import memoized
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of, state
from kiln.ir.effects import CHECK
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import and_p, select, stop_gradient
from kiln.ops.indexing.indexing import gather_like, scatter_p
from kiln.ops.indexing.slicing import dynamic_index_in_dim, dynamic_slice_p, dynamic_update_slice_p
from kiln.ops.reductions.reduction import argmax
from kiln.ops.shape import broadcast_in_dim

WRITES = (scatter_p, dynamic_update_slice_p)
"""The operations that write windows into an array."""

_FLAG = ShapedArray((), np.dtype(np.bool_))


def with_guarded_checks(jaxpr: Jaxpr) -> Jaxpr:
    """Return a program of a flag and the inputs, whose checks fail only if the flag holds.

    Raises: NotImplementedError for a check in a region that does not thread a flag.
    """
    return _staged(jaxpr, "guarded checks", lambda xs: _run(jaxpr, xs[0], xs[1:], [])[1:])


def guarded_step(body: Jaxpr, consts: int) -> tuple[Jaxpr, list[bool]]:
    """Return the body of a loop, of a flag and its inputs, and which carries need no selection.

    Those are the carries that the body only writes windows into: if the flag does not hold it
    rewrites what is there, so that the cost of a step depends on the windows, not on the arrays.
    Checks fail only if the flag holds.

    Raises: NotImplementedError for a check in a region that does not thread a flag.
    """
    writes, kept = _written(body, body.invars[consts:])
    step = _staged(body, ("guarded step", consts), lambda xs: _run(body, xs[0], xs[1:], writes)[1:])
    return step, kept


def of_running(
    flags: Any, xs: Sequence[Any], axes: Sequence[int | None], *, constant: bool = False
) -> list[Any]:
    """Return stacks in which examples whose flag does not hold are replaced by one whose flag does.

    Some flag must hold. `axes` are the mapped axes; what is not mapped is returned as it is. With
    `constant`, derivatives treat the replacements as constants.
    """
    if aval_of(flags).shape[0] == 0:
        return list(xs)
    first = argmax(flags, 0, np.int32)
    outs = []
    for x, axis in zip(xs, axes, strict=True):
        if axis is not None:
            shape = aval_of(x).shape
            one = dynamic_index_in_dim(x, first, axis, keepdims=False)
            one = stop_gradient(one) if constant else one
            others = broadcast_in_dim(one, shape, [i for i in range(len(shape)) if i != axis])
            x = select(broadcast_in_dim(flags, shape, (axis,)), x, others)
        outs.append(x)
    return outs


def _staged(jaxpr: Jaxpr, key: Any, run: Callable[[Sequence[Any]], list[Any]]) -> Jaxpr:
    def make() -> Jaxpr:
        avals = [_FLAG, *jaxpr.in_avals]
        return stage_pure(lambda *xs: run(xs), avals, name=jaxpr.name, purpose="vmap")

    return memoized(jaxpr, key, make)


def _written(body: Jaxpr, carry: Sequence[Var]) -> tuple[list[Eqn], list[bool]]:
    made = {v: eqn for eqn in body.eqns if eqn.primitive in WRITES for v in eqn.outvars}
    writes: list[Eqn] = []
    kept = []
    for out, before in zip(body.outvars, carry, strict=True):
        chain, atom = [], out
        while isinstance(atom, Var) and atom in made:
            chain.append(made[atom])
            atom = made[atom].invars[0]
        kept.append(atom is before)
        if kept[-1]:
            writes.extend(chain)
    return writes, kept


def _run(jaxpr: Jaxpr, flag: Any, xs: Sequence[Any], writes: Sequence[Eqn]) -> list[Any]:
    """Apply a program to values under the active trace; return the flag and the results."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, xs, strict=True))
    guarded = {id(eqn) for eqn in writes}

    def read(atom: Any) -> Any:
        return atom.val if atom.is_literal else env[atom]

    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            operands, primitive = [read(v) for v in eqn.invars], eqn.primitive
            if CHECK in eqn.effects and primitive.region:
                outs = _within(eqn, flag, operands)
            else:
                if CHECK in eqn.effects:
                    operands[0] = and_p.bind(operands[0], flag)
                if id(eqn) in guarded:
                    outs = [guarded_write(eqn, flag, operands)]
                else:
                    result = primitive.bind(*operands, **eqn.params)
                    outs = result if primitive.multiple else [result]
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        state.source = previous
    return [flag, *[read(v) for v in jaxpr.outvars]]


def guarded_write(eqn: Eqn, flag: Any, operands: Sequence[Any], places: Sequence[int] = ()) -> Any:
    """Apply a write to values; where the flag does not hold, it rewrites what is there.

    `places` are the axes of the update that the flag has.
    """
    there = _there(eqn, operands)
    spread = broadcast_in_dim(flag, aval_of(there).shape, places)
    update = 2 if eqn.primitive is scatter_p else 1
    values = list(operands)
    values[update] = select(spread, values[update], there)
    return eqn.primitive.bind(*values, **eqn.params)


def _there(eqn: Eqn, operands: Sequence[Any]) -> Any:
    if eqn.primitive is scatter_p:
        operand, indices, updates = operands
        return gather_like(operand, indices, aval_of(updates).shape, eqn.params)
    operand, update, *starts = operands
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=aval_of(update).shape)


def _within(eqn: Eqn, flag: Any, operands: Sequence[Any]) -> list[Any]:
    if eqn.primitive.thread_state is None:
        raise NotImplementedError(
            three_lines(
                f"vmap of {eqn.primitive} at {place_of(eqn.source)}",
                "an example may not come here, and the checks in it would fail for all of them",
                "move the check out of it",
            )
        )

    def extend(inner: Jaxpr) -> Jaxpr:
        return _staged(inner, "guarded state", lambda xs: _run(inner, xs[0], xs[1:], []))

    outs: list[Any] = eqn.primitive.thread_state(extend, [flag], operands, **eqn.params)
    return outs[1:]
