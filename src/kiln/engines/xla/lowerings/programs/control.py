"""Loops and branches: `while` and `cond` directly, `scan` as a while loop over slices.

A compiled scan carries an induction variable, and writes each step's results to preallocated
arrays. It runs `unroll` steps per iteration; the remainder, and a loop of a single iteration, are
unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln.control.cond import cond_p
from kiln.control.loops.scan import scan_p
from kiln.control.loops.scan_split import split_by_counts
from kiln.control.loops.while_loop import while_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, is_ordered
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]
_COUNTER = ShapedArray((), np.dtype(np.int32))


def _while(
    b: Builder,
    out: Out,
    *operands: Value,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> Sequence[Value]:
    cond_consts, body_consts, carry = split_by_counts(operands, cond_nconsts, body_nconsts)

    def goes_on(inner: Builder, *values: Value) -> Value:
        (flag,) = inner.inline(cond_jaxpr, [*cond_consts, *values])
        return flag

    def step(inner: Builder, *values: Value) -> list[Value]:
        return inner.inline(body_jaxpr, [*body_consts, *values])

    return b.while_loop(
        goes_on, step, carry, ordered=is_ordered(body_jaxpr), ordered_cond=is_ordered(cond_jaxpr)
    )


def _cond(
    b: Builder, out: Out, index: Value, *operands: Value, branches: tuple[Jaxpr, ...]
) -> Sequence[Value]:
    def run(branch: Jaxpr) -> Lowering:
        return lambda inner: inner.inline(branch, operands)

    return b.case(
        index, [run(branch) for branch in branches], out, ordered=any(map(is_ordered, branches))
    )


def _scan(
    b: Builder,
    out: Out,
    *operands: Value,
    jaxpr: Jaxpr,
    length: Dim,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> Sequence[Value]:
    consts, carry, xs = split_by_counts(operands, num_consts, num_carry)
    ys = [b.constant(0, aval) for aval in out[num_carry:]]

    def steps(inner: Builder, start: Value, count: int, state: Sequence[Value]) -> list[Value]:
        """Emit the steps start, start + 1, ...; the state is the carry, then the ys so far."""
        for i in range(count):
            at = inner.apply("add", start, inner.like(i, start)) if i else start
            if reverse:
                at = inner.apply("subtract", inner.like(length - 1, at), at)
            rows = [_row(inner, x, at) for x in xs]
            values, made = split_by_counts(state, num_carry)
            outs = inner.inline(jaxpr, [*consts, *values, *rows])
            made = [
                _with_row(inner, y, row, at) for y, row in zip(made, outs[num_carry:], strict=True)
            ]
            state = [*outs[:num_carry], *made]
        return list(state)

    state = [*carry, *ys]
    whole: Dim
    if isinstance(length, Size):
        # The trip count is unknown: each iteration is one step.
        unroll, whole, rest = 1, length, 0
    else:
        iterations, rest = divmod(length, unroll)
        if iterations <= 1:
            iterations, rest = 0, length
        whole = iterations * unroll
    if isinstance(whole, Size) or whole:

        def goes_on(inner: Builder, i: Value, *_: Value) -> Value:
            return inner.compare("LT", i, inner.like(whole, i))

        def iteration(inner: Builder, i: Value, *values: Value) -> list[Value]:
            after = inner.apply("add", i, inner.like(unroll, i))
            return [after, *steps(inner, i, unroll, values)]

        first = b.constant(0, _COUNTER)
        _, *state = b.while_loop(goes_on, iteration, [first, *state], ordered=is_ordered(jaxpr))
    return steps(b, b.constant(length - rest, _COUNTER), rest, state)


def _corner(b: Builder, x: Value, at: Value) -> list[Value]:
    """Return the indices of the first element of row `at`."""
    return [at, *[b.constant(0, _COUNTER)] * (x.ndim - 1)]


def _row(b: Builder, x: Value, at: Value) -> Value:
    shape = x.shape[1:]
    return b.reshape(b.dynamic_slice(x, _corner(b, x, at), (1, *shape)), shape)


def _with_row(b: Builder, x: Value, row: Value, at: Value) -> Value:
    update = b.reshape(Value(row.name, x.aval.with_(shape=row.shape)), (1, *row.shape))
    return b.op("stablehlo.dynamic_update_slice", [x, update, *_corner(b, x, at)], x.aval)


LOWERINGS: dict[Primitive, Lowering] = {while_p: _while, cond_p: _cond, scan_p: _scan}
