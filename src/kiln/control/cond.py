"""The primitive `cond`: run one of several branches, chosen by an int32 index.

Operand 0 is the index, which must be in range; the others go to every branch. All branches have the
same types of inputs and results, so each rule unifies the branches: a result is mapped, moving or
unknown if it is in any branch. With a mapped index, all branches run and their results are
selected. `cond` and `switch` are the functions users call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.regions.guarded import of_running, with_guarded_checks
from kiln.control.regions.region import (
    Extend,
    Region,
    fill_zeros,
    mark_pure,
    memoized,
    merge,
    pull_back,
    select_by,
    split,
)
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.effects import CHECK, DEBUGGING, must_keep
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import eq, select, select_n, stop_gradient
from kiln.ops.random.random_bits import random_wrap
from kiln.ops.reductions.reduction import reduce_or
from kiln.ops.shape import broadcast_in_dim, full, mapped_at, zeros_of
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr

Branches = tuple[Jaxpr, ...]


class Cond(Region):
    """Run `branches[index]`; with two branches, 0 is the one for False."""

    name = "cond"

    def infer(self, index: Any, *operands: Any, branches: Branches) -> list[ShapedArray]:
        for branch in branches:
            fits = len(operands) == len(branch.invars) and all(
                x.same_type(v.aval) for x, v in zip(operands, branch.invars, strict=True)
            )
            if not fits or index.shape or index.dtype != np.int32:
                raise TypeError(
                    three_lines(
                        f"cond: index {index}, operands {', '.join(map(str, operands))}",
                        f"the index must be int32[]; a branch takes {branch.in_avals}",
                        "pass operands of these types",
                    )
                )
        # As in JAX, the first branch (for cond, the one for False) determines the weak types.
        return [
            outs[0].with_(
                varying=index.varying.union(*[out.varying for out in outs]),
            )
            for outs in zip(*(branch.out_avals for branch in branches), strict=True)
        ]

    def numpy(self, index: Any, *operands: Any, branches: Branches) -> Any:
        return meaning(branches[int(index)], operands)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, branches: Branches) -> Any:
        moving = [not is_zero(t) for t in tangents[1:]]
        none = [False] * len(branches[0].outvars)
        out_moving = _joined(jvp_jaxpr(branch, moving, none)[1] for branch in branches)
        both = tuple(jvp_jaxpr(branch, moving, out_moving)[0] for branch in branches)
        outs = self.bind(*primals, *select_by(moving, tangents[1:]), branches=both)
        n = len(none)
        types = [aval_of(x).tangent() for x in outs[:n]]
        return outs[:n], fill_zeros(out_moving, outs[n:], types)

    def batch_over(
        self,
        axis: MappedAxis,
        operands: Sequence[Any],
        axes: Sequence[Any],
        /,
        *,
        branches: Branches,
    ) -> Any:
        (index, *xs), (at_index, *at) = operands, axes
        if at_index is not None:
            return _select_branch(axis, index, xs, at, branches)
        none = [False] * len(branches[0].outvars)
        mapped = _joined(batch_jaxpr(branch, axis, at, none)[1] for branch in branches)
        over = tuple(batch_jaxpr(branch, axis, at, mapped)[0] for branch in branches)
        return self.bind(index, *xs, branches=over), [0 if m else None for m in mapped]

    def partial_eval(self, trace: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        index, *xs = operands
        if trace.unknown(index):
            atoms = [trace.atom(x) for x in operands]
            types = self.infer(*[atom.aval for atom in atoms], **params)
            return trace.record(self, atoms, types, params)
        unknown = [trace.unknown(x) for x in xs]
        parts = _split_branches(params["branches"], unknown)
        known = select_by(unknown, xs, False)
        outs: list[Any] = []
        if parts.known[0].outvars or self.effects({"branches": parts.known}):
            outs = trace.known_bind(self, [index, *known], {"branches": parts.known})
        residuals = outs[len(outs) - parts.slots :] if parts.slots else []
        outs = outs[: len(outs) - parts.slots]
        handed_on = [known[i] for i in parts.handed_on]
        pending = [index, *residuals, *handed_on, *select_by(unknown, xs)]
        atoms = [trace.atom(x) for x in pending]
        staged_params = {"branches": parts.staged}
        types = self.infer(*[atom.aval for atom in atoms], **staged_params)
        staged = trace.record(self, atoms, types, staged_params)
        return merge(parts.unknown_out, staged, outs)

    def transpose(self, cts: Sequence[Any], *operands: Any, branches: Branches) -> Any:
        index, *xs = operands
        linear = [is_linear(x) for x in xs]
        moving = [not is_zero(ct) for ct in cts]
        there = _joined(pull_back(branch, linear, moving)[1] for branch in branches)
        back = tuple(pull_back(branch, linear, moving, there)[0] for branch in branches)
        given = [*select_by(linear, xs, False), *select_by(moving, cts)]
        outs = iter(self.bind(index, *given, branches=back))
        pulled = [next(outs) if t else None for t in there]
        return [None, *merge(linear, pulled, [None] * linear.count(False))]

    def programs(self, operands: Sequence[Any], *, branches: Branches) -> Any:
        return [(branch, operands[1:]) for branch in branches]

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        return key_uses.after_one_of(eqn.params["branches"], operands[1:])

    def thread_state(
        self, extend: Extend, state: Sequence[Any], operands: Sequence[Any], *, branches: Branches
    ) -> Any:
        """Run one of the extended branches."""
        index, *xs = operands
        return self.bind(index, *state, *xs, branches=tuple(map(extend, branches)))

    @staticmethod
    def live(eqn: Eqn, used: Sequence[bool]) -> Eqn:
        branches: Branches = eqn.params["branches"]
        clean, needed = memoized(
            branches[0], ("cond live", branches[1:], tuple(used)), lambda: _live(branches, used)
        )
        return eqn.with_(
            invars=[eqn.invars[0], *select_by(needed, eqn.invars[1:])],
            outvars=select_by(used, eqn.outvars),
            params={"branches": clean},
            effects=cond_p.effects({"branches": clean}),
        )


def _joined(masks: Iterable[Sequence[bool]]) -> list[bool]:
    return [any(flags) for flags in zip(*masks, strict=True)]


def _live(branches: Branches, used: Sequence[bool]) -> tuple[Branches, list[bool]]:
    pairs = [eliminate_dead_code(branch, used) for branch in branches]
    needed = _joined(mask for _, mask in pairs)
    return tuple(drop_inputs(branch, needed) for branch, _ in pairs), needed


def _select_branch(
    axis: MappedAxis, index: Any, xs: Sequence[Any], at: Sequence[Any], branches: Branches
) -> Any:
    """Run all branches on stacks and select per example.

    Branches print for all examples, even those that do not take them; their checks apply only to
    examples that do.
    """
    for branch in branches:
        effects = branch.effects - DEBUGGING - {CHECK}
        if must_keep(effects):
            raise NotImplementedError(
                three_lines(
                    f"vmap of cond at {current_source()}: the predicate differs from example to "
                    "example",
                    f"{', '.join(sorted(e.name.upper() for e in effects))} effect not supported in "
                    "vmap-of-cond: all branches would have to run for all examples",
                    "move the effect out of the branch, or do not map over the predicate",
                )
            )
    results = []
    for i, branch in enumerate(branches):
        mine = eq(index, np.int32(i))
        # A branch that is not taken must not propagate nan backwards: its operands are constants
        # there.
        guarded = [
            _guard(mine, mapped_at(x, axis.size, a, 0)) if _has_tangent(x) else x
            for x, a in zip(xs, at, strict=True)
        ]
        places = [0 if _has_tangent(x) else a for x, a in zip(xs, at, strict=True)]
        if CHECK in branch.effects:
            branch, guarded, places = with_guarded_checks(branch), [mine, *guarded], [0, *places]
        over, _ = batch_jaxpr(branch, axis, places, True)
        if axis.keeps_examples_apart(branch) and branch.eqns:
            results.append(_if_taken(over, mine, guarded, places))
        else:
            results.append(eval_jaxpr(over, (), *guarded))
    outs = []
    for cases in zip(*results, strict=True):
        which = spread_over(index, aval_of(cases[0]))
        if len(cases) == 2:
            outs.append(select(eq(which, np.int32(1)), cases[1], cases[0]))
        else:
            outs.append(select_n(which, *cases))
    return outs, [0] * len(outs)


def _if_taken(over: Jaxpr, mine: Any, xs: Sequence[Any], axes: Sequence[int | None]) -> Any:
    """Run a branch on stacks if any example takes it; other examples use operands of that one."""
    key = ("cond if taken", tuple(axes))

    def taken(mine: Any, *xs: Any) -> list[Any]:
        return eval_jaxpr(over, (), *of_running(mine, xs, axes, constant=True))

    def make() -> Branches:
        avals = [aval_of(mine), *over.in_avals]
        return (
            stage_pure(lambda *_: [*map(_nothing, over.out_avals)], avals, name="not taken"),
            stage_pure(taken, avals, name=over.name),
        )

    index = convert_element_type(reduce_or(mine, (0,)), np.int32)
    return cond_p.bind(index, mine, *xs, branches=memoized(over, key, make))


def _has_tangent(x: Any) -> bool:
    return bool(aval_of(x).tangent().dtype != dtypes.float0)


def _guard(mine: Any, x: Any) -> Any:
    return select(spread_over(mine, aval_of(x)), x, stop_gradient(x))


def spread_over(flags: Any, aval: ShapedArray) -> Any:
    """Broadcast one flag per example to the shape of a stack, with the mapped axis in front."""
    return broadcast_in_dim(flags, aval.shape, (0,))


class _Split(NamedTuple):
    """Branches split in two.

    Known branches return known results, then `slots` residuals; a branch fills slots that only
    other branches need with zeros. Staged branches take the index, the residuals, the known
    operands `handed_on` unchanged, and the unknown operands.
    """

    known: Branches
    staged: Branches
    unknown_out: tuple[bool, ...]
    slots: int
    handed_on: tuple[int, ...]


def _split_branches(branches: Branches, unknown: Sequence[bool]) -> _Split:
    key = ("cond split", branches[1:], tuple(unknown))
    return memoized(branches[0], key, lambda: _make_split(branches, unknown))


def _make_split(branches: Branches, unknown: Sequence[bool]) -> _Split:
    unknown_out = _joined(split(branch, unknown).unknown_out for branch in branches)
    parts = [split(branch, unknown, unknown_out) for branch in branches]
    results = unknown_out.count(False)
    slots: list[ShapedArray] = []
    handed_on: list[int] = []
    placed: list[list[tuple[bool, int]]] = []
    for part in parts:
        operands = {v: i for i, v in enumerate(part.known.invars)}
        taken: set[int] = set()
        placed.append([])
        for atom in part.known.outvars[results:]:
            if isinstance(atom, Var) and atom in operands:
                position = operands[atom]
                if position not in handed_on:
                    handed_on.append(position)
                placed[-1].append((False, handed_on.index(position)))
                continue
            # Branches share slots: only one of them runs.
            free = (i for i, a in enumerate(slots) if i not in taken and _fits(a, atom.aval))
            slot = next(free, len(slots))
            if slot == len(slots):
                slots.append(atom.aval.with_(weak_type=False))
            taken.add(slot)
            placed[-1].append((True, slot))
    in_avals = [v.aval for v, u in zip(branches[0].invars, unknown, strict=True) if not u]
    others = [in_avals[i] for i in handed_on]
    return _Split(
        known=tuple(
            _with_slots(part.known, results, where, slots)
            for part, where in zip(parts, placed, strict=True)
        ),
        staged=tuple(
            _from_slots(part.staged, where, slots, others)
            for part, where in zip(parts, placed, strict=True)
        ),
        unknown_out=tuple(unknown_out),
        slots=len(slots),
        handed_on=tuple(handed_on),
    )


def _fits(slot: ShapedArray, aval: ShapedArray) -> bool:
    return slot.same_type(aval) and slot.varying == aval.varying


def _with_slots(
    known: Jaxpr, results: int, where: list[tuple[bool, int]], slots: list[ShapedArray]
) -> Jaxpr:
    kept = [i for i, (in_slot, _) in enumerate(where) if in_slot]
    filled = {where[i][1]: i for i in kept}

    def run(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known, (), *args)
        residuals = outs[results:]
        return outs[:results] + [
            residuals[filled[slot]] if slot in filled else _nothing(aval)
            for slot, aval in enumerate(slots)
        ]

    return stage_pure(run, known.in_avals, name=known.name, purpose="partial evaluation")


def _nothing(aval: ShapedArray) -> Any:
    if dtypes.is_extended(aval.dtype):
        words = full((*aval.shape, aval.dtype.words), 0, np.dtype(np.uint32))
        return random_wrap(words, aval.dtype)
    return zeros_of(aval)


def _from_slots(
    staged: Jaxpr,
    where: list[tuple[bool, int]],
    slots: list[ShapedArray],
    others: list[ShapedArray],
) -> Jaxpr:
    variables = dict(zip(where, staged.invars, strict=False))
    binders = [
        *[variables.get((True, i)) or Var(aval) for i, aval in enumerate(slots)],
        *[variables.get((False, i)) or Var(aval) for i, aval in enumerate(others)],
    ]
    pending = staged.invars[len(where) :]
    result = staged.with_(invars=[*binders, *pending])
    mark_pure(result, [False] * len(binders) + [True] * len(pending))
    return result


cond_p = Cond()
