"""The primitive `scan`: a loop of known length that carries values and stacks results.

Operands are consts, carry, xs; the body maps (consts, carry, one slice of each of the xs) to
(carry, one slice of each of the ys). Every rule gives another scan, whose body is derived from this
one and stored on its jaxpr. Which parts of a carry are mapped, moving, unknown or needed is a
fixpoint over iterations. Splitting a scan in two is in `scan_split.py`; user functions, in
`loops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.scan_split import split_by_counts, split_scan
from kiln.control.regions.region import (
    Extend,
    Region,
    after_state,
    fill_zeros,
    is_pure,
    memoized,
    merge,
    pull_back,
    select_by,
)
from kiln.control.regions.selected_writes import without_copies
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import begin_iteration, meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray, ShardedArray
from kiln.ops.elements.families import add
from kiln.ops.shape import filled, mapped_at, move_axis, zeros_of
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr


def stacked(aval: ShapedArray, length: Dim) -> ShapedArray:
    """Return the type of `length` values of a type, along a new leading axis."""
    return aval.with_axis(0, length)


def slice_type(aval: ShapedArray) -> ShapedArray:
    """Return the type of the slices along the leading axis.

    Raises: ValueError if a mesh axis splits it: a device would have only some of the steps.
    """
    if type(aval) is ShardedArray and aval.split[0] is not None:
        raise ValueError(
            three_lines(
                f"scan over xs of type {aval} at {current_source()}",
                "0th dimension of all xs should be replicated, and "
                f"{aval.split[0]} splits that of these",
                "gather it: kiln.reshard(xs, P(None, ...))",
            )
        )
    return aval.without_axis(0)


class Scan(Region):
    """Run `jaxpr` `length` times; backwards over xs and ys if `reverse`.

    `unroll` is the number of steps per iteration of the compiled loop.
    """

    name = "scan"

    def first_stacked(self, params: dict[str, Any]) -> tuple[int, int]:
        return params["num_consts"] + params["num_carry"], params["num_carry"]

    def infer(
        self,
        *operands: Any,
        jaxpr: Jaxpr,
        length: Dim,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> list[ShapedArray]:
        expected, outs = jaxpr.in_avals, jaxpr.out_avals
        rows = num_consts + num_carry
        expected[rows:] = [stacked(aval, length) for aval in expected[rows:]]
        check_operands(self.name, operands, expected)
        check_operands(f"{self.name}, carry", outs[:num_carry], expected[num_consts:rows])
        carry = [
            out.with_(varying=out.varying | before.varying)
            for out, before in zip(outs, expected[num_consts:rows], strict=False)
        ]
        return [*carry, *[stacked(aval, length) for aval in outs[num_carry:]]]

    def numpy(
        self,
        *operands: Any,
        jaxpr: Jaxpr,
        length: int,
        reverse: bool,
        num_consts: int,
        num_carry: int,
        unroll: int,
    ) -> Any:
        consts, carry, xs = split_by_counts(operands, num_consts, num_carry)
        rows: list[list[Any]] = []
        for i in reversed(range(length)) if reverse else range(length):
            begin_iteration(i)
            outs = meaning(jaxpr, [*consts, *carry, *[x[i, ...] for x in xs]])
            carry = outs[:num_carry]
            rows.append(outs[num_carry:])
        if not rows:
            types = [aval.physical() for aval in jaxpr.out_avals[num_carry:]]
            return [*carry, *[np.zeros((0, *a.shape), a.dtype) for a in types]]
        return [*carry, *[np.stack(y) for y in zip(*(rows[::-1] if reverse else rows))]]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        jaxpr, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
        given = [not is_zero(t) for t in tangents]
        body, moving, out_moving = _jvp_body(jaxpr, nc, nk, given)
        consts, carry, xs = split_by_counts(primals, nc, nk)
        moved = [filled(t) if m else None for t, m in zip(tangents, moving, strict=True)]
        parts = split_by_counts(moved, nc, nk)
        dconsts, dcarry, dxs = ([t for t in part if t is not None] for part in parts)
        counts = {"num_consts": nc + len(dconsts), "num_carry": nk + len(dcarry)}
        operands = [*consts, *dconsts, *carry, *dcarry, *xs, *dxs]
        outs = self.bind(*operands, **{**params, "jaxpr": body, **counts})
        ny = len(jaxpr.outvars) - nk
        carry, dcarry, ys = split_by_counts(outs, nk, len(dcarry))
        types = [aval_of(x).tangent() for x in (*carry, *ys[:ny])]
        return [*carry, *ys[:ny]], fill_zeros(out_moving, [*dcarry, *ys[ny:]], types)

    def batch_over(
        self, axis: MappedAxis, operands: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        jaxpr, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
        consts, carry, xs = split_by_counts(operands, nc, nk)
        at_consts, at_carry, at_xs = split_by_counts(axes, nc, nk)
        # The scanned axis stays in front; a mapped one there moves behind it.
        xs = [move_axis(x, 0, 1) if at == 0 else x for x, at in zip(xs, at_xs, strict=True)]
        at_rows = [at if at is None else max(at - 1, 0) for at in at_xs]
        mapped = [at is not None for at in at_carry]
        ny = len(jaxpr.outvars) - nk
        while True:
            places = [*at_consts, *[0 if m else None for m in mapped], *at_rows]
            body, out_mapped = batch_jaxpr(jaxpr, axis, places, [*mapped, *[False] * ny])
            if out_mapped[:nk] == mapped:
                break
            mapped = out_mapped[:nk]
        carry = [
            mapped_at(x, axis.size, at, 0) if m else x
            for x, at, m in zip(carry, at_carry, mapped, strict=True)
        ]
        outs = self.bind(*consts, *carry, *xs, **{**params, "jaxpr": without_copies(body)})
        at_outs = [0] * nk + [1] * ny
        return outs, [at if m else None for at, m in zip(at_outs, out_mapped, strict=True)]

    def partial_eval(self, trace: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        parts = split_scan(params, [trace.unknown(x) for x in operands])

        def known_bind(primitive: Any, *xs: Any, **known_params: Any) -> Any:
            return trace.known_bind(primitive, xs, known_params)

        known, staged_operands = parts.run(self, known_bind, operands, params)
        atoms = [trace.atom(x) for x in staged_operands]
        staged_params = parts.staged_params(params)
        types = self.infer(*[atom.aval for atom in atoms], **staged_params)
        staged = trace.record(self, atoms, types, staged_params)
        return merge(parts.unknown_out, staged, known)

    def transpose(self, cts: Sequence[Any], *operands: Any, **params: Any) -> Any:
        jaxpr, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
        linear = [is_linear(x) for x in operands]
        # A carry slot is linear, whether its initial value is a linear operand or a known zero.
        slots = [*linear[:nc], *[True] * nk, *linear[nc + nk :]]
        if is_pure(jaxpr, slots):
            return self._pull_back(cts, operands, slots, params)
        parts = split_scan(params, linear)
        _, staged_operands = parts.run(self, _bind, operands, params)
        wanted = select_by(parts.unknown_out, cts)
        pulled = self.transpose(wanted, *staged_operands, **parts.staged_params(params))
        return parts.operands_of_staged(pulled)

    def _pull_back(
        self,
        cts: Sequence[Any],
        operands: Sequence[Any],
        linear: Sequence[bool],
        params: dict[str, Any],
    ) -> list[Any]:
        jaxpr, nc, nk = params["jaxpr"], params["num_consts"], params["num_carry"]
        body, moving, there = _transposed_body(
            jaxpr, nc, nk, linear, [not is_zero(ct) for ct in cts]
        )
        consts, _, xs = split_by_counts(operands, nc, nk)
        lin_consts, _, lin_xs = split_by_counts(linear, nc, nk)
        fixed, fixed_xs = select_by(lin_consts, consts, False), select_by(lin_xs, xs, False)
        pulled = select_by(lin_consts, consts)
        there_consts, there_carry, there_xs = split_by_counts(there, len(pulled), nk)
        back = [filled(ct) for ct in select_by(moving[:nk], cts[:nk])]
        sums = [zeros_of(c.aval) for c in select_by(there_consts, pulled)]
        rows = select_by(moving[nk:], cts[nk:])
        outs = self.bind(
            *(*fixed, *back, *sums, *fixed_xs, *rows),
            jaxpr=body,
            length=params["length"],
            reverse=not params["reverse"],
            num_consts=len(fixed),
            num_carry=len(back) + len(sums),
            unroll=params["unroll"],
        )
        back, sums, rows = split_by_counts(outs, len(back), len(sums))
        found = [
            *merge(lin_consts, _spread(there_consts, sums), [None] * len(fixed)),
            *_spread(there_carry, back),
            *merge(lin_xs, _spread(there_xs, rows), [None] * len(fixed_xs)),
        ]
        return [ct if is_linear(x) else None for ct, x in zip(found, operands, strict=True)]

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        jaxpr, nc, nk = (eqn.params[name] for name in ("jaxpr", "num_consts", "num_carry"))
        consts, carry, xs = split_by_counts(operands, nc, nk)
        length = eqn.params["length"] if isinstance(eqn.params["length"], int) else None
        rows = key_uses.Rows(xs)

        def iteration(carry: Sequence[Keys]) -> Sequence[Keys]:
            operands = [*consts, *carry, *rows.next()]
            return key_uses.run_body("scan body", jaxpr, operands)[:nk]

        last = key_uses.after_iterations(iteration, carry, length)
        rows.use_rest(eqn)
        return [*last, *[key_uses.fresh(v.aval) for v in eqn.outvars[nk:]]]

    def programs(self, operands: Sequence[Any], **params: Any) -> Any:
        return [(params["jaxpr"], operands)]

    def thread_state(
        self, extend: Extend, state: Sequence[Any], operands: Sequence[Any], **params: Any
    ) -> Any:
        """Carry the state along."""
        nc, nk, count = params["num_consts"], params["num_carry"], len(state)
        consts, rest = operands[:nc], operands[nc:]
        body = after_state(extend(params["jaxpr"]), count, nc)
        changed = {"jaxpr": body, "num_carry": nk + count}
        return self.bind(*consts, *state, *rest, **{**params, **changed})

    @staticmethod
    def live(eqn: Eqn, used: Sequence[bool]) -> Eqn:
        jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
        body, kept_out, kept = memoized(
            jaxpr, ("scan live", nc, nk, tuple(used)), lambda: _live_body(jaxpr, nc, nk, used)
        )
        counts = {"num_consts": kept[:nc].count(True), "num_carry": kept_out[:nk].count(True)}
        return eqn.with_(
            invars=select_by(kept, eqn.invars),
            outvars=select_by(kept_out, eqn.outvars),
            params={**eqn.params, "jaxpr": body, **counts},
            effects=body.effects,
        )


def check_operands(what: str, found: Sequence[Any], expected: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless types agree, up to weak types."""
    if len(found) == len(expected) and all(
        a.same_type(b) for a, b in zip(found, expected, strict=True)
    ):
        return
    raise TypeError(
        three_lines(
            f"{what}: operands {', '.join(map(str, found))}",
            f"the body takes {', '.join(map(str, expected))}",
            "pass operands of these types, in the order consts, carry, xs",
        )
    )


