"""The primitive `while`: repeat a body as long as a condition on the carry holds.

Operands are the condition's consts, the body's consts, the carry. Forward mode carries tangents
along. Under partial evaluation the known carries run immediately, and the loop over all of them is
staged again: the trip count is unknown, so residuals cannot be stored, and reverse mode is not
supported. Under vmap, a loop whose condition differs between examples runs until all are finished,
and finished examples keep their carry.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.cond import spread_over
from kiln.control.loops.scan_split import split_by_counts
from kiln.control.regions.guarded import guarded_step, of_running, with_guarded_checks
from kiln.control.regions.region import (
    Extend,
    Region,
    after_state,
    avals_of,
    fill_zeros,
    memoized,
    merge,
    select_by,
    split,
)
from kiln.control.regions.selected_writes import without_copies
from kiln.control.regions.without_effects import without_effects
from kiln.core.absent import is_zero
from kiln.core.meaning import begin_iteration, meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.effects import CHECK, DEBUGGING, must_keep
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import select
from kiln.ops.reductions.reduction import reduce_or
from kiln.ops.shape import filled, mapped_at
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr


class While(Region):
    """Run `body_jaxpr` on the carry while `cond_jaxpr` holds for it."""

    name = "while"

    def infer(
        self,
        *operands: Any,
        cond_jaxpr: Jaxpr,
        cond_nconsts: int,
        body_jaxpr: Jaxpr,
        body_nconsts: int,
    ) -> list[ShapedArray]:
        cond_consts, body_consts, carry = split_by_counts(operands, cond_nconsts, body_nconsts)
        outs = body_jaxpr.out_avals
        for what, found, expected in (
            ("the condition", [*cond_consts, *carry], cond_jaxpr.in_avals),
            ("the body", [*body_consts, *carry], body_jaxpr.in_avals),
            ("the carry", outs, carry),
        ):
            if len(found) != len(expected) or not all(
                a.same_type(b) for a, b in zip(found, expected, strict=True)
            ):
                raise TypeError(
                    three_lines(
                        f"while: operands {', '.join(map(str, operands))}",
                        f"{what} is to have types {expected} and gets {found}",
                        "pass operands of these types",
                    )
                )
        before = body_jaxpr.in_avals[body_nconsts:]
        return [
            out.with_(varying=out.varying | a.varying) for out, a in zip(outs, before, strict=True)
        ]

    def numpy(
        self,
        *operands: Any,
        cond_jaxpr: Jaxpr,
        cond_nconsts: int,
        body_jaxpr: Jaxpr,
        body_nconsts: int,
    ) -> Any:
        cond_consts, body_consts, carry = split_by_counts(operands, cond_nconsts, body_nconsts)
        for step in itertools.count():
            begin_iteration(step)
            if not meaning(cond_jaxpr, [*cond_consts, *carry])[0]:
                break
            carry = meaning(body_jaxpr, [*body_consts, *carry])
        return carry

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts, carry = split_by_counts(primals, nc, nb)
        _, dconsts, dcarry = split_by_counts(tangents, nc, nb)
        given = [not is_zero(t) for t in (*dconsts, *dcarry)]
        cond, body, moving = _jvp_loop(params["cond_jaxpr"], params["body_jaxpr"], nc, nb, given)
        moved = select_by(given[:nb], dconsts)
        outs = self.bind(
            *(*cond_consts, *body_consts, *moved, *carry),
            *[filled(t) for t in select_by(moving, dcarry)],
            cond_jaxpr=cond,
            cond_nconsts=nc,
            body_jaxpr=body,
            body_nconsts=nb + len(moved),
        )
        n = len(carry)
        types = [aval_of(x).tangent() for x in outs[:n]]
        return outs[:n], fill_zeros(moving, outs[n:], types)

    def batch_over(
        self, axis: MappedAxis, operands: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        cond_jaxpr, body_jaxpr = params["cond_jaxpr"], params["body_jaxpr"]
        cond_consts, body_consts, carry = split_by_counts(operands, nc, nb)
        at_cond, at_body, at_carry = split_by_counts(axes, nc, nb)
        mapped = [at is not None for at in at_carry]
        while True:
            places = [0 if m else None for m in mapped]
            cond, (differs,) = batch_jaxpr(cond_jaxpr, axis, [*at_cond, *places])
            if differs:
                mapped = [True] * len(mapped)
                places = [0] * len(mapped)
                cond, _ = batch_jaxpr(cond_jaxpr, axis, [*at_cond, *places])
            body, out_mapped = batch_jaxpr(body_jaxpr, axis, [*at_body, *places], mapped)
            if out_mapped == mapped:
                break
            mapped = out_mapped
        carry = [
            mapped_at(x, axis.size, at, 0) if m else x
            for x, at, m in zip(carry, at_carry, mapped, strict=True)
        ]
        if differs:
            _refuse_effects(cond_jaxpr, body_jaxpr)
            if axis.keeps_examples_apart(body_jaxpr):
                step, kept = with_guarded_checks(body_jaxpr), [False] * len(carry)
                replaced: Sequence[int | None] = [*at_body, *places]
            else:
                step, kept = guarded_step(body_jaxpr, nb)
                replaced = ()
            body, _ = batch_jaxpr(step, axis, [0, *at_body, *places], mapped)
            cond, body = _example_by_example(cond, body, nc, kept, replaced)
            body_consts = [*cond_consts, *body_consts]
        outs = self.bind(
            *(*cond_consts, *body_consts, *carry),
            cond_jaxpr=cond,
            cond_nconsts=nc,
            body_jaxpr=without_copies(body),
            body_nconsts=len(body_consts),
        )
        return outs, [0 if m else None for m in mapped]

    def partial_eval(self, trace: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        unknown = [trace.unknown(x) for x in operands]
        parts = _split_loop(params["cond_jaxpr"], params["body_jaxpr"], nc, nb, unknown)
        if parts is None:
            return _stage(self, trace, operands, params)
        cond, body, whole_cond, whole_body, pending = parts
        cond_consts, body_consts, carry = split_by_counts(operands, nc, nb)
        u_cond, u_body, _ = split_by_counts(unknown, nc, nb)
        known = [
            select_by(u_cond, cond_consts, False),
            select_by(u_body, body_consts, False),
            select_by(pending, carry, False),
        ]
        known_params = {
            "cond_jaxpr": cond,
            "cond_nconsts": len(known[0]),
            "body_jaxpr": body,
            "body_nconsts": len(known[1]),
        }
        outs = trace.known_bind(self, [x for part in known for x in part], known_params)
        again = {**params, "cond_jaxpr": whole_cond, "body_jaxpr": whole_body}
        staged = _stage(self, trace, operands, again)
        return merge(pending, select_by(pending, staged), outs)

    def transpose(self, cts: Sequence[Any], *operands: Any, **params: Any) -> NoReturn:
        raise ValueError(
            three_lines(
                "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop "
                f"with dynamic start/stop values: grad or vjp through the loop at "
                f"{current_source()}",
                "the way back needs what every step computed, and how many steps there are is not "
                "known before the loop has run",
                "use lax.scan, or lax.fori_loop with Python ints as start and stop; or forward "
                "mode: jvp, jacfwd",
            )
        )

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        condition, body, nc, nb = (
            eqn.params[name]
            for name in ("cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts")
        )
        cond_consts, body_consts, carry = split_by_counts(operands, nc, nb)

        def iteration(carry: Sequence[Keys]) -> Sequence[Keys]:
            key_uses.run_body("while_loop cond", condition, [*cond_consts, *carry])
            return key_uses.run_body("while_loop body", body, [*body_consts, *carry])

        return list(key_uses.after_iterations(iteration, carry, None))

    def programs(self, operands: Sequence[Any], **params: Any) -> Any:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts, carry = split_by_counts(operands, nc, nb)
        return [
            (params["cond_jaxpr"], [*cond_consts, *carry]),
            (params["body_jaxpr"], [*body_consts, *carry]),
        ]

    def thread_state(
        self, extend: Extend, state: Sequence[Any], operands: Sequence[Any], **params: Any
    ) -> Any:
        """Carry the state along, and the value of the condition if that changes the state."""
        nc, nb, count = params["cond_nconsts"], params["body_nconsts"], len(state)
        cond_consts, body_consts, carry = split_by_counts(operands, nc, nb)
        cond, body = extend(params["cond_jaxpr"]), extend(params["body_jaxpr"])
        if cond.outvars[:count] == cond.invars[:count]:
            return self.bind(
                *(*cond_consts, *body_consts, *state, *carry),
                cond_jaxpr=after_state(cond, count, nc).with_(outvars=cond.outvars[count:]),
                cond_nconsts=nc,
                body_jaxpr=after_state(body, count, nb),
                body_nconsts=nb,
            )

        def step(*args: Any) -> list[Any]:
            given, inner_consts, (_, *rest) = split_by_counts(args, nc, nb)
            outs = eval_jaxpr(body, (), *rest[:count], *inner_consts, *rest[count:])
            tested = eval_jaxpr(cond, (), *outs[:count], *given, *outs[count:])
            return [tested[count], *tested[:count], *outs[count:]]

        tested = eval_jaxpr(cond, (), *state, *cond_consts, *carry)
        operands = [*cond_consts, *body_consts, tested[count], *tested[:count], *carry]
        avals = avals_of(operands)
        body = stage_pure(step, avals, name=body.name, purpose="checks")
        outs = self.bind(
            *operands,
            cond_jaxpr=stage_pure(lambda go_on, *_: [go_on], avals[nc + nb :], name=cond.name),
            cond_nconsts=0,
            body_jaxpr=body,
            body_nconsts=nc + nb,
        )
        return outs[1:]

    @staticmethod
    def live(eqn: Eqn, used: Sequence[bool]) -> Eqn:
        params = eqn.params
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        clean_cond, clean_body, kept, kept_consts = memoized(
            body, ("while live", cond, nc, nb, tuple(used)), lambda: _live(cond, body, nc, nb, used)
        )
        counts = {"cond_nconsts": kept_consts[:nc].count(True)}
        counts["body_nconsts"] = kept_consts[nc:].count(True)
        return eqn.with_(
            invars=select_by([*kept_consts, *kept], eqn.invars),
            outvars=select_by(kept, eqn.outvars),
            params={"cond_jaxpr": clean_cond, "body_jaxpr": clean_body, **counts},
            effects=clean_cond.effects | clean_body.effects,
        )


def _stage(primitive: While, trace: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    atoms = [trace.atom(x) for x in operands]
    types = primitive.infer(*[atom.aval for atom in atoms], **params)
    return trace.record(primitive, atoms, types, params)


def _jvp_loop(
    cond: Jaxpr, body: Jaxpr, nc: int, nb: int, given: Sequence[bool]
) -> tuple[Jaxpr, Jaxpr, list[bool]]:
    """Return condition and body over (carry, dcarry), and which carries move.

    `given` says which of the body's consts and of the carries move.
    """
    key = ("while jvp", cond, nc, nb, tuple(given))
    return memoized(body, key, lambda: _make_jvp_loop(cond, body, nc, nb, given))


def _make_jvp_loop(
    cond: Jaxpr, body: Jaxpr, nc: int, nb: int, given: Sequence[bool]
) -> tuple[Jaxpr, Jaxpr, list[bool]]:
    moving = list(given[nb:])
    while True:
        both, out_moving = jvp_jaxpr(body, [*given[:nb], *moving], moving)
        if out_moving == moving:
            break
        moving = out_moving
    n = len(body.invars)
    consts, carry = split_by_counts(both.invars[:n], nb)
    dconsts, dcarry = split_by_counts(both.invars[n:], list(given[:nb]).count(True))
    both = both.with_(invars=[*consts, *dconsts, *carry, *dcarry], arg_names=())
    return _with_more_carry(cond, [v.aval for v in dcarry]), both, moving


def _with_more_carry(cond: Jaxpr, avals: Sequence[ShapedArray]) -> Jaxpr:
    n = len(cond.invars)
    types = [*cond.in_avals, *avals]
    return stage_pure(lambda *xs: eval_jaxpr(cond, (), *xs[:n]), types, name=cond.name)


def _example_by_example(
    cond: Jaxpr, body: Jaxpr, nc: int, kept: Sequence[bool], replaced: Sequence[int | None]
) -> tuple[Jaxpr, Jaxpr]:
    """Return a condition that holds if any example's does, and a body that updates only those.

    Before its operands, the given body takes flags that say which examples continue; it leaves the
    carries `kept` of the others unchanged anyway. If `replaced` has the mapped axes of the
    operands, the others run on the operands of one that continues.
    """
    key = ("while example by example", cond, nc, tuple(replaced))
    return memoized(body, key, lambda: _make_example_by_example(cond, body, nc, kept, replaced))


def _make_example_by_example(
    cond: Jaxpr, body: Jaxpr, nc: int, kept: Sequence[bool], replaced: Sequence[int | None]
) -> tuple[Jaxpr, Jaxpr]:
    n = len(body.outvars)

    def one_goes_on(*operands: Any) -> list[Any]:
        return [reduce_or(eval_jaxpr(cond, (), *operands)[0], (0,))]

    def step(*operands: Any) -> list[Any]:
        cond_consts, body_consts, carry = split_by_counts(operands, nc, len(operands) - nc - n)
        (goes_on,) = eval_jaxpr(cond, (), *cond_consts, *carry)
        given = [*body_consts, *carry]
        if replaced:
            given = of_running(goes_on, given, replaced)
        outs = eval_jaxpr(body, (), goes_on, *given)
        return [
            new if keeps else select(spread_over(goes_on, aval_of(new)), new, old)
            for new, old, keeps in zip(outs, carry, kept, strict=True)
        ]

    consts = cond.in_avals[:nc]
    return (
        stage_pure(one_goes_on, cond.in_avals, name=cond.name, purpose="vmap"),
        stage_pure(step, [*consts, *body.in_avals[1:]], name=body.name, purpose="vmap"),
    )


def _refuse_effects(cond: Jaxpr, body: Jaxpr) -> None:
    # The loop prints for finished examples, too. A check of the condition gives the same result
    # again for them.
    effects = (cond.effects | body.effects) - DEBUGGING - {CHECK}
    if must_keep(effects):
        raise NotImplementedError(
            three_lines(
                f"vmap of while_loop at {current_source()}: the condition differs from example to "
                "example",
                "an effect is not supported in while_loop with batched predicate: examples that "
                "are done would run again, and the loop has one: "
                f"{', '.join(sorted(e.name for e in effects))}",
                "move the effect out of the loop, or do not map over the condition",
            )
        )


_Parts = tuple[Jaxpr, Jaxpr, Jaxpr, Jaxpr, list[bool]]


def _split_loop(
    cond: Jaxpr, body: Jaxpr, nc: int, nb: int, unknown: Sequence[bool]
) -> _Parts | None:
    """Return the loop over known values, the loop over all, and which carries are unknown.

    None if the condition itself is unknown: then all is.
    """
    key = ("while split", cond, nc, nb, tuple(unknown))
    return memoized(body, key, lambda: (_make_split(cond, body, nc, nb, unknown),))[0]


def _make_split(
    cond: Jaxpr, body: Jaxpr, nc: int, nb: int, unknown: Sequence[bool]
) -> _Parts | None:
    u_cond, u_body, pending = split_by_counts(unknown, nc, nb)
    while True:
        parts = split(body, [*u_body, *pending], pending)
        if list(parts.unknown_out) == pending:
            break
        pending = list(parts.unknown_out)
    clean, used = eliminate_dead_code(cond)
    missing = [*u_cond, *pending]
    if any(u and m for u, m in zip(used, missing, strict=True)):
        return None
    known_cond = drop_inputs(clean, [not m for m in missing])
    results = pending.count(False)
    known_body, _ = eliminate_dead_code(
        parts.known, [i < results for i in range(len(parts.known.outvars))]
    )
    # The known part has already run when the staged loop runs: its effects must not be repeated.
    quiet, fixed = without_effects(parts.known), [*u_body, *pending]

    def whole(*operands: Any) -> list[Any]:
        outs = eval_jaxpr(quiet, (), *select_by(fixed, operands, False))
        staged = eval_jaxpr(parts.staged, (), *outs[results:], *select_by(fixed, operands))
        return merge(pending, staged, outs[:results])

    whole_body = stage_pure(whole, body.in_avals, name=body.name, purpose="partial evaluation")
    return known_cond, known_body, without_effects(cond), whole_body, pending


def _live(
    cond: Jaxpr, body: Jaxpr, nc: int, nb: int, used: Sequence[bool]
) -> tuple[Jaxpr, Jaxpr, list[bool], list[bool]]:
    clean_cond, needed_by_cond = eliminate_dead_code(cond)
    kept = [u or n for u, n in zip(used, needed_by_cond[nc:], strict=True)]
    while True:
        clean_body, needed = eliminate_dead_code(body, kept)
        carry = [k or n for k, n in zip(kept, needed[nb:], strict=True)]
        if carry == kept:
            break
        kept = carry
    clean_cond = drop_inputs(clean_cond, [*needed_by_cond[:nc], *kept])
    clean_body = drop_inputs(clean_body, [*needed[:nb], *kept])
    return clean_cond, clean_body, kept, [*needed_by_cond[:nc], *needed[:nb]]


while_p = While()