def _bind(primitive: Any, *xs: Any, **params: Any) -> Any:
    return primitive.bind(*xs, **params)


def _spread(there: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    given = iter(values)
    return [next(given) if t else None for t in there]


def _jvp_body(
    jaxpr: Jaxpr, nc: int, nk: int, given: Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Return the body over (consts, dconsts), (carry, dcarry), (xs, dxs), and what moves."""
    key = ("scan jvp", nc, nk, tuple(given))
    return memoized(jaxpr, key, lambda: _make_jvp_body(jaxpr, nc, nk, given))


def _make_jvp_body(
    jaxpr: Jaxpr, nc: int, nk: int, given: Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    moving = list(given)
    rest = [False] * (len(jaxpr.outvars) - nk)
    while True:
        both, out_moving = jvp_jaxpr(jaxpr, moving, [*moving[nc : nc + nk], *rest])
        if out_moving[:nk] == moving[nc : nc + nk]:
            break
        moving[nc : nc + nk] = out_moving[:nk]
    n, m = len(jaxpr.invars), len(jaxpr.outvars)
    consts, carry, xs = split_by_counts(both.invars[:n], nc, nk)
    mc, mk, _ = split_by_counts(moving, nc, nk)
    dconsts, dcarry, dxs = split_by_counts(both.invars[n:], mc.count(True), mk.count(True))
    out_carry, ys = both.outvars[:nk], both.outvars[nk:m]
    dout, dys = both.outvars[m : m + len(dcarry)], both.outvars[m + len(dcarry) :]
    body = both.with_(
        invars=[*consts, *dconsts, *carry, *dcarry, *xs, *dxs],
        outvars=[*out_carry, *dout, *ys, *dys],
        arg_names=(),
    )
    return body, moving, out_moving


def _transposed_body(
    jaxpr: Jaxpr, nc: int, nk: int, linear: Sequence[bool], given: Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Return the body that pulls back one step.

    Its consts are the non-linear consts; its carry the cotangents of the carry, then the sums of
    those of the linear consts; its xs the non-linear xs, then the cotangents of the ys. Also
    returned: which cotangents of results are nonzero, and which of linear operands are present.
    """
    key = ("scan transpose", nc, nk, tuple(linear), tuple(given))
    return memoized(jaxpr, key, lambda: _make_transposed_body(jaxpr, nc, nk, linear, given))


def _make_transposed_body(
    jaxpr: Jaxpr, nc: int, nk: int, linear: Sequence[bool], given: Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    moving = list(given)
    lc, _, lx = split_by_counts(linear, nc, nk)
    n_consts, n_xs = lc.count(True), lx.count(True)
    while True:
        force = [*[False] * n_consts, *moving[:nk], *[False] * n_xs]
        step, there = pull_back(jaxpr, linear, moving, force)
        if there[n_consts : n_consts + nk] == moving[:nk]:
            break
        moving[:nk] = there[n_consts : n_consts + nk]
    fixed, fixed_xs = lc.count(False), lx.count(False)
    backs, sums = moving[:nk].count(True), there[:n_consts].count(True)

    def body(*args: Any) -> list[Any]:
        fixed_in, back, total, rest = split_by_counts(args, fixed, backs, sums)
        outs = eval_jaxpr(step, (), *fixed_in, *rest[:fixed_xs], *back, *rest[fixed_xs:])
        terms, back, rows = split_by_counts(outs, sums, backs)
        return [*back, *map(add, total, terms), *rows]

    types = step.in_avals
    totals = [v.aval for v in select_by(there[:n_consts], select_by(lc, jaxpr.invars[:nc]))]
    ins, in_xs, back_types, rows = split_by_counts(types, fixed, fixed_xs, backs)
    avals = [*ins, *back_types, *totals, *in_xs, *rows]
    made = stage_pure(body, avals, name=jaxpr.name, purpose="transposition")
    return made, moving, there


def _live_body(
    jaxpr: Jaxpr, nc: int, nk: int, used: Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    kept = list(used)
    while True:
        body, needed = eliminate_dead_code(jaxpr, kept)
        carry = [k or n for k, n in zip(kept[:nk], needed[nc : nc + nk], strict=True)]
        if carry == kept[:nk]:
            break
        kept[:nk] = carry
    needed[nc : nc + nk] = carry
    return drop_inputs(body, needed), kept, needed


scan_p = Scan()
